"""One tensor of a file, in its stored axes, read piece by piece: npy files, dump files and raw bytes alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes.decode import bytes_needed, can_decode, stored_as
from pytest_msdump.core.dumps.file_names import parse_flat
from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile, opened, truncated
from pytest_msdump.core.dumps.strided_reader import BLOCK_BYTES, ReusedMemory, StridedReader
from pytest_msdump.core.errors import TensorFileError, TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec, TensorView

Array = npt.NDArray[Any]

_MAX_ELEMENTS = 2**63 - 1


class Layout(NamedTuple):
    """How a tensor lies in its file."""

    spec: TensorSpec
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    bits: int
    stored: np.dtype[Any]
    decode: Callable[[Array], Array]


def layout_of(spec: TensorSpec) -> Layout:
    """Return how a binary dump stores a tensor: little-endian, in C order, without gaps."""
    storage = stored_as(spec.dtype or "")
    bits, stored, decode = storage.bits, storage.stored, storage.decode
    if stored.itemsize < bits // 8:
        # An element of several stored numbers (complex32) is read as one.
        parts, unpack = stored, decode
        stored, decode = np.dtype(f"V{bits // 8}"), lambda raw: unpack(raw.view(parts))
    shape = spec.shape or ()
    return Layout(spec, shape, steps_of(shape), bits, stored, decode)


def steps_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return elements per step of each axis, for a tensor stored in C order without gaps."""
    return tuple(accumulate((1, *shape[:0:-1]), mul))[::-1] if shape else ()


def can_be_held(shape: tuple[int, ...]) -> bool:
    """Whether numpy can count the elements; asked of empty tensors, too, since numpy multiplies the other lengths."""
    return prod(filter(None, shape)) <= _MAX_ELEMENTS


class PackedReader:
    """Elements of less than a byte. What is not in stored order is picked out of pieces of the file."""

    def __init__(self, file: StoredFile, offset: int, layout: Layout) -> None:
        self._file, self._offset = file, offset
        self._shape, self._steps, self._unpack = layout.shape, layout.steps, layout.decode
        self._is_dense = layout.steps == steps_of(layout.shape)
        self._per_byte = 8 // layout.bits
        self._raw = ReusedMemory()

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the order asked for, decoded."""
        if self._is_dense:
            return self._stored(start, stop)
        places = self._places(start, stop)
        out = np.empty(places.size, self._unpack(np.empty(0, np.uint8)).dtype)
        low, high = (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)
        for begin in range(low, high, BLOCK_BYTES):
            end = min(begin + BLOCK_BYTES, high)
            wanted = (places >= begin) & (places < end)
            if wanted.any():
                out[wanted] = self._stored(begin, end)[places[wanted] - begin]
        return out

    def _places(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        rest = np.arange(start, stop, dtype=np.int64)
        places = np.zeros(stop - start, np.int64)
        for length, step in zip(reversed(self._shape), reversed(self._steps), strict=True):
            rest, index = np.divmod(rest, max(length, 1))
            places += index * step
        return places

    def _stored(self, start: int, stop: int) -> Array:
        first, last = start // self._per_byte, -(-stop // self._per_byte)
        raw = self._raw.take(last - first, np.dtype(np.uint8))
        self._file.read_into(raw.data, self._offset + first)
        skipped = start - first * self._per_byte
        return self._unpack(raw)[skipped : skipped + stop - start]


class StoredView(TensorView):
    """A tensor of a file in its stored axes, or in another order of them: then it has no memory format any more."""

    # No properties: each pair asks for them some twenty times.
    spec = TensorSpec()
    shape: tuple[int, ...] = ()
    size = 1

    def __init__(self, file: StoredFile, offset: int, layout: Layout, *, block_bytes: int = BLOCK_BYTES) -> None:
        self.spec, self.shape, self.size = layout.spec, layout.shape, prod(layout.shape)
        self._file, self._offset, self._layout, self._block_bytes = file, offset, layout, block_bytes
        self._reader: PackedReader | StridedReader
        if layout.bits < 8:
            self._reader = PackedReader(file, offset, layout)
        else:
            self._reader = StridedReader(
                file, offset, layout.stored, layout.shape, layout.steps, block_bytes=block_bytes
            )

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` in C order of `shape`: 1-D, native, decoded."""
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"{self._file.where}: elements {start} to {stop} asked for, it has {self.size}")
        values = self._reader.read(start, stop)
        return values if self._layout.bits < 8 else self._layout.decode(values)

    def permuted(self, axes: tuple[int, ...]) -> StoredView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data."""
        layout = self._layout
        order = ordered_axes(axes, layout.shape, self._file.where)
        if order != tuple(range(len(order))):
            shape, steps = tuple(layout.shape[axis] for axis in order), tuple(layout.steps[axis] for axis in order)
            spec = replace(layout.spec, memory_format=None, logical_shape=shape)
            layout = layout._replace(spec=spec, shape=shape, steps=steps)
        return StoredView(self._file, self._offset, layout, block_bytes=self._block_bytes)

    def close(self) -> None:
        """Close the file, for every view of it."""
        self._file.close()

    def __enter__(self) -> StoredView:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def ordered_axes(axes: tuple[int, ...], shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """Return a permutation without negative axes; TensorShapeError where it does not name each axis of `shape` once."""
    rank = len(shape)
    order = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if sorted(order) != list(range(rank)):
        raise TensorShapeError(
            f"{where}: axes {list(axes)} do not permute its stored shape {shape}; name each of 0 to {rank - 1} once"
            if rank
            else f"{where}: axes {list(axes)} of a tensor without axes; leave them out"
        )
    return order


def open_flat(path: Path, claimed: TensorSpec, *, block_bytes: int = BLOCK_BYTES) -> StoredView:
    """Open raw bytes as a tensor in its stored axes; reads no data."""
    with opened(path) as file:
        _check_flat(file, claimed)
        return StoredView(file, 0, layout_of(claimed), block_bytes=block_bytes)


def _check_flat(file: StoredFile, claimed: TensorSpec) -> None:
    where, shape = file.where, claimed.shape
    if claimed.dtype is None or shape is None or not can_decode(claimed.dtype):
        name = parse_flat(Path(where).name)
        raise TensorFileError(
            f"{where}: data type {name.dtype if name else 'none'} in its name cannot be decoded; leave the tensor out "
            "with deselect"
        )
    if not can_be_held(shape):
        raise TensorFileError(f"{where}: shape {shape} in its name is more than any memory holds; rename the file")
    start, sentence = LFS_POINTER
    if file.read_bytes(0, min(file.size, len(start))) == start:
        raise TensorFileError(f"{where}: {sentence}")
    needed = bytes_needed(claimed.dtype, prod(shape))
    if file.size < needed:
        raise truncated(where, f"cut off after {file.size} of {needed} bytes" if file.size else "is empty (0 bytes)")
    if file.size > needed:
        raise TensorFileError(
            f"{where}: {file.size - needed} bytes too many: shape {shape} of {claimed.dtype} in its name needs "
            f"{needed}; the file was renamed or written twice: dump it again"
        )
