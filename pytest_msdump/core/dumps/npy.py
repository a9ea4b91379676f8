"""The npy file format: what a file says of itself before its data, opening it as a tensor, and a dump of one file.

References
----------
NEP 1, "A Simple File Format for NumPy Arrays": versions 1.0 (2-byte header length), 2.0 (4-byte) and 3.0 (UTF-8).
"""

from __future__ import annotations

import re
from ast import literal_eval
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dtypes.decode import Storage, storage_of
from pytest_msdump.core.dumps.array_reader import BLOCK_BYTES, Layout, StoredView, open_flat, steps_of
from pytest_msdump.core.dumps.base import Reader
from pytest_msdump.core.dumps.file_names import (
    number,
    parse_converted_bin,
    parse_flat,
    parse_mindspore,
    parse_reference,
)
from pytest_msdump.core.dumps.manifest import apply_entry, read_manifest
from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile, truncated
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.model.dump import Dump, TensorEntry
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

_NPY = ".npy"
_UNNAMED = TensorSpec()
_MAGIC = b"\x93NUMPY"
_BEFORE_LENGTH = len(_MAGIC) + 2
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_KEYS = {"descr", "fortran_order", "shape"}
_FIRST_READ_BYTES = 2**12

# Plain arrays need under 2 KiB; the bound keeps a forged length from being believed.
_MAX_HEADER_BYTES = 2**16

# The lower of what numpy 1.26 (32) and 2.x (64) hold; a dump's tensors have at most 8 axes.
_MAX_RANK = 32
_MAX_LENGTH = 2**63 - 1

# All that a header may consist of, so that `literal_eval` meets no operators, names, escapes or odd numbers.
_TEXT = r"""u?(?:'[^'\\\n]*'|"[^"\\\n]*")"""
_LITERALS = re.compile(rf"(?:[\s{{}}()\[\],:]|{_TEXT}|(?:True|False|-?\d{{1,20}}L?)(?!\w))*", re.ASCII)
# Python 2 wrote long integers so. Texts are matched to be passed over.
_LONG = re.compile(rf"({_TEXT})|(?<=\d)L")

