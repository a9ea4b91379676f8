"""Limits, and what they make of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.text import Message, say

__all__ = ["FAILING", "OUTCOMES", "Finding", "Limit", "Limits", "Verdict"]

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
