"""An array in a device's memory format: its file has a shape, which is not the tensor's own."""

from __future__ import annotations

from dataclasses import replace

from pytest_msdump.model.forwarding import ForwardingView
from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["PaddedView"]


class PaddedView(ForwardingView):
    """A `TensorView` as it is, but for its logical shape. Without trans_flag nothing in a file tells it.

    Parameters
    ----------
    view : TensorView
        In stored axes.
    logical_shape : tuple of int, optional
        What a graph of the run tells; ``None`` where none does.
    """

    def __init__(self, view: TensorView, logical_shape: tuple[int, ...] | None = None) -> None:
        super().__init__(view)
        self._logical_shape = logical_shape

    @property
    def spec(self) -> TensorSpec:
        """What the file holds, and the logical shape that was told."""
        return replace(self._view.spec, logical_shape=self._logical_shape)

    def permuted(self, axes: tuple[int, ...]) -> PaddedView:
        """Return this tensor with its stored axes in another order."""
        return PaddedView(self._view.permuted(axes), self._logical_shape)
