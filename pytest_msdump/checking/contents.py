"""What one tensor holds, as far as checks ask, in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.metrics.definitions import unravel
from pytest_msdump.metrics.moments import EMPTY, Moments, moments
from pytest_msdump.metrics.values import Array, Doubles, Workspace, components, magnitudes, numbers

if TYPE_CHECKING:
    from pytest_msdump.model.statistics import Statistic
    from pytest_msdump.model.tensor import TensorView

__all__ = ["Contents", "contents", "contents_of_statistics"]


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
class _Tally:
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
    tally = _Tally(ranges, [0] * len(ranges))
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
        By ids of `facts.statistics.STATISTICS`.
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
