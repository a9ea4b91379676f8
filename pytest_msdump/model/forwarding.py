"""A tensor that is another one but for something: what is not said otherwise is said by that one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pytest_msdump.model.tensor import TensorSpec, TensorView

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ForwardingView"]


class ForwardingView:
    """Base of views that stand before another one (`model.tensor.TensorView`).

    Parameters
    ----------
    view : TensorView
        Asked for everything that a class of its own does not say otherwise; closed with this one.
    """

    def __init__(self, view: TensorView) -> None:
        self._view = view

    @property
    def spec(self) -> TensorSpec:
        """What the file holds."""
        return self._view.spec

    @property
    def shape(self) -> tuple[int, ...]:
        """The other one's shape."""
        return self._view.shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._view.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._view.size

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order."""
        return self._view.read(start, stop)

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return the other one with its axes in another order; reads no data."""
        return self._view.permuted(axes)

    def close(self) -> None:
        """Give back the file."""
        self._view.close()
