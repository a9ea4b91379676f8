"""Which limits one pair is judged by, decided before anything is measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_msdump.dtypes import coarser
from pytest_msdump.facts.dtypes import DTYPES, VALUE_KINDS
from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.facts.profiles import PROFILES, TOLERANCES, Tolerance
from pytest_msdump.limits.policy import KnownDrift, Policy, Rule, marker_label, metric_id
from pytest_msdump.model.comparison import Limit, Limits
from pytest_msdump.model.tensor import TensorKey, mangle
from pytest_msdump.text import Message

if TYPE_CHECKING:
    import datetime

__all__ = ["hinted_dtypes", "of_pair", "resolve"]

# The limits of each metric: one, or one of each level.
_Levels = dict[str, tuple[Limit, ...]]

_WILDCARDS = frozenset("*?[")
_EQUAL_KINDS = {"integer": "integers equal", "bool": "bools equal"}


def resolve(
    policy: Policy,
    *,
    left: TensorKey,
    right: TensorKey,
    left_dtype: str,
    right_dtype: str,
    today: datetime.date | None = None,
) -> Limits:
    """Return the limits of one pair, each with the rule that set it.

    For each metric the first of these that names it decides, both levels together: marker, command line, the last
    matching known drift that still holds, the last matching rule, the profile's row for the coarser data type.

    Parameters
    ----------
    policy : Policy
        What was said about limits.
    left, right : TensorKey
        Who is compared. Globs are matched, case-sensitively, against true name, mangled name and full address of both.
    left_dtype, right_dtype : str
        Names of `facts.dtypes`.
    today : datetime.date, optional
        The day that decides which known drifts have expired; today in UTC unless told.

    Returns
    -------
    Limits
        In the order of `facts.metrics`.
    """
    judged_as = _component(coarser(left_dtype, right_dtype))
    rules, drifts = _which(policy, left, right, left_dtype, right_dtype, judged_as)
    # The day decides of known drifts alone.
    day = today or _today() if drifts else None
    # A network has many pairs and few kinds of them: what the same rules say of the same types is worked out once.
    key = (judged_as, rules, drifts, day)
    limits = policy.resolved.get(key)
    if limits is None:
        limits = policy.resolved[key] = _limits(policy, judged_as, rules, drifts, day)
    return limits


def hinted_dtypes(policy: Policy, left_dtype: str, right_dtype: str, remarks: Iterable[Message]) -> tuple[str, str]:
    """Return the types that a pair is judged as: those of the files, or the coarser ones of all of their values.

    Parameters
    ----------
    policy : Policy
        Which of the two is its `dtype_hint`.
    left_dtype, right_dtype : str
        Of the files.
    remarks : iterable of Message
        Of the same pair.
    """
    found = {"left": left_dtype, "right": right_dtype}
    for remark in remarks if policy.dtype_hint else ():
        if remark.code == "coarser_values":
            found[str(remark.parameters["side"])] = VALUE_KINDS[str(remark.parameters["values"])]
    return found["left"], found["right"]


def of_pair(limits: Limits, note: Message | None, uncompared: tuple[int, int]) -> Limits:
    """Return the limits with what is to be told of one pair beside its numbers.

    Parameters
    ----------
    limits : Limits
        Of `resolve`.
    note : Message, optional
        How the two met.
    uncompared : tuple of (int, int)
        Further occurrences of the tensor that met no partner, left and right.
    """
    if not note and not any(uncompared):
        return limits
    notes = (*limits.notes, note) if note else limits.notes
    return replace(limits, notes=notes, uncompared=uncompared)


def _today() -> datetime.date:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).date()


def _which(
    policy: Policy, left: TensorKey, right: TensorKey, left_dtype: str, right_dtype: str, judged_as: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the rules and of the known drifts that are about this pair."""
    if not policy.rules and not policy.known_drift:
        return (), ()
    names = frozenset((*_names(left), *_names(right)))
    types = frozenset({left.op.op_type, right.op.op_type} - {None})
    dtypes = frozenset({judged_as, *(name for name in (left_dtype, right_dtype) if _component(name) == judged_as)})
    return (
        tuple(number for number, rule in enumerate(policy.rules) if _applies(rule, names, types, dtypes)),
        tuple(number for number, drift in enumerate(policy.known_drift) if _matches(drift.match, names)),
    )


def _limits(
    policy: Policy, judged_as: str, numbers: Sequence[int], drift_numbers: Sequence[int], today: datetime.date | None
) -> Limits:
    """What the profile, the rules that apply, the known drifts and the command line make together."""
    rules, drifts = [policy.rules[number] for number in numbers], [policy.known_drift[one] for one in drift_numbers]
    ordered = _thresholds(policy)
    expired = [drift for drift in drifts if today is None or today > drift.until]
    holding = [drift for drift in drifts if drift not in expired]
    accepted = {metric: limit for metric, limit in _accepted(holding).items() if metric not in ordered}
    normal = {**_profile_limits(policy.profile, judged_as), **_rule_limits(rules), **ordered}

    tolerance = TOLERANCES.get(judged_as, Tolerance(0.0, 0.0))
    return Limits(
        limits=_flat({**normal, **accepted}),
        nan=policy.nan,
        nan_rule=policy.nan_rule or f'nan = "{policy.nan}"',
        dtype_equal=PROFILES[policy.profile].dtype_equal,
        dtype_rule=f"profile {policy.profile}" if PROFILES[policy.profile].dtype_equal else "",
        rtol=_last((rule.rtol for rule in rules), tolerance.rtol),
        atol=_last((rule.atol for rule in rules), tolerance.atol),
        judged_as=judged_as,
        notes=tuple(_expired(drift) for drift in expired if not drift.bounds.keys() <= accepted.keys()),
        known_drift=_reasons(holding, accepted) if accepted else None,
        strict=_flat(normal) if accepted else (),
        complex=[None, *(rule.complex for rule in rules if rule.complex)][-1] or "error",
        dtype_hint=policy.dtype_hint,
        without=tuple(policy.without.items()),
        repeats_rule=f"profile {policy.profile}" if PROFILES[policy.profile].every_occurrence else "",
    )


