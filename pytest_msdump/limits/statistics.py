"""The opinion on a pair of which at least one tensor was not saved: from statistics, and the limits of its metrics.

Profiles, rules, known drifts, thresholds and markers hold as for tensors: what statistics tell is put in the terms of
metrics (`limits.statistic_distance`). Metrics that no statistic tells of (`cosine_similarity`, `kl_divergence`, …) are
not judged, and that is said. Beyond that, an extreme or mean that has changed its sign fails by itself, and so do
elements that have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.metrics import SIGN_CHANGES, STATISTICS
from pytest_msdump.limits.judge import judge, rows
from pytest_msdump.limits.statistic_distance import Distance, distance
from pytest_msdump.model.comparison import OUTCOMES, Comparison, Finding, Limits, Measurement, Nonfinite, Verdict
from pytest_msdump.model.record import Check
from pytest_msdump.model.statistics import StatisticComparison, Statistics
from pytest_msdump.text import Message, Parameter

__all__ = ["judge_statistics", "statistic_name"]

_RULE = "statistics"
_BITS = "bitwise_mismatch"
_SIGNED = ("maximum", "minimum", "mean")
# Of two numbers of different sign, each further from 0 than this share of what their difference may be.
_NOISE = 0.1
_TOLD = ("error", "fail", "undefined", "warn", "note")
_NOT_SAVED = {
    ("left",): Message("not_saved_left"),
    ("right",): Message("not_saved_right"),
    ("left", "right"): Message("not_saved_both"),
}


class _Case(NamedTuple):
    """All that is known of one pair."""

    left: Statistics
    right: Statistics
    limits: Limits
    dtypes: tuple[str, str]
    elements: int | None
    found: Distance
    equal_bits: bool | None

    @property
    def whole(self) -> bool:
        """Whether both sides are integers or bools."""
        return all(DTYPES[name].kind in ("integer", "bool") for name in self.dtypes)


def statistic_name(statistic: str) -> str:
    """Return what a user calls a statistic when asking for it.

    Examples
    --------
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
    overflows: Sequence[str] = (),
    right_overflows: Sequence[str] = (),
) -> tuple[Verdict, list[Check], StatisticComparison]:
    """Hold two sets of statistics against the limits of their pair.

    Parameters
    ----------
    left, right : Statistics
        Both sides, of one logical shape. Digests are there only where they are of bytes in one order and type.
    limits : Limits
        From `limits.resolve.resolve`, for the same pair.
    left_dtype, right_dtype : str
        Names of `facts.dtypes`.
    elements : int, optional
        Elements of either tensor, where anything tells.
    unseen : tuple of str
        The sides whose tensor was not saved.
    overflows, right_overflows : sequence of str
        What the device's own check says, as for `limits.judge.judge`.

    Returns
    -------
    verdict, checks, comparison
        A pair without a number in common that says something of its values is `undefined`.

    Notes
    -----
    Numbers are compared as far as they were printed: what rounding can explain is no drift. Bits are equal only when
    digests are; without one, the limit of `bitwise_mismatch` is undefined unless some number differs.
    """
    bits = _equal_bits(left, right)
    found = distance(
        left,
        right,
        left_dtype=left_dtype,
        right_dtype=right_dtype,
        elements=elements,
        limited=frozenset(limit.metric for limit in limits.limits),
        tolerance=(limits.rtol, limits.atol),
    )
    case = _Case(left, right, limits, (left_dtype, right_dtype), elements, found, bits)
    measured = _measured(case)
    judged = _only(limits, frozenset(measured.measurements))
    types = (left_dtype, left_dtype) if case.whole and not limits.dtype_equal else case.dtypes
    verdict = judge(
        measured,
        judged,
        left_dtype=types[0],
        right_dtype=types[1],
        overflows=overflows,
        right_overflows=right_overflows,
    )
    own = [] if elements == 0 else list(_own_findings(case, judged))
    findings = [*(_explained(finding, found) for finding in verdict.findings), *own, *_notes(case, unseen)]
    findings.sort(key=lambda finding: _TOLD.index(finding.outcome))
    opinions = (finding.outcome for finding in findings if finding.outcome != "note")
    outcome = max(opinions, key=OUTCOMES.index, default="pass")
    comparison = StatisticComparison(left, right, unseen, _in_common(left, right), found.at_least, bits, elements)
    return Verdict(outcome, tuple(findings), verdict.would_pass), rows(measured, judged), comparison


def _in_common(left: Statistics, right: Statistics) -> tuple[str, ...]:
    return tuple(
        name for name in STATISTICS if left.values.get(name) is not None and right.values.get(name) is not None
    )


def _equal_bits(left: Statistics, right: Statistics) -> bool | None:
    digests = [name for name in _in_common(left, right) if STATISTICS[name].kind == "digest"]
    return all(left.values[name] == right.values[name] for name in digests) if digests else None


