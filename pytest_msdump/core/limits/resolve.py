"""The limits that one pair is judged by, decided before anything is measured."""

from __future__ import annotations

import datetime
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.errors import ConfigError, TensorShapeError
from pytest_msdump.core.facts.dtypes import DTYPES, VALUE_KINDS
from pytest_msdump.core.facts.metrics import METRICS, SCALE_FREE_METRICS
from pytest_msdump.core.facts.profiles import PROFILES, TOLERANCES, Tolerance, golden_multiplier
from pytest_msdump.core.limits.permissions import profile_row, usual_profile
from pytest_msdump.core.limits.policy import DerivedLimits, KnownDrift, Policy, Rule, marker_label, metric_id
from pytest_msdump.core.model.comparison import Limit, Limits
from pytest_msdump.core.model.spellings import KnownNames, addresses, glob_matches
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, OpKey, Pair, TensorKey, mangle, module_of
from pytest_msdump.core.text import ENGLISH, Message

# What the rule of PyTorch limits, which judges in the place of a profile where there is a golden tensor.
GOLDEN_RULE_METRIC = "golden_rmse_ratio"

# The limits of each metric: one, or one of each level.
_Levels = dict[str, tuple[Limit, ...]]

_MOST_NAMED = 4
_MODULE = ", module "
# The key of a rule that says what indices were chosen from.
TIES = "ties"
# `node_linear_3`, `BiasAdd-op12`: these move where an operator before them comes or goes.
_RUNNING_NUMBER = re.compile(r"(?:_|-op)[0-9]+$")
_EQUAL_KINDS = {"integer": "integers equal", "bool": "bools equal"}


def resolve(
    policy: Policy,
    *,
    left: TensorKey,
    right: TensorKey,
    left_dtype: str,
    right_dtype: str,
    notes: Iterable[Message | None] = (),
    uncompared: tuple[int, int] = (0, 0),
    today: datetime.date | None = None,
    golden: tuple[int, ...] | None = None,
    computed: str | None = None,
) -> Limits:
    """Return the limits of one pair, each with the rule that set it.

    For each metric the first of these that names it decides, both levels together: marker, command line, the last
    matching known drift that still holds, the last matching rule, the limits file, the profile's row for the coarser
    data type.

    Globs are matched, case-sensitively, against true name, mangled name and full address of both sides. `notes` are
    about this pair alone, `uncompared` counts further occurrences of its tensor without a partner. `today` decides
    which known drifts have expired; the current day in UTC by default. `golden` is the shape of a tensor that was
    measured against golden: PyTorch's rule is then in the place of the profile's limits on its accuracy. `computed` is
    the type that the values are of, where a coarser one than the files have: a limits file may be as loose as that.
    """
    judged_as = _component(coarser(left_dtype, right_dtype))
    rules, drifts = _matching(policy, left, right, left_dtype, right_dtype, judged_as)
    # Only known drifts depend on the day.
    day = today or datetime.datetime.now(datetime.timezone.utc).date() if drifts else None
    # A network has many pairs and few kinds of them: pairs of the same types and rules share their limits.
    own, said = _of_file(policy, right, judged_as, right_dtype, computed or judged_as)
    if "allclose" in own and any(TIES in policy.rules[one].marks for one in rules):
        # A rule judges each index that differs; a number of them, whichever, is not permitted beside it.
        own, said = {}, ()
    multiplier = None if golden is None else golden_multiplier(judged_as, golden)
    alone = policy.of_pairs.get((left, right)) if policy.of_pairs else None
    key = (judged_as, rules, drifts, day, multiplier, *own, *((alone.label, *alone.bounds.items()) if alone else ()))
    limits = policy.resolved.get(key)
    if limits is None:
        limits = policy.resolved[key] = _limits(policy, judged_as, rules, drifts, day, own, multiplier, alone)
    if own and not any(limit.base is not None for limit in limits.limits):
        # Rules or the command line have the last word on all of them.
        own, said = {}, ()
    of_pair = tuple([note for note in (*notes, *said) if note])
    if not own:
        more = of_pair or any(uncompared)
        return replace(limits, notes=limits.notes + of_pair, uncompared=uncompared) if more else limits
    return replace(
        limits,
        limits=tuple([_own_limit(limit, own) for limit in limits.limits]),
        strict=tuple([_own_limit(limit, own) for limit in limits.strict]),
        notes=limits.notes + of_pair,
        uncompared=uncompared,
    )


