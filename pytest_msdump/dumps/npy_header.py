"""What an npy file says of itself, before its data.

References
----------
NEP 1, "A Simple File Format for NumPy Arrays": versions 1.0 (2-byte header length), 2.0 (4-byte) and 3.0 (UTF-8).
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy_format

from pytest_msdump.errors import MsdumpError, TensorFileError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorView

__all__ = ["NpyHeader", "cut_off", "extent", "parse_header", "write_npy"]

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_KEYS = {"descr", "fortran_order", "shape"}

# Plain arrays need under 2 KiB; the bound keeps a forged length from being believed.
_MAX_HEADER_BYTES = 2**16
_KEPT_BYTES = 2**8

# The lower of what numpy 1.26 (32) and 2.x (64) hold; a dump's tensors have at most 8 axes.
_MAX_RANK = 32
_MAX_LENGTH = 2**63 - 1

# All that a header may consist of, so that `literal_eval` meets no operators, names, escapes or odd numbers.
_LITERALS = re.compile(r"""(?:[\s{}()\[\],:]|'[^'\\\n]*'|"[^"\\\n]*"|(?:True|False|-?\d{1,20})(?!\w))*""", re.ASCII)

# What numpy writes for plain arrays, of which no literal needs to be read.
_NUMPYS = re.compile(
    r"\{'descr': '([<>|=][a-zA-Z][0-9]{1,3})', 'fortran_order': (True|False), "
    r"'shape': \((|LENGTH,|LENGTH(?:, LENGTH)+)\), \} *\n".replace("LENGTH", "(?:0|[1-9][0-9]{0,18})"),
    re.ASCII,
)

_FOREIGN = (
    (b"version https://git-lfs", "is a Git LFS pointer, not the tensor itself; run `git lfs pull`"),
    (b"PK\x03\x04", "is a zip archive (.npz?); unpack it, one .npy file for each tensor"),
    (b"\x1f\x8b", "is compressed with gzip; unpack it first"),
    (b"\x80", "looks like a pickle, which is never loaded; save the tensor with numpy.save"),
)


class NpyHeader(NamedTuple):
    """What an npy file says of itself; `descr` as it stands there, `data_offset` in bytes."""

    version: tuple[int, int]
    descr: object
    fortran_order: bool
    shape: tuple[int, ...]
    data_offset: int


def parse_header(head: bytes, *, where: str) -> NpyHeader:
    """Parse the beginning of an npy file.

    Parameters
    ----------
    head : bytes
        At least the whole header; what follows is not looked at.
    where : str
        The file, for error texts.

    Raises
    ------
    TensorFileError
        When this is no npy file, the header is cut off or longer than 64 KiB, or says anything but a plain array's
        `descr`, `fortran_order` and `shape`.
    """
    version, end = extent(head, where)
    if len(head) < end:
        raise cut_off(where, f"inside its header, {len(head)} of {end} bytes")
    known = _kept_header(head[:end], version) if end <= _KEPT_BYTES else None
    return known or _parsed(head[:end], version, where)


# A dump has many files and few headers.
@lru_cache(maxsize=1024)
def _kept_header(head: bytes, version: tuple[int, int]) -> NpyHeader | None:
    """What is true of any file; ``None`` where its name has to be told."""
    try:
        return _parsed(head, version, "")
    except TensorFileError:
        return None


def _parsed(head: bytes, version: tuple[int, int], where: str) -> NpyHeader:
    begin = len(_MAGIC) + 2 + _LENGTH_BYTES[version]
    entries = _entries(head[begin:], "utf-8" if version == (3, 0) else "latin-1")
    if not isinstance(entries, dict) or entries.keys() != _KEYS:
        raise _damaged(where, "does not hold exactly descr, fortran_order and shape")
    shape, fortran = entries["shape"], entries["fortran_order"]
    if not isinstance(fortran, bool):
        raise _damaged(where, f"says fortran_order {str(fortran)[:40]}, which is neither True nor False")
    if not _is_shape(shape):
        raise _damaged(where, f"says shape {str(shape)[:80]}, which is no tuple of at most {_MAX_RANK} lengths")
    return NpyHeader(version, entries["descr"], fortran, shape, len(head))


