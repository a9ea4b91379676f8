"""The verdict on one pair, from its numbers and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import CLASS_METRICS, METRICS, RELATIVE_METRICS, SCALE_FREE_METRICS
from pytest_msdump.core.limits.permissions import meets, permitted
from pytest_msdump.core.model.comparison import (
    FAILING,
    OUTCOMES,
    Comparison,
    Dominated,
    Finding,
    Limit,
    Limits,
    Measurement,
    Verdict,
)
from pytest_msdump.core.model.record import CHOICES, COUNTS_IDS, Check, Record
from pytest_msdump.core.text import Message, Parameter

# The order of findings. A number beyond its limit says more than one that could not be computed.
_FINDING_ORDER = ("error", "fail", "undefined", "warn", "note")

_ROUNDING = "zero_in_exact_arithmetic"
_MASKS = "random_masks"
_OF_MASKS = (_MASKS, "random_masks_differ", "random_masks_swapped", "random_masks_kept_differ")
# Of indices that were chosen from values only near ties differ, or only their order does. Behind a near tie a token
# goes elsewhere: the others are within the limits, or these are too many.
_TIES, _REORDERED, _BEHIND, _BEHIND_MANY = "near_ties", "same_choices", "behind_ties", "behind_too_many_ties"
_OF_TIES = (*CHOICES, _BEHIND, _BEHIND_MANY)
# What clears, and to which outcome; and of what no number of elements says anything.
_EXCUSES = {_ROUNDING: "warn", _MASKS: "warn", _TIES: "warn", _BEHIND: "warn", _REORDERED: "ok"}
_OF_ANY_NUMBER = frozenset({_MASKS, _TIES, _BEHIND, _REORDERED})
# It counts the tokens behind near ties: these are no excuse.
_ROUTES = "changed_routes"
_GRAPH = "not_as_in_graph"
# Remarks on what the values are, or on a graph, not on the files.
_OF_VALUES = ("coarser_values", "computed_in", _GRAPH, _ROUNDING, *_OF_MASKS, *_OF_TIES)

_PASS = Verdict("pass")

# Reasons that are said with the limit that is skipped.
_NOT_APPLICABLE = frozenset({"no_channels", "no_such_axis", "slices_too_small", "no_units", "no_noise"})

# Integers of these types count or name something; those of fewer bits are also values of a quantised tensor.
_COUNTING = frozenset({"int32", "int64", "uint32", "uint64"})
_OF_INTEGERS, _NOT_JUDGED = "integers_differ", "ties_not_judged"
_UNMEASURED = Message("not_measured")
_NO_GOLDEN = Message("golden_not_measured")
_GOLDEN_DETAIL = "detail_golden"
_DTYPE_HINT_ENTRY = "dtype_hint = true"
_COMPLEX_ENTRY = '[[msdump.rule]] with complex = "allow"'

# (larger is better, level of the limit) → code of the message.
_BEYOND = {
    (True, "fail"): "below_limit",
    (True, "warn"): "below_warning_level",
    (False, "fail"): "above_limit",
    (False, "warn"): "above_warning_level",
}
_BEYOND_GOLDEN = {"fail": "golden_above_limit", "warn": "golden_above_warning_level"}


class ClearedVerdictError(ConfigError):
    """A stage or a hook that made a verdict better, or changed what others found."""


class _Said(NamedTuple):
    """What there is to say of a metric that was held against its limits.

    `curable` is whether another bound alone would let it pass, `is_excused` whether it failed, and does not count since
    the values are rounding alone, or random masks.
    """

    message: Message
    curable: bool = True
    is_excused: bool = False


# A number, the limit that decided, the outcome as in `Check`, and what there is to say.
_Judgement: TypeAlias = tuple[float | int | tuple[float, ...] | None, Limit, str, _Said | None]


def judge(
    comparison: Comparison,
    limits: Limits,
    *,
    left_dtype: str,
    right_dtype: str,
    overflows: Sequence[str] = (),
    right_overflows: Sequence[str] = (),
    remarks: Sequence[Message] = (),
) -> tuple[Verdict, tuple[Check, ...]]:
    """Return the verdict on a pair, and one check for each metric that has a limit.

    A pair that is equal at every position meets every limit, except where more than values count: forbidden NaN,
    equal data types, differing bits. A value exactly on its limit is within it. An undefined metric that has a limit
    fails the pair: what was not computed was not compared.

    `overflows` and `right_overflows` are sentences of the device's own overflow check; one of the left fails where
    `saturated_count` must be 0 and the sides differ. `remarks` are about the files: notes, which fail where the files
    have to agree bit by bit.
    """
    codes = {remark.code for remark in remarks}
    excuse = next((code for code in _EXCUSES if code in codes), None) if not limits.dtype_equal else None
    # What they say of ids is all there is to say, where they are judged.
    of_choices = not codes.isdisjoint(CHOICES)
    checks: list[Check] = []
    said: dict[str, _Said] = {}
    for metric, levels in limits.by_metric.items():
        value, limit, outcome, one = _judge_metric(metric, levels, comparison, limits)
        if excuse and one is not None and _is_excused(limit, outcome, of_any_number=excuse in _OF_ANY_NUMBER):
            outcome, one = _EXCUSES[excuse], _Said(one.message, curable=False, is_excused=True)
        checks.append(Check(metric, value, limit.bound, limit.level, limit.rule, outcome, limit.base))
        if one is not None and (metric == _ROUTES or not of_choices or _NOT_JUDGED in codes):
            said[metric] = one
    if said:
        said = _without_distances_of_ids(said, checks)
    types = None if left_dtype == right_dtype else _dtype_finding(comparison, limits, left_dtype, right_dtype)
    if types is not None and of_choices and not limits.dtype_equal:
        # The remark judges what was chosen.
        types = None
    findings = [] if types is None else [types]
    if comparison.finite != comparison.elements and limits.nan == "forbid":
        findings.append(_forbidden_nonfinite(comparison, limits))
    findings += _not_compared(comparison, checks)
    if limits.uncompared != (0, 0):
        findings += _uncompared_occurrences(limits)
    if overflows:
        findings += _device_overflows(comparison, limits, overflows)
    findings += [_remark_finding(remark, limits, said) for remark in remarks]
    findings += [Finding("note", Message("device_overflow_right", {"told": told})) for told in right_overflows]
    # Of differing types the bits cannot be compared, which would only say so again.
    repeated = {"bitwise_mismatch"} if types and limits.dtype_equal else set()
    for check in checks if said else ():
        if check.metric in said and not (check.outcome == "undefined" and check.metric in repeated):
            outcome = "note" if check.outcome == "skipped" else check.outcome
            value = None if isinstance(check.value, tuple) else check.value
            message = said[check.metric].message
            findings.append(Finding(outcome, message, check.metric, value, check.limit, check.rule))
    findings += [Finding("note", note) for note in limits.notes]
    findings += [
        Finding("note", Message(one.code, {"n": one.elements, "elements": comparison.elements, "near": one.near}))
        for one in comparison.dominated
    ]
    is_hopeless = (
        (types is not None and types.outcome != "note")
        or (bool(said) and any(one.message.code == _OF_INTEGERS for one in said.values()))
        or (limits.dtype_equal and not codes.issubset(_OF_VALUES))
        or (limits.repeats_rule != "" and limits.uncompared != (0, 0))
    )
    verdict = verdict_from(findings, {} if is_hopeless else _would_pass(checks, said))
    if limits.usual and verdict.outcome not in FAILING:
        verdict = replace(verdict, findings=(*verdict.findings, *permitted(comparison, limits)))
    return verdict, tuple(checks)


def verdict_from(findings: Sequence[Finding], would_pass: Mapping[str, float]) -> Verdict:
    """Return the worst outcome of all findings; a pair that passes needs no other limits."""
    if not findings:
        return _PASS
    ordered = tuple(sorted(findings, key=lambda finding: _FINDING_ORDER.index(finding.outcome)))
    outcomes = [finding.outcome for finding in ordered if finding.outcome != "note"]
    return Verdict(max(outcomes, key=OUTCOMES.index), ordered, would_pass) if outcomes else Verdict("pass", ordered)


# What no stage may change of a record: which pair it is, what was measured, and the limits one by one.
_FIXED = ("order", "left", "right", "comparison", "statistics", "checks", "judged_as", "nan", "known_drift")
_fixed_of = attrgetter(*_FIXED)


def only_worse(before: Record, after: Record, *, by: str) -> Record:
    """Return what a stage of capability, or the hook, `by` made of a record, if only the core cleared anything.

    Raises ClearedVerdictError where the verdict is better than before, a finding or a part is gone, or another field is
    another one.
    """
    if after is before:
        return before
    old, new = before.verdict, after.verdict
    fixed, given = _fixed_of(before), _fixed_of(after)
    # Nearly always the same objects, which are not looked into.
    changed = [] if fixed == given else [name for name in _FIXED if getattr(before, name) != getattr(after, name)]
    ranks = [OUTCOMES.index(one.outcome) if one.outcome in OUTCOMES else -1 for one in (old, new)]
    gone = [one for one in old.findings if one not in new.findings]
    gone_parts = [name for name, part in before.parts.items() if after.parts.get(name) != part]
    if ranks[1] < ranks[0] or (ranks[1] != ranks[0] and -1 in ranks):
        what = f"made {new.outcome} of {old.outcome}"
    elif changed or gone or gone_parts:
        what = f"changed {', '.join(changed or gone_parts) or 'the findings'}"
    else:
        return after
    raise ClearedVerdictError(
        f"{by} {what} for {before.left.address}; a stage may add notes and parts, or worsen a verdict: "
        "set a limit, or accept the drift, where the pair is to pass"
    )


def _judge_metric(metric: str, levels: tuple[Limit, ...], comparison: Comparison, limits: Limits) -> _Judgement:
    """Hold a number against its limits, the failing level first."""
    is_golden = METRICS[metric].golden is not None
    first, measured, apart = levels[0], comparison.measurements.get(metric), None
    if comparison.dominated:
        measured, apart = comparison.judged(metric)
    if measured is None:
        measured = Measurement(metric, undefined=_NO_GOLDEN if is_golden else _UNMEASURED)
    value = measured.value
    if not measured.applies:
        code, why = "limit_skipped_one_element", measured.undefined
        if why is not None and why.code in _NOT_APPLICABLE:
            code = "limit_skipped"
        elif comparison.near_zero and not (comparison.elements == 1 and metric == "cosine_similarity"):
            code = "limit_skipped_near_zero"
        parameters: dict[str, Parameter] = {"metric": metric, "rule": first.rule}
        parameters |= {"why": why} if code == "limit_skipped" else {}
        return None, first, "skipped", _Said(Message(code, parameters))
    if comparison.elements == 0:
        return None, first, "skipped", None
    # An equal pair may differ in its bits (−0.0 and 0.0, NaN payloads), and both of it from golden.
    if comparison.differing == 0 and metric != "bitwise_mismatch" and not (is_golden and measured.value is not None):
        return value, first, "ok", None
    if value is None or isinstance(value, tuple):
        why = measured.undefined or _UNMEASURED
        message = Message("metric_undefined", {"metric": metric, "why": why, "rule": first.rule})
        if apart is not None:
            message = Message("metric_undefined_of_others", {**message.parameters, **_others(comparison, apart)})
        return None, first, "undefined", _Said(message, curable=False)
    if comparison.right_zero_mismatch and metric in RELATIVE_METRICS:
        # A relative error does not cover the elements whose reference is 0.
        message = Message("leaves_out_zeros", _parameters(value, first) | {"n": comparison.right_zero_mismatch})
        return value, first, first.level, _Said(message, curable=False)
    for limit in levels:
        if not meets(value, limit):
            if (metric, limit.bound) == ("max_absolute_error", 0) and _counts(comparison, limits):
                # How far two ids are apart says nothing.
                return value, limit, limit.level, _Said(_integers_differ(comparison, limit), curable=False)
            detail = (
                _detail(measured, comparison) if apart is None else Message("detail_others", _others(comparison, apart))
            )
            message = _beyond(value, limit, detail)
            return value, limit, limit.level, _Said(message, curable=metric != "nonfinite_mismatch")
    if limits.known_drift is not None:
        for limit in levels:
            if limit not in limits.strict:
                return _within_known_drift(value, limit, limits)
    return value, first, "ok", None


def _counts(comparison: Comparison, limits: Limits) -> bool:
    return limits.judged_as in _COUNTING and comparison.worst != ()


def _integers_differ(comparison: Comparison, limit: Limit) -> Message:
    """Say which integers differ; of equal ratios the worst element is the first one."""
    index, left, right, _ = comparison.worst[0]
    parameters: dict[str, Parameter] = {"left": int(left.real), "right": int(right.real), "place": index}
    counts: dict[str, Parameter] = {"n": comparison.differing, "elements": comparison.elements}
    return Message(_OF_INTEGERS, {**counts, **parameters, "rule": limit.rule})


def _without_distances_of_ids(said: dict[str, _Said], checks: Sequence[Check]) -> dict[str, _Said]:
    """Leave out what is said of distances where integers differ: how far ids are apart says nothing."""
    outcomes = {check.metric: check.outcome for check in checks if check.metric in said}
    if not any(one.message.code == _OF_INTEGERS and outcomes[metric] == "fail" for metric, one in said.items()):
        return said
    apart = outcomes.keys() - COUNTS_IDS - {"max_absolute_error"}
    return {metric: one for metric, one in said.items() if metric not in apart or outcomes[metric] == "undefined"}


def _is_excused(limit: Limit, outcome: str, *, of_any_number: bool) -> bool:
    """Whether a number says nothing of values that are rounding alone, for which a limit of 0 asks for equal ones.

    Of random masks no number of elements says anything.
    """
    metric = limit.metric
    if outcome not in FAILING or metric in CLASS_METRICS or metric == _ROUTES:
        return False
    return of_any_number or (metric in SCALE_FREE_METRICS and (limit.bound != 0 or metric == "allclose"))


def _larger_is_better(metric: str) -> bool:
    return METRICS[metric].direction == "high"


def _within_known_drift(value: float | int, limit: Limit, limits: Limits) -> _Judgement:
    """A number within a known drift: fine when the normal limits hold as well, else a warning."""
    metric = limit.metric
    normal = [other for other in limits.strict if other.metric == metric]
    broken = next((other for other in normal if not meets(value, other)), None)
    if normal and broken is None:
        return value, limit, "ok", None
    way = "down_to" if _larger_is_better(metric) else "up_to"
    if broken is None:
        return value, limit, "warn", _Said(Message(f"drift_alone_{way}", _parameters(value, limit)))
    parameters: dict[str, Parameter] = {"why": _beyond(value, broken), "limit": limit.bound, "rule": limit.rule}
    return value, limit, "warn", _Said(Message(f"drift_accepted_{way}", parameters))


def _parameters(value: float | int, limit: Limit) -> dict[str, Parameter]:
    return {"metric": limit.metric, "value": value, "limit": limit.bound, "rule": limit.rule}


def _beyond(value: float | int, limit: Limit, detail: Message | None = None) -> Message:
    code = _BEYOND[_larger_is_better(limit.metric), limit.level]
    if detail is not None and detail.code == _GOLDEN_DETAIL:
        code = _BEYOND_GOLDEN[limit.level]
    return Message(code, {**_parameters(value, limit), "detail": detail})


def _detail(measured: Measurement, comparison: Comparison) -> Message | None:
    """Where the number comes from, and for counts what was counted."""
    classes, found, field = comparison.nonfinite, comparison.three_way, METRICS[measured.metric].golden
    if found is not None and field is not None:
        both = {"left": getattr(found.left, field), "other": getattr(found.other, field)}
        return Message(_GOLDEN_DETAIL, {**both, "other_run": found.other_run, "golden": found.golden})
    if measured.metric == "nonfinite_mismatch":
        counts = {name: getattr(classes, name) for name in ("nan_left", "nan_right", "inf_left", "inf_right")}
        return Message("detail_nonfinite", {**counts, "place": _place(measured.where or classes.first_mismatch)})
    if measured.metric == "saturated_count":
        return Message("detail_saturated", {"place": _place(measured.where)})
    if measured.metric == "worst_slice_error" and measured.where:
        return Message("detail_slice", {"n": measured.where[0]})
    if measured.metric == "allclose":
        return Message("detail_tolerance", {"rtol": comparison.rtol, "atol": comparison.atol})
    return Message("detail_place", {"place": measured.where}) if measured.where is not None else None


def _others(comparison: Comparison, apart: Dominated) -> dict[str, Parameter]:
    return {"n": comparison.finite - apart.elements, "near": apart.near}


def _place(index: tuple[int, ...] | None) -> Parameter:
    return Message("unknown_place") if index is None else index


def _dtype_finding(comparison: Comparison, limits: Limits, left: str, right: str) -> Finding:
    both = {"left": left, "right": right}
    kinds = [DTYPES[name].kind if name in DTYPES else None for name in (left, right)]
    if kinds.count("complex") == 1 and limits.complex != "allow":
        return Finding("error", Message("complex_against_real", {**both, "entry": _COMPLEX_ENTRY}))
    if limits.dtype_equal:
        rule = limits.dtype_rule
        return Finding("fail", Message("dtypes_must_be_equal", {**both, "rule": rule}), rule=rule)
    if not {*kinds} <= {"integer", "bool"}:
        return Finding("note", Message("dtypes_judged_as_coarser", {**both, "dtype": limits.judged_as}))
    if comparison.equal:
        return Finding("note", Message("dtypes_differ_values_equal", both))
    if any(limit.metric == "allclose" and limit.bound > 0 for limit in limits.limits):
        # Rounding flips these integers, as a limits file says: the limit on their number judges.
        return Finding("note", Message("dtypes_judged_as_coarser", {**both, "dtype": limits.judged_as}))
    return Finding("fail", Message("dtypes_and_values_differ", {**both, "n": comparison.differing}))


def _forbidden_nonfinite(comparison: Comparison, limits: Limits) -> Finding:
    """NaN and Inf where none may be, the same on both sides or not."""
    classes, count = comparison.nonfinite, comparison.elements - comparison.finite
    names = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right")
    parameters: dict[str, Parameter] = {
        "rule": limits.nan_rule,
        "n": count,
        "elements": comparison.elements,
        **{name: getattr(classes, name) for name in names},
        "place": _place(classes.first_nonfinite),
    }
    return Finding("fail", Message("nonfinite_forbidden", parameters), value=count, limit=0, rule=limits.nan_rule)


def _device_overflows(comparison: Comparison, limits: Limits, sentences: Sequence[str]) -> Iterator[Finding]:
    """Overflows that the device saw while it computed: the numbers may look harmless, as saturated ones do."""
    bounds = [limit for limit in limits.limits if (limit.metric, limit.level) == ("saturated_count", "fail")]
    rule = bounds[0].rule if bounds and bounds[0].bound < 1 else None
    outcome = "fail" if rule is not None and not comparison.equal else "warn"
    for sentence in sentences:
        yield Finding(outcome, Message("device_overflow", {"told": sentence}), rule=rule)


def _remark_finding(remark: Message, limits: Limits, said: Mapping[str, _Said]) -> Finding:
    if remark.code in _OF_MASKS[1:]:
        return Finding("fail", remark)
    if remark.code in _OF_TIES:
        cleared = "note" if remark.code == _REORDERED else _EXCUSES.get(remark.code, "fail")
        return Finding("fail" if limits.dtype_equal else cleared, remark)
    if remark.code in (_ROUNDING, _MASKS):
        return Finding("warn" if any(one.is_excused for one in said.values()) else "note", remark)
    if remark.code == "computed_in":
        judged_as = Message("judged_as_computed", {"why": remark, "dtype": limits.judged_as})
        return Finding("note", remark if limits.dtype_equal else judged_as)
    if remark.code == "coarser_values":
        parameters: dict[str, Parameter] = {"why": remark, "dtype": limits.judged_as, "entry": _DTYPE_HINT_ENTRY}
        if limits.dtype_hint:
            return Finding("note", Message("judged_by_hint", parameters))
        return Finding("note", Message("hint_would_help", {**parameters, "section": "msdump"}))
    if not limits.dtype_equal or remark.code in (_GRAPH, "cropped"):
        return Finding("note", remark)
    rule = limits.dtype_rule
    return Finding("fail", Message("file_not_accepted", {"why": remark, "rule": rule}), rule=rule)


def _uncompared_occurrences(limits: Limits) -> Iterator[Finding]:
    """Further occurrences of the tensor that have no partner: their values were not looked at."""
    rule = limits.repeats_rule
    by = Message("by_rule", {"rule": rule}) if rule else None
    for side, count in zip(("left", "right"), limits.uncompared, strict=True):
        if count:
            message = Message("uncompared_occurrences", {"side": side, "n": count, "by": by})
            yield Finding("fail" if rule else "warn", message, rule=rule or None)


def _not_compared(comparison: Comparison, checks: Sequence[Check]) -> Iterator[Finding]:
    """Nothing that was not compared, or not looked at, may count as passed."""
    if comparison.elements == 0:
        yield Finding("warn", Message("nothing_compared_empty"))
    elif not comparison.equal and _is_unjudged(comparison, checks):
        yield Finding("undefined", Message("no_limit_applies"))
    count, total = comparison.elements, comparison.total_elements
    if total is not None:
        code = "sampled" if comparison.sampled else "only_first_compared"
        yield Finding("warn", Message(code, {"n": count, "elements": total}))
    elif comparison.sampled:
        yield Finding("warn", Message("sampled_of_unknown", {"n": count}))


def _is_unjudged(comparison: Comparison, checks: Sequence[Check]) -> bool:
    """Whether no limit on accuracy could be judged; limits on NaN and overflow alone are meant so."""
    # What differs next to 0 alone has relative errors of 0 by definition.
    if comparison.near_zero == comparison.differing:
        return not checks
    outcomes = {one.outcome for one in checks}
    of_accuracy = {one.outcome for one in checks if one.metric not in CLASS_METRICS}
    return outcomes.isdisjoint(FAILING) and (of_accuracy or outcomes) <= {"skipped"}


_UPWARD = Context(prec=3, rounding=ROUND_CEILING)
_EXACT = Context(prec=50)


def _would_pass(checks: Iterable[Check], said: Mapping[str, _Said]) -> dict[str, float]:
    """Return the bound that each failed metric would have met, except where no bound would cure it."""
    return {
        one.metric: bound
        for one in checks
        if one.outcome == "fail" and one.metric in said and said[one.metric].curable
        if isinstance(one.value, int | float)
        if (bound := passing_bound(one.metric, one.value)) is not None
    }


def passing_bound(metric: str, value: float | int) -> float | None:
    """Round a value to three significant digits towards the lenient side.

    Similarities keep three digits of their distance from 1, so that 0.9999985 does not become 0.999. ``None`` when no
    meaningful limit would be met: NaN, Inf, a cosine of −1.
    """
    if not math.isfinite(value):
        return None
    fact = METRICS[metric]
    if fact.direction == "high" and fact.most == math.inf:
        return -float(_UPWARD.create_decimal(repr(-float(value))))
    if fact.direction == "high":
        # The digits that count are those of the distance from the best value.
        gap = _UPWARD.subtract(Decimal(fact.most), Decimal(repr(float(value))))
        bound = float(_EXACT.subtract(Decimal(fact.most), gap))
        return bound if bound > fact.least else None
    if isinstance(value, int):
        return int(_UPWARD.create_decimal(value))
    bound = float(_UPWARD.create_decimal(repr(float(value))))
    return bound if math.isfinite(bound) else None
