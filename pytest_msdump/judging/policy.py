"""What a user says about limits: a profile, ordered rules, accepted drifts, thresholds. Pure data, refused when absurd.

All that can be wrong with a policy is said when it is made, so that nothing is left to be found out while comparing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.facts.profiles import PROFILES
from pytest_msdump.judging.bounds import Bounds, checked_bounds, checked_tolerance, metric_id
from pytest_msdump.model.verdict import Limits
from pytest_msdump.text import bound_text

if TYPE_CHECKING:
    import datetime

__all__ = ["Bounds", "KnownDrift", "Policy", "Rule", "metric_id", "profile_names"]

_NAN = ("match", "forbid")


def profile_names() -> tuple[str, ...]:
    """Return the names of all profiles, `default` first."""
    return tuple(PROFILES)


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits for the pairs that it matches. Of several rules, for each metric the last that matches wins.

    Parameters
    ----------
    bounds : mapping of str to (float or None, float or None)
        Metric (id or short form; kept as id) → (fails beyond, warns beyond).
    match : str
        Glob, see `judging.resolve.resolve`.
    op_type : tuple of str
        The left or the right operator's type must be one of these; empty = any.
    dtype : str, optional
        The coarser side's data type; a complex type or that of its component.
    rtol, atol : float, optional
        Element-wise tolerance, each by itself; ``None`` leaves it to earlier rules or torch's table.
    complex : str, optional
        "allow" or "error": whether a real side may meet a complex one; ``None`` leaves it to earlier rules.
    label : str
        Where it was written, e.g. ``msdump.toml [[msdump.rule]] #2 match="conv*"``.

    Raises
    ------
    UnknownNameError
        A metric or data type that does not exist.
    ConfigError
        A limit that nothing or everything would meet.
    """

    bounds: Bounds
    match: str = "*"
    op_type: tuple[str, ...] = ()
    dtype: str | None = None
    rtol: float | None = None
    atol: float | None = None
    complex: str | None = None
    label: str = ""

    def __post_init__(self) -> None:
        label = self.label or f'rule match="{self.match}"'
        _set(self, label=label, bounds=checked_bounds(self.bounds, where=label), dtype=_known_dtype(self.dtype, label))
        checked_tolerance("rtol", self.rtol, where=label)
        checked_tolerance("atol", self.atol, where=label)


@dataclass(frozen=True, slots=True)
class KnownDrift:
    """A drift accepted for a while, with a reason and an end.

    Parameters
    ----------
    match : str
        Glob, as in `Rule`.
    reason : str
        Why it is accepted; told with every verdict that it made milder.
    until : datetime.date
        The last day it holds, in UTC.
    bounds : mapping of str to (float, None)
        Metric → how far it may drift; there is one level.
    label : str
        Where it was written.

    Raises
    ------
    UnknownNameError
        A metric that does not exist.
    ConfigError
        No reason, no date, no limit, two levels, or a limit that nothing or everything would meet.
    """

    match: str
    reason: str
    until: datetime.date
    bounds: Bounds
    label: str = ""

    def __post_init__(self) -> None:
        import datetime

        label = self.label or f'known drift match="{self.match}"'
        if not self.reason.strip():
            raise ConfigError(f"{label}: a known drift needs a reason; say why it is accepted")
        if isinstance(self.until, datetime.datetime) or not isinstance(self.until, datetime.date):
            raise ConfigError(f"{label}: until = {self.until!r} is no date; write e.g. until = 2027-01-31")
        bounds = checked_bounds(self.bounds, where=label)
        if not bounds:
            raise ConfigError(f"{label}: a known drift needs a limit; say how far it may drift, or remove it")
        for metric, (fail, warn) in bounds.items():
            if fail is None or warn is not None:
                raise ConfigError(f"{label}: {metric} has two levels or none that fails; a known drift takes a number")
        _set(self, label=label, bounds=bounds)

    @property
    def described(self) -> str:
        """The drift as a limit's rule: its reason and its end."""
        return f'known drift "{self.reason}" until {self.until.isoformat()}'


