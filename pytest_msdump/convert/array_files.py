"""Tensors into files of arrays: written block by block under a temporary name, and renamed when they are whole."""

from __future__ import annotations

import fcntl
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.dtypes.encode import encode
from pytest_msdump.errors import MsdumpError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["ArrayView", "npy_bytes", "remove_leftovers", "text_bytes", "whole_file", "write_npz", "write_view"]

Array = npt.NDArray[Any]

_PREFIX, _SUFFIX = ".msdump-convert-", ".part"
# A multiple of 8, so that elements of less than a byte end with a whole one.
_BLOCK_ELEMENTS = 2**17


class ArrayView:
    """An array in memory as a `TensorView`; `dtype` is the logical type where it is not the array's own."""

    def __init__(self, values: Array, dtype: str | None = None, memory_format: str | None = None) -> None:
        self._values = values
        self._dtype = dtype or values.dtype.name
        self._memory_format = memory_format

    @property
    def spec(self) -> TensorSpec:
        """Type, shape and memory format."""
        return TensorSpec(self._dtype, self.shape, self._memory_format)

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return tuple(self._values.shape)

    @property
    def dtype(self) -> str:
        """Logical data type."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._values.size)

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` in C order."""
        return self._values.reshape(-1)[start:stop]

    def blocks(self, block_elements: int) -> Iterator[Array]:
        """Yield all elements, `block_elements` at a time."""
        flat = self._values.reshape(-1)
        for start in range(0, self.size, block_elements):
            yield flat[start : start + block_elements]

    def permuted(self, axes: tuple[int, ...]) -> ArrayView:
        """Return this tensor with its axes in another order."""
        return ArrayView(self._values.transpose(axes), self._dtype)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name when it is whole, and not at all when writing fails.

    The temporary file is locked while it is written. The lock ends with the process, also with one that is killed: so
    `remove_leftovers` knows that no process will finish the file.
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


def remove_leftovers(folder: Path) -> int:
    """Remove what a killed run left half-written in a folder, not below it; return how many files.

    Files that another process is writing at this moment stay.
    """
    try:
        return sum(map(_remove, [*folder.glob(f"{_PREFIX}*{_SUFFIX}")]))
    except OSError:
        return 0


def _remove(path: Path) -> bool:
    try:
        # A link would not be ours.
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def write_view(view: TensorView, path: Path, *, to: str = "npy") -> Path:
    """Write a tensor into a file of its own, in the axes that it has, block by block; the view is not closed.

    Parameters
    ----------
    view : TensorView
        Read to its end.
    path : Path
        Its folder exists. A file of this name is replaced.
    to : str
        ``npy``: an array in the numpy type that values are computed in (bfloat16 and 8-bit floats as float32, int4 as
        int8); ``bin``: the bytes of its own type, little-endian; ``txt``: flat, one ``%.18e`` a line, below a line
        with shape and type that begins with ``#``.
    """
    with whole_file(path) as stream:
        for piece in _PIECES[to](view):
            stream.write(piece)
    return path


def write_npz(views: Iterable[tuple[str, TensorView]], path: Path) -> Path:
    """Write tensors into one uncompressed ``.npz`` archive, by name; see `write_view`."""
    with whole_file(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, view in views:
            # A fixed time, so that the same tensors give the same bytes.
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as member:
                for piece in npy_bytes(view):
                    member.write(piece)
    return path


def npy_bytes(view: TensorView) -> Iterator[bytes]:
    """Yield the bytes of an npy file of a tensor: the header, then its values in C order."""
    dtype = np.dtype(DTYPES[view.dtype].native).newbyteorder("<")
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": view.shape}
    head = BytesIO()
    npy_format.write_array_header_1_0(head, header)
    yield head.getvalue()
    for block in view.blocks(_BLOCK_ELEMENTS):
        yield block.astype(dtype, copy=False).tobytes()


def _raw_bytes(view: TensorView) -> Iterator[bytes]:
    for block in view.blocks(_BLOCK_ELEMENTS):
        yield encode(block, view.dtype).tobytes()


def text_bytes(view: TensorView, *, with_header: bool = True) -> Iterator[bytes]:
    """Yield the flat tensor as `numpy.savetxt` writes it, by default below a line ``#`` with shape and type."""
    if with_header:
        yield f"# shape {view.shape}, dtype {view.dtype}\n".encode()
    for block in view.blocks(_BLOCK_ELEMENTS):
        if block.dtype.kind == "c":
            # As `numpy.savetxt` has it.
            parts = to_double(block).view(np.float64).tolist()
            yield (" (%.18e%+.18ej)\n" * block.size % tuple(parts)).encode()
        else:
            yield ("%.18e\n" * block.size % tuple(block.tolist())).encode()


_PIECES = {"npy": npy_bytes, "bin": _raw_bytes, "txt": text_bytes}
