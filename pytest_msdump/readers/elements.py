"""How the elements of each data type are stored in dump files, as far as numpy (and bfloat16) goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.decode import bfloat16_values
from pytest_msdump.facts.dtypes import DTYPES

__all__ = ["StoredAs", "bytes_needed", "can_decode", "stored_as"]

Array = npt.NDArray[Any]


class StoredAs(NamedTuple):
    """Bits of one element, the numpy type of what is read, and what turns that into values."""

    itemsize_bits: int
    stored: np.dtype[Any]
    unpack: Callable[[Array], Array]


def can_decode(name: str) -> bool:
    """Tell whether `stored_as` knows a data type of `facts.dtypes`."""
    return name == "bfloat16" or DTYPES[name].native == name


def stored_as(name: str) -> StoredAs:
    """Return how a data type that `can_decode` accepts is stored: little-endian, without gaps."""
    if name == "bfloat16":
        return StoredAs(16, np.dtype("<u2"), bfloat16_values)
    if name == "bool":
        # A bool byte that is neither 0 nor 1 would make numpy's answers depend on the operation.
        return StoredAs(8, np.dtype(np.uint8), lambda raw: raw != 0)
    native = np.dtype(name)
    return StoredAs(native.itemsize * 8, native.newbyteorder("<"), lambda raw: raw.astype(native, copy=False))


def bytes_needed(name: str, elements: int) -> int:
    """Return how many bytes so many elements take."""
    return -(-elements * DTYPES[name].bits // 8)
