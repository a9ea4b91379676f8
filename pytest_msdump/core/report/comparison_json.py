"""The numbers of one pair that was compared element by element, as keys of its record in results.json."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from pytest_msdump.core.facts.metrics import METRICS, NORM_METRICS
from pytest_msdump.core.forms import Form, WrongValueError, by_name, lenient, list_of, nullable, optional, table
from pytest_msdump.core.forms.values import COUNT, ELEMENT, FLAG, INDEX, MESSAGE, NUMBER, TEXT, one_of
from pytest_msdump.core.model.comparison import (
    Comparison,
    Dominated,
    GoldenErrors,
    Measurement,
    Nonfinite,
    ThreeWay,
    WorstElement,
)
from pytest_msdump.core.text import Message, message_of, say

_GOLDEN_ERRORS = table(
    GoldenErrors, {**dict.fromkeys(GoldenErrors._fields, NUMBER), "finite": COUNT, "error_balance": nullable(NUMBER)}
)
_RUNS = {"golden": one_of(("golden", "right")), "other_run": one_of(("third", "right"))}
_THREE_WAY = table(ThreeWay, {**_RUNS, "left": _GOLDEN_ERRORS, "other": _GOLDEN_ERRORS})


def _dominated(
    code: str, metrics: Mapping[str, Any], reasons: Mapping[str, Any] = MappingProxyType({}), **found: Any
) -> Dominated:
    if code == "dominated" and not metrics and not reasons:
        raise WrongValueError("metrics: the others were measured, but there are none")
    undefined = {name: Message.of_entry(entry) for name, entry in reasons.items()}
    measured = {name: Measurement(name, metrics.get(name), undefined.get(name)) for name in (*metrics, *reasons)}
    return Dominated(code, measurements=measured, **found)


_DOMINATED = table(
    _dominated,
    {
        "code": one_of(("dominated", "dominated_zeros", "outliers")),
        "elements": COUNT,
        "near": NUMBER,
        "above": list_of(NUMBER, length=2),
        "metrics": by_name(NUMBER, NORM_METRICS),
        "reasons": optional(by_name(MESSAGE, NORM_METRICS), {}),
    },
    parts=lambda one: {
        **{name: getattr(one, name) for name in ("code", "elements", "near", "above")},
        "metrics": one.values,
        "reasons": {name: found.undefined for name, found in one.measurements.items() if found.value is None},
    },
)
_CLASSES = Nonfinite._fields[:8]
MEASURED: Mapping[str, Form] = {
    "elements": nullable(COUNT),
    "total_elements": optional(nullable(COUNT)),
    "near_zero": optional(COUNT, 0),
    "sampled": optional(FLAG, default=False),
    "equal": nullable(FLAG),
    "finite": lenient(COUNT),
    "differing": lenient(COUNT),
    "right_zero_mismatch": lenient(COUNT),
    "rtol": lenient(NUMBER),
    "atol": lenient(NUMBER),
    "absolute_error_sum": lenient(nullable(NUMBER)),
    "metrics": by_name({**dict.fromkeys(METRICS, NUMBER), "standard_deviation": list_of(NUMBER, length=4)}),
    "undefined": lenient(by_name(TEXT, METRICS)),
    "not_applicable": lenient(by_name(TEXT, METRICS)),
    "where": by_name(nullable(INDEX), METRICS),
    "vendor": lenient(by_name(NUMBER, METRICS)),
    "reasons": optional(by_name(nullable(MESSAGE), METRICS), {}),
    "three_way": optional(_THREE_WAY),
    "dominated": optional(list_of(_DOMINATED), ()),
    "nonfinite": table(
        dict,
        {**dict.fromkeys(_CLASSES, lenient(COUNT)), **dict.fromkeys(Nonfinite._fields[8:], lenient(nullable(INDEX)))},
        parts=dict,
    ),
    "worst": list_of(table(WorstElement, {"index": INDEX, "left": ELEMENT, "right": ELEMENT, "ratio": NUMBER})),
}
# What any other record has there than one that was compared element by element, and what only the latter has.
UNMEASURED: Mapping[str, Any] = {
    "elements": None,
    "equal": None,
    "metrics": {},
    "undefined": {},
    "not_applicable": {},
    "where": {},
    "vendor": {},
    "nonfinite": {},
    "worst": (),
}
_ONLY_MEASURED = (
    *("finite", "differing", "right_zero_mismatch", "vendor", "rtol", "atol"),
    *("undefined", "not_applicable"),
)
# Attributes of a comparison under their own names.
_NUMBERS = (
    *("elements", "total_elements", "near_zero", "sampled", "finite", "differing", "right_zero_mismatch"),
    *("rtol", "atol", "absolute_error_sum", "vendor", "worst", "three_way", "dominated"),
)
_numbers_of = attrgetter(*_NUMBERS)


def measured_parts(comparison: Comparison) -> dict[str, Any]:
    """Return what to write of a comparison, by key."""
    values, places, reasons = {}, {}, {}
    said: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, one in comparison.measurements.items():
        if one.value is not None:
            values[name] = one.value
        if one.where is not None:
            places[name] = one.where
        if one.value is None or one.undefined is not None or not one.applies:
            reasons[name] = one.undefined
            said[not one.applies][name] = one.undefined and say(one.undefined)
    undefined, not_applicable = said
    return dict(zip(_NUMBERS, _numbers_of(comparison), strict=True)) | {
        "equal": comparison.equal,
        "metrics": values,
        "undefined": undefined,
        "not_applicable": not_applicable,
        "where": places,
        "reasons": {name: reasons[name] for name in (*undefined, *not_applicable)},
        "nonfinite": comparison.nonfinite._asdict(),
    }


def comparison_of(parts: Mapping[str, Any]) -> Comparison | None:
    """Return the comparison of what was read, by key."""
    if parts["elements"] is None:
        return None
    for key in _ONLY_MEASURED:
        if key not in parts:
            raise WrongValueError(f"'{key}' is missing")
    for name in _CLASSES:
        if name not in parts["nonfinite"]:
            raise WrongValueError(f"nonfinite: '{name}' is missing")
    values, reasons = parts["metrics"], parts.get("reasons", {})
    not_applicable = parts["not_applicable"]
    unmeasured = parts["undefined"] | not_applicable
    measurements = {
        metric: Measurement(
            metric,
            value=values.get(metric),
            undefined=message_of(reasons.get(metric) or {}, unmeasured[metric]) if metric in unmeasured else None,
            applies=metric not in not_applicable,
            where=parts["where"].get(metric),
        )
        for metric in values | unmeasured
    }
    numbers = {name: parts[name] for name in _NUMBERS if name in parts}
    return Comparison(measurements=measurements, nonfinite=Nonfinite(**parts["nonfinite"]), **numbers)
