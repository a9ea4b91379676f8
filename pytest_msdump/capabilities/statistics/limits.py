"""The verdict on a pair of which at least one tensor was not saved: from its statistics and the limits of metrics.

Profiles, rules, known drifts, thresholds and markers hold as for tensors: `limits.statistic_distance` gives lower
bounds of metrics. Metrics without such a bound (`cosine_similarity`, `kl_divergence`, …) are not judged, and a note
says so. In addition, an extreme or mean that changed its sign fails by itself, and so do too many elements that did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_msdump.capabilities.statistics.distance import Distance, distance, dominance
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import CLASS_METRICS, METRICS, NORM_METRICS, SIGN_CHANGES, STATISTICS
from pytest_msdump.core.limits.judge import judge, passing_bound, verdict_from
from pytest_msdump.core.limits.permissions import meets
from pytest_msdump.core.model.comparison import (
    FAILING,
    Comparison,
    Finding,
    Interval,
    Limit,
    Limits,
    Measurement,
    Nonfinite,
    SliceGap,
    StatisticComparison,
    Verdict,
)
from pytest_msdump.core.model.record import Check, Record
from pytest_msdump.core.model.tensor import Pair, Statistics, Transform
from pytest_msdump.core.text import Message, Parameter

_RULE = "statistics"
_BITS = "bitwise_mismatch"
_LARGEST = "max_absolute_error"
_SLICE = "worst_slice_error"
_DISTANCE = "relative_euclidean_distance"
_PLACES = "nonfinite_mismatch"
PROOFS = tuple(name for name, fact in STATISTICS.items() if fact.proves)
_SIGNED = ("maximum", "minimum", "mean")
# By how much of its size a number of equal bytes may differ: extremes where a side took them in float32, sums where it
# added up in another order, sketches where a device made one.
_ONE_EXTREME, _ONE_SUM, _ONE_SKETCH = 1e-6, 1e-4, 1e-6
# Two numbers of different sign differ by more than noise when each is further from 0 than this share of the largest
# difference that the limits allow.
_NOISE = 0.1
_NOT_SAVED = {
    ("left",): Message("not_saved_left"),
    ("right",): Message("not_saved_right"),
    ("left", "right"): Message("not_saved_both"),
}


_NO_INTERVALS: Mapping[str, Interval] = {}
# What it means for a pair that its sketches say nothing of each other, by the note that says why.
_NOT_COMPARABLE = {"sketches_of_two_sizes": "undefined", "sketches_of_two_orders": "warn"}


class _Case(NamedTuple):
    """One pair: its statistics, what follows from them, and its limits."""

    left: Statistics
    right: Statistics
    limits: Limits
    dtypes: tuple[str, str]
    elements: int | None
    found: Distance
    equal_bits: bool | None
    intervals: Mapping[str, Interval]
    slices: SliceGap | None = None

    @property
    def is_integer(self) -> bool:
        return all(DTYPES[name].kind in ("integer", "bool") for name in self.dtypes)

    @property
    def in_common(self) -> tuple[str, ...]:
        return tuple(
            name
            for name in STATISTICS
            if self.left.values.get(name) is not None and self.right.values.get(name) is not None
        )


def statistic_name(statistic: str) -> str:
    """Return a statistic's name as users write it.

    >>> statistic_name("maximum"), statistic_name("l2_norm"), statistic_name("negative_count")
    ('max', 'l2norm', 'negative zero count')
    """
    return STATISTICS[statistic].columns[0].removesuffix(" value")


def judge_statistics(
    left: Statistics,
    right: Statistics,
    limits: Limits,
    *,
    left_dtype: str,
    right_dtype: str,
    elements: int | None,
    unseen: tuple[str, ...],
    intervals: Mapping[str, Interval] = _NO_INTERVALS,
    slices: SliceGap | None = None,
    overflows: Sequence[str] = (),
    right_overflows: Sequence[str] = (),
) -> tuple[Verdict, tuple[Check, ...], StatisticComparison]:
    """Judge a pair by the statistics of both sides, which have one logical shape."""
    found = distance(
        left,
        right,
        left_dtype=left_dtype,
        right_dtype=right_dtype,
        elements=elements,
        limited=frozenset(limit.metric for limit in limits.limits),
        tolerance=(limits.rtol, limits.atol),
    )
    if slices is not None and any(one.metric == _SLICE and slices.at_least > one.bound for one in limits.limits):
        found = found._replace(at_least={**found.at_least, _SLICE: slices.at_least})
    case = _Case(left, right, limits, (left_dtype, right_dtype), elements, found, None, intervals, slices)
    contradiction = None
    digests = {name: left.values[name] == right.values[name] for name in case.in_common if _is_digest(name)}
    proof = next((name for name, is_equal in digests.items() if is_equal and STATISTICS[name].proves), None)
    if proof is not None and (contradiction := _contradiction(proof, case)) is None:
        case = case._replace(equal_bits=True)
    elif proof is None and not all(digests.values()):
        case = case._replace(equal_bits=False)
    measured = _as_measured(case)
    known = replace(
        limits,
        limits=tuple(limit for limit in limits.limits if limit.metric in measured.measurements),
        strict=tuple(limit for limit in limits.strict if limit.metric in measured.measurements),
    )
    types = (left_dtype, left_dtype) if case.is_integer and not limits.dtype_equal else case.dtypes
    verdict, checks = judge(
        measured, known, left_dtype=types[0], right_dtype=types[1], overflows=overflows, right_overflows=right_overflows
    )
    findings = [
        *([] if contradiction is None else [Finding("error", contradiction)]),
        # What these statistics do not show is said below.
        *(_explained(finding, case) for finding in verdict.findings if finding.message.code != "no_limit_applies"),
        *(() if elements == 0 else _statistic_findings(case, known, checks)),
        *_close_findings(case),
        *_notes(case, unseen, {one.metric for one in verdict.findings if one.outcome == "fail"}),
    ]
    if all(one.outcome not in FAILING for one in findings):
        findings += _dominated_findings(case)
    comparison = StatisticComparison(
        left, right, unseen, case.in_common, found.at_least, dict(intervals), case.equal_bits, elements
    )
    checks = tuple(_estimated(check, case) for check in checks)
    bounds = {} if contradiction is not None else _would_pass(verdict.would_pass, intervals)
    return verdict_from(findings, bounds), checks, comparison


def _is_digest(statistic: str) -> bool:
    return STATISTICS[statistic].kind == "digest"


def _contradiction(proof: str, case: _Case) -> Message | None:
    """Return what cannot be where digests are equal that prove equal bytes; ``None`` where all agrees with them."""
    left, right, gaps = case.left.values, case.right.values, case.found.gaps
    largest = max((abs(number) for name in _SIGNED if name in gaps for number in gaps[name][:2]), default=0.0)
    apart = []
    for name in case.in_common:
        if name in gaps:
            one, other, beyond, _ = gaps[name]
            share = _ONE_EXTREME if name in ("maximum", "minimum") else _ONE_SUM
            differs = beyond > share * max(largest, abs(one), abs(other))
        else:
            differs = STATISTICS[name].kind != "value" and left[name] != right[name]
        if differs:
            apart.append(statistic_name(name))
    if case.found.at_least.get(_PLACES) or case.found.undefined:
        apart.append(_PLACES)
    interval = case.intervals.get(_DISTANCE)
    if interval is not None and interval.low > _ONE_SKETCH:
        apart.append(_DISTANCE)
    digest = statistic_name(proof)
    return Message("digest_contradicted", {"digest": digest, "listed": tuple(apart)}) if apart else None


def _as_measured(case: _Case) -> Comparison:
    """Return what is known of the pair as if it had been measured; metrics without a bound are not in it."""
    found = case.found
    measurements = {metric: Measurement(metric, value) for metric, value in found.at_least.items()}
    measurements |= {metric: Measurement(metric, _ends(metric, one)[0]) for metric, one in case.intervals.items()}
    measurements |= {metric: Measurement(metric, undefined=reason) for metric, reason in found.undefined.items()}
    measurements[_BITS] = _bits(case)
    apart = case.intervals.get(_DISTANCE)
    if case.is_integer and not case.equal_bits and (case.equal_bits is False or (apart and apart.low > 0)):
        # Two integers that differ at all differ by 1 or more.
        least = max(found.at_least.get(_LARGEST, 0), 1)
        measurements[_LARGEST] = Measurement(_LARGEST, least)
    (nan_left, nan_right), (inf_left, inf_right) = found.nan, found.inf
    elements = 1 if case.elements is None else case.elements
    return Comparison(
        elements=elements,
        finite=max(0, elements - max(nan_left + inf_left, nan_right + inf_right)),
        differing=0 if case.equal_bits else 1,
        right_zero_mismatch=0,
        measurements=measurements,
        nonfinite=Nonfinite(nan_left=nan_left, nan_right=nan_right, inf_left=inf_left, inf_right=inf_right),
        rtol=case.limits.rtol,
        atol=case.limits.atol,
    )


def _bits(case: _Case) -> Measurement:
    """Equal digests mean equal bits, any number that differs means differing ones; equal numbers mean neither."""
    if case.equal_bits is not None:
        return Measurement(_BITS, 0 if case.equal_bits else 1)
    counts = [name for name in case.in_common if STATISTICS[name].kind == "count"]
    differs = any(case.left.values[name] != case.right.values[name] for name in counts)
    if differs or any(case.found.at_least.values()):
        return Measurement(_BITS, 1)
    return Measurement(_BITS, undefined=Message("bits_not_told"))


def _ends(metric: str, interval: Interval) -> tuple[float, float]:
    """Return the end of an interval that meets a limit sooner, and the other one."""
    _, low, high = interval
    return (high, low) if METRICS[metric].direction == "high" else (low, high)


def _close_limits(case: _Case) -> Iterator[tuple[Limit, Interval]]:
    for limit in case.limits.limits if not case.equal_bits else ():
        if interval := case.intervals.get(limit.metric):
            better, worse = _ends(limit.metric, interval)
            if meets(better, limit) and not meets(worse, limit):
                yield limit, interval


def _estimated(check: Check, case: _Case) -> Check:
    """Return a check with the estimate in the place of the end of the interval that it was judged by."""
    interval = case.intervals.get(check.metric)
    if case.intervals and interval is None and check.metric in case.found.by and check.outcome == "ok":
        return check._replace(value=None, outcome="skipped")
    if interval is None or check.value is None:
        return check
    limit = next((one for one, _ in _close_limits(case) if one.metric == check.metric), None)
    if limit is None or check.outcome != "ok":
        return check._replace(value=interval.value)
    return Check(check.metric, interval.value, limit.bound, limit.level, limit.rule, "warn", limit.base)


def _would_pass(bounds: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Return the bounds that the worse ends of intervals meet, too."""
    ends = {metric: _ends(metric, intervals[metric])[1] for metric in bounds if metric in intervals}
    found = {**bounds, **{metric: passing_bound(metric, end) for metric, end in ends.items()}}
    return {metric: bound for metric, bound in found.items() if bound is not None}