def _of_file(
    policy: Policy, right: TensorKey, judged_as: str, right_dtype: str, computed: str
) -> tuple[Mapping[str, Limit], tuple[Message, ...]]:
    """Return what the limits file says of this pair."""
    if policy.limits is None:
        return {}, ()
    return policy.limits.limits_of(
        right,
        judged_as=judged_as,
        right_dtype=_component(right_dtype),
        computed=_component(computed),
        accept_looser=policy.accept_looser,
    )


def _own_limit(limit: Limit, own: Mapping[str, Limit]) -> Limit:
    """Return the limit that a limits file has of this tensor; the shared one is of another tensor."""
    return limit if limit.base is None else own[limit.metric]


def resolve_pair(
    policy: Policy,
    pair: Pair,
    dtypes: tuple[str, str],
    *notes: Message | None,
    golden: tuple[int, ...] | None = None,
    computed: str | None = None,
) -> Limits:
    """Return the limits of a pair of these types; `notes` are said of it beside the pair's own; the rest as above."""
    return resolve(
        policy,
        left=pair.left.key,
        right=pair.right.key,
        left_dtype=dtypes[0],
        right_dtype=dtypes[1],
        notes=(pair.note, *notes),
        uncompared=pair.uncompared,
        golden=golden,
        computed=computed,
    )


def computed_remarks(pair: Pair, dtypes: tuple[str, str]) -> tuple[Message, ...]:
    """Name the sides that hold floats of mixed precision in a finer type."""
    if not pair.left.computed and not pair.right.computed:
        return ()
    return tuple(
        Message("computed_in", {"side": side, "dtype": dtype, "values": ref.computed})
        for side, ref, dtype in zip(("left", "right"), (pair.left, pair.right), dtypes, strict=True)
        if ref.computed and DTYPES[dtype].kind == "float" and coarser(dtype, ref.computed) != dtype
    )


def coarser_remarks(found: tuple[str | None, str | None], dtypes: tuple[str, str]) -> tuple[Message, ...]:
    """Name the sides whose values are all of a coarser type, if that would make a difference to their limits."""
    if found == (None, None):
        return ()
    kinds = [VALUE_KINDS.get(values or "", dtype) for values, dtype in zip(found, dtypes, strict=True)]
    return tuple(
        Message("coarser_values", {"side": side, "dtype": dtype, "values": values})
        for side, dtype, values in zip(("left", "right"), dtypes, found, strict=True)
        if values is not None and coarser(*kinds) != coarser(*dtypes)
    )


def limits_of_values(
    policy: Policy, pair: Pair, dtypes: tuple[str, str], remarks: tuple[Message, ...], *, golden: tuple[int, ...]
) -> Limits:
    """Return the limits of a pair, as far as `remarks` say what its values are of; `golden` is the golden's shape."""
    further = [ref for ref in (pair.golden, pair.third) if ref is not None]
    is_known = not any(ref.is_unseen for ref in further)
    return resolve_pair(
        policy,
        pair,
        hinted_dtypes(policy, *dtypes, remarks) if remarks else dtypes,
        None if is_known else Message("golden_not_judged"),
        golden=golden if pair.golden is not None and is_known else None,
        computed=computed_dtype(*dtypes, remarks) if remarks and policy.limits is not None else None,
    )


def refuse_other_limits(limits: DerivedLimits, pair: Pair, elements: int) -> None:
    """Raise TensorShapeError where the limits file has this pair's name for a tensor of another size or class."""
    if other := limits.other_tensor(pair.right.key, elements):
        raise TensorShapeError(other)