@dataclass(frozen=True, slots=True)
class Policy:
    """All that was said about limits, in order of increasing weight.

    Parameters
    ----------
    profile : str
        Name of a table of limits, one of `profile_names`.
    rules : tuple of Rule
        In the order written.
    known_drift : tuple of KnownDrift
        In the order written.
    thresholds : mapping of str to float
        From the command line; keys as typed, ids or short forms.
    marker : mapping of str to float
        From the test's marker; keys as typed.
    nan : str
        "match" (the same class at the same place is equal) or "forbid" (no NaN or Inf on either side).
    nan_rule : str
        Who said so.
    threshold_flag : str
        How findings call the option that `thresholds` came from.
    dtype_hint : bool
        Whether a float side whose values are all of a coarser type is judged as that type.
    without : mapping of str to str
        Metrics that are not to be measured → who said so.

    Raises
    ------
    UnknownNameError
        A profile or metric that does not exist.
    ConfigError
        Another value for `nan`, a limit that nothing or everything would meet, or one on a metric that is left out.
    """

    profile: str = "default"
    rules: tuple[Rule, ...] = ()
    known_drift: tuple[KnownDrift, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    marker: Mapping[str, float] = field(default_factory=dict)
    nan: str = "match"
    nan_rule: str = ""
    threshold_flag: str = "--msdump-threshold"
    dtype_hint: bool = False
    without: Mapping[str, str] = field(default_factory=dict)
    # What `judging.resolve` made of it, by type, day and the numbers of rules that apply; no part of what it says.
    resolved: dict[tuple[object, ...], Limits] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise UnknownNameError(f"unknown profile '{self.profile}'; {nearest(self.profile, PROFILES)}")
        if self.nan not in _NAN:
            place = f"{self.nan_rule}: " if self.nan_rule else ""
            raise ConfigError(f"{place}nan = '{self.nan}' is not known; {nearest(self.nan, _NAN)}")
        for text, bound in self.thresholds.items():
            checked_bounds({text: (bound, None)}, where=self.threshold_label(text, bound))
        for text, bound in self.marker.items():
            checked_bounds({text: (bound, None)}, where=marker_label(text, bound))
        if self.without:
            self._check_what_is_left_out()

    def threshold_label(self, text: str, bound: float) -> str:
        """Return the command line's words for one threshold."""
        return f"{self.threshold_flag} {text}={bound_text(bound)}"

    def _check_what_is_left_out(self) -> None:
        """Refuse a limit on a metric that is not measured: it could only be left unchecked, or fail everything."""
        for metric, place in self.without.items():
            for needed, remedy in self._limits_on(metric):
                raise ConfigError(f"{place}: {metric} cannot be left out, {needed} has a limit on it; {remedy}")

    def _limits_on(self, metric: str) -> Iterator[tuple[str, str]]:
        """Yield who has a limit on a metric, and what can be done."""
        for label in (
            *(marker_label(text, bound) for text, bound in self.marker.items() if metric_id(text) == metric),
            *(self.threshold_label(*one) for one in self.thresholds.items() if metric_id(one[0]) == metric),
            *(drift.label for drift in self.known_drift if metric in drift.bounds),
            *(rule.label for rule in self.rules if metric in rule.bounds),
        ):
            yield label, "remove one of the two"
        holding = [name for name, table in PROFILES.items() if any(metric in row for row in table.rows.values())]
        if self.profile in holding:
            others = [name for name in PROFILES if name not in holding]
            yield f"profile {self.profile}", f"take profile {others[0]}" if others else "every profile has: measure it"


def marker_label(text: str, bound: float) -> str:
    """Return the marker's words for one limit."""
    return f"marker msdump({text}={bound_text(bound)})"


def _known_dtype(text: str | None, where: str) -> str | None:
    """The data type under its own name."""
    if text is None:
        return None
    name = ALIASES.get(text.lower(), text.lower())
    if name not in DTYPES:
        raise UnknownNameError(f"{where}: unknown dtype '{text}'; {nearest(text, (*DTYPES, *ALIASES))}")
    return name


def _set(frozen: object, **fields: object) -> None:
    """Give a frozen value the checked form of what it was made with."""
    for name, value in fields.items():
        object.__setattr__(frozen, name, value)
