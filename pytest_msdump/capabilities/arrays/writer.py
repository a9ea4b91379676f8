"""Write tensors into files of arrays, block by block; a file appears under its name when it is whole."""

from __future__ import annotations

import fcntl
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy_format

from pytest_msdump.capabilities.arrays.encode import encode
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.tensor import TensorView

_PREFIX, _SUFFIX = ".msdump-convert-", ".part"
# A multiple of 8, so that elements of less than a byte end with a whole one.
_BLOCK_ELEMENTS = 2**17


def write_view(view: TensorView, path: Path, *, to: str = "npy") -> Path:
    """Write a tensor into a file of an existing folder, in the axes that it has; the view is not closed.

    `to` is ``npy``: the numpy type that values are computed in (bfloat16 and 8-bit floats as float32, int4 as int8);
    ``bin``: the bytes of its own type, little-endian; ``txt``: see `text_bytes`.
    """
    with whole_file(path) as stream:
        stream.writelines(_BYTES[to](view))
    return path


def write_npz(views: Iterable[tuple[str, TensorView]], path: Path) -> Path:
    """Write named tensors into one uncompressed ``.npz`` archive; see `write_view`."""
    with whole_file(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, view in views:
            # A fixed time, so that the same tensors give the same bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                member.writelines(_npy_bytes(view))
    return path


def _npy_bytes(view: TensorView) -> Iterator[bytes]:
    dtype = np.dtype(DTYPES[view.dtype].native).newbyteorder("<")
    head = BytesIO()
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": view.shape}
    npy_format.write_array_header_1_0(head, header)
    yield head.getvalue()
    for block in view.blocks(_BLOCK_ELEMENTS):
        yield block.astype(dtype, copy=False).tobytes()


def _raw_bytes(view: TensorView) -> Iterator[bytes]:
    for block in view.blocks(_BLOCK_ELEMENTS):
        yield encode(block, view.dtype).tobytes()


def text_bytes(view: TensorView, *, with_header: bool = False) -> Iterator[bytes]:
    """Yield the flat tensor as `numpy.savetxt` writes it; `with_header` puts shape and type into a ``#`` line above."""
    if with_header:
        yield f"# shape {view.shape}, dtype {view.dtype}\n".encode()
    for block in view.blocks(_BLOCK_ELEMENTS):
        if block.dtype.kind == "c":
            parts = to_double(block).view(np.float64).tolist()
            yield (" (%.18e%+.18ej)\n" * block.size % tuple(parts)).encode()
        else:
            yield ("%.18e\n" * block.size % tuple(block.tolist())).encode()


_BYTES = {"npy": _npy_bytes, "bin": _raw_bytes, "txt": text_bytes}


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` when it is whole; nothing is left when writing fails.

    The temporary file is locked while it is written. The lock ends with the process, even a killed one, so
    `remove_leftovers` knows which files no process will finish.
    """
    temporary = path.with_name(f"{_PREFIX}{uuid4().hex}{_SUFFIX}")
    try:
        try:
            with temporary.open("wb") as stream:
                with suppress(OSError):
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield stream
                # Renamed while it is locked, so that the finished file is not taken for a leftover.
                stream.flush()
                temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise MsdumpError(f"{path}: cannot be written: {error.strerror or error}; choose another folder") from error


def remove_leftovers(folder: Path) -> None:
    """Remove half-written files of killed runs from a folder, not below it; files that are being written stay."""
    with suppress(OSError):
        for path in [*folder.glob(f"{_PREFIX}*{_SUFFIX}")]:
            _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    with suppress(OSError):
        # A link would not be ours.
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
