"""What one tensor holds, as far as checks ask, in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.metrics.definitions import unravel
from pytest_msdump.metrics.sums import EMPTY, Moments, moments
from pytest_msdump.metrics.values import Array, Doubles, Workspace, components, differences, magnitudes, numbers

if TYPE_CHECKING:
    from pytest_msdump.model.statistics import Statistic
    from pytest_msdump.model.tensor import TensorView

__all__ = ["Change", "Contents", "Histogram", "change", "contents", "contents_of_statistics", "histogram"]


@dataclass(frozen=True, slots=True)
class Contents:
    """Counts and statistics of one tensor.

    Parameters
    ----------
    elements, nan, inf, zero : int
        Counts; a complex number is NaN if either part is, else Inf if either part is.
    first : tuple of int, optional
        Logical index of the first element that is NaN or Inf.
    minimum, maximum, mean, abs_mean : float, optional
        Of the finite elements, of their moduli where they are complex. ``None`` without any.
    within : tuple of int, optional
        How many elements each of the ranges that were asked for holds, both ends included. As `zero`, ``None`` where
        the tensor itself was not seen and nobody counted.
    dtype : str
        Logical type, a name from `facts.dtypes`.
    """

    elements: int
    nan: int
    inf: int
    zero: int | None
    first: tuple[int, ...] | None
    minimum: float | None
    maximum: float | None
    mean: float | None
    abs_mean: float | None
    within: tuple[int, ...] | None
    dtype: str


@dataclass(slots=True)
class _ContentsTally:
    ranges: Sequence[tuple[float, float]]
    within: list[int]
    nan: int = 0
    inf: int = 0
    zero: int = 0
    first: int | None = None
    values: Moments = EMPTY
    magnitudes: Moments = EMPTY
    workspace: Workspace = field(default_factory=Workspace)

    def add(self, block: Array, start: int) -> None:
        """Take in the elements from `start` on."""
        parts = components(numbers(block), "left", self.workspace)
        if not all(np.isfinite(part).all() for part in parts):
            parts = self._without_nonfinite(parts, start)
        if not parts[0].size:
            return
        values = magnitudes(parts) if len(parts) > 1 else parts[0]
        self.zero += int(np.count_nonzero(values == 0.0))
        for place, (low, high) in enumerate(self.ranges):
            self.within[place] += int(np.count_nonzero((values >= low) & (values <= high)))
        self.values = self.values.merge(_moments(values, self.workspace))
        self.magnitudes = self.magnitudes.merge(_moments(np.abs(values), self.workspace))

    def _without_nonfinite(self, parts: tuple[Doubles, ...], start: int) -> tuple[Doubles, ...]:
        nan = np.isnan(parts).any(axis=0)
        bad = nan | np.isinf(parts).any(axis=0)
        self.nan += int(np.count_nonzero(nan))
        self.inf += int(np.count_nonzero(bad & ~nan))
        if self.first is None:
            self.first = start + int(bad.argmax())
        return tuple(part[~bad] for part in parts)


def contents(view: TensorView, *, ranges: Sequence[tuple[float, float]] = (), block_elements: int = 131072) -> Contents:
    """Look through one tensor.

    Parameters
    ----------
    view : TensorView
        The tensor.
    ranges : sequence of (float, float)
        First and last value of each range to count the elements of.
    block_elements : int
        How many elements are held at a time.

    Raises
    ------
    ValueError
        `block_elements` is below 1.
    """
    if block_elements < 1:
        raise ValueError(f"block_elements is {block_elements}; it has to be at least 1")
    tally = _ContentsTally(ranges, [0] * len(ranges))
    with np.errstate(all="ignore"):
        for start in range(0, view.size, block_elements):
            tally.add(view.read(start, min(start + block_elements, view.size)), start)
    values, any_finite = tally.values, bool(tally.values.elements)
    return Contents(
        elements=view.size,
        nan=tally.nan,
        inf=tally.inf,
        zero=tally.zero,
        first=None if tally.first is None else unravel(tally.first, view.shape),
        minimum=values.minimum if any_finite else None,
        maximum=values.maximum if any_finite else None,
        mean=values.mean if any_finite else None,
        abs_mean=tally.magnitudes.mean if any_finite else None,
        within=tuple(tally.within),
        dtype=view.dtype,
    )


def contents_of_statistics(values: Mapping[str, Statistic], *, elements: int | None, dtype: str) -> Contents | None:
    """Tell what a tensor held by the statistics that a run saved of it.

    Parameters
    ----------
    values : mapping of str to number, str or None
        By ids of `facts.metrics.STATISTICS`.
    elements : int, optional
        By the shape, where the statistics have no count.
    dtype : str
        Logical type.

    Returns
    -------
    Contents or None
        ``None`` when not even the number of elements is known. A norm that is NaN or infinite stands for one element
        where the run did not count them.
    """
    known = {name: value for name, value in values.items() if isinstance(value, int | float)}
    count = known.get("count", elements)
    if count is None:
        return None
    nan = known.get("nan_count", 0)
    inf = known.get("negative_inf_count", 0) + known.get("positive_inf_count", 0)
    norm = known.get("l2_norm", 0.0)
    if not (nan or inf) and not math.isfinite(norm):
        nan, inf = int(math.isnan(norm)), int(math.isinf(norm))
    low, high = known.get("minimum"), known.get("maximum")
    zero = known.get("zero_count")
    if zero is None and low == high == 0:
        zero = count - nan - inf
    return Contents(
        elements=int(count),
        nan=int(nan),
        inf=int(inf),
        zero=None if zero is None else int(zero),
        first=None,
        minimum=low,
        maximum=high,
        mean=known.get("mean"),
        abs_mean=None,
        within=None,
        dtype=dtype,
    )


def _moments(values: Doubles, workspace: Workspace) -> Moments:
    return moments(values, float(values.min()), float(values.max()), workspace)


# -- How a weight changed from one iteration to the next, in one pass over both --------------------------------------


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
class _ChangeTally:
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
        self.before = self.before.merge(_change_moments(before))
        self.changes = self.changes.merge(_change_moments(apart))

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
    tally, workspace = _ChangeTally(rtol, atol, equal_nan), Workspace()
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


def _change_moments(values: Doubles) -> Moments:
    return moments(values, float(values.min()), float(values.max()), Workspace())


# -- How the values of one tensor are spread, for people to see ------------------------------------------------------


# Up to here float64 has every one of them.
_WHOLE_NUMBERS = 2**53


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of finite elements: `counts[i]` lie from `edges[i]` up to `edges[i + 1]`, the last ones including it.

    `is_each` says that each bin holds the integer at its lower edge, and nothing else.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    is_each: bool = False


def histogram(
    view: TensorView,
    minimum: float,
    maximum: float,
    *,
    bins: int = 10,
    whole: bool = False,
    block_elements: int = 131072,
) -> Histogram:
    """Count the elements of a real tensor in bins of equal width.

    Parameters
    ----------
    view : TensorView
        The tensor; NaN and infinities are left out.
    minimum, maximum : float
        Range of its finite elements. When both are one value there is one bin.
    bins : int
        How many.
    whole : bool
        Whether all elements are whole numbers: where the range has no more of these than bins, each has its own.
    block_elements : int
        How many elements are held at a time.

    Raises
    ------
    ValueError
        `bins` is below 1.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; it has to be at least 1")
    is_each = whole and 0 < maximum - minimum < bins and max(abs(minimum), abs(maximum)) < _WHOLE_NUMBERS
    if is_each:
        bins, maximum = int(maximum - minimum) + 1, maximum + 1
    bins = bins if minimum < maximum else 1
    # A range that float64 cannot hold the width of is looked at from farther away.
    factor = 0.25 if math.isinf(maximum - minimum) else 1.0
    low, high = minimum * factor, maximum * factor
    edges = np.linspace(low, high, bins + 1)
    given: int | Doubles = bins
    if bins > 1 and not (np.diff(edges) > 0).all():
        # Between neighbours of float64 there is no room for as many; numpy refuses edges that are one number.
        given = edges = np.unique(edges)
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    workspace = Workspace()
    for start in range(0, view.size, block_elements):
        block = numbers(view.read(start, min(start + block_elements, view.size)))
        (values,) = components(block, "left", workspace)
        values = values[np.isfinite(values)] * factor
        counts += np.histogram(values, given, (low, high))[0] if len(counts) > 1 else values.size
    return Histogram(tuple(map(float, edges / factor)), tuple(map(int, counts)), is_each)
