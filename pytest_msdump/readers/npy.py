"""One ``.npy`` file as a tensor that is read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import Any

import numpy.typing as npt

from pytest_msdump.dtypes.decode import Storage, storage_of
from pytest_msdump.errors import TensorFileError, TensorShapeError
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.buffers import BLOCK_BYTES, StoredFile, StridedReader
from pytest_msdump.readers.npy_header import NpyHeader, cut_off, extent, parse_header

__all__ = ["NpyHeader", "NpyView", "open_npy", "parse_header"]

_FIRST_READ_BYTES = 2**12


class NpyView:
    """The tensor of an npy file (a `model.tensor.TensorView`). Made by `open_npy`.

    Holds one band of `block_bytes` and what the caller asks for at once. Not for several threads at a time. Views made
    by `permuted` share the file: closing one of them closes all.
    """

    def __init__(
        self,
        file: StoredFile,
        header: NpyHeader,
        storage: Storage,
        axes: tuple[int, ...],
        *,
        memory_format: str | None,
        block_bytes: int,
    ) -> None:
        self._file, self._header, self._storage, self._axes = file, header, storage, axes
        self._memory_format, self._block_bytes = memory_format, block_bytes
        self._shape, strides = _laid_out(header.shape, axes, fortran=header.fortran_order)
        self._size = prod(self._shape)
        self._spec = TensorSpec(storage.logical, header.shape, memory_format, self._shape)
        self._reader = StridedReader(
            file, header.data_offset, storage.stored, self._shape, strides, block_bytes=block_bytes
        )

    @property
    def spec(self) -> TensorSpec:
        """Logical dtype, the header's shape, the claimed memory format, and the shape after `permuted`."""
        return self._spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape; ``()`` for a 0-d tensor."""
        return self._shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._storage.logical

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._size

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` of the logical shape in C order: 1-D, native, bfloat16 as exact float32.

        The array belongs to the caller until the next `read` of this view.

        Raises
        ------
        ValueError
            For a range outside the tensor, or after `close`.
        TensorFileError
            When the file has shrunk meanwhile or the disk refuses.
        """
        if not 0 <= start <= stop <= self._size:
            raise ValueError(f"{self._file.path}: elements {start} to {stop} asked for, it has {self._size}")
        return self._storage.decode(self._reader.read(start, stop))

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time; each block is the caller's until the next."""
        for start in range(0, self._size, block_elements):
            yield self.read(start, min(start + block_elements, self._size))

    def permuted(self, axes: tuple[int, ...]) -> NpyView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data.

        Raises
        ------
        TensorShapeError
            When `axes` is not a permutation of this tensor's axes.
        """
        rank = len(self._shape)
        order = tuple(axis + rank if axis < 0 else axis for axis in axes)
        if sorted(order) != list(range(rank)):
            raise TensorShapeError(
                f"{self._file.path}: axes {list(axes)} do not permute its shape {self._shape}; name each of 0 to "
                f"{rank - 1} once"
            )
        return NpyView(
            self._file,
            self._header,
            self._storage,
            tuple(self._axes[axis] for axis in order),
            memory_format=self._memory_format,
            block_bytes=self._block_bytes,
        )

    def close(self) -> None:
        """Close the file, for every view of it."""
        self._file.close()

    def __enter__(self) -> NpyView:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


@lru_cache(maxsize=1024)
def _laid_out(
    shape: tuple[int, ...], axes: tuple[int, ...], *, fortran: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return lengths, and elements per step, of axes in this order, for a tensor stored without gaps."""
    lengths = shape if fortran else shape[::-1]
    strides = tuple(accumulate((1, *lengths[:-1]), mul)) if lengths else ()
    steps = strides if fortran else strides[::-1]
    return tuple(shape[axis] for axis in axes), tuple(steps[axis] for axis in axes)


def open_npy(path: Path | str, claimed: TensorSpec, *, block_bytes: int = BLOCK_BYTES) -> NpyView:
    """Open an npy file as a tensor; reads its header only.

    Parameters
    ----------
    path : Path or str
        A regular file, or a link to one; text is a path of this machine.
    claimed : TensorSpec
        What the dump says of it. `dtype` is the logical type where the header only tells the storage;
        `memory_format` is handed on; shapes are the header's.
    block_bytes : int
        Bound of what is held between reads when the elements must be gathered from other places.

    Raises
    ------
    TensorFileError
        When the file cannot be read, is not a whole npy file of numbers, or contradicts what is claimed of it.
    """
    file = StoredFile(path)
    try:
        file.hold()
        header = parse_header(_head(file), where=str(path))
        storage = storage_of(header.descr, claimed.dtype, where=str(path))
        _check_size(file, header, storage.stored.itemsize)
    except BaseException:
        file.close()
        raise
    axes = tuple(range(len(header.shape)))
    return NpyView(file, header, storage, axes, memory_format=claimed.memory_format, block_bytes=block_bytes)


def _head(file: StoredFile) -> bytes:
    """Read no more than the header may need, however long the file claims it to be."""
    is_here = file.held(0, file.size) is not None
    head = file.read_bytes(0, file.size if is_here else min(file.size, _FIRST_READ_BYTES))
    if file.size == len(head):
        return head
    _, end = extent(head, str(file.path))
    return file.read_bytes(0, min(file.size, end)) if end > len(head) else head


def _check_size(file: StoredFile, header: NpyHeader, item_bytes: int) -> None:
    needed, there = prod(header.shape) * item_bytes, file.size - header.data_offset
    if there < needed:
        raise cut_off(str(file.path), f"after {there} of {needed} bytes")
    if there > needed:
        raise TensorFileError(
            f"{file.path}: {there - needed} bytes too many: shape {header.shape} in its header needs {needed}; "
            "two writers, or a damaged header: dump it again"
        )