def _entries(content: bytes, encoding: str) -> object:
    """What a header says, ``None`` of one that is no literal."""
    try:
        text = content.decode(encoding)
        plain = _NUMPYS.fullmatch(text)
        if plain:
            lengths = [int(length) for length in plain[3].split(",") if length]
            return {"descr": plain[1], "fortran_order": plain[2] == "True", "shape": tuple(lengths)}
        from ast import literal_eval

        entries: object = literal_eval(text.strip()) if _LITERALS.fullmatch(text) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return entries


def extent(head: bytes, where: str) -> tuple[tuple[int, int], int]:
    """Return the npy version and the number of bytes before the data.

    Raises
    ------
    TensorFileError
        It is no npy file of a known version, or claims a header longer than 64 KiB.
    """
    if not head.startswith(_MAGIC):
        _refuse_others(head, where)
    if len(head) < len(_MAGIC) + 6:
        raise cut_off(where, f"inside its header, after {len(head)} bytes")
    version = (head[6], head[7])
    length_bytes = _LENGTH_BYTES.get(version)
    if length_bytes is None:
        raise TensorFileError(
            f"{where}: is npy version {head[6]}.{head[7]}; known: 1.0, 2.0, 3.0. Save it again as 1.0"
        )
    begin = len(_MAGIC) + 2 + length_bytes
    length = int.from_bytes(head[8:begin], "little")
    if length > _MAX_HEADER_BYTES:
        raise _damaged(where, f"claims to be {length} bytes long, at most {_MAX_HEADER_BYTES} are believed")
    return version, begin + length


def _refuse_others(head: bytes, where: str) -> None:
    """Refuse what does not begin like an npy file."""
    for start, sentence in _FOREIGN:
        if head.startswith(start):
            raise TensorFileError(f"{where}: {sentence}")
    if not head:
        raise TensorFileError(f"{where}: is empty (0 bytes); the run was probably killed while writing: dump it again")
    if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        raise TensorFileError(f"{where}: is not an npy file (it begins with {head[:6]!r}); save it with numpy.save")


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, tuple)
        and len(shape) <= _MAX_RANK
        and all(type(length) is int and 0 <= length <= _MAX_LENGTH for length in shape)
    )


def cut_off(where: str, how: str) -> TensorFileError:
    """Return the error of a file that ends too early; `how` says where."""
    return TensorFileError(f"{where}: cut off {how}; the run was probably killed while writing: dump it again")


def _damaged(where: str, how: str) -> TensorFileError:
    return TensorFileError(f"{where}: its npy header {how}; the file is damaged or forged, dump it again")


# -- Writes a tensor into a ``.npy`` file, block by block ------------------------------------------------------------


_BLOCK_ELEMENTS = 2**17


def write_npy(view: TensorView, path: Path) -> Path:
    """Write the values of a tensor in C order, in the numpy type they are computed in (bfloat16 as float32).

    Parameters
    ----------
    view : TensorView
        Read to its end.
    path : Path
        The file; its folder exists.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    MsdumpError
        The tensor cannot be read, or the file cannot be written.
    """
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    dtype = np.dtype(DTYPES[view.dtype].native).newbyteorder("<")
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": view.shape}
    try:
        try:
            with temporary.open("wb") as stream:
                npy_format.write_array_header_1_0(stream, header)
                for block in view.blocks(_BLOCK_ELEMENTS):
                    stream.write(block.astype(dtype, copy=False).tobytes())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise MsdumpError(f"{path}: cannot be written: {error.strerror or error}; choose another folder") from error
    return path
