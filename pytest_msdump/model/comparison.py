"""What was measured of one pair. Numbers only, no opinion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.text import Message, say

__all__ = [
    "FAILING",
    "OUTCOMES",
    "Comparison",
    "CustomResult",
    "Finding",
    "Limit",
    "Limits",
    "Measurement",
    "Nonfinite",
    "Scalar",
    "Verdict",
    "WorstElement",
]

# An element as a report prints it: exact integers stay integers, complex numbers are (real, imaginary).
Scalar = bool | int | float | complex


class Measurement(NamedTuple):
    """One metric's number, or why it has none.

    Parameters
    ----------
    metric : str
        An id of `facts.metrics`.
    value : float, int or tuple of float, optional
        The number. `standard_deviation` holds (mean left, deviation left, mean right, deviation right).
        Exact integers are `int`. ``None`` when undefined.
    undefined : Message, optional
        Why there is no number, as the end of a sentence: "all elements of the left side are 0".
    applies : bool
        False when the metric does not apply (cosine of a one-element tensor): its limit is skipped, and that is said.
    where : tuple of int, optional
        Logical index of the element that made the number, for maxima; first position for counts.
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
    """An element that differs: its logical index, both values, and |l−r| / (atol + rtol·|r|)."""

    # Hides the method of tuples, which nobody needs here.
    index: tuple[int, ...]  # type: ignore[assignment]
    left: Scalar
    right: Scalar
    ratio: float


@dataclass(frozen=True, slots=True)
class CustomResult:
    """What a user's own algorithm returned: two texts. It has no limit and no part in the verdict."""

    value: str
    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All numbers of one pair.

    Parameters
    ----------
    elements : int
        Number of elements compared (each side has as many).
    finite : int
        Positions where both sides are finite; the finite metrics are taken over these.
    differing : int
        Positions whose values (or NaN/Inf classes) differ; 0 means `equal`.
    right_zero_mismatch : int
        Positions with right = 0 ≠ left, left out of the relative errors; those of `near_zero` are not among them.
    rtol, atol : float
        The element-wise tolerance that `worst` and the metric `allclose` were measured with.
    total_elements : int, optional
        How many elements each side has, when only the first `elements` of them were looked at.
    sampled : bool
        Whether a side is a sample; where `total_elements` is ``None``, nobody knows of how many.
    near_zero : int
        Positions where one side is 0 and the other at most two units of the coarser type's smallest number above 0:
        zeros for the relative errors.
    coarser : tuple of str or None
        Of the left and of the right: the coarser type that all of its values are of, see `metrics.spread`. In saved
        results a remark says so.
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


# -- Limits, and what they make of a comparison ----------------------------------------------------------------------


# From harmless to worst: the verdict of a pair is the worst of its findings. `not_run` is nobody's finding.
OUTCOMES = ("pass", "warn", "fail", "undefined", "error")
# The verdicts that fail a test item (INTERFACE 9).
FAILING = ("fail", "undefined", "error")


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound of one metric: `direction` as in `facts.metrics`, `level` "fail" or "warn", `rule` = who set it."""

    metric: str
    bound: float
    rule: str
    level: str = "fail"


@dataclass(frozen=True, slots=True)
class Limits:
    """All that one pair is judged by, resolved before anything is measured.

    Parameters
    ----------
    limits : tuple of Limit
        At most one "fail" and one "warn" limit for each metric.
    nan : str
        "match" or "forbid".
    nan_rule : str
        Who said so.
    dtype_equal : bool
        Whether differing dtypes fail by themselves, and so does every remark on a file (profile `bitwise`).
    dtype_rule : str
        Who said so; empty when nobody did.
    rtol, atol : float
        Element-wise tolerance for `allclose` and the ranking of the worst elements.
    judged_as : str
        The coarser side's dtype, which the profile's row was chosen by.
    notes : tuple of Message
        What to say with any verdict, e.g. that a known drift has expired.
    known_drift : str, optional
        The reason of the known drift that holds for this pair: within its limits, beyond the normal ones, is `warn`.
    strict : tuple of Limit
        The limits as they would be without the known drift; empty when none holds.
    complex : str
        "error", or "allow" where a rule says that a real side may be compared with a complex one.
    dtype_hint : bool
        Whether a side whose values are all of a coarser type was taken for that type.
    without : tuple of (str, str)
        Metrics that are not to be measured, and who said so of each.
    repeats_rule : str
        Who said that an uncompared further occurrence fails; empty where it is only a warning.
    uncompared : tuple of (int, int)
        Further occurrences of the pair's tensor, left and right, that met no partner.

    Attributes
    ----------
    by_metric : mapping of str to tuple of Limit
        `limits` by their metrics, in the order of `facts.metrics`; of each metric in the order they stand.
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
    # Worked out once for all the pairs that are judged by these.
    by_metric: Mapping[str, tuple[Limit, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        levels = {name: tuple(limit for limit in self.limits if limit.metric == name) for name in METRICS}
        object.__setattr__(self, "by_metric", {name: limits for name, limits in levels.items() if limits})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say of a pair. `outcome` is one of OUTCOMES, or "note" for what only informs."""

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
    """The opinion on one pair: the worst outcome of its findings, and the limits that would have let it pass."""

    outcome: str
    findings: tuple[Finding, ...] = ()
    would_pass: Mapping[str, float] = field(default_factory=dict)
