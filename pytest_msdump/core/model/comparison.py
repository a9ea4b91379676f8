"""Numbers of one pair, the limits it is judged by, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_msdump.core.facts.metrics import DIGITS, METRICS, STATISTICS
from pytest_msdump.core.model.tensor import Statistic, Statistics, TensorRef
from pytest_msdump.core.text import Message, say

__all__ = [
    "FAILING",
    "OUTCOMES",
    "Comparison",
    "CustomResult",
    "Dominated",
    "Finding",
    "GoldenErrors",
    "Limit",
    "Limits",
    "Measurement",
    "Nonfinite",
    "Scalar",
    "ThreeWay",
    "Verdict",
    "WorstElement",
]

# An element as a report prints it: exact integers stay integers, complex numbers are (real, imaginary).
Scalar = bool | int | float | complex


@dataclass(slots=True)
class Measurement:
    """One metric's number, or why it has none, as the end of a sentence: "all elements of the left side are 0".

    Exact integers are `int`; `standard_deviation` holds (mean left, deviation left, mean right, deviation right). A
    metric that does not apply (cosine of a one-element tensor) has its limit skipped. `where` is the logical index of
    the element that made a maximum; for counts, of the first one; of `worst_slice_error` the number of the slice.
    """

    metric: str
    value: float | int | tuple[float, ...] | None = None
    undefined: Message | None = None
    applies: bool = True
    where: tuple[int, ...] | None = None


class Nonfinite(NamedTuple):
    """How many elements are NaN or Inf, and on which side.

    `nan_both` and `inf_both` count positions that hold the same class on both sides (Inf of the same sign);
    `nan_left` a NaN on the left where the right has none, and so on: +Inf against −Inf counts in `inf_left` and
    `inf_right`. `mismatch` counts the positions where the classes differ, each once; `first_mismatch` is the index of
    the first. `saturated` counts finite left elements at their dtype's maximum where the right is finite and different.
    """

    nan_both: int = 0
    nan_left: int = 0
    nan_right: int = 0
    inf_both: int = 0
    inf_left: int = 0
    inf_right: int = 0
    saturated: int = 0
    mismatch: int = 0
    first_mismatch: tuple[int, ...] | None = None
    first_nonfinite: tuple[int, ...] | None = None


class WorstElement(NamedTuple):
    """An element that differs: its logical index, both values, and ``|l − r| / (atol + rtol·|r|)``."""

    # Hides the method of tuples.
    index: tuple[int, ...]  # type: ignore[assignment]
    left: Scalar
    right: Scalar
    ratio: float


class GoldenErrors(NamedTuple):
    """How far one run is from golden.

    `finite` positions are finite on both sides; `rmse` is over these. The others are msprobe's: `normal_rmse` and the
    relative errors are of values that are not small (see `facts.profiles.DualBenchmark`), `small_value_share` is the
    share of small ones that err, and `error_balance` how many more elements are above golden than below, or the other
    way round, as a share of all; ``None`` of complex numbers.
    """

    finite: int
    rmse: float
    normal_rmse: float
    max_relative_error: float
    mean_relative_error: float
    small_value_share: float
    error_balance: float | None


class ThreeWay(NamedTuple):
    """The errors of the left run, and of another run, against golden; their ratios are metrics.

    `golden` is ``"golden"`` or ``"right"``, `other_run` ``"right"`` or ``"third"``.
    """

    golden: str
    other_run: str
    left: GoldenErrors
    other: GoldenErrors


class Dominated(NamedTuple):
    """A tensor some elements of which are larger than all others by orders of magnitude, such as a mask of −1e9.

    `elements` dominate, the largest of them `near`: on both sides their magnitudes are no less than those `above`.
    `measurements` are of the others alone, by metric; empty where these are not judged apart, which `code` says: it is
    that of the note, see `limits.judge`.
    """

    code: str
    elements: int
    near: float
    above: tuple[float, float]
    measurements: Mapping[str, Measurement]

    @property
    def values(self) -> dict[str, float | int | tuple[float, ...]]:
        """The number of each metric that has one."""
        return {name: one.value for name, one in self.measurements.items() if one.value is not None}


class CustomResult(NamedTuple):
    """The two texts that a user's own algorithm returned; they take no part in the verdict."""

    value: str
    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All numbers of one pair.

    The finite metrics are taken over the `finite` positions, where both sides are; 0 that are `differing`, by their
    values or NaN/Inf classes, means `equal`. `right_zero_mismatch` counts positions with right = 0 ≠ left, left out of
    the relative errors, without those of `near_zero`: one side is 0 and the other at most two units of the coarser
    type's smallest number above 0. The tolerance is the one of `worst` and the metric `allclose`. `total_elements` is
    how many each side has, when only the first `elements` of them were looked at; with `sampled` a side is a sample, of
    an unknown number where that is ``None``. `coarser` is of each side the coarser type that holds all of its values,
    see `metrics.coarser`, which a remark says. `three_way` is set where a golden or a third tensor was measured.
    `dominated` is set where a few elements are far larger than all others.
    """

    elements: int
    finite: int
    differing: int
    right_zero_mismatch: int
    measurements: Mapping[str, Measurement]
    nonfinite: Nonfinite
    worst: tuple[WorstElement, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    absolute_error_sum: float | int | None = None
    vendor: Mapping[str, float] = field(default_factory=dict)
    total_elements: int | None = None
    sampled: bool = False
    near_zero: int = 0
    coarser: tuple[str | None, str | None] = (None, None)
    three_way: ThreeWay | None = None
    dominated: tuple[Dominated, ...] = ()

    def judged(self, metric: str) -> tuple[Measurement | None, Dominated | None]:
        """Return what the limits of a metric are held to: of a dominated tensor the worst of the whole and the others.

        With it comes what dominates, where the number is of the others alone.
        """
        worst, apart = self.measurements.get(metric), None
        for one in self.dominated:
            others = one.measurements.get(metric)
            if worst is not None and others is not None and others.applies and _is_worse(others, worst):
                worst, apart = others, one
        return worst, apart

    @property
    def equal(self) -> bool:
        """Whether every position holds the same value or the same NaN/Inf class. True of empty pairs."""
        return self.differing == 0

    @property
    def values(self) -> dict[str, float | int | tuple[float, ...]]:
        """The number of each metric that has one."""
        return {name: one.value for name, one in self.measurements.items() if one.value is not None}

    @property
    def undefined(self) -> dict[str, Message | None]:
        """Why each of the other metrics that apply has no number."""
        return {
            name: one.undefined
            for name, one in self.measurements.items()
            if one.applies and (one.value is None or one.undefined is not None)
        }

    @property
    def not_applicable(self) -> dict[str, Message | None]:
        """Why each of the metrics that do not apply does not."""
        return {name: one.undefined for name, one in self.measurements.items() if not one.applies}

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """The index of the element that made a metric's number."""
        return {name: one.where for name, one in self.measurements.items() if one.where is not None}