def _measured(case: _Case) -> Comparison:
    """What is known, as if it had been measured; metrics that nothing is known of are not in it."""
    found = case.found
    measurements = {metric: Measurement(metric, value) for metric, value in found.at_least.items()}
    measurements |= {metric: Measurement(metric, undefined=reason) for metric, reason in found.undefined.items()}
    measurements[_BITS] = _bits(case)
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
    """Equal digests, or any number that differs, tell of bits; equal numbers do not."""
    if case.equal_bits is not None:
        return Measurement(_BITS, 0 if case.equal_bits else 1)
    counts = [name for name in _in_common(case.left, case.right) if STATISTICS[name].kind == "count"]
    differs = any(case.left.values[name] != case.right.values[name] for name in counts)
    if differs or any(case.found.at_least.values()):
        return Measurement(_BITS, 1)
    return Measurement(_BITS, undefined=Message("bits_not_told"))


def _only(limits: Limits, metrics: frozenset[str]) -> Limits:
    """The limits of metrics that something is known of."""
    return replace(
        limits,
        limits=tuple(limit for limit in limits.limits if limit.metric in metrics),
        strict=tuple(limit for limit in limits.strict if limit.metric in metrics),
    )


def _explained(finding: Finding, found: Distance) -> Finding:
    """Add both sides' numbers to what is beyond a limit."""
    name = found.by.get(finding.metric or "")
    if name is None or finding.outcome not in ("fail", "warn"):
        return finding
    gap = found.gaps[name]
    numbers: dict[str, Parameter] = {"statistic": statistic_name(name), "left": gap.left, "right": gap.right}
    return replace(finding, message=Message("statistic_explains", {"why": finding.message, **numbers}))


def _own_findings(case: _Case, judged: Limits) -> Iterator[Finding]:
    """What is said of statistics beside the limits of metrics."""
    if case.equal_bits:
        return
    if _all_nonfinite(case):
        return
    if not case.found.gaps and case.equal_bits is None:
        yield Finding("undefined", _nothing_in_common(case))
    elif not any(limit.metric in (*case.found.by, _BITS) for limit in judged.limits):
        yield Finding("undefined", Message("no_limit_for_statistics"))
    yield from _signs(case, judged)
    if not case.whole:
        yield from _sign_counts(case)
    elif case.dtypes[0] != case.dtypes[1] and not case.limits.dtype_equal:
        yield Finding("note", Message("dtypes_differ", {"left": case.dtypes[0], "right": case.dtypes[1]}))


def _all_nonfinite(case: _Case) -> bool:
    """Whether both sides are known to be NaN and Inf alone, so that there is no finite number to compare."""
    counts = [sum(pair) for pair in zip(case.found.nan, case.found.inf, strict=True)]
    return bool(case.elements) and "nonfinite_mismatch" in case.found.at_least and min(counts) == case.elements


def _nothing_in_common(case: _Case) -> Message:
    sides = {
        label: tuple(statistic_name(name) for name in STATISTICS if side.values.get(name) is not None)
        for label, side in (("left", case.left), ("right", case.right))
    }
    return Message("no_common_statistic", {label: names or Message("none") for label, names in sides.items()})


def _signs(case: _Case, judged: Limits) -> Iterator[Finding]:
    """Numbers that lie on different sides of 0, each too far from it for noise."""
    for name in _SIGNED:
        gap = case.found.gaps.get(name)
        if gap is None or not (gap.left < 0 < gap.right or gap.right < 0 < gap.left):
            continue
        allowed = _allowed(name, case.found.allowed, judged)
        if min(abs(gap.left), abs(gap.right)) > _NOISE * allowed + gap.slack:
            said = {"statistic": statistic_name(name), "left": gap.left, "right": gap.right}
            yield Finding("fail", Message("statistic_changed_sign", said), rule=_RULE)


def _allowed(name: str, units: Mapping[str, Mapping[str, float]], judged: Limits) -> float:
    """The largest difference of a statistic that all limits allow; none where no limit speaks of it."""
    bounds = [
        limit.bound * units[limit.metric][name]
        for limit in judged.limits
        if limit.level == "fail" and name in units.get(limit.metric, {})
    ]
    return min(bounds, default=0.0)


def _sign_counts(case: _Case) -> Iterator[Finding]:
    """How many elements are below, at and above 0: more changed than drift of a type makes of small ones."""
    if not case.elements:
        return
    share = SIGN_CHANGES.get(case.limits.judged_as, max(SIGN_CHANGES.values()))
    change = {name: _change(case, f"{name}_count") for name in ("negative", "positive", "zero")}
    negative, positive, zero = change["negative"], change["positive"], change["zero"]
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


def _change(case: _Case, name: str) -> int | None:
    left, right = case.left.values.get(name), case.right.values.get(name)
    return left - right if isinstance(left, int) and isinstance(right, int) else None


def _notes(case: _Case, unseen: tuple[str, ...]) -> Iterator[Finding]:
    """That tensors were not seen, and what could not be judged without them."""
    common = tuple(map(statistic_name, _in_common(case.left, case.right))) or Message("none_in_common")
    yield Finding("note", Message("judged_by_statistics", {"listed": common, "unseen": _NOT_SAVED[unseen]}))
    if case.equal_bits is False:
        yield Finding("note", Message("digests_differ"))
    elif case.equal_bits:
        yield Finding("note", Message("digests_equal"))
        return
    told = {*case.found.at_least, *case.found.undefined, _BITS}
    silent = dict.fromkeys(limit.metric for limit in case.limits.limits if limit.metric not in told)
    if silent:
        yield Finding("note", Message("statistics_do_not_tell", {"listed": tuple(silent)}))
