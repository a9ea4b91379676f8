"""One tensor of a file, in its stored axes, read piece by piece: npy files, dump files and raw bytes alike.

Reading takes bounded memory. One engine serves Fortran order and every permutation of axes: the tensor is a shape with
one stride for each axis over the stored elements. It is gathered in *bands*, runs of the logical order that fit
`block_bytes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
from pytest_msdump.core.errors import TensorFileError, TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec, TensorView
from pytest_msdump.core.pages import SMALL_BYTES, pages

Array = npt.NDArray[Any]

_MAX_ELEMENTS = 2**63 - 1


BLOCK_BYTES = 16 * 2**20

# From far away, a band for which the whole file is read through once more costs more than memory does.
_REMOTE_BANDS = 4

# Reading this many unwanted bytes costs about as much as one more system call.
GAP_BYTES = 8 * 2**10


_NO_BYTES: Array = np.empty(0, np.uint8)


class ReusedMemory:
    """Memory of one reader that grows with the largest request and is used again for the next."""

    def __init__(self) -> None:
        self._bytes = _NO_BYTES

    def take(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return a 1-D array of `count` elements over this memory, with whatever is in it."""
        needed = count * dtype.itemsize
        if needed > self._bytes.size:
            self._bytes = np.empty(needed, np.uint8) if needed <= SMALL_BYTES else pages(needed, np.dtype(np.uint8))
        return self._bytes[:needed].view(dtype)


