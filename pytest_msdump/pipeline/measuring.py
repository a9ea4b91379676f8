"""Measure two views that have met: our metrics, a user's algorithms, and of each tensor as much as was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_msdump.metrics.measure import measure
from pytest_msdump.model.comparison import Comparison, CustomResult
from pytest_msdump.model.forwarding import ForwardingView
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.model.verdict import Limits
from pytest_msdump.pipeline.extras import Extras
from pytest_msdump.pipeline.sampling import Sampled

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["FirstElements", "measure_views"]


class FirstElements(ForwardingView):
    """The first elements of a tensor in C order, at their places in the whole one (a `model.tensor.TensorView`).

    Parameters
    ----------
    view : TensorView
        The whole tensor.
    count : int
        How many elements are to be seen.
    """

    def __init__(self, view: TensorView, count: int) -> None:
        super().__init__(view)
        self._count = count

    @property
    def size(self) -> int:
        """Number of elements that can be read."""
        return min(self._count, self._view.size)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop`, which have to be among the first."""
        return self._view.read(start, min(stop, self.size))

    def permuted(self, axes: tuple[int, ...]) -> FirstElements:
        """Return the first elements of the tensor with its axes in another order."""
        return FirstElements(self._view.permuted(axes), self._count)


def measure_views(
    left: TensorView,
    right: TensorView,
    pair: Pair,
    limits: Limits,
    extras: Extras,
    sampled: Sampled | None = None,
) -> tuple[Comparison, Mapping[str, CustomResult]]:
    """Measure two tensors of one logical shape.

    Parameters
    ----------
    left, right : TensorView
        As `memory_formats.axes.meet` returns them.
    pair : Pair
        Where they come from.
    limits : Limits
        Its element-wise tolerance is used.
    extras : Extras
        A user's algorithms, and how many elements to look at.
    sampled : Sampled, optional
        That the tensors are samples, and of how many elements.

    Returns
    -------
    comparison, custom
        `Comparison.total_elements` is set when not all elements were looked at.
    """
    total = left.size
    is_part = extras.first is not None and extras.first < total
    if extras.first is not None and is_part:
        left, right = FirstElements(left, extras.first), FirstElements(right, extras.first)
    comparison = measure(left, right, rtol=limits.rtol, atol=limits.atol, without=dict(limits.without))
    custom = _custom(left, right, pair, extras)
    if sampled is not None:
        return replace(comparison, total_elements=sampled.total, sampled=True), custom
    return (replace(comparison, total_elements=total) if is_part else comparison), custom


def _custom(left: TensorView, right: TensorView, pair: Pair, extras: Extras) -> Mapping[str, CustomResult]:
    """What a user's own algorithms make of the pair."""
    if not extras.algorithms:
        return {}
    from pytest_msdump.metrics.custom import run_algorithms

    files = (pair.left.source.path, pair.right.source.path)
    return run_algorithms(extras.algorithms, left, right, files=files, arguments=extras.arguments)
