"""An array in memory as a view, so that live arrays and dumped tensors are measured by the same code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.errors import TensorFileError, nearest
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorSpec

__all__ = ["ArrayView"]


class ArrayView:
    """A `TensorView` over a numpy array of any order, strides and byte order. The whole is never copied.

    Parameters
    ----------
    array : array_like
        Numbers; 0-d and empty arrays included.
    dtype : str, optional
        The logical dtype, a name from `facts.dtypes`; needed where the array's own says too little
        (``"bfloat16"`` for float32 values that came from bfloat16).

    Raises
    ------
    TensorFileError
        The array holds something else than numbers (objects, strings, dates), or `dtype` is not stored like this.
    """

    def __init__(self, array: npt.ArrayLike, dtype: str | None = None) -> None:
        self._array: npt.NDArray[Any] = np.asarray(array)
        self._dtype = _logical_dtype(self._array.dtype, dtype)
        self._native = np.dtype(DTYPES[self._dtype].native)

    @property
    def spec(self) -> TensorSpec:
        """Dtype and shape; an array has no memory format."""
        return TensorSpec(self._dtype, self.shape, None, self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._array.shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order, native; only these are copied, if any."""
        array = self._array
        block = array.reshape(-1)[start:stop] if array.flags.c_contiguous else array.flat[start:stop]
        return block.astype(self._native, copy=False)

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> ArrayView:
        """Return the same array with its axes in another order; copies nothing."""
        return ArrayView(self._array.transpose(axes), self._dtype)

    def close(self) -> None:
        """Do nothing: the array is the caller's."""


def _logical_dtype(stored: np.dtype[Any], asked: str | None) -> str:
    """Return the logical dtype's name, or refuse."""
    name = asked or stored.name
    fact = DTYPES.get(name)
    if fact is None:
        raise TensorFileError(f"cannot compare an array of dtype {name}: {nearest(name, DTYPES)}")
    if stored.name not in (name, fact.native):
        raise TensorFileError(
            f"an array of dtype {stored.name} does not hold {name} values: pass it as {fact.native}, or leave dtype out"
        )
    return name