class StridedReader:
    """Elements of a stored tensor in the C order of a logical shape."""

    def __init__(
        self,
        file: StoredFile,
        offset: int,
        dtype: np.dtype[Any],
        shape: Sequence[int],
        strides: Sequence[int],
        *,
        block_bytes: int = BLOCK_BYTES,
        gap_bytes: int = GAP_BYTES,
    ) -> None:
        self._file, self._offset, self._dtype = file, offset, dtype
        if file.is_remote:
            block_bytes *= _REMOTE_BANDS
        self._shape, self._strides = _merge_axes(shape, strides)
        self._out = ReusedMemory()
        self._is_dense = self._strides in ((), (1,))
        if self._is_dense:
            return
        self._gap = gap_bytes // dtype.itemsize
        size = prod(self._shape)
        self._band_limit = max(1, min(size, block_bytes // dtype.itemsize))
        self._stage_limit = max(1, min(size, block_bytes // 16 // dtype.itemsize))
        self._kept, self._stage = ReusedMemory(), ReusedMemory()
        self._band: Array = np.empty(0, dtype)
        self._band_start = 0
        self._next = 0

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the logical order as stored; the caller's until the next read."""
        out = self._out.take(stop - start, self._dtype)
        if self._is_dense:
            self._file.read_into(out.view(np.uint8).data, self._offset + start * self._dtype.itemsize)
            return out
        # A band is worth its price in a loop over blocks; a single read elsewhere must not throw it away.
        looping = start in (0, self._next, self._band_start + self._band.size) or self._in_band(start)
        position = start
        while position < stop:
            position += self._advance(out[position - start :], position, looping=looping)
        self._next = stop
        return out

    def _in_band(self, position: int) -> bool:
        return self._band_start <= position < self._band_start + self._band.size

    def _advance(self, target: Array, position: int, *, looping: bool) -> int:
        """Put elements from `position` on into `target`; return how many."""
        if not self._in_band(position):
            if not looping or target.size >= self._band_limit:
                return self._gather(target, position).size
            self._band = self._gather(self._kept.take(self._band_limit, self._dtype), position)
            self._band_start = position
        skip = position - self._band_start
        count = min(target.size, self._band.size - skip)
        target[:count] = self._band[skip : skip + count]
        return count

    def _gather(self, target: Array, start: int) -> Array:
        """Gather the largest box that begins at `start` and fits `target`; return the part that it fills."""
        base, counts = self._box(start, target.size)
        filled = target[: prod(counts)]
        axes = [axis for axis, count in enumerate(counts) if count > 1]
        axes.sort(key=self._strides.__getitem__, reverse=True)
        grid = filled.reshape(counts).transpose(axes + [axis for axis, count in enumerate(counts) if count <= 1])
        self._collect(grid.reshape(grid.shape[: len(axes)]), base, tuple(self._strides[axis] for axis in axes))
        return filled

    def _box(self, start: int, limit: int) -> tuple[int, tuple[int, ...]]:
        """Return the stored place of element `start`, and how far a box of at most `limit` elements reaches from it."""
        inner, axis = 1, len(self._shape) - 1
        while axis > 0 and inner * self._shape[axis] <= limit and start % (inner * self._shape[axis]) == 0:
            inner *= self._shape[axis]
            axis -= 1
        base, rest = 0, start
        for length, stride in zip(reversed(self._shape), reversed(self._strides), strict=True):
            rest, index = divmod(rest, length)
            base += index * stride
        first = start // inner % self._shape[axis]
        count = min(self._shape[axis] - first, limit // inner)
        return base, (1,) * axis + (count,) + self._shape[axis + 1 :]

    def _collect(self, grid: Array, base: int, strides: tuple[int, ...]) -> None:
        """Fill `grid`, whose axes are in stored order (longest stride first), from stored element `base` on."""
        outer, span = self._piece(grid.shape, strides)
        needed = prod(grid.shape[:outer]) * span
        if needed <= self._stage_limit:
            self._copy(grid, base, strides, outer, span)
            return
        step = max(1, grid.shape[0] * self._stage_limit // needed)
        for low in range(0, grid.shape[0], step):
            part = grid[low : low + step] if step > 1 and low + 1 < grid.shape[0] else grid[low, ...]
            self._collect(part, base + low * strides[0], strides[-part.ndim :] if part.ndim else ())

    def _piece(self, counts: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
        """Return how many outer axes need a read for each step, and the length of one read in elements."""
        outer, span = len(counts), 1
        while outer and strides[outer - 1] - span <= self._gap:
            outer -= 1
            span += (counts[outer] - 1) * strides[outer]
        return outer, span

    def _copy(self, grid: Array, base: int, strides: tuple[int, ...], outer: int, span: int) -> None:
        """Read the pieces of `grid` side by side into the stage, then copy all of them at once."""
        counts, width = grid.shape, self._dtype.itemsize
        places = np.array(base, np.int64)
        for count, stride in zip(counts[:outer], strides[:outer], strict=True):
            places = places[..., np.newaxis] + np.arange(count, dtype=np.int64) * stride
        stage = self._stage.take(self._stage_limit, self._dtype)
        self._read_pieces(stage, (places.ravel() * width + self._offset).tolist(), span * width)
        steps = [span * prod(counts[axis + 1 : outer]) for axis in range(outer)]
        pitches = tuple(step * width for step in (*steps, *strides[outer:]))
        grid[...] = np.ndarray(counts, self._dtype, stage, 0, pitches)

    def _read_pieces(self, stage: Array, offsets: list[int], length: int) -> None:
        room = stage.view(np.uint8).data
        descriptor, preadv = self._file.descriptor, os.preadv
        for index, offset in enumerate(offsets):
            slot = room[index * length : (index + 1) * length]
            # Nearly always one call reads the whole piece; `read_into` handles the rest, errors included.
            try:
                whole = descriptor is not None and preadv(descriptor, (slot,), offset) == length
            except OSError:
                whole = False
            if not whole:
                self._file.read_into(slot, offset)


def _merge_axes(shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop axes of length 1 and join neighbours that are one run in the file."""
    lengths: list[int] = []
    steps: list[int] = []
    for length, stride in zip(shape, strides, strict=True):
        if length == 1:
            continue
        if steps and steps[-1] == length * stride:
            lengths[-1] *= length
            steps[-1] = stride
        else:
            lengths.append(length)
            steps.append(stride)
    return tuple(lengths), tuple(steps)


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
