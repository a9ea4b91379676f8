"""Limits as a user writes them, checked: unknown names and bounds that every or no tensor meets are refused."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.core.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.model.comparison import Limit, Limits
from pytest_msdump.core.model.tensor import Coordinates, Pairing, TensorKey
from pytest_msdump.core.text import Message, bound_text

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import Dump

# Metric → (fails beyond, warns beyond); either may be absent.
Bounds = Mapping[str, tuple[float | None, float | None]]

_EVERYWHERE = Coordinates()


def metric_name(text: str, *, where: str = "") -> str:
    """Return the id of any metric for an id or a short form; `where` begins the text of the error."""
    name = SHORT_FORMS.get(text, text)
    if name not in METRICS:
        place = f"{where}: " if where else ""
        raise UnknownNameError(f"{place}unknown metric '{text}'; {nearest(text, (*METRICS, *SHORT_FORMS))}")
    return name


def metric_id(text: str, *, where: str = "") -> str:
    """Return the id of a metric that takes a limit, for an id or a short form."""
    name = metric_name(text, where=where)
    if METRICS[name].direction == "none":
        place = f"{where}: " if where else ""
        raise ConfigError(f"{place}{text} is only reported and takes no limit; remove it")
    return name


def _checked_bounds(bounds: Bounds, *, where: str) -> dict[str, tuple[float | None, float | None]]:
    """Return the bounds under the metrics' ids; refuse useless bounds, levels in the wrong order, repeated metrics."""
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


def _check_tolerance(name: str, value: float | None, *, where: str) -> None:
    if value is not None and not (_is_number(value) and 0 <= value < math.inf):
        raise ConfigError(f"{where}: {name} = {value!r} is not a tolerance; give a number from 0 on, e.g. 1e-3")


def _check_bound(metric: str, bound: float | None, where: str) -> None:
    if bound is None:
        return
    if not _is_number(bound):
        raise ConfigError(f"{where}: the limit of {metric} is {bound!r}; give a number")
    fact = METRICS[metric]
    if fact.direction == "high":
        reachable, selective = bound <= fact.most and bound < math.inf, bound > fact.least
        allowed = f"above {fact.least:g}, " + (f"at most {fact.most:g}" if fact.most < math.inf else "and finite")
    else:
        reachable, selective = bound >= fact.least, bound < math.inf
        allowed = f"{fact.least:g} or more, and finite"
    # NaN is not reachable.
    if not (reachable and selective):
        met_by = "every tensor" if reachable else "no tensor that differs"
        raise ConfigError(f"{where}: {metric} = {bound_text(bound)} is met by {met_by}; give a number {allowed}")


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
    return isinstance(value, int | float) and not isinstance(value, bool)


_NAN = ("match", "forbid")


def profile_names() -> tuple[str, ...]:
    """Return the names of all profiles, `default` first."""
    return tuple(PROFILES)


