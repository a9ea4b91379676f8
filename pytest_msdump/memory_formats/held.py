"""A tensor that is held in memory: what cannot be read piece by piece, such as the answer of a user's converter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["HeldView", "held"]

Array = npt.NDArray[Any]


class HeldView:
    """An array as a `model.tensor.TensorView`."""

    def __init__(self, values: Array, spec: TensorSpec, origin: TensorView) -> None:
        self._values = values
        self._flat: Array | None = None
        self._spec = replace(spec, logical_shape=tuple(values.shape))
        self._origin = origin

    @property
    def spec(self) -> TensorSpec:
        """What the file holds, with this array's shape for the logical one."""
        return self._spec

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return tuple(self._values.shape)

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._origin.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._values.size)

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` in C order."""
        if self._flat is None:
            self._flat = self._values.reshape(-1)
        return self._flat[start:stop]

    def blocks(self, block_elements: int) -> Iterator[Array]:
        """Yield all elements, `block_elements` at a time."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, start + block_elements)

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this tensor with its axes in another order."""
        return HeldView(self._values.transpose(axes), self._spec, self._origin)

    def close(self) -> None:
        """Give back the file that the values came from."""
        self._origin.close()


def held(view: TensorView) -> HeldView:
    """Read a whole tensor."""
    values = view.read(0, view.size).reshape(view.shape).copy()
    return HeldView(values, view.spec, view)
