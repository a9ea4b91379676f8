"""Limits as a user writes them: names made whole, and refusal of those that could never, or only ever, be met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.facts.profiles import PROFILES
from pytest_msdump.model.comparison import Limits
from pytest_msdump.text import bound_text

if TYPE_CHECKING:
    import datetime

__all__ = ["Bounds", "KnownDrift", "Policy", "Rule", "metric_id", "metric_name", "profile_names"]

# Metric → (fails beyond, warns beyond); either may be absent.
Bounds = Mapping[str, tuple[float | None, float | None]]


def metric_name(text: str, *, where: str = "") -> str:
    """Return the id of any metric, also of one that takes no limit.

    Raises
    ------
    UnknownNameError
        There is no such metric; the text names the nearest.
    """
    name = SHORT_FORMS.get(text, text)
    if name not in METRICS:
        place = f"{where}: " if where else ""
        raise UnknownNameError(f"{place}unknown metric '{text}'; {nearest(text, (*METRICS, *SHORT_FORMS))}")
    return name


def metric_id(text: str, *, where: str = "") -> str:
    """Return the metric's id for an id or a short form.

    Parameters
    ----------
    text : str
        E.g. ``"cosine"`` or ``"cosine_similarity"``.
    where : str, optional
        Who wrote it, for the error's text.

    Raises
    ------
    UnknownNameError
        There is no such metric; the text names the nearest.
    ConfigError
        The metric takes no limit.

    Examples
    --------
    >>> metric_id("max_rel")
    'max_relative_error'
    """
    name = metric_name(text, where=where)
    if METRICS[name].direction == "none":
        place = f"{where}: " if where else ""
        raise ConfigError(f"{place}{text} is only reported and takes no limit; remove it")
    return name


def checked_bounds(bounds: Bounds, *, where: str) -> dict[str, tuple[float | None, float | None]]:
    """Return the bounds under the metrics' ids.

    Raises
    ------
    UnknownNameError
        A metric that does not exist.
    ConfigError
        A bound that nothing or everything would meet, levels in the wrong order, one metric named twice.
    """
    checked: dict[str, tuple[float | None, float | None]] = {}
    for text, (fail, warn) in bounds.items():
        metric = metric_id(text, where=where)
        if metric in checked:
            raise ConfigError(f"{where}: {metric} is set twice, once by its short form; keep one of them")
        for bound in (fail, warn):
            _check_bound(metric, bound, where)
        _check_levels(metric, fail, warn, where)
        checked[metric] = (fail, warn)
    return checked


def checked_tolerance(name: str, value: float | None, *, where: str) -> None:
    """Refuse an `rtol` or `atol` that is no finite number, or negative.

    Raises
    ------
    ConfigError
        As said.
    """
    if value is not None and not (_is_number(value) and 0 <= value < math.inf):
        raise ConfigError(f"{where}: {name} = {value!r} is no tolerance; give a number from 0 on, e.g. 1e-3")


def _check_bound(metric: str, bound: float | None, where: str) -> None:
    if bound is None:
        return
    if not _is_number(bound):
        raise ConfigError(f"{where}: the limit of {metric} is {bound!r}; give a number")
    fact = METRICS[metric]
    if fact.direction == "high":
        met_by = _met_by(bound <= fact.most and bound < math.inf, bound > fact.least)
        allowed = f"above {fact.least:g}, " + (f"at most {fact.most:g}" if fact.most < math.inf else "and finite")
    else:
        met_by, allowed = _met_by(bound >= fact.least, bound < math.inf), f"{fact.least:g} or more, and finite"
    if met_by:
        raise ConfigError(f"{where}: {metric} = {bound_text(bound)} is met by {met_by}; give a number {allowed}")


def _met_by(reachable: bool, selective: bool) -> str:
    """What is wrong with a bound, as the end of "is met by …"; empty when nothing is. NaN is not reachable."""
    if not reachable:
        return "no tensor that differs"
    return "" if selective else "every tensor"


def _check_levels(metric: str, fail: float | None, warn: float | None, where: str) -> None:
    if fail is None and warn is None:
        raise ConfigError(f"{where}: {metric} has neither a fail nor a warn limit; give one or remove it")
    if fail is None or warn is None:
        return
    if (warn < fail) if METRICS[metric].direction == "high" else (warn > fail):
        raise ConfigError(
            f"{where}: {metric} warns beyond {bound_text(warn)} but already fails beyond {bound_text(fail)}, "
            "so the warning would never be seen; swap the two or remove one"
        )


def _is_number(value: object) -> bool:
    """Whether a value that a user wrote is a number; bools are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- What a user says about limits -----------------------------------------------------------------------------------


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
        Glob, see `limits.resolve.resolve`.
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
    # What `limits.resolve` made of it, by type, day and the numbers of rules that apply; no part of what it says.
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