def _close_findings(case: _Case) -> Iterator[Finding]:
    """Yield the limits that an interval holds, and differences that sketches do not see."""
    for limit, interval in _close_limits(case):
        # Rounded outwards: an end that is on the other side of the limit reads so.
        shares = sorted(_share(end, limit) for end in interval[1:])
        ends = {"low": math.floor(100 * shares[0]) / 100, "high": math.ceil(100 * shares[1]) / 100}
        message = Message("too_close", {"metric": limit.metric, **ends, "limit": limit.bound, "rule": limit.rule})
        yield Finding("warn", message, limit.metric, interval.value, limit.bound, limit.rule)
    distance = case.intervals.get(_DISTANCE)
    if case.equal_bits is False and distance is not None and not distance.value:
        yield Finding("warn", Message("sketches_equal_digests_differ"))
    places = next((one for one in case.limits.limits if one.metric == _PLACES), None)
    if places is not None and case.found.unplaced and not case.found.at_least.get(_PLACES) and not case.equal_bits:
        # Digests of the whole bytes differ with any rounding, and so say nothing of these places.
        message = Message("places_not_saved", {"rule": places.rule})
        yield Finding("warn", message, _PLACES, None, places.bound, places.rule)


def _dominated_findings(case: _Case) -> Iterator[Finding]:
    """Yield that nothing was judged but the elements which dominate all others."""
    if case.equal_bits or NORM_METRICS.isdisjoint(limit.metric for limit in case.limits.limits):
        return
    sides = [dominance(side, case.elements) for side in (case.left, case.right)]
    if sides[0] is not None and sides[1] is not None:
        share = min(sides[0].share, sides[1].share)
        yield Finding("undefined", Message("statistics_dominated", {"share": share, "near": sides[1].near}))


