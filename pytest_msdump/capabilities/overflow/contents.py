"""Numbers of one tensor for the checks of a dump, each in one pass of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_msdump.capabilities.statistics.tensor_statistics import Tally
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.definitions import unravel
from pytest_msdump.core.metrics.pointwise import first_of, first_place
from pytest_msdump.core.metrics.sums import EMPTY, Moments, moments
from pytest_msdump.core.metrics.values import Doubles, Workspace, components, differences, magnitudes, numbers
from pytest_msdump.core.model.comparison import is_printed_as
from pytest_msdump.core.model.tensor import Statistic, TensorView
from pytest_msdump.core.text import Message, Parameter

# Up to here float64 has every integer.
_WHOLE_NUMBERS = 2**53


@dataclass(frozen=True, slots=True)
class Contents:
    """Counts and statistics of one tensor."""

    elements: int
    nan: int
    inf: int
    saturated: int
    zero: int | None
    first: tuple[int, ...] | None
    first_nonfinite: tuple[int, ...] | None
    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    abs_mean: float | None
    within: tuple[int, ...] | None
    dtype: str

    @property
    def overflows(self) -> bool:
        """Whether any element is NaN, Inf or saturated."""
        return bool(self.nan or self.inf or self.saturated)

    @property
    def overflow(self) -> Message:
        """How many elements are NaN, Inf or saturated, and the place of the first one."""
        kinds: list[Parameter] = [
            Message("of_kind", {"n": n, "kind": kind}) for kind, n in (("NaN", self.nan), ("Inf", self.inf)) if n
        ]
        if self.saturated:
            kinds.append(Message("at_maximum", {"n": self.saturated}))
        is_saved = self.first is not None
        place = Message("first_place", {"place": self.first}) if is_saved else Message("tensor_not_saved")
        return Message("overflow_of", {"counts": tuple(kinds), "n": self.elements, "place": place})


def contents(
    view: TensorView, *, ranges: Sequence[tuple[float, float]] | None = (), block_elements: int = 131072
) -> Contents:
    """Look through one tensor; `ranges` are first and last value of each range to count the elements of."""
    if block_elements < 1:
        raise ValueError(f"block_elements is {block_elements}; it has to be at least 1")
    largest, workspace, tally = DTYPES[view.dtype].maximum, Workspace(), Tally()
    nan = inf = saturated = 0
    first = first_nonfinite = None
    within, absolute = [0] * len(ranges or ()), EMPTY
    with np.errstate(all="ignore"):
        for start in range(0, view.size, block_elements):
            values = numbers(view.read(start, min(start + block_elements, view.size)))
            parts = components(values, "left", workspace) if largest is not None else ()
            # A largest part below the dtype's maximum shows in one comparison that there is nothing to count.
            if not all(float(np.abs(part).max()) < largest for part in parts if largest is not None):
                is_nan = np.isnan(parts).any(axis=0)
                is_inf = np.isinf(parts).any(axis=0) & ~is_nan
                is_full = (np.abs(parts) == largest).any(axis=0) & ~is_nan & ~is_inf
                counts = (int(np.count_nonzero(mask)) for mask in (is_nan, is_inf, is_full))
                nan, inf, saturated = (a + b for a, b in zip((nan, inf, saturated), counts, strict=True))
                first = first_of(first, first_place(is_nan | is_inf | is_full, start))
                first_nonfinite = first_of(first_nonfinite, first_place(np.asarray(is_nan | is_inf), start))
            if len(parts) > 1:
                values = magnitudes(parts)
            tally.add(values)
            if ranges is not None:
                finite = values[np.isfinite(values)].astype(np.float64)
                for place, (low, high) in enumerate(ranges):
                    within[place] += int(np.count_nonzero((finite >= low) & (finite <= high)))
                absolute = absolute.merge(_moments(np.abs(finite), workspace)) if finite.size else absolute
    return Contents(
        view.size,
        nan,
        inf,
        saturated,
        tally.zero,
        None if first is None else unravel(first, view.shape),
        None if first_nonfinite is None else unravel(first_nonfinite, view.shape),
        minimum=tally.minimum,
        maximum=tally.maximum,
        mean=tally.finite.mean if tally.finite.elements else None,
        abs_mean=absolute.mean if absolute.elements else None,
        within=None if ranges is None else tuple(within),
        dtype=view.dtype,
    )


def _moments(values: Doubles, workspace: Workspace) -> Moments:
    return moments(values, float(values.min()), float(values.max()), workspace)


def contents_of_statistics(
    values: Mapping[str, Statistic], *, elements: int | None, dtype: str, digits: int | None = None
) -> Contents | None:
    """Return the contents of a tensor by its saved statistics; ``None`` if neither they nor the shape have its size."""
    known = {name: value for name, value in values.items() if isinstance(value, int | float)}
    count = known.get("count", elements)
    if count is None:
        return None
    nan = int(known.get("nan_count", 0))
    inf = int(known.get("negative_inf_count", 0) + known.get("positive_inf_count", 0))
    norm = known.get("l2_norm", 0.0)
    if not (nan or inf) and not math.isfinite(norm):
        nan, inf = int(math.isnan(norm)), int(math.isinf(norm))
    low, high, zero = known.get("minimum"), known.get("maximum"), known.get("zero_count")
    if zero is None and low == high == 0:
        zero = count - nan - inf
    largest = DTYPES[dtype].maximum if dtype in DTYPES else None
    extremes = [abs(one) for one in (low, high) if one is not None and largest is not None]
    return Contents(
        elements=int(count),
        nan=nan,
        inf=inf,
        saturated=sum(is_printed_as(one, largest or 0.0, digits=digits or 17) for one in extremes),
        zero=None if zero is None else int(zero),
        first=None,
        first_nonfinite=None,
        minimum=low,
        maximum=high,
        mean=known.get("mean"),
        abs_mean=None,
        within=None,
        dtype=dtype,
    )


@dataclass(frozen=True, slots=True)
class Change:
    """How a weight changed from one iteration to the next."""

    elements: int
    moved: int
    largest: float
    mean_change: float | None
    mean_before: float | None

    def ratio(self, epsilon: float) -> float | None:
        """Return the mean change over the mean magnitude plus `epsilon`, since the latter may be 0."""
        if self.mean_change is None or self.mean_before is None:
            return None
        below = self.mean_before + epsilon
        if below == 0.0:
            return 0.0 if self.mean_change == 0.0 else float("inf")
        return self.mean_change / below


def change(
    current: TensorView,
    previous: TensorView,
    *,
    rtol: float,
    atol: float,
    equal_nan: bool = False,
    block_elements: int = 131072,
) -> Change:
    """Compare a tensor with its value before; the shapes must be equal."""
    if current.shape != previous.shape:
        raise TensorShapeError(f"its shape is {current.shape} and was {previous.shape}; weights keep their shape")
    moved, changes, before = 0, EMPTY, EMPTY
    workspace = Workspace()
    with np.errstate(all="ignore"):
        for start in range(0, current.size, block_elements):
            stop = min(start + block_elements, current.size)
            # A copy: both may be read into one buffer when they are one file.
            now, then = numbers(current.read(start, stop).copy()), numbers(previous.read(start, stop))
            finite = np.isfinite(now) & np.isfinite(then)
            if not finite.all():
                same = now == then
                if equal_nan:
                    same = same | (np.isnan(now) & np.isnan(then))
                moved += int(np.count_nonzero(~finite & ~same))
                now, then = now[finite], then[finite]
            if not now.size:
                continue
            parts = components(now, "left", workspace), components(then, "right", workspace)
            # `differences` overwrites the left parts alone.
            apart = differences(now, then, parts).doubles
            size = np.abs(parts[1][0]) if len(parts[1]) == 1 else magnitudes(parts[1])
            moved += int(np.count_nonzero(~(apart <= atol + rtol * size)))
            before = before.merge(_moments(size, Workspace()))
            changes = changes.merge(_moments(apart, Workspace()))
    return Change(
        elements=current.size,
        moved=moved,
        largest=changes.peak,
        mean_change=changes.mean if changes.elements else None,
        mean_before=before.mean if changes.elements else None,
    )


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of finite elements from `edges[i]` to `edges[i + 1]`; if `is_each`, of the lower integer alone."""

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
    """Count the finite elements of a real tensor in bins of equal width from `minimum` to `maximum`."""
    if bins < 1:
        raise ValueError(f"bins is {bins}; it has to be at least 1")
    is_each = whole and 0 < maximum - minimum < bins and max(abs(minimum), abs(maximum)) < _WHOLE_NUMBERS
    if is_each:
        bins, maximum = int(maximum - minimum) + 1, maximum + 1
    bins = bins if minimum < maximum else 1
    # A range whose width float64 cannot hold is scaled down.
    factor = 0.25 if math.isinf(maximum - minimum) else 1.0
    low, high = minimum * factor, maximum * factor
    edges = np.linspace(low, high, bins + 1)
    given: int | Doubles = bins
    if bins > 1 and not (np.diff(edges) > 0).all():
        # Between neighbours of float64 there is no room for as many; numpy refuses edges that are one number.
        given = edges = np.unique(edges)
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    workspace = Workspace()
    for block in view.blocks(block_elements):
        (values,) = components(numbers(block), "left", workspace)
        values = values[np.isfinite(values)] * factor
        counts += np.histogram(values, given, (low, high))[0] if len(counts) > 1 else values.size
    return Histogram(tuple(map(float, edges / factor)), tuple(map(int, counts)), is_each)