class DerivedLimits(Protocol):
    """Limits of single tensors, from a file that a capability reads. Equal limits have equal `repr`."""

    @property
    def name(self) -> str:
        """How findings call the file."""

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that some tensor has a limit on."""

    def notes_with(self, right: Dump, pairing: Pairing, /) -> Iterator[str]:
        """Yield what to say of the file beside these dumps; ConfigError where it was made with another reference."""

    def other_tensor(self, right: TensorKey, elements: int, /) -> Message | None:
        """Return why the entry of this name is not of this tensor; ``None`` where it is, or there is no entry."""

    def limits_of(
        self, right: TensorKey, *, judged_as: str, right_dtype: str, computed: str = "", accept_looser: bool = False
    ) -> tuple[Mapping[str, Limit], tuple[Message, ...]]:
        """Return the limits of a pair by metric, and what to note; no limits where the profile judges."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits for the pairs that it matches; for each metric the last matching rule wins. ``None`` = as before it.

    `bounds` may have short forms of metrics, which become ids. `match` is a glob, see `limits.resolve.resolve`.
    `op_type` holds the allowed types of the left or right operator (empty = any), `dtype` the coarser side's type (of
    a complex type also its component). `complex` is "allow" or "error" for a real side against a complex one, and
    `slice_axis` the axis of `worst_slice_error`. `marks` are the keys that capabilities add to a rule, such as
    ``{"logits": True}``. `label` is where it was written, e.g. ``msdump.toml [[msdump.rule]]
    #2 match="conv*"``.
    """

    bounds: Bounds
    match: str = "*"
    op_type: tuple[str, ...] = ()
    dtype: str | None = None
    rtol: float | None = None
    atol: float | None = None
    complex: str | None = None
    label: str = ""
    slice_axis: int | None = None
    marks: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        label = self.label or f'rule match="{self.match}"'
        _set(self, label=label, bounds=_checked_bounds(self.bounds, where=label), dtype=_known_dtype(self.dtype, label))
        _check_tolerance("rtol", self.rtol, where=label)
        _check_tolerance("atol", self.atol, where=label)


@dataclass(frozen=True, slots=True)
class KnownDrift:
    """A drift accepted for a while, with a reason, which findings repeat, and a last day (in UTC).

    `bounds` say how far each metric may drift; there is one level, (bound, None). `match` and `label` as in `Rule`.
    `at` are the coordinates that it is restricted to, as the left side counts. `operator` is what it was accepted of,
    as `limits.resolve.operator_text` has it; then it is for one pair and refused where it matches another.
    """

    match: str
    reason: str
    until: datetime.date
    bounds: Bounds
    label: str = ""
    at: Coordinates = _EVERYWHERE
    operator: str = ""

    def __post_init__(self) -> None:
        label = self.label or f'known drift match="{self.match}"'
        if not self.reason.strip():
            raise ConfigError(f"{label}: a known drift needs a reason; say why it is accepted")
        if isinstance(self.until, datetime.datetime) or not isinstance(self.until, datetime.date):
            raise ConfigError(f"{label}: until = {self.until!r} is not a date; write e.g. until = 2027-01-31")
        bounds = _checked_bounds(self.bounds, where=label)
        if not bounds:
            raise ConfigError(f"{label}: a known drift needs a limit; say how far it may drift, or remove it")
        for metric, (fail, warn) in bounds.items():
            if fail is None or warn is not None:
                raise ConfigError(f"{label}: {metric} has two levels or none that fails; a known drift takes a number")
        _set(self, label=label, bounds=bounds)

    @property
    def described(self) -> str:
        """The drift as the rule of a limit."""
        return f'known drift "{self.reason}" until {self.until.isoformat()}'


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything a user set about limits, in order of increasing weight.

    Keys of `thresholds` (the command line's, by the option `threshold_flag`) and `marker` are as typed, ids or short
    forms. `nan` is "match" (the same class at the same place is equal) or "forbid" (no NaN or Inf on either side), set
    at `nan_rule`. With `dtype_hint` a float side whose values are all of a coarser type is judged as that type.
    `without` has metrics that are not measured, with the place that says so. `limits` are those of a limits file, which
    hold in place of the profile's, with `accept_looser` also where they are far looser than `default`. `has_golden`
    is whether there is a golden or a third dump; without one, a limit on an error against golden is refused. `of_pairs`
    are limits of single pairs, which all rules win over: of capabilities and hooks.
    """

    profile: str = "default"
    limits: DerivedLimits | None = None
    rules: tuple[Rule, ...] = ()
    known_drift: tuple[KnownDrift, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    marker: Mapping[str, float] = field(default_factory=dict)
    nan: str = "match"
    nan_rule: str = ""
    threshold_flag: str = "--msdump-threshold"
    dtype_hint: bool = False
    without: Mapping[str, str] = field(default_factory=dict)
    has_golden: bool = False
    accept_looser: bool = False
    of_pairs: Mapping[tuple[TensorKey, TensorKey], Rule] = field(default_factory=dict)
    # Cache of `limits.resolve`, by type, day and the numbers of rules that apply.
    resolved: dict[tuple[object, ...], Limits] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise UnknownNameError(f"unknown profile '{self.profile}'; {nearest(self.profile, PROFILES)}")
        if self.nan not in _NAN:
            place = f"{self.nan_rule}: " if self.nan_rule else ""
            raise ConfigError(f"{place}nan = '{self.nan}' is not known; {nearest(self.nan, _NAN)}")
        for text, bound in self.thresholds.items():
            _checked_bounds({text: (bound, None)}, where=self.threshold_label(text, bound))
        for text, bound in self.marker.items():
            _checked_bounds({text: (bound, None)}, where=marker_label(text, bound))
        # A limit on a metric that is not measured could only be left unchecked, or fail everything.
        for metric, place in self.without.items():
            for needed, remedy in self._limits_on(metric):
                raise ConfigError(f"{place}: {metric} cannot be left out, {needed} has a limit on it; {remedy}")

        for metric in () if self.has_golden else filter(lambda name: METRICS[name].golden, METRICS):
            for needed, _ in self._limits_on(metric):
                raise ConfigError(
                    f"{needed}: {metric} needs a golden or a third run; give --golden DIR or --third DIR (pytest: "
                    "--msdump-golden, --msdump-third; suite file: golden, third)"
                )

    @property
    def marks(self) -> frozenset[str]:
        """The keys of capabilities that rules have, or that metrics with a limit are of."""
        rules = (*self.rules, *self.of_pairs.values())
        of_file = self.limits.metrics if self.limits is not None else ()
        limited = (*self.marker, *of_file, *(metric for rule in rules for metric in rule.bounds))
        kinds = (METRICS[metric_id(name)].of for name in limited)
        return frozenset((*(mark for rule in rules for mark in rule.marks), *filter(None, kinds)))

    def threshold_label(self, text: str, bound: float) -> str:
        """Return one threshold as it is typed."""
        return f"{self.threshold_flag} {text}={bound_text(bound)}"

    def _limits_on(self, metric: str) -> Iterator[tuple[str, str]]:
        """Yield the rules that have a limit on a metric, each with what can be done."""
        for label in (
            *(marker_label(text, bound) for text, bound in self.marker.items() if metric_id(text) == metric),
            *(self.threshold_label(*one) for one in self.thresholds.items() if metric_id(one[0]) == metric),
            *(drift.label for drift in self.known_drift if metric in drift.bounds),
            *(rule.label for rule in (*self.rules, *self.of_pairs.values()) if metric in rule.bounds),
        ):
            yield label, "remove one of the two"
        holding = [name for name, table in PROFILES.items() if any(metric in row for row in table.rows.values())]
        if self.profile in holding:
            others = [name for name in PROFILES if name not in holding]
            yield f"profile {self.profile}", f"take profile {others[0]}" if others else "every profile has: measure it"


def marker_label(text: str, bound: float) -> str:
    """Return one limit that a marker, or a call of `assert_close`, gives: as it is written."""
    return f"limit {text}={bound_text(bound)}"


def _known_dtype(text: str | None, where: str) -> str | None:
    if text is None:
        return None
    name = ALIASES.get(text.lower(), text.lower())
    if name not in DTYPES:
        raise UnknownNameError(f"{where}: unknown dtype '{text}'; {nearest(text, (*DTYPES, *ALIASES))}")
    return name


def _set(frozen: object, **fields: object) -> None:
    """Replace fields of a frozen value by their checked form."""
    for name, value in fields.items():
        object.__setattr__(frozen, name, value)
