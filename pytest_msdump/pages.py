"""Memory for elements: whole pages, which come back when nobody holds what lies in them, and are handed out again.

Pages that the operating system gives for the first time cost more than what is read into them.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

__all__ = ["SMALL_BYTES", "pages"]

Array = npt.NDArray[Any]

# Of fewer bytes numpy's own memory is as good.
SMALL_BYTES = 2**16
# Lengths are rounded up to this, so that tensors of nearly one size share pages.
_STEP_BYTES = 2**17
# What is kept for the next one, at most: two windows of a memory format.
_KEPT_BYTES = 2**24

_free: list[mmap.mmap] = []


def pages(count: int, dtype: np.dtype[Any]) -> Array:
    """Return a new 1-D array with whatever is in its memory, which begins at a page unless it is small.

    Parameters
    ----------
    count : int
        Number of elements.
    dtype : numpy.dtype
        Their type.

    Notes
    -----
    Some CPUs copy several times slower into memory that does not begin at a page.
    """
    needed = count * dtype.itemsize
    if needed <= SMALL_BYTES:
        return np.empty(count, dtype)
    mapping = _taken(needed)
    whole = np.frombuffer(mapping, np.uint8)
    # Views of this array, and theirs, have it for their base: it is the last to go.
    finalize(whole, _give_back, mapping).atexit = False
    return whole[:needed].view(dtype)


def _taken(needed: int) -> mmap.mmap:
    """Return the smallest free mapping that is long enough, else a new one."""
    # Another thread may take the same one meanwhile: then it is no longer in the list.
    for mapping in sorted(_free, key=len):
        if len(mapping) >= needed:
            try:
                _free.remove(mapping)
            except ValueError:
                continue
            return mapping
    # The new one takes the place of one that is too short, so that no more is kept than was held at a time.
    with suppress(IndexError):
        _free.pop()
    length = -(-needed // _STEP_BYTES) * _STEP_BYTES
    return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _give_back(mapping: mmap.mmap) -> None:
    if sum(map(len, _free)) + len(mapping) <= _KEPT_BYTES:
        _free.append(mapping)
