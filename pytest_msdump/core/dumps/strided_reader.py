"""Reading from a tensor file in bounded memory: whole blocks, or elements gathered in another order of the axes.

One engine serves Fortran order and every permutation of axes: the tensor is a shape with one stride for each axis over
the stored elements. It is gathered in *bands*, runs of the logical order that fit `block_bytes`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.pages import SMALL_BYTES, pages

Array = npt.NDArray[Any]

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