def _is_worse(one: Measurement, other: Measurement) -> bool:
    """Whether one says less good of the same pair: no number is the worst."""
    if one.value is None or other.value is None or isinstance(one.value, tuple) or isinstance(other.value, tuple):
        return one.value is None and other.value is not None
    return one.value < other.value if METRICS[one.metric].direction == "high" else one.value > other.value


# From harmless to worst: the verdict of a pair is the worst of its findings. `not_run` is never a finding.
OUTCOMES = ("pass", "warn", "fail", "undefined", "error")
# The verdicts that fail a test item (INTERFACE 9).
FAILING = ("fail", "undefined", "error")


class Limit(NamedTuple):
    """A bound of one metric; `level` is "fail" or "warn", `rule` is what set it.

    `base` is what rounding alone does to this tensor in this metric, where a limits file knows.
    """

    metric: str
    bound: float
    rule: str
    level: str = "fail"
    base: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that a pair is judged by, resolved before it is measured; each ``…_rule`` is the rule that says so.

    `limits` has at most one "fail" and one "warn" limit for each metric; `by_metric` has them in the order of
    `facts.metrics`. `nan` is "match" or "forbid". With `dtype_equal` differing dtypes fail by themselves, and so does
    every remark on a file (profile `bitwise`). The tolerance is for `allclose` and the ranking of the worst elements.
    `judged_as` is the coarser side's dtype, which the profile's row was chosen by; with `dtype_hint` a side whose
    values are all of a coarser type was taken for that type. `notes` are shown with any verdict, e.g. that a known
    drift has expired. `known_drift` is the reason of this pair's: within its limits, but beyond the normal ones, which
    are `strict`, is `warn`. `complex` is "error", or "allow" where a real side may be compared with a complex one.
    `without` are metrics that are not measured, `slice_axis` is the axis of `worst_slice_error`. `uncompared` are
    further occurrences of the pair's tensor, left and right, without a partner: a warning unless `repeats_rule` makes
    them fail. `usual` are the profile's limits that do not hold here, since a permission is in their place.
    `marks` are keys of capabilities in rules that match: their value, and the rule.
    """

    limits: tuple[Limit, ...] = ()
    nan: str = "match"
    nan_rule: str = ""
    dtype_equal: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    judged_as: str = "float32"
    notes: tuple[Message, ...] = ()
    known_drift: str | None = None
    strict: tuple[Limit, ...] = ()
    dtype_rule: str = ""
    complex: str = "error"
    dtype_hint: bool = False
    without: tuple[tuple[str, str], ...] = ()
    repeats_rule: str = ""
    uncompared: tuple[int, int] = (0, 0)
    slice_axis: int | None = None
    usual: tuple[Limit, ...] = ()
    marks: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    # Made once for all pairs that share these limits.
    by_metric: Mapping[str, tuple[Limit, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        levels: dict[str, tuple[Limit, ...]] = {}
        for limit in self.limits:
            levels[limit.metric] = (*levels.get(limit.metric, ()), limit)
        object.__setattr__(self, "by_metric", {name: levels[name] for name in METRICS if name in levels})


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a pair. `outcome` is one of OUTCOMES, or "note" for information."""

    outcome: str
    message: Message
    metric: str | None = None
    value: float | int | None = None
    limit: float | None = None
    rule: str | None = None

    @property
    def sentence(self) -> str:
        """The message in English."""
        return say(self.message)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one pair: the worst outcome of its findings, and the limits that it would have passed."""

    outcome: str
    findings: tuple[Finding, ...] = ()
    would_pass: Mapping[str, float] = field(default_factory=dict)

    @property
    def accepted_bounds(self) -> Mapping[str, float]:
        """The limits of a known drift that lets a pair pass; empty where it fails for another reason."""
        failing = [finding for finding in self.findings if finding.outcome in FAILING]
        # A suite file cannot limit the count of elements outside rtol/atol.
        curable = self.would_pass.keys() - {"allclose"}
        return self.would_pass if all(finding.metric in curable for finding in failing) else {}


# Statistics that a run saved of a tensor, and comparisons by them.


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


class StatisticDifference(NamedTuple):
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
