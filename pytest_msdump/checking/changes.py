"""How a weight changed from one iteration to the next, in one pass over both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.metrics.moments import EMPTY, Moments, moments
from pytest_msdump.metrics.values import Array, Doubles, Workspace, components, differences, magnitudes, numbers

if TYPE_CHECKING:
    from pytest_msdump.model.tensor import TensorView

__all__ = ["Change", "change"]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a tensor.

    Parameters
    ----------
    elements : int
        Of either side.
    moved : int
        Elements that are farther from what they were than the tolerance.
    largest : float
        Largest change of an element that is finite on both sides.
    mean_change, mean_before : float, optional
        Mean of |current − previous| and of |previous|, over the elements that are finite on both sides. ``None``
        without any.
    """

    elements: int
    moved: int
    largest: float
    mean_change: float | None
    mean_before: float | None

    def ratio(self, epsilon: float) -> float | None:
        """Return the mean change over the mean magnitude; `epsilon` is added to the latter, which may be 0."""
        if self.mean_change is None or self.mean_before is None:
            return None
        below = self.mean_before + epsilon
        if below == 0.0:
            return 0.0 if self.mean_change == 0.0 else float("inf")
        return self.mean_change / below


@dataclass(slots=True)
class _Tally:
    rtol: float
    atol: float
    equal_nan: bool
    moved: int = 0
    changes: Moments = EMPTY
    before: Moments = EMPTY

    def add(self, current: Array, previous: Array, workspace: Workspace) -> None:
        """Take in one block of each."""
        current, previous = numbers(current), numbers(previous)
        finite = np.isfinite(current) & np.isfinite(previous)
        if not finite.all():
            self.moved += int(np.count_nonzero(~finite & ~self._same_class(current, previous)))
            current, previous = current[finite], previous[finite]
        if not current.size:
            return
        parts = components(current, "left", workspace), components(previous, "right", workspace)
        # `differences` overwrites the left parts alone.
        apart = differences(current, previous, parts).doubles
        before = np.abs(parts[1][0]) if len(parts[1]) == 1 else magnitudes(parts[1])
        self.moved += int(np.count_nonzero(~(apart <= self.atol + self.rtol * before)))
        self.before = self.before.merge(_moments(before))
        self.changes = self.changes.merge(_moments(apart))

    def _same_class(self, current: Array, previous: Array) -> Array:
        same: Array = current == previous
        if self.equal_nan:
            same = same | (np.isnan(current) & np.isnan(previous))
        return same


def change(
    current: TensorView,
    previous: TensorView,
    *,
    rtol: float,
    atol: float,
    equal_nan: bool = False,
    block_elements: int = 131072,
) -> Change:
    """Compare a tensor with what it was.

    Parameters
    ----------
    current, previous : TensorView
        Of equal shapes.
    rtol, atol : float
        An element has not moved while |current − previous| <= atol + rtol · |previous|. An infinity has not moved when
        it is the same one.
    equal_nan : bool
        Whether a NaN that was NaN has not moved.
    block_elements : int
        How many elements of each are held at a time.

    Raises
    ------
    TensorShapeError
        The shapes differ.
    """
    if current.shape != previous.shape:
        raise TensorShapeError(f"its shape is {current.shape} and was {previous.shape}; weights keep their shape")
    tally, workspace = _Tally(rtol, atol, equal_nan), Workspace()
    with np.errstate(all="ignore"):
        for start in range(0, current.size, block_elements):
            stop = min(start + block_elements, current.size)
            # A copy: both may be read into one buffer when they are one file.
            tally.add(current.read(start, stop).copy(), previous.read(start, stop), workspace)
    any_finite = bool(tally.changes.elements)
    return Change(
        elements=current.size,
        moved=tally.moved,
        largest=tally.changes.peak,
        mean_change=tally.changes.mean if any_finite else None,
        mean_before=tally.before.mean if any_finite else None,
    )


def _moments(values: Doubles) -> Moments:
    return moments(values, float(values.min()), float(values.max()), Workspace())
