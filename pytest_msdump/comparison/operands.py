"""What people give where a tensor is asked for: an array, a framework's tensor, a file, a reference, an opened view."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from pytest_msdump.comparison.indexing import index
from pytest_msdump.comparison.opening import as_path, open_view
from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.arrays import RawArray, as_array, decoded
from pytest_msdump.errors import ConfigError, TensorFileError, nearest
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

__all__ = ["ArrayView", "Tensor", "opened"]


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


# -- What people give where a tensor is asked for --------------------------------------------------------------------


# An array (anything numpy can make one of), an opened tensor, a reference to one, or a tensor file.
Tensor: TypeAlias = Union[TensorView, TensorRef, str, "PathLike[str]", Any]


def opened(side: Tensor, name: str, stack: ExitStack) -> tuple[TensorRef, TensorView]:
    """Return whatever stands for a tensor as a reference and an opened view, which `stack` closes.

    Raises
    ------
    ConfigError
        A path to a dump of several tensors.
    MsdumpError
        The file cannot be opened.
    """
    if isinstance(side, (str, PathLike)):
        refs = index(as_path(side)).refs
        if len(refs) != 1:
            raise ConfigError(f"{side}: holds {len(refs)} tensors; give one tensor file, or use assert_dumps_close")
        side = refs[0]
    if isinstance(side, TensorRef):
        view = open_view(side)
        stack.callback(view.close)
        return side, view
    view = side if hasattr(side, "blocks") else _view(side)
    key = TensorKey(OpKey(name), "output", 0)
    return TensorRef(key, view.spec, TensorSource.of(Path("array in memory")), reader="array"), view


def _view(value: Any) -> ArrayView:
    """A view of an array in memory; of types that numpy lacks, their values, judged as the type."""
    array = as_array(value)
    if not isinstance(array, RawArray):
        # Libraries that extend numpy with such types give arrays whose bits are told by the type's name.
        known = canonical(getattr(getattr(array, "dtype", None), "name", ""))
        if known is None or DTYPES[known].native == known:
            return ArrayView(array)
        array = RawArray(array, array.shape, known)
    values, dtype = decoded(array)
    return ArrayView(values, dtype)