def _share(value: float, limit: Limit) -> float:
    """Return how much of a limit a number takes up; of a similarity what it is short of 1."""
    return (1 - value) / (1 - limit.bound) if METRICS[limit.metric].direction == "high" else value / limit.bound


def _explained(finding: Finding, case: _Case) -> Finding:
    """Add to a finding about a number beyond its limit the numbers of both sides, or the interval that it is in."""
    if finding.message.code in _NOT_COMPARABLE and not case.equal_bits:
        return replace(finding, outcome=_NOT_COMPARABLE[finding.message.code])
    interval, name = case.intervals.get(finding.metric or ""), case.found.by.get(finding.metric or "")
    if interval is not None and finding.value is not None:
        return replace(finding, message=_with_interval(finding.message, interval), value=interval.value)
    if finding.metric == _SLICE and finding.value is not None and case.slices is not None:
        _, first, last, one, other = case.slices
        where: dict[str, Parameter] = {"first": first, "last": last, "left": one, "right": other}
        return replace(finding, message=Message("slice_norms_explain", {"why": finding.message, **where}))
    if name is None or finding.outcome not in ("fail", "warn"):
        return finding
    gap = case.found.gaps[name]
    if not gap.beyond:
        return finding
    numbers: dict[str, Parameter] = {"statistic": statistic_name(name), "left": gap.left, "right": gap.right}
    return replace(finding, message=Message("statistic_explains", {"why": finding.message, **numbers}))


