"""Each measured metric against its limits: the rows of the failure table, and what has to be said of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.judging.wording import apart, bound_text, number, position
from pytest_msdump.model.comparison import Comparison, Measurement
from pytest_msdump.model.verdict import Finding, Limit, Limits

__all__ = ["Judgement", "judgements", "meets"]

_UNMEASURED = "it was not measured"
_HIGH = frozenset(name for name, fact in METRICS.items() if fact.direction == "high")
_PLAIN = frozenset({float, int})

# An equal pair may differ in its bits (−0.0 and 0.0, NaN payloads), so this one is judged whatever the values say.
_ABOUT_BITS = "bitwise_mismatch"


class Judgement(NamedTuple):
    """One metric, its number, and the limit that decided.

    `outcome` is "ok", "fail", "warn", "undefined" or "skipped"; `sentence` is what to tell of it.
    `curable` is whether another bound alone would let it pass.
    """

    metric: str
    value: float | int | tuple[float, ...] | None
    limit: Limit
    outcome: str
    sentence: str = ""
    curable: bool = True

    def finding(self) -> Finding | None:
        """What a verdict tells of this metric; ``None`` when its limit plainly holds."""
        if not self.sentence:
            return None
        outcome = "note" if self.outcome == "skipped" else self.outcome
        value = None if isinstance(self.value, tuple) else self.value
        return Finding(outcome, self.sentence, self.metric, value, self.limit.bound, self.limit.rule)


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
            found.append(made(Judgement, (metric, value, first, "ok", "", True)))
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
        where = "to one-element tensors"
        if comparison.near_zero and not (comparison.elements == 1 and metric == "cosine_similarity"):
            where = "where all is 0 or next to it"
        sentence = f"{metric} does not apply {where}; its limit is skipped ({first.rule})"
        return Judgement(metric, None, first, "skipped", sentence)
    if comparison.elements == 0:
        return Judgement(metric, None, first, "skipped")
    if not comparison.differing and metric != _ABOUT_BITS:
        return Judgement(metric, value, first, "ok")
    if value is None or isinstance(value, tuple):
        sentence = f"{metric} is undefined, because {undefined or _UNMEASURED} ({first.rule})"
        return Judgement(metric, None, first, "undefined", sentence, curable=False)
    if comparison.right_zero_mismatch and metric in RELATIVE_METRICS:
        return _without_reference(metric, value, first, comparison)
    return None


def _without_reference(metric: str, value: float | int, limit: Limit, comparison: Comparison) -> Judgement:
    """A relative error says nothing of the elements whose reference is 0, so its limit does not hold."""
    count = comparison.right_zero_mismatch
    counted = "1 element where the right is 0 and the left is not"
    if count != 1:
        counted = f"{count} elements where the right is 0 and the left is not"
    sentence = (
        f"{metric} {number(value)} leaves out {counted}, so its limit {bound_text(limit.bound)} "
        f"does not hold ({limit.rule})"
    )
    return Judgement(metric, value, limit, limit.level, sentence, curable=False)


def _against(measured: Measurement, levels: tuple[Limit, ...], comparison: Comparison, limits: Limits) -> Judgement:
    """Hold a number against its limits, the failing level first, then what a known drift makes milder."""
    value: Any = measured.value
    for limit in levels:
        if not meets(value, limit):
            sentence = f"{_beyond(value, limit)}{_detail(measured, comparison)}"
            curable = measured.metric != "nonfinite_mismatch"
            return Judgement(measured.metric, value, limit, limit.level, sentence, curable)
    if limits.known_drift is not None:
        for limit in levels:
            if limit not in limits.strict:
                return _drifted(value, limit, limits)
    return Judgement(measured.metric, value, levels[0], "ok")


def _drifted(value: float | int, limit: Limit, limits: Limits) -> Judgement:
    """A number within a known drift: harmless when the normal limits hold as well, else told as a warning."""
    metric = limit.metric
    normal = [other for other in limits.strict if other.metric == metric]
    if normal and all(meets(value, other) for other in normal):
        return Judgement(metric, value, limit, "ok")
    told = "down to" if METRICS[metric].direction == "high" else "up to"
    accepted = f"accepted {told} {bound_text(limit.bound)} by {limit.rule}"
    if normal:
        broken = next(other for other in normal if not meets(value, other))
        return Judgement(metric, value, limit, "warn", f"{_beyond(value, broken)}; {accepted}")
    return Judgement(metric, value, limit, "warn", f"{metric} {number(value)} is {accepted}; no other limit names it")


def _beyond(value: float | int, limit: Limit) -> str:
    """The sentence that puts a value, its limit and its rule side by side."""
    side = "below" if METRICS[limit.metric].direction == "high" else "above"
    shown, bound = apart(value, limit.bound)
    level = "warning level " if limit.level == "warn" else ""
    return f"{limit.metric} {shown} is {side} {level}{bound} ({limit.rule})"


def _detail(measured: Measurement, comparison: Comparison) -> str:
    """Where it is, and for counts what was counted."""
    classes = comparison.nonfinite
    if measured.metric == "nonfinite_mismatch":
        where = position(measured.where or classes.first_mismatch)
        return (
            f": NaN left {classes.nan_left}, right {classes.nan_right}; "
            f"Inf left {classes.inf_left}, right {classes.inf_right}; first at {where}"
        )
    if measured.metric == "saturated_count":
        told = "NaN, Inf or at its dtype's maximum on the left, where the right is finite and different"
        return f": {told}; first at {position(measured.where)}"
    if measured.metric == "allclose":
        tolerance = f"rtol {bound_text(comparison.rtol)}, atol {bound_text(comparison.atol)}"
        return f": elements outside {tolerance}"
    return f", at {position(measured.where)}" if measured.where is not None else ""
