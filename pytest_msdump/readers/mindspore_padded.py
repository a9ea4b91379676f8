"""An array in a device's memory format: its file has a shape, which is not the tensor's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["PaddedView"]


class PaddedView:
    """A `TensorView` as it is, but for its logical shape. Without trans_flag nothing in a file tells it.

    Parameters
    ----------
    view : TensorView
        In stored axes.
    logical_shape : tuple of int, optional
        What a graph of the run tells; ``None`` where none does.
    """

    def __init__(self, view: TensorView, logical_shape: tuple[int, ...] | None = None) -> None:
        self._view = view
        self._logical_shape = logical_shape

    @property
    def spec(self) -> TensorSpec:
        """What the file holds, and the logical shape that was told."""
        return replace(self._view.spec, logical_shape=self._logical_shape)

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
        return PaddedView(self._view.permuted(axes), self._logical_shape)

    def close(self) -> None:
        """Give back the file."""
        self._view.close()
