"""An array in a device's memory format: its file has a shape, which is not the tensor's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from pytest_msdump.facts.memory_formats import FORMAT_ALIASES, MEMORY_FORMATS
from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["PaddedView", "may_be_padded"]


class PaddedView:
    """A `TensorView` as it is, but that its logical shape is unknown. Without trans_flag nothing in a file tells it."""

    def __init__(self, view: TensorView) -> None:
        self._view = view

    @property
    def spec(self) -> TensorSpec:
        """What the file holds; `logical_shape` is ``None``."""
        return replace(self._view.spec, logical_shape=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Stored shape."""
        return self._view.shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._view.dtype

    @property
    def size(self) -> int:
        """Number of stored elements, padding included."""
        return self._view.size

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` of the stored shape in C order."""
        return self._view.read(start, stop)

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time."""
        yield from self._view.blocks(block_elements)

    def permuted(self, axes: tuple[int, ...]) -> PaddedView:
        """Return this tensor with its stored axes in another order."""
        return PaddedView(self._view.permuted(axes))

    def close(self) -> None:
        """Give back the file."""
        self._view.close()


def may_be_padded(memory_format: str | None) -> bool:
    """Tell whether the stored shape of a memory format is not the tensor's own: it has blocks, or nobody knows it.

    Examples
    --------
    >>> may_be_padded("NC1HWC0"), may_be_padded("FracZ"), may_be_padded("SomethingNew")
    (True, True, True)
    >>> may_be_padded("DefaultFormat"), may_be_padded("NHWC"), may_be_padded(None)
    (False, False, False)
    """
    plain = (memory_format or "").upper().replace("_", "")
    known = FORMAT_ALIASES.get(plain, plain).replace("_", "")
    rows = [row for name, row in MEMORY_FORMATS.items() if name.replace("_", "") == known]
    return not rows or any(len(axis) == 2 for entry in rows[0].stored for axis in entry.split())
