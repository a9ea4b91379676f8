"""Memory that tensors are read into."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Scratch"]

Array = npt.NDArray[Any]

_NO_BYTES: Array = np.empty(0, np.uint8)

# Fewer bytes are copied before a mapping of their own is made.
_SMALL_BYTES = 2**16


class Scratch:
    """Memory that is used again and again, aligned to a page: some CPUs copy several times slower into other memory."""

    def __init__(self) -> None:
        self._bytes = _NO_BYTES

    def take(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return a 1-D array of `count` elements over this memory, with whatever is in it."""
        needed = count * dtype.itemsize
        if needed > self._bytes.size and needed <= _SMALL_BYTES:
            self._bytes = np.empty(needed, np.uint8)
        elif needed > self._bytes.size:
            pages = -(-needed // mmap.PAGESIZE)
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._bytes = np.frombuffer(mmap.mmap(-1, pages * mmap.PAGESIZE, flags=flags), np.uint8)
        return self._bytes[:needed].view(dtype)
