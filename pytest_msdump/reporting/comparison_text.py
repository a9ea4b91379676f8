"""The numbers of a pair as they stand in its record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite, WorstElement
from pytest_msdump.reporting.written import dumps, index_json, number_json, text_json

__all__ = ["UNMEASURED", "comparison_text"]

# Every key is there, empty, when nothing was measured.
UNMEASURED = (
    '"elements": null, "equal": null, "metrics": {}, "undefined": {}, "not_applicable": {}, "where": {}, '
    '"vendor": {}, "nonfinite": {}, "worst": []'
)


def comparison_text(comparison: Comparison) -> str:
    """Return the keys of a record that say what was measured."""
    total = "" if comparison.total_elements is None else f'"total_elements": {comparison.total_elements}, '
    sampled = '"sampled": true, ' if comparison.sampled else ""
    vendor = ", ".join([f'"{metric}": {number_json(value)}' for metric, value in comparison.vendor.items()])
    return (
        f'"elements": {comparison.elements}, {total}{sampled}"equal": {"true" if comparison.equal else "false"}, '
        f'"finite": {comparison.finite}, "differing": {comparison.differing}, '
        f'"right_zero_mismatch": {comparison.right_zero_mismatch}, "rtol": {number_json(comparison.rtol)}, '
        f'"atol": {number_json(comparison.atol)}, "absolute_error_sum": {number_json(comparison.absolute_error_sum)}, '
        f'{_measurements(comparison.measurements)}, "vendor": {{{vendor}}}, '
        f'"nonfinite": {_nonfinite(comparison.nonfinite)}, '
        f'"worst": [{", ".join([_worst(element) for element in comparison.worst])}]'
    )


def _measurements(measurements: Mapping[str, Measurement]) -> str:
    """Values, reasons and places, each by metric."""
    metrics, undefined, not_applicable, places = [], [], [], []
    for metric, (_, value, reason, applies, place) in measurements.items():
        if value is not None:
            metrics.append(f'"{metric}": {number_json(value)}')
        if not applies:
            not_applicable.append(f'"{metric}": {text_json(reason)}')
        elif reason is not None or value is None:
            undefined.append(f'"{metric}": {text_json(reason)}')
        if place is not None:
            places.append(f'"{metric}": {index_json(place)}')
    return (
        f'"metrics": {{{", ".join(metrics)}}}, "undefined": {{{", ".join(undefined)}}}, '
        f'"not_applicable": {{{", ".join(not_applicable)}}}, "where": {{{", ".join(places)}}}'
    )


@lru_cache(maxsize=1024)
def _nonfinite(counts: Nonfinite) -> str:
    """How many elements are NaN or Inf, and where the first ones are."""
    return dumps(counts._asdict())


def _worst(element: WorstElement) -> str:
    """One of the worst elements."""
    return (
        f'{{"index": {index_json(element.index)}, "left": {number_json(element.left)}, '
        f'"right": {number_json(element.right)}, "ratio": {number_json(element.ratio)}}}'
    )
