"""Each measured metric against its limits: the rows of the failure table, and what has to be said of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.model.comparison import Comparison, Measurement
from pytest_msdump.model.verdict import Finding, Limit, Limits
from pytest_msdump.text import Message, Parameter

__all__ = ["Judgement", "judgements", "meets", "place_of"]

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