def _names(key: TensorKey) -> Iterable[str]:
    """All spellings by which a glob may mean this tensor."""
    for name in {key.op.label, key.op.name, mangle(key.op.label)}:
        yield name
        yield f"{name}:{key.io}:{key.slot}"


@lru_cache(maxsize=256)
def _component(dtype: str) -> str:
    """The type of a complex type's parts; other types as they are."""
    fact = DTYPES.get(dtype)
    return (fact.component if fact else None) or dtype


def _matches(glob: str, names: frozenset[str]) -> bool:
    if glob == "*":
        return True
    return any(map(_compiled(glob), names)) if _is_glob(glob) else glob in names


@lru_cache(maxsize=2**16)
def _is_glob(text: str) -> bool:
    return not _WILDCARDS.isdisjoint(text)


@lru_cache(maxsize=2**16)
def _compiled(glob: str) -> Callable[[str], object]:
    """What `fnmatch` makes of a glob; its own cache holds 256 of them on some Pythons, and a suite may have more."""
    inner = glob.strip("*")
    # To make an expression takes longer than to match it with all names of a small network.
    if glob == f"*{inner}*" and not _is_glob(inner):
        return lambda name: inner in name
    return re.compile(translate(glob)).match


def _applies(rule: Rule, names: frozenset[str], types: frozenset[str | None], dtypes: frozenset[str]) -> bool:
    """Whether all three conditions of a rule hold."""
    return (
        (rule.dtype is None or rule.dtype in dtypes)
        and (not rule.op_type or not types.isdisjoint(rule.op_type))
        and _matches(rule.match, names)
    )


def _profile_limits(profile: str, dtype: str) -> _Levels:
    """The profile's row. A float type that it does not name is judged like the coarsest that it does."""
    rows = PROFILES[profile].rows
    kind = DTYPES[dtype].kind if dtype in DTYPES else "float"
    row = kind if kind in rows else dtype
    if row not in rows:
        row = max((name for name in rows if name in DTYPES), key=lambda name: DTYPES[name].coarseness or 0)
    condition = dtype
    if kind in _EQUAL_KINDS and "max_absolute_error" in rows[row]:
        condition = f"{dtype}: {_EQUAL_KINDS[kind]}"
    label = f"profile {profile} ({condition})"
    return {metric: (Limit(metric, bound, label),) for metric, bound in rows[row].items()}


def _rule_limits(rules: Iterable[Rule]) -> _Levels:
    """For each metric the last rule that names it, with both its levels."""
    chosen: _Levels = {}
    for rule in rules:
        for metric, (fail, warn) in rule.bounds.items():
            levels = (("fail", fail), ("warn", warn))
            chosen[metric] = tuple(
                Limit(metric, bound, rule.label, level) for level, bound in levels if bound is not None
            )
    return chosen


def _thresholds(policy: Policy) -> _Levels:
    """What the command line says, and over it what the marker says."""
    chosen: _Levels = {}
    for given, label in ((policy.thresholds, policy.threshold_label), (policy.marker, marker_label)):
        for text, bound in given.items():
            metric = metric_id(text)
            chosen[metric] = (Limit(metric, bound, label(text, bound)),)
    return chosen


def _accepted(holding: Iterable[KnownDrift]) -> _Levels:
    """How far each metric may drift for now; the last drift that names it."""
    return {
        metric: (Limit(metric, fail, drift.described),)
        for drift in holding
        for metric, (fail, _) in drift.bounds.items()
        if fail is not None
    }


def _reasons(holding: Iterable[KnownDrift], accepted: Mapping[str, tuple[Limit, ...]]) -> str:
    """The reasons of the drifts that set a limit, in the order written."""
    used = {limit.rule for levels in accepted.values() for limit in levels}
    return "; ".join(dict.fromkeys(drift.reason for drift in holding if drift.described in used))


def _expired(drift: KnownDrift) -> Message:
    return Message("drift_expired", {"reason": drift.reason, "date": drift.until.isoformat()})


def _last(values: Iterable[float | None], otherwise: float) -> float:
    """The last value that was given."""
    given = [value for value in values if value is not None]
    return given[-1] if given else otherwise


def _flat(levels: Mapping[str, tuple[Limit, ...]]) -> tuple[Limit, ...]:
    """All limits, in the order of the table of metrics, fail before warn."""
    return tuple(limit for metric in METRICS for limit in levels.get(metric, ()))