def hinted_dtypes(policy: Policy, left_dtype: str, right_dtype: str, remarks: Iterable[Message]) -> tuple[str, str]:
    """Return the types that a pair is judged as: of the files, or the coarser ones in `remarks`.

    Those are the types that a run with mixed precision computed in, which the profile `bitwise` does not ask for, and
    with `dtype_hint` those of all values.
    """
    is_used = {"computed_in": not PROFILES[policy.profile].dtype_equal, "coarser_values": policy.dtype_hint}
    return _coarsened(left_dtype, right_dtype, remarks, is_used)


def computed_dtype(left_dtype: str, right_dtype: str, remarks: Iterable[Message]) -> str:
    """Return the coarser type that two sides were computed in, as far as `remarks` say."""
    return coarser(*_coarsened(left_dtype, right_dtype, remarks, {"computed_in": True, "coarser_values": True}))


def _coarsened(
    left_dtype: str, right_dtype: str, remarks: Iterable[Message], is_used: Mapping[str, bool]
) -> tuple[str, str]:
    found = {"left": left_dtype, "right": right_dtype}
    for remark in remarks:
        if is_used.get(remark.code):
            side = str(remark.parameters["side"])
            found[side] = coarser(found[side], VALUE_KINDS[str(remark.parameters["values"])])
    return found["left"], found["right"]


