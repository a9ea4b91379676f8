"""The opinion on one pair, from its numbers and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, NamedTuple

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.model.comparison import OUTCOMES, Comparison, Finding, Limit, Limits, Measurement, Verdict
from pytest_msdump.model.record import Check
from pytest_msdump.text import Message, Parameter

__all__ = ["judge", "judgements", "passing_bound", "rows"]

_UNMEASURED = Message("not_measured")
_HIGH = frozenset(name for name, fact in METRICS.items() if fact.direction == "high")
_PLAIN = frozenset({float, int})

# Whether large numbers are the good ones, whether it only warns → the code of what is said.
_BEYOND = {
    (True, False): "below_limit",
    (True, True): "below_warning_level",
    (False, False): "above_limit",
    (False, True): "above_warning_level",
}

# An equal pair may differ in its bits (−0.0 and 0.0, NaN payloads), so this one is judged whatever the values say.
_ABOUT_BITS = "bitwise_mismatch"


class Judgement(NamedTuple):
    """One metric, its number, and the limit that decided.

    `outcome` is "ok", "fail", "warn", "undefined" or "skipped"; `message` is what to say of it,
    nothing where its limit plainly holds. `curable` is whether another bound alone would let it pass.
    """

    metric: str
    value: float | int | tuple[float, ...] | None
    limit: Limit
    outcome: str
    message: Message | None = None
    curable: bool = True

    def finding(self) -> Finding | None:
        """What a verdict says of this metric; ``None`` when its limit plainly holds."""
        if self.message is None:
            return None
        outcome = "note" if self.outcome == "skipped" else self.outcome
        value = None if isinstance(self.value, tuple) else self.value
        return Finding(outcome, self.message, self.metric, value, self.limit.bound, self.limit.rule)


def judgements(comparison: Comparison, limits: Limits) -> list[Judgement]:
    """Return one for every metric that has a limit, in the order of `facts.metrics`."""
    measurements, made = comparison.measurements, tuple.__new__
    # A number that is within its one limit is fine then, and nearly every number is.
    is_usual = bool(comparison.elements) and not comparison.right_zero_mismatch and limits.known_drift is None
    found = []
    for metric, levels in limits.by_metric.items():
        first, measured = levels[0], measurements.get(metric) or Measurement(metric, undefined=_UNMEASURED)
        value: Any = measured.value
        if is_usual and measured.applies and type(value) in _PLAIN and len(levels) == 1 and meets(value, first):
            found.append(made(Judgement, (metric, value, first, "ok", None, True)))
        else:
            found.append(_exempt(measured, first, comparison) or _against(measured, levels, comparison, limits))
    return found


def meets(value: float | int, limit: Limit) -> bool:
    """Whether a number is within a limit; exactly on it is within, NaN never is."""
    return value >= limit.bound if limit.metric in _HIGH else value <= limit.bound


def _exempt(measured: Measurement, first: Limit, comparison: Comparison) -> Judgement | None:
    """Judge a metric whose number its limits say nothing of; ``None`` where they have to be met."""
    metric, value, undefined, applies, _ = measured
    if not applies:
        code = "limit_skipped_one_element"
        if comparison.near_zero and not (comparison.elements == 1 and metric == "cosine_similarity"):
            code = "limit_skipped_near_zero"
        return Judgement(metric, None, first, "skipped", Message(code, {"metric": metric, "rule": first.rule}))
    if comparison.elements == 0:
        return Judgement(metric, None, first, "skipped")
    if not comparison.differing and metric != _ABOUT_BITS:
        return Judgement(metric, value, first, "ok")
    if value is None or isinstance(value, tuple):
        said: dict[str, Parameter] = {"metric": metric, "why": undefined or _UNMEASURED, "rule": first.rule}
        return Judgement(metric, None, first, "undefined", Message("metric_undefined", said), curable=False)
    if comparison.right_zero_mismatch and metric in RELATIVE_METRICS:
        return _without_reference(metric, value, first, comparison)
    return None


def _without_reference(metric: str, value: float | int, limit: Limit, comparison: Comparison) -> Judgement:
    """A relative error says nothing of the elements whose reference is 0, so its limit does not hold."""
    said = _side_by_side(value, limit) | {"n": comparison.right_zero_mismatch}
    return Judgement(metric, value, limit, limit.level, Message("leaves_out_zeros", said), curable=False)


def _against(measured: Measurement, levels: tuple[Limit, ...], comparison: Comparison, limits: Limits) -> Judgement:
    """Hold a number against its limits, the failing level first, then what a known drift makes milder."""
    value: Any = measured.value
    for limit in levels:
        if not meets(value, limit):
            message = _beyond(value, limit, _detail(measured, comparison))
            curable = measured.metric != "nonfinite_mismatch"
            return Judgement(measured.metric, value, limit, limit.level, message, curable)
    if limits.known_drift is not None:
        for limit in levels:
            if limit not in limits.strict:
                return _drifted(value, limit, limits)
    return Judgement(measured.metric, value, levels[0], "ok")


def _drifted(value: float | int, limit: Limit, limits: Limits) -> Judgement:
    """A number within a known drift: harmless when the normal limits hold as well, else a warning."""
    metric = limit.metric
    normal = [other for other in limits.strict if other.metric == metric]
    if normal and all(meets(value, other) for other in normal):
        return Judgement(metric, value, limit, "ok")
    way = "down_to" if metric in _HIGH else "up_to"
    if normal:
        broken = next(other for other in normal if not meets(value, other))
        said: dict[str, Parameter] = {"why": _beyond(value, broken), "limit": limit.bound, "rule": limit.rule}
        return Judgement(metric, value, limit, "warn", Message(f"drift_accepted_{way}", said))
    return Judgement(metric, value, limit, "warn", Message(f"drift_alone_{way}", _side_by_side(value, limit)))


def _side_by_side(value: float | int, limit: Limit) -> dict[str, Parameter]:
    return {"metric": limit.metric, "value": value, "limit": limit.bound, "rule": limit.rule}


def _beyond(value: float | int, limit: Limit, detail: Message | None = None) -> Message:
    """Put a value, its limit and its rule side by side."""
    code = _BEYOND[limit.metric in _HIGH, limit.level == "warn"]
    return Message(code, {**_side_by_side(value, limit), "detail": detail})


def _detail(measured: Measurement, comparison: Comparison) -> Message | None:
    """Where it is, and for counts what was counted."""
    classes = comparison.nonfinite
    if measured.metric == "nonfinite_mismatch":
        counts = {name: getattr(classes, name) for name in ("nan_left", "nan_right", "inf_left", "inf_right")}
        return Message("detail_nonfinite", {**counts, "place": place_of(measured.where or classes.first_mismatch)})
    if measured.metric == "saturated_count":
        return Message("detail_saturated", {"place": place_of(measured.where)})
    if measured.metric == "allclose":
        return Message("detail_tolerance", {"rtol": comparison.rtol, "atol": comparison.atol})
    return Message("detail_place", {"place": measured.where}) if measured.where is not None else None


def place_of(index: tuple[int, ...] | None) -> Parameter:
    """Return an index as messages take it."""
    return Message("unknown_place") if index is None else index


# -- The opinion on one pair, from its numbers and its limits --------------------------------------------------------


# What a reader should meet first. A number beyond its limit tells more than one that could not be computed.
_TOLD = ("error", "fail", "undefined", "warn", "note")

_HINT = "dtype_hint = true"
_ALLOWS_COMPLEX = '[[msdump.rule]] with complex = "allow"'
_WHOLE = ("integer", "bool")
_CLASSES = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right")


def judge(
    comparison: Comparison,
    limits: Limits,
    *,
    left_dtype: str,
    right_dtype: str,
    overflows: Sequence[str] = (),
    right_overflows: Sequence[str] = (),
    remarks: Sequence[Message] = (),
    judged: Sequence[Judgement] | None = None,
) -> Verdict:
    """Hold the numbers of one pair against its limits.

    A pair that is equal at every position meets every limit, but for what looks at more than values: forbidden NaN,
    equal data types, differing bits. A value exactly on its limit is within it.

    Parameters
    ----------
    comparison : Comparison
        What was measured.
    limits : Limits
        From `limits.resolve.resolve`, for the same pair.
    left_dtype, right_dtype : str
        Names of `facts.dtypes`.
    overflows, right_overflows : sequence of str
        What the device's own check says of the operator of either side: an overflow of the left fails where the limit
        of `saturated_count` is 0 and the sides differ.
    remarks : sequence of Message
        Of their files: notes, which fail where the files have to agree bit by bit.
    judged : sequence of Judgement, optional
        What `judgements` makes of both, where the caller has it already.

    Returns
    -------
    Verdict
        The worst outcome of its findings. Findings hold what is not plainly passing, the failing ones first, and notes.

    Notes
    -----
    An undefined metric that has a limit, of either level, fails the pair: what was not computed was not compared.
    """
    judged = judgements(comparison, limits) if judged is None else judged
    types = None if left_dtype == right_dtype else _types(comparison, limits, left_dtype, right_dtype)
    told = [] if types is None else [types]
    if comparison.finite != comparison.elements and limits.nan == "forbid":
        told.append(_forbidden(comparison, limits))
    told += _not_compared(comparison, judged)
    told += _uncompared(limits)
    if overflows:
        told += _overflows(comparison, limits, overflows)
    told += [_of_file(remark, limits) for remark in remarks]
    told += [Finding("note", Message("device_overflow_right", {"told": sentence})) for sentence in right_overflows]
    told += [finding for one in judged if (finding := one.finding()) and not (types and _told_by_types(one, limits))]
    told += [Finding("note", note) for note in limits.notes]
    # Then no limit would let it pass.
    hopeless = (types is not None and types.outcome != "note") or (
        limits.dtype_equal and any(remark.code != "coarser_values" for remark in remarks)
    )
    hopeless = hopeless or (limits.repeats_rule != "" and any(limits.uncompared))
    return _verdict(told, judged, hopeless=hopeless)


def _of_file(remark: Message, limits: Limits) -> Finding:
    if remark.code == "coarser_values":
        said: dict[str, Parameter] = {"why": remark, "dtype": limits.judged_as, "entry": _HINT}
        if limits.dtype_hint:
            return Finding("note", Message("judged_by_hint", said))
        return Finding("note", Message("hint_would_help", {**said, "section": "msdump"}))
    if not limits.dtype_equal:
        return Finding("note", remark)
    rule = limits.dtype_rule
    return Finding("fail", Message("file_not_accepted", {"why": remark, "rule": rule}), rule=rule)


def _verdict(told: list[Finding], judged: Sequence[Judgement], *, hopeless: bool) -> Verdict:
    findings = tuple(sorted(told, key=_told_when)) if len(told) > 1 else tuple(told)
    opinions = [finding.outcome for finding in findings if finding.outcome != "note"]
    if not opinions:
        return Verdict("pass", findings)

    return Verdict(max(opinions, key=OUTCOMES.index), findings, {} if hopeless else would_pass(judged))


def rows(comparison: Comparison, limits: Limits, judged: Sequence[Judgement] | None = None) -> list[Check]:
    """Return the failure table: every metric that has a limit, in the order of `facts.metrics`.

    Parameters
    ----------
    comparison, limits, judged
        As for `judge`.

    Returns
    -------
    list of Check
        `outcome` is "ok", "fail", "warn", "undefined" or "skipped".
    """
    judged, made = judgements(comparison, limits) if judged is None else judged, tuple.__new__
    return [
        # A third of the time of the class's own constructor.
        made(Check, (metric, value, limit.bound, limit.level, limit.rule, outcome))
        for metric, value, limit, outcome, _, _ in judged
    ]


def _told_when(finding: Finding) -> int:
    return _TOLD.index(finding.outcome)


def _types(comparison: Comparison, limits: Limits, left: str, right: str) -> Finding:
    """What is to be said of data types that differ."""
    both = {"left": left, "right": right}
    if _is_complex(left) != _is_complex(right) and limits.complex != "allow":
        return Finding("error", Message("complex_against_real", {**both, "entry": _ALLOWS_COMPLEX}))
    if limits.dtype_equal:
        rule = limits.dtype_rule
        return Finding("fail", Message("dtypes_must_be_equal", {**both, "rule": rule}), rule=rule)
    if not all(name in DTYPES and DTYPES[name].kind in _WHOLE for name in (left, right)):
        return Finding("note", Message("dtypes_judged_as_coarser", {**both, "dtype": limits.judged_as}))
    if comparison.equal:
        return Finding("note", Message("dtypes_differ_values_equal", both))
    return Finding("fail", Message("dtypes_and_values_differ", {**both, "n": comparison.differing}))


def _is_complex(dtype: str) -> bool:
    return dtype in DTYPES and DTYPES[dtype].kind == "complex"


def _forbidden(comparison: Comparison, limits: Limits) -> Finding:
    """NaN and Inf where none may be, matched or not."""
    classes, count = comparison.nonfinite, comparison.elements - comparison.finite
    said: dict[str, Parameter] = {
        "rule": limits.nan_rule,
        "n": count,
        "elements": comparison.elements,
        **{name: getattr(classes, name) for name in _CLASSES},
        "place": place_of(classes.first_nonfinite),
    }
    return Finding("fail", Message("nonfinite_forbidden", said), value=count, limit=0, rule=limits.nan_rule)


def _overflows(comparison: Comparison, limits: Limits, sentences: Sequence[str]) -> list[Finding]:
    """What the device saw while it computed: its numbers may look harmless, as saturated ones do."""
    bounds = [limit for limit in limits.limits if (limit.metric, limit.level) == ("saturated_count", "fail")]
    rule = bounds[0].rule if bounds and bounds[0].bound < 1 else None
    outcome = "fail" if rule is not None and not comparison.equal else "warn"
    return [Finding(outcome, Message("device_overflow", {"told": sentence}), rule=rule) for sentence in sentences]


def _told_by_types(one: Judgement, limits: Limits) -> bool:
    """Whether this only repeats that the types differ: their bits cannot be compared then."""
    return limits.dtype_equal and one.metric == "bitwise_mismatch" and one.outcome == "undefined"


def _uncompared(limits: Limits) -> list[Finding]:
    """Further occurrences of the tensor that met no partner: what they hold, nothing has looked at."""
    outcome = "fail" if limits.repeats_rule else "warn"
    by = Message("by_rule", {"rule": limits.repeats_rule}) if limits.repeats_rule else None
    return [
        Finding(
            outcome,
            Message("uncompared_occurrences", {"side": side, "n": count, "by": by}),
            rule=limits.repeats_rule or None,
        )
        for side, count in zip(("left", "right"), limits.uncompared, strict=True)
        if count
    ]


def _not_compared(comparison: Comparison, judged: Sequence[Judgement]) -> list[Finding]:
    """Nothing that was not compared, or not looked at, may count as passed."""
    told = []
    if comparison.elements == 0:
        told.append(Finding("warn", Message("nothing_compared_empty")))
    elif not comparison.equal and all(one.outcome == "skipped" for one in judged):
        told.append(Finding("undefined", Message("no_limit_applies")))
    count, total = comparison.elements, comparison.total_elements
    if comparison.sampled and total is None:
        told.append(Finding("warn", Message("sampled_of_unknown", {"n": count})))
    elif total is not None:
        code = "sampled" if comparison.sampled else "only_first_compared"
        told.append(Finding("warn", Message(code, {"n": count, "elements": total})))
    return told


# -- The limits that would have let a pair pass ----------------------------------------------------------------------


_UPWARD = Context(prec=3, rounding=ROUND_CEILING)
_EXACT = Context(prec=50)


def would_pass(judged: Iterable[Judgement]) -> dict[str, float]:
    """Return for each metric that failed its limit the bound that would have been met.

    Metrics that no bound would cure have none: undefined ones, NaN/Inf classes that differ, relative errors that leave
    out elements.
    """
    bounds: dict[str, float] = {}
    for one in judged:
        if one.outcome != "fail" or not one.curable or one.value is None or isinstance(one.value, tuple):
            continue
        bound = passing_bound(one.metric, one.value)
        if bound is not None:
            bounds[one.metric] = bound
    return bounds


def passing_bound(metric: str, value: float | int) -> float | None:
    """Round a value to three significant digits towards the lenient side.

    Similarities keep three digits of their distance from 1, so that 0.9999985 does not become 0.999.

    Parameters
    ----------
    metric : str
        An id of `facts.metrics`, of direction "high" or "low".
    value : float or int
        The measured value.

    Returns
    -------
    float or None
        ``None`` when no meaningful limit would be met: NaN, Inf, a cosine of −1.

    Examples
    --------
    >>> passing_bound("cosine_similarity", 0.98761234), passing_bound("max_relative_error", 0.41012)
    (0.9876, 0.411)
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
