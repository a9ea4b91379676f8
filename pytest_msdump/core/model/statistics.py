"""Statistics that a run saved of a tensor, and comparisons by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_msdump.core.facts.metrics import DIGITS, STATISTICS
from pytest_msdump.core.model.tensor import Statistic, Statistics, TensorRef
from pytest_msdump.core.text import Message


class Interval(NamedTuple):
    """A number that was estimated, and the interval that it is in."""

    value: float
    low: float
    high: float


class SliceGap(NamedTuple):
    """What norms of slices say: `worst_slice_error` is at least so much, by those of the slices `first` to `last`."""

    at_least: float
    first: int
    last: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class StatisticComparison:
    """How a pair was judged where a tensor was not saved, of the side or sides `unseen`.

    `compared` are ids of the statistics that both sides have. `at_least` is by metric the least that it can be, or is
    taken to be, by these (see `limits.statistics`); `intervals` is by metric what sketches say. `equal_bits` says
    whether digests of the bytes are equal, ``None`` where there are none. `note` is how the two came to be comparable.
    """

    left: Statistics
    right: Statistics
    unseen: tuple[str, ...]
    compared: tuple[str, ...] = ()
    at_least: Mapping[str, float | int] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    equal_bits: bool | None = None
    elements: int | None = None
    note: Message | None = None


@dataclass(frozen=True, slots=True)
class StatisticDifference:
    """A tensor that is not the one that its run computed statistics of; `ref.statistics.source` is the table.

    `what` is an id of `facts.metrics.STATISTICS`, ``"shape"``, ``"data type"``, ``"data size"`` (bytes), or
    ``"tensor"`` for one that cannot be read, because of `problem`.
    """

    ref: TensorRef
    what: str
    saved: Statistic
    computed: Statistic
    problem: str = ""

    @property
    def sentence(self) -> str:
        """The difference in words, with the tensor and the table's line."""
        if self.problem:
            return f"{self.ref.key.address}: {self.problem}"
        table = self.ref.statistics.source if self.ref.statistics else None
        where = f"{table.path.name} line {table.part}" if table else "the table"
        known = STATISTICS.get(self.what)
        what = known.columns[0].removesuffix(" value") if known else self.what
        return f"{self.ref.key.address}: {what} is {self.saved} in {where}, but {self.computed} in the tensor"


def is_printed_as(printed: Statistic, exact: Statistic, *, digits: int = DIGITS) -> bool:
    """Return whether a number, rounded to so many significant digits, is the one that a table has.

    NaN equals NaN, and ``None`` only ``None``. A number midway between two printed ones equals both.
    """
    if isinstance(printed, str) or isinstance(exact, str) or printed is None or exact is None:
        return printed == exact
    if not (math.isfinite(printed) and math.isfinite(exact)):
        return printed == exact or (math.isnan(printed) and math.isnan(exact))
    if printed == exact:
        return True
    largest = max(abs(printed), abs(exact))
    # Half a unit in the last place, and what float64 itself takes away.
    unit = 10.0 ** (math.floor(math.log10(largest)) - digits + 1)
    return abs(printed - exact) <= 0.5 * unit * (1 + 1e-9) + 4 * math.ulp(float(largest))