def _matching(
    policy: Policy, left: TensorKey, right: TensorKey, left_dtype: str, right_dtype: str, judged_as: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the rules and of the known drifts that match this pair."""
    if not policy.rules and not policy.known_drift:
        return (), ()
    names = _all_names(left, right)
    types = frozenset({left.op.op_type, right.op.op_type} - {None})
    dtypes = frozenset({judged_as, *(name for name in (left_dtype, right_dtype) if _component(name) == judged_as)})
    return (
        tuple(number for number, rule in enumerate(policy.rules) if _applies(rule, names, types, dtypes)),
        tuple(number for number, drift in enumerate(policy.known_drift) if _drift_matches(drift, left.op.at, names)),
    )


def _limits(
    policy: Policy,
    judged_as: str,
    numbers: Sequence[int],
    drift_numbers: Sequence[int],
    today: datetime.date | None,
    own: Mapping[str, Limit],
    multiplier: float | None,
    alone: Rule | None,
) -> Limits:
    """Combine the profile or the golden rule, a limits file, rules and known drifts, and the command line."""
    rules = [*([alone] if alone else ()), *(policy.rules[number] for number in numbers)]
    drifts = [policy.known_drift[one] for one in drift_numbers]
    profile = PROFILES[policy.profile]
    marks = {key: (value, rule.label) for rule in rules for key, value in rule.marks.items()}
    # The command line, and over it the marker.
    typed = {
        metric_id(text): (Limit(metric_id(text), bound, label(text, bound)),)
        for given, label in ((policy.thresholds, policy.threshold_label), (policy.marker, marker_label))
        for text, bound in given.items()
        if METRICS[metric_id(text)].of in (None, *marks) or given is policy.marker
    }
    expired = [drift for drift in drifts if today is None or today > drift.until]
    holding = [drift for drift in drifts if drift not in expired]
    # The last drift that names a metric.
    accepted: _Levels = {
        metric: (Limit(metric, fail, drift.described),)
        for drift in holding
        for metric, (fail, _) in drift.bounds.items()
        if fail is not None and metric not in typed
    }
    used = {limit.rule for levels in accepted.values() for limit in levels}
    reasons = dict.fromkeys(drift.reason for drift in holding if drift.described in used)
    usual = _for_marked(_profile_limits(policy.profile, judged_as), marks)
    if multiplier is not None:
        usual = _golden_limits(usual, judged_as, multiplier)
    normal = {**(_with_file(usual, own) if own else usual), **_rule_limits(rules), **typed}
    levels = {**normal, **accepted}
    held_against = _for_marked(_profile_limits(usual_profile(policy.profile), judged_as), marks)
    tolerance = TOLERANCES.get(judged_as, Tolerance(0.0, 0.0))
    return Limits(
        limits=_in_order(levels),
        usual=tuple(one for metric, (one,) in held_against.items() if levels.get(metric) != (one,)),
        nan=policy.nan,
        nan_rule=policy.nan_rule or f'nan = "{policy.nan}"',
        dtype_equal=profile.dtype_equal,
        dtype_rule=f"profile {policy.profile}" if profile.dtype_equal else "",
        rtol=[tolerance.rtol, *(rule.rtol for rule in rules if rule.rtol is not None)][-1],
        atol=[tolerance.atol, *(rule.atol for rule in rules if rule.atol is not None)][-1],
        judged_as=judged_as,
        notes=tuple(
            Message("drift_expired", {"reason": drift.reason, "date": drift.until.isoformat()})
            for drift in expired
            if not drift.bounds.keys() <= accepted.keys()
        ),
        known_drift="; ".join(reasons) if accepted else None,
        strict=_in_order(normal) if accepted else (),
        complex=["error", *(rule.complex for rule in rules if rule.complex)][-1],
        slice_axis=[None, *(rule.slice_axis for rule in rules if rule.slice_axis is not None)][-1],
        dtype_hint=policy.dtype_hint,
        without=tuple(policy.without.items()),
        repeats_rule=f"profile {policy.profile}" if profile.every_occurrence else "",
        marks=marks,
    )


def _for_marked(levels: _Levels, marks: Container[str | None]) -> _Levels:
    """Leave out limits on metrics that are for tensors with another mark."""
    return {metric: one for metric, one in levels.items() if METRICS[metric].of is None or METRICS[metric].of in marks}


def marks_of(policy: Policy, pair: Pair, key: str) -> list[tuple[Rule, Any]]:
    """Return the rules of a pair that have this key of a capability, and its values, the last one first."""
    left, right = pair.left, pair.right
    names, types = _all_names(left.key, right.key), frozenset({left.key.op.op_type, right.key.op.op_type} - {None})
    dtypes = frozenset(filter(None, (left.spec.dtype, right.spec.dtype)))
    with_key = (rule for rule in reversed(policy.rules) if key in rule.marks)
    return [(rule, rule.marks[key]) for rule in with_key if _applies(rule, names, types, dtypes)]


def settled(policy: Policy, known: KnownNames) -> Policy:
    """Return the limits with what their rules and known drifts name, as it is to be compared with these names."""
    rules = tuple(replace(rule, match=known.settle(rule.match)) for rule in policy.rules)
    drifts = tuple(replace(drift, match=known.settle(drift.match)) for drift in policy.known_drift)
    same = (rules, drifts) == (policy.rules, policy.known_drift)
    return policy if same else replace(policy, rules=rules, known_drift=drifts)


def accepts(drift: KnownDrift, left: TensorKey, right: TensorKey) -> bool:
    """Whether a known drift is of this pair."""
    return _drift_matches(drift, left.op.at, _all_names(left, right))


def _drift_matches(drift: KnownDrift, at: Coordinates, names: frozenset[str]) -> bool:
    """Whether name and coordinates are the drift's; a coordinate that a dump does not have agrees with any value."""
    if not glob_matches(drift.match, names):
        return False
    places = ((getattr(drift.at, name), getattr(at, name)) for name in COORDINATES)
    return all(wanted is None or own is None or wanted == own for wanted, own in places)


def operator_text(left: OpKey, right: OpKey, how: str, by: str) -> str:
    """Return which operator a known drift was accepted of; of the left name without the number that exporters give.

    >>> operator_text(OpKey("node_linear_1", op_type="Gemm"), OpKey("b"), "structure", "same module b")
    'Gemm node_linear <-> b, module b'
    """
    sides = [
        " ".join(filter(None, (key.op_type, name)))
        for key, name in ((left, _RUNNING_NUMBER.sub("", mangle(left.label))), (right, mangle(right.label)))
    ]
    module = module_of(how, by)
    return " <-> ".join(sides) + (f"{_MODULE}{module}" if module else "")


def _is_another(one: str, other: str) -> bool:
    """Whether two texts are of two operators; only where its module paired it, a text has that."""
    (names, _, module), (others, _, of_others) = one.partition(_MODULE), other.partition(_MODULE)
    return names != others or bool(module and of_others and module != of_others)


def check_known_drifts(policy: Policy, pairs: Iterable[Pair]) -> None:
    """Refuse a known drift that was accepted of one operator and is now of another one, or of several tensors."""
    for drift in [drift for drift in policy.known_drift if drift.operator]:
        found = [pair for pair in pairs if accepts(drift, pair.left.key, pair.right.key)]
        texts = {operator_text(pair.left.key.op, pair.right.key.op, pair.how, pair.by) for pair in found}
        if others := sorted(text for text in texts if _is_another(text, drift.operator)):
            raise ConfigError(
                f"{drift.label}: accepted of {drift.operator}, and now matches {others[0]}\n"
                "another operator is not accepted by it; remove the entry, and accept anew what still fails"
            )
        if len(found) > 1:
            where = ENGLISH.named((pair.left.key.op.at.shown() for pair in found), _MOST_NAMED)
            raise ConfigError(
                f"{drift.label}: accepted of one tensor, and now matches {len(found)}: {where}\n"
                "say which one it is for, e.g. rank = 0 or iteration = 0"
            )


def _all_names(left: TensorKey, right: TensorKey) -> frozenset[str]:
    """Return every spelling by which a glob may name this pair."""
    return frozenset((*addresses(left), *addresses(right)))


def _component(dtype: str) -> str:
    """Return the type of a complex type's parts; other types as they are."""
    fact = DTYPES.get(dtype)
    return (fact.component if fact else None) or dtype


def _applies(rule: Rule, names: frozenset[str], types: frozenset[str | None], dtypes: frozenset[str]) -> bool:
    return (
        (rule.dtype is None or rule.dtype in dtypes)
        and (not rule.op_type or not types.isdisjoint(rule.op_type))
        and glob_matches(rule.match, names)
    )


def _profile_limits(profile: str, dtype: str) -> _Levels:
    """Return the limits of the profile's row."""
    row = profile_row(profile, dtype)
    kind = DTYPES[dtype].kind if dtype in DTYPES else "float"
    condition = dtype
    if kind in _EQUAL_KINDS and "max_absolute_error" in row:
        condition = f"{dtype}: {_EQUAL_KINDS[kind]}"
    label = f"profile {profile} ({condition})"
    return {metric: (Limit(metric, bound, label),) for metric, bound in row.items()}


def _with_file(usual: _Levels, own: Mapping[str, Limit]) -> _Levels:
    """Return the profile's limits with those of a limits file in place of what these imply."""
    # Integers that rounding flips may differ by any amount.
    implied = {"max_absolute_error"} if "allclose" in own else set()
    if "relative_euclidean_distance" in own:
        # At a distance of d the cosine is sqrt(1 - d²) or more.
        implied.add("cosine_similarity")
    of_file = {metric: (limit,) for metric, limit in own.items()}
    return {metric: levels for metric, levels in usual.items() if metric not in implied} | of_file


def _golden_limits(profile: _Levels, dtype: str, multiplier: float) -> _Levels:
    """Return the profile's limits with PyTorch's rule in the place of those on accuracy.

    Limits on NaN, Inf and overflow stay, and so do those of integers, which are equal or not, of bits, and of profiles
    that judge by golden themselves.
    """
    replaced = [metric for metric in profile if metric in SCALE_FREE_METRICS and not METRICS[metric].golden]
    if not replaced or DTYPES[dtype].kind in _EQUAL_KINDS:
        return profile
    limit = Limit(GOLDEN_RULE_METRIC, multiplier, f"golden rule ({dtype})")
    return {metric: one for metric, one in profile.items() if metric not in replaced} | {limit.metric: (limit,)}


def _rule_limits(rules: Iterable[Rule]) -> _Levels:
    """Return for each metric both levels of the last rule that names it."""
    return {
        metric: tuple(
            Limit(metric, bound, rule.label, level)
            for level, bound in (("fail", fail), ("warn", warn))
            if bound is not None
        )
        for rule in rules
        for metric, (fail, warn) in rule.bounds.items()
    }


def _in_order(levels: Mapping[str, tuple[Limit, ...]]) -> tuple[Limit, ...]:
    """Return all limits in the order of the table of metrics, fail before warn."""
    return tuple(limit for metric in METRICS for limit in levels.get(metric, ()))
