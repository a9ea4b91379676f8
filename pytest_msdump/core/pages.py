"""Memory pages for elements, used again once no array refers to them.

New pages of the operating system cost more than reading the elements into them.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Below this many bytes numpy's own memory is as good.
SMALL_BYTES = 2**16
# Lengths are rounded up to this, so that tensors of nearly one size share pages.
_STEP_BYTES = 2**17
# At most this much is kept: what waits to be written of a recording.
_KEPT_BYTES = 2**26
# From so many on, pages of 2 MiB are asked for, as numpy does: thousands of small ones take longer than the copy.
_HUGE_BYTES = 2**22

_free: list[mmap.mmap] = []


def pages(count: int, dtype: np.dtype[Any]) -> Array:
    """Return a new 1-D array that is not initialised; unless it is small, it begins at a page."""
    needed = count * dtype.itemsize
    if needed <= SMALL_BYTES:
        return np.empty(count, dtype)
    mapping = _taken(needed)
    whole = np.frombuffer(mapping, np.uint8)
    # All views have this array as their base, so that it is freed last.
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
    # The new one replaces one that is too short, so that no more is kept than was used at a time.
    with suppress(IndexError):
        _free.pop()
    length = -(-needed // _STEP_BYTES) * _STEP_BYTES
    mapping = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if length >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        # Not every kernel has them.
        with suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def _give_back(mapping: mmap.mmap) -> None:
    if sum(map(len, _free)) + len(mapping) <= _KEPT_BYTES:
        _free.append(mapping)