def _with_interval(message: Message, interval: Interval) -> Message:
    """Return the message about the better end of an interval with the estimate, and with both ends behind it."""
    parameters, why = dict(message.parameters), message.parameters.get("why")
    if isinstance(why, Message):
        parameters["why"] = _with_interval(why, interval)
    if "value" in parameters:
        ends = Message("detail_interval", {"low": interval.low, "high": interval.high})
        parameters |= {"value": interval.value, "detail": ends}
    return replace(message, parameters=parameters)


def _statistic_findings(case: _Case, known: Limits, checks: Sequence[Check]) -> Iterator[Finding]:
    """Yield the findings beside those of metrics; `known` are limits of metrics with a bound."""
    if case.equal_bits or case.found.one_class:
        return
    if not _is_judged(case, known, checks):
        yield Finding("undefined", _nothing_judged(case))
    yield from _changed_signs(case, known)
    if not case.is_integer:
        yield from _changed_sign_counts(case)
    elif case.dtypes[0] != case.dtypes[1] and not case.limits.dtype_equal:
        yield Finding("note", Message("dtypes_differ", {"left": case.dtypes[0], "right": case.dtypes[1]}))


def _is_judged(case: _Case, known: Limits, checks: Sequence[Check]) -> bool:
    """Whether a limit on accuracy was judged; where there are none, limits on NaN and overflow alone are meant so."""
    limits = _of_accuracy(case.limits)
    if not limits or any(check.outcome in FAILING for check in checks):
        return bool(known.limits)
    return any(_may_break(limit, case) for limit in limits)


def _of_accuracy(limits: Limits) -> list[Limit]:
    return [limit for limit in limits.limits if limit.metric not in CLASS_METRICS]


def _nothing_judged(case: _Case) -> Message:
    """Return why no limit could be judged: there is no number, or there are numbers and none for these limits."""
    if case.found.gaps or case.intervals:
        # Sketches show a distance; of integers, and without sketches, extremes show more.
        shown = (_LARGEST, _DISTANCE) if case.is_integer or not case.intervals else (_DISTANCE,)
        advised = next((one for one in shown if one in case.found.by or one in case.intervals), _LARGEST)
        listed = tuple(dict.fromkeys(limit.metric for limit in _of_accuracy(case.limits)))
        return Message("no_accuracy_limit_judged", {"listed": listed or Message("none"), "metric": advised})
    sides = {
        label: tuple(statistic_name(name) for name in STATISTICS if side.values.get(name) is not None)
        for label, side in (("left", case.left), ("right", case.right))
    }
    return Message("no_common_statistic", {label: names or Message("none") for label, names in sides.items()})


def _may_break(limit: Limit, case: _Case) -> bool:
    """Whether these statistics could have shown that a limit is not met."""
    if limit.metric in case.intervals or limit.metric == _BITS:
        return True
    if case.intervals:
        # Of integers a sketch sees any difference, but not its size.
        apart = case.intervals.get(_DISTANCE)
        if apart is None or not case.is_integer or limit.metric != _LARGEST:
            return False
        return limit.bound < 1 or not apart.high
    # Of the elements beyond a tolerance statistics show that there is one.
    return limit.metric in case.found.by and (limit.metric != "allclose" or limit.bound < 1)


