"""Memory that tensors are read into."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.pages import pages

__all__ = ["Scratch"]

Array = npt.NDArray[Any]

_NO_BYTES: Array = np.empty(0, np.uint8)
_BYTE = np.dtype(np.uint8)


class Scratch:
    """Memory that is used again and again for one tensor."""

    def __init__(self) -> None:
        self._bytes = _NO_BYTES

    def take(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return a 1-D array of `count` elements over this memory, with whatever is in it."""
        needed = count * dtype.itemsize
        if needed > self._bytes.size:
            self._bytes = pages(needed, _BYTE)
        return self._bytes[:needed].view(dtype)
