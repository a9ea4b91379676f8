"""One tensor, one file: written block by block under a temporary name, and renamed when it is whole."""

from __future__ import annotations

import fcntl
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
    """An array in memory as a `model.tensor.TensorView`.

    Parameters
    ----------
    values : ndarray
        Of a native numpy type.
    dtype : str, optional
        The logical type, a name from `facts.dtypes`, where it is not the array's own.
    memory_format : str, optional
        What its axes are.
    """

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

    Parameters
    ----------
    path : Path
        Its folder exists. A file of this name is replaced.

    Raises
    ------
    MsdumpError
        The file cannot be written.

    Notes
    -----
    The temporary file is locked while it is written. A process that is killed loses the lock with its life, by which
    `remove_leftovers` knows what nobody is going to finish.
    """
    temporary = path.with_name(f"{_PREFIX}{uuid4().hex}{_SUFFIX}")
    try:
        try:
            with temporary.open("wb") as stream:
                with suppress(OSError):
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield stream
                # Renamed while it is locked: nobody takes the finished file for a leftover.
                stream.flush()
                temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise MsdumpError(f"{path}: cannot be written: {error.strerror or error}; choose another folder") from error


def remove_leftovers(folder: Path) -> int:
    """Remove what a killed run left half-written in a folder, not below it; return how many files.

    Files that somebody is writing at this moment stay.
    """
    count = 0
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
        for name in names:
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                count += _removed(folder / name)
    return count


def _removed(path: Path) -> bool:
    try:
        # Never through a link, which would not be ours.
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
    """Write a tensor into a file of its own, in the axes that it has, block by block.

    Parameters
    ----------
    view : TensorView
        Read to its end; not closed.
    path : Path
        Its folder exists. A file of this name is replaced, by the whole new one.
    to : str
        ``npy``: an array in the numpy type that values are computed in (bfloat16 and 8-bit floats as float32, int4 as
        int8); ``bin``: the bytes of its own type, little-endian; ``txt``: flat, one ``%.18e`` a line, below a line
        with shape and type that begins with ``#``.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    MsdumpError
        The tensor cannot be read, or the file cannot be written.
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
    """Yield what an npy file of a tensor consists of: the header, then its values in C order."""
    dtype = np.dtype(DTYPES[view.dtype].native).newbyteorder("<")
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": view.shape}
    head = _Collected()
    npy_format.write_array_header_1_0(head, header)
    yield bytes(head)
    for block in view.blocks(_BLOCK_ELEMENTS):
        yield block.astype(dtype, copy=False).tobytes()


class _Collected(bytearray):
    """What is written to it."""

    def write(self, data: bytes) -> None:
        """Append."""
        self += data


def _raw_bytes(view: TensorView) -> Iterator[bytes]:
    for block in view.blocks(_BLOCK_ELEMENTS):
        yield encode(block, view.dtype).tobytes()


def text_bytes(view: TensorView, *, with_header: bool = True) -> Iterator[bytes]:
    """Yield a tensor as `numpy.savetxt` writes the flat array; with a header, shape and type in a line behind ``#``."""
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