def _changed_signs(case: _Case, known: Limits) -> Iterator[Finding]:
    """Yield the numbers that lie on different sides of 0, each too far from it for noise."""
    for name in _SIGNED:
        gap = case.found.gaps.get(name)
        if gap is None or not (gap.left < 0 < gap.right or gap.right < 0 < gap.left):
            continue
        bounds = [
            limit.bound * case.found.allowed[limit.metric][name]
            for limit in known.limits
            if limit.level == "fail" and name in case.found.allowed.get(limit.metric, {})
        ]
        allowed = min(bounds, default=0.0)
        if min(abs(gap.left), abs(gap.right)) > _NOISE * allowed + gap.slack:
            numbers = {"statistic": statistic_name(name), "left": gap.left, "right": gap.right}
            yield Finding("fail", Message("statistic_changed_sign", numbers), rule=_RULE)


def _changed_sign_counts(case: _Case) -> Iterator[Finding]:
    """Compare how many elements are below, at and above 0; the drift of a type changes a share of them at most."""
    if not case.elements:
        return
    share = SIGN_CHANGES.get(case.limits.judged_as, max(SIGN_CHANGES.values()))
    negative, positive, zero = (_count_change(case, f"{name}_count") for name in ("negative", "positive", "zero"))
    crossed = 0
    if negative is not None and positive is not None:
        crossed = min(abs(negative), abs(positive)) if negative * positive < 0 else 0
    elif negative is not None or positive is not None:
        crossed = max(0, abs(negative if negative is not None else positive or 0) - abs(zero or 0))
    if crossed > share * case.elements:
        message = Message("elements_changed_sign", {"n": crossed, "elements": case.elements, "share": share})
        yield Finding("fail", message, value=crossed, limit=math.floor(share * case.elements), rule=_RULE)
    if zero is not None and abs(zero) > share * case.elements:
        counts = {"left": case.left.values["zero_count"], "right": case.right.values["zero_count"]}
        yield Finding("warn", Message("zeros_differ", {**counts, "elements": case.elements}), rule=_RULE)


def _count_change(case: _Case, name: str) -> int | None:
    left, right = case.left.values.get(name), case.right.values.get(name)
    return left - right if isinstance(left, int) and isinstance(right, int) else None


def _notes(case: _Case, unseen: tuple[str, ...], failing: Container[str | None]) -> Iterator[Finding]:
    """Yield which tensors were not saved, and which limits could not be judged without them; `failing` ones were."""
    common = tuple(map(statistic_name, case.in_common)) or Message("none_in_common")
    code = "judged_by_sketches" if case.intervals else "judged_by_statistics"
    yield Finding("note", Message(code, {"listed": common, "unseen": _NOT_SAVED[unseen]}))
    digests = [name for name in case.in_common if _is_digest(name)]
    if case.equal_bits is not None:
        yield Finding("note", Message("digests_equal" if case.equal_bits else "digests_differ"))
    elif digests and not any(STATISTICS[name].proves for name in digests):
        yield Finding("note", Message("digests_prove_nothing", {"listed": tuple(map(statistic_name, digests))}))
    bounds = case.found.at_least.keys() - (case.found.by.keys() if case.intervals else set())
    known = {*bounds, *case.intervals, *case.found.undefined, _BITS}
    limited = dict.fromkeys(limit.metric for limit in case.limits.limits if limit.metric not in known)
    unknown = [metric for metric in limited if metric not in failing]
    if unknown and not case.equal_bits:
        yield Finding("note", Message("statistics_do_not_tell", {"listed": tuple(unknown)}))


def with_digests_checked(pair: Pair, record: Record, again: Callable[[Pair], Record]) -> Record:  # noqa: ARG001 - a stage
    """Return the record of two saved tensors as an `error` where these differ, and digests of both say otherwise."""
    left, right, compared = pair.left.statistics, pair.right.statistics, record.comparison
    if left is None or right is None or compared is None or compared.equal or pair.transform != Transform():
        return record
    names = [name for name in PROOFS if left.values.get(name) and left.values[name] == right.values.get(name)]
    are_alike = left.spec == right.spec and {record.left.dtype, record.right.dtype} == {left.spec and left.spec.dtype}
    if not names or not are_alike:
        return record
    apart = "nonfinite_mismatch" if compared.nonfinite.mismatch else "max_absolute_error"
    message = Message("digest_contradicted", {"digest": statistic_name(names[0]), "listed": (apart,)})
    verdict = verdict_from([Finding("error", message), *record.verdict.findings], {})
    return replace(record, verdict=verdict)