_FOREIGN = (
    LFS_POINTER,
    (b"PK\x03\x04", "is a zip archive; name it .npz, or unpack it"),
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
    """Parse the beginning of an npy file: `head` is at least the whole header; messages call the file `where`."""
    version, end = _extent(head, where)
    if len(head) < end:
        raise truncated(where, f"cut off inside its header, {len(head)} of {end} bytes")
    begin = _BEFORE_LENGTH + _LENGTH_BYTES[version]
    entries = _evaluate(head[begin:end], "utf-8" if version == (3, 0) else "latin-1")
    if isinstance(entries, str):
        raise _damaged(where, entries)
    return NpyHeader(version, *entries, end)


# A dump has many files and few headers, and evaluating one takes longer than all else about it.
@lru_cache(maxsize=128)
def _evaluate(content: bytes, encoding: str) -> tuple[object, bool, tuple[int, ...]] | str:
    """Return descr, fortran_order and shape, which are shared and not changed, or what is wrong with the header."""
    entries: object = None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        text = content.decode(encoding)
        if _LITERALS.fullmatch(text):
            if "L" in text and encoding == "latin-1":
                text = _LONG.sub(r"\1", text)
            entries = literal_eval(text.strip())
    if not isinstance(entries, dict) or entries.keys() != _KEYS:
        return "does not hold exactly descr, fortran_order and shape"
    shape, fortran = entries["shape"], entries["fortran_order"]
    if not isinstance(fortran, bool):
        return f"says fortran_order {str(fortran)[:40]}, which is neither True nor False"
    if not is_shape(shape):
        return f"says shape {str(shape)[:80]}, which is not a tuple of at most {_MAX_RANK} lengths"
    return entries["descr"], fortran, shape


def _extent(head: bytes, where: str) -> tuple[tuple[int, int], int]:
    """Return the npy version and the number of bytes before the data."""
    if not head.startswith(_MAGIC):
        for start, sentence in _FOREIGN:
            if head.startswith(start):
                raise TensorFileError(f"{where}: {sentence}")
        if not head:
            raise truncated(where, "is empty (0 bytes)")
        if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
            raise TensorFileError(f"{where}: is not an npy file (it begins with {head[:6]!r}); save it with numpy.save")
    if len(head) < _BEFORE_LENGTH + 4:
        raise truncated(where, f"cut off inside its header, after {len(head)} bytes")
    version = (head[6], head[7])
    length_bytes = _LENGTH_BYTES.get(version)
    if length_bytes is None:
        raise TensorFileError(
            f"{where}: is npy version {head[6]}.{head[7]}; known: 1.0, 2.0, 3.0. Save it again as 1.0"
        )
    begin = _BEFORE_LENGTH + length_bytes
    length = int.from_bytes(head[8:begin], "little")
    if length > _MAX_HEADER_BYTES:
        raise _damaged(where, f"claims to be {length} bytes long, at most {_MAX_HEADER_BYTES} are believed")
    return version, begin + length


def is_shape(shape: object) -> bool:
    """Whether something that was parsed is a tuple of lengths, and no longer than any tensor's."""
    return (
        isinstance(shape, tuple)
        and len(shape) <= _MAX_RANK
        and all(type(length) is int and 0 <= length <= _MAX_LENGTH for length in shape)
    )


def _damaged(where: str, how: str) -> TensorFileError:
    return TensorFileError(f"{where}: its npy header {how}; the file is damaged or forged, dump it again")


def open_npy(
    path: Path | str, claimed: TensorSpec, *, block_bytes: int = BLOCK_BYTES, of_mindspore: bool = False
) -> StoredView:
    """Open an npy file as a tensor; reads its header only.

    `path` is a regular file, or a link to one; text is a path of this machine. `claimed` is what the dump says of it:
    its `dtype` is the logical type where the header only has the storage, its `memory_format` is handed on; shapes are
    the header's. `block_bytes` bounds what is held between reads when elements are gathered from other places.
    `of_mindspore` says that MindSpore wrote it: version 2.10 on CPU computes float16 cells (`to_float`) in float32, and
    writes that below a header of float16; an array in a device's padded format has the logical shape of a graph alone.
    """
    file = StoredFile(path)
    try:
        return npy_view(file, claimed, where=str(path), block_bytes=block_bytes, of_mindspore=of_mindspore)
    except BaseException:
        file.close()
        raise


def npy_view(
    file: StoredFile,
    claimed: TensorSpec,
    *,
    where: str,
    start: int = 0,
    size: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    of_mindspore: bool = False,
) -> StoredView:
    """Open an npy file that is `size` bytes of a file from byte `start` on, by default all; raises as `open_npy`.

    Messages call it `where`. The view keeps the file.
    """
    size = file.size if size is None else size
    header = parse_header(_read_head(file, start, size, where), where=where)
    shape, descr, dtype = header.shape, header.descr, claimed.dtype
    if of_mindspore and descr == "<f2" and 0 < 4 * prod(shape) == size - header.data_offset:
        descr, dtype = "<f4", "float32"
    try:
        storage = storage_of(descr, dtype, where=where)
    except TensorFileError:
        # A graph says what was computed, a header what was written.
        if not claimed.dtype_from:
            raise
        storage = storage_of(descr, None, where=where)
    _check_size(header, size, prod(shape) * storage.stored.itemsize, where)
    layout = _layout(storage, shape, header.fortran_order, claimed.memory_format)
    if of_mindspore and may_be_padded(claimed.memory_format):
        spec = replace(layout.spec, logical_shape=claimed.logical_shape, shape_from=claimed.shape_from)
        layout = layout._replace(spec=spec)
    return StoredView(file, start + header.data_offset, layout, block_bytes=block_bytes)


# As for headers: a dump has few.
@lru_cache(maxsize=128)
def _layout(storage: Storage, shape: tuple[int, ...], fortran_order: bool, memory_format: str | None) -> Layout:
    logical, stored, decode = storage
    steps = steps_of(shape[::-1])[::-1] if fortran_order else steps_of(shape)
    return Layout(TensorSpec(logical, shape, memory_format, shape), shape, steps, 8 * stored.itemsize, stored, decode)


def _read_head(file: StoredFile, start: int, size: int, where: str) -> bytes:
    """Read no more than the header may need, however long the file claims it to be."""
    head = file.read_bytes(start, min(size, _FIRST_READ_BYTES))
    if size == len(head):
        return head
    _, end = _extent(head, where)
    return file.read_bytes(start, min(size, end)) if end > len(head) else head


def _check_size(header: NpyHeader, size: int, needed: int, where: str) -> None:
    there = size - header.data_offset
    if there < needed:
        raise truncated(where, f"cut off after {there} of {needed} bytes")
    if there > needed:
        raise TensorFileError(
            f"{where}: {there - needed} bytes too many: shape {header.shape} in its header needs {needed}; "
            "two writers, or a damaged header: dump it again"
        )


class NpyFileReader(Reader):
    """A single file of one tensor. It has no coordinates; its operator's name is what the file name says, or all of it.

    Raw bytes are read where their name says what they are, as of MindSpore 1.3 and of ``msdump convert --to bin``.
    """

    name = "npy-file"
    looks_for = "a single .npy file, or a .bin file whose name has type and shape"

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is a file that ends in ``.npy``, or whose name describes its bytes."""
        return root.is_file() and (root.suffix.lower() == _NPY or _raw(root.name) is not None)

    def index(self, root: Path) -> Dump:
        """List the one tensor; a manifest beside it, or beside its iteration's folder, says what its name does not."""
        key, spec, timestamp = _parse(root.name)
        ref = TensorRef(key=key, spec=spec, source=TensorSource.of(root, timestamp), reader=self.name, place=0)
        return Dump(root=root, reader=self.name, refs=(apply_entry(ref, _manifest_entry(root)),))

    def open(self, ref: TensorRef) -> TensorView:
        """Open the tensor lazily; see `Reader.open`."""
        path = ref.source.path
        return open_npy(path, ref.spec) if _raw(path.name) is None else open_flat(path, ref.spec)


def _raw(name: str) -> tuple[TensorKey, TensorSpec, int | None] | None:
    if flat := parse_flat(name):
        op = OpKey(flat.op, op_type=flat.op_type, true_name=flat.true_name)
        return TensorKey(op, flat.io, flat.slot), flat.spec, None
    if made := parse_converted_bin(name):
        op = OpKey(made.dump.op, op_type=made.dump.op_type)
        return TensorKey(op, made.io, made.slot), made.spec, made.dump.timestamp
    return None


def _manifest_entry(path: Path) -> TensorEntry | None:
    """Return what the manifest of the dump that this file belongs to says of it."""
    whole = path.absolute()
    folder = whole.parent.parent if number(whole.parent.name) is not None else whole.parent
    for root in (whole.parent, folder):
        manifest, _ = read_manifest(root)
        if manifest is not None:
            return manifest.tensors.get(whole.relative_to(root).as_posix())
    return None


def _parse(name: str) -> tuple[TensorKey, TensorSpec, int | None]:
    if raw := _raw(name):
        return raw
    dumped = parse_mindspore(name)
    if dumped:
        op = OpKey(name=dumped.op, op_type=dumped.op_type)
        return TensorKey(op, dumped.io, dumped.slot), dumped.spec, dumped.timestamp
    reference = parse_reference(name)
    if reference:
        return TensorKey(OpKey(reference.op), "output", reference.slot), _UNNAMED, reference.timestamp
    return TensorKey(OpKey(Path(name).stem), "output", 0), _UNNAMED, None
