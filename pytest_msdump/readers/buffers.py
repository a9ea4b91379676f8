"""Reading from a tensor file in bounded memory: whole blocks, or elements gathered in another order of the axes.

One engine serves Fortran order and every permutation of axes: the tensor is a shape with one stride for each axis over
the stored elements. It is gathered in *bands*, runs of the logical order that fit `block_bytes`.

Notes
-----
Files are read with ``pread``, not mapped: a mapped page counts as resident memory, and a file that shrinks under a
mapping kills the process.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import weakref
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.errors import TensorFileError
from pytest_msdump.storage.paths import RemotePath

__all__ = ["BLOCK_BYTES", "Scratch", "StoredFile", "StridedReader"]

Array = npt.NDArray[Any]

BLOCK_BYTES = 16 * 2**20

# Reading this many unwanted bytes costs about as much as one more system call.
GAP_BYTES = 8 * 2**10

_HINTS = {
    errno.EACCES: "make it readable (MindSpore writes its files for their owner only)",
    errno.ELOOP: "its symbolic links go round in a circle; remove them",
    errno.ENOENT: "it was there when the dump was indexed; run again, and check links that lead nowhere",
}


class StoredFile:
    """A regular file, opened for reading at any offset. Closed by `close`, or when nobody holds it any more.

    A file on object storage is a local one that is filled in as it is read.

    Raises
    ------
    TensorFileError
        When the file cannot be opened, or is no regular file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._copy = path.local_copy() if isinstance(path, RemotePath) else None
        descriptor, self.size = (self._copy.descriptor, self._copy.size) if self._copy else _open_regular(path)
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    @property
    def descriptor(self) -> int:
        """The open file's number, for who reads anywhere in it; see `descriptor_of`."""
        return self.descriptor_of(0, self.size)

    def descriptor_of(self, start: int, stop: int) -> int:
        """Return the open file's number, for who reads bytes `start` to `stop` and no others; not after `close`."""
        # A closed one's number may belong to somebody else by now.
        if not self._close.alive:
            raise ValueError(f"{self.path}: read after close()")
        if self._copy is not None:
            self._copy.fill(start, stop)
        return self._descriptor

    def close(self) -> None:
        """Close the file. Harmless when it is closed already."""
        self._close()

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` (bytes) from `offset` (bytes) on.

        Raises
        ------
        TensorFileError
            When the file ends before, which it did not when it was opened, or cannot be read.
        """
        done, descriptor = 0, self.descriptor_of(offset, offset + len(target))
        while done < len(target):
            try:
                count = os.preadv(descriptor, [target[done:]], offset + done)
            except OSError as error:
                raise TensorFileError(
                    f"{self.path}: cannot be read at byte {offset + done}: {error.strerror}"
                ) from error
            if count == 0:
                raise TensorFileError(
                    f"{self.path}: ends at byte {offset + done}, but had {self.size} bytes when it was opened; "
                    "compare again when nothing writes to it"
                )
            done += count


def _open_regular(path: Path) -> tuple[int, int]:
    """Return descriptor and size in bytes. Not blocking, so that a named pipe cannot hang the run."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        reason = getattr(error, "strerror", None) or str(error)
        hint = _HINTS.get(number or 0, "check the path and its permissions")
        raise TensorFileError(f"{path}: cannot be opened: {reason}; {hint}") from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status.st_size
    os.close(descriptor)
    kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
    raise TensorFileError(f"{path}: is {kind}, not a file; a tensor is read from regular files only")


class Scratch:
    """Memory that is used again and again, aligned to a page: some CPUs copy several times slower into other memory."""

    def __init__(self) -> None:
        self._bytes: Array = np.empty(0, np.uint8)

    def take(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return a 1-D array of `count` elements over this memory, with whatever is in it."""
        needed = count * dtype.itemsize
        if needed > self._bytes.size:
            pages = -(-needed // mmap.PAGESIZE)
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._bytes = np.frombuffer(mmap.mmap(-1, pages * mmap.PAGESIZE, flags=flags), np.uint8)
        return self._bytes[:needed].view(dtype)


class StridedReader:
    """Elements of a stored tensor in the C order of a logical shape.

    Parameters
    ----------
    file : StoredFile
        Where the elements are.
    offset : int
        Byte of the first element.
    dtype : numpy.dtype
        Type of the stored elements.
    shape : tuple of int
        Logical shape.
    strides : tuple of int
        For each logical axis, how many stored elements one step is: a permutation of dense strides.
    block_bytes : int
        Bound of the band that is kept between reads.
    gap_bytes : int
        Unwanted bytes up to this many are read along rather than skipped.
    """

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
        self._file = file
        self._offset = offset
        self._dtype = dtype
        self._shape, self._strides = _merged(shape, strides)
        self._gap = gap_bytes // dtype.itemsize
        size = prod(self._shape)
        self._band_limit = max(1, min(size, block_bytes // dtype.itemsize))
        self._stage_limit = max(1, min(size, block_bytes // 16 // dtype.itemsize))
        self._out, self._kept, self._stage = Scratch(), Scratch(), Scratch()
        self._band: Array = np.empty(0, dtype)
        self._band_start = 0
        self._next = 0

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the logical order as stored; the caller's until the next read."""
        out = self._out.take(stop - start, self._dtype)
        if self._strides in ((), (1,)):
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
        # Pieces come in the order of the file.
        descriptor, preadv = self._file.descriptor_of(offsets[0], offsets[-1] + length), os.preadv
        for index, offset in enumerate(offsets):
            slot = room[index * length : (index + 1) * length]
            # The whole piece at once is the rule; `read_into` knows what to do and say otherwise.
            try:
                whole = preadv(descriptor, (slot,), offset) == length
            except OSError:
                whole = False
            if not whole:
                self._file.read_into(slot, offset)


def _merged(shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
