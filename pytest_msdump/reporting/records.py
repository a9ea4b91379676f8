"""One pair's record as plain JSON values: the entry of `tensors` in results.json."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from pytest_msdump.lazy_dataclass import fields_of
from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite, WorstElement
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.report import CheckRow, Record
from pytest_msdump.model.tensor import COORDINATES, Coordinates, TensorRef, TensorSpec
from pytest_msdump.model.verdict import Finding, Limits, Verdict
from pytest_msdump.reporting.values import encode

__all__ = ["not_run", "relative_file", "to_json", "with_verdict"]

_coordinates_of = attrgetter(*COORDINATES)


def to_json(record: Record, *, left_root: Path, right_root: Path) -> dict[str, Any]:
    """Return a pair's record as results.json holds it: numbers and names, never data.

    Parameters
    ----------
    record : Record
        A measured pair, or one with the verdict `error` or `not_run`.
    left_root, right_root : Path
        The two dumps; file names are written relative to them.

    Returns
    -------
    dict
        Only dict, list, str, int, float, bool and None; NaN and Inf are strings.
    """
    pair = record.pair
    right = _side(pair.right, record.right_spec, right_root)
    right.update(_source(pair.right))
    entry: dict[str, Any] = {
        "order": pair.order,
        "left": _side(pair.left, record.left_spec, left_root),
        "right": right,
        **_coordinates(pair.left.key.op.at),
        **_source(pair.left),
        "how": pair.how,
        "by": pair.by,
        "transform": dict(_transform(pair.transform)),
        "verdict": record.verdict.outcome,
        **_measured(record.comparison),
    }
    if pair.note:
        entry["pair_note"] = pair.note
    if record.statistics is not None:
        from pytest_msdump.reporting.statistics import statistics_entry

        entry["statistics"] = statistics_entry(record.statistics)
        for name, statistics in (("left", record.statistics.left), ("right", record.statistics.right)):
            if statistics.source is not None:
                entry[name]["row"] = statistics.source.part
    if record.diagnosis:
        entry["diagnosis"] = [dict(found) for found in record.diagnosis]
    if record.spread:
        entry["spread"] = dict(record.spread)
    if record.custom:
        entry["custom"] = {name: fields_of(result) for name, result in record.custom.items()}
    right["at"] = {name: value for name, value in _coordinates(pair.right.key.op.at).items() if value is not None}
    return with_verdict(entry, record.verdict, record.limits, record.checks)


def with_verdict(
    entry: Mapping[str, Any], verdict: Verdict, limits: Limits, checks: Iterable[CheckRow]
) -> dict[str, Any]:
    """Return `entry` with another opinion about the same numbers, as `msdump check` forms it."""
    return {
        **entry,
        "verdict": verdict.outcome,
        "would_pass": {metric: encode(bound) for metric, bound in verdict.would_pass.items()},
        "findings": [_finding(finding) for finding in verdict.findings],
        "checks": [_check(*check) for check in checks],
        "judged_as": limits.judged_as,
        "nan": limits.nan,
        "known_drift": limits.known_drift,
        "notes": list(limits.notes),
    }


def not_run(pair: Pair, *, left_root: Path, right_root: Path) -> dict[str, Any]:
    """Return the record of a pair that was planned and never run. It counts as nothing but `not_run`."""
    claimed = pair.left.spec.dtype or pair.right.spec.dtype or "unknown"
    record = Record(pair, pair.left.spec, pair.right.spec, Verdict("not_run"), Limits(judged_as=claimed))
    return to_json(record, left_root=left_root, right_root=right_root)


def relative_file(path: Path, root: Path) -> str:
    """Return `path` below `root` with forward slashes; the bare name when `root` is the file itself."""
    text, prefix = str(path), _prefix(root)
    # Nearly every file is below the root: cutting a text costs a tenth of what comparing paths does.
    if os.sep == "/" and prefix and text.startswith(prefix):
        return text[len(prefix) :]
    if path == root:
        return path.name
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


@lru_cache(maxsize=8)
def _prefix(root: Path) -> str:
    """What the names of files below `root` begin with; empty of the folder one is in, and of the file system's root."""
    text = str(root)
    return "" if text == "." or text.endswith("/") else text + "/"


def _side(ref: TensorRef, spec: TensorSpec, root: Path) -> dict[str, Any]:
    """One side of a record. Where the opened file left something open, the name's claim holds."""
    shape = spec.shape if spec.shape is not None else ref.spec.shape
    logical = spec.logical_shape if spec.logical_shape is not None else ref.spec.logical_shape
    side: dict[str, Any] = {
        "address": ref.key.address,
        "op_type": ref.key.op.op_type,
        "file": relative_file(ref.source.path, root),
        "dtype": spec.dtype or ref.spec.dtype,
        "shape": None if shape is None else list(shape),
        "memory_format": spec.memory_format or ref.spec.memory_format,
        "name": ref.key.op.name,
        "true_name": ref.key.op.true_name,
    }
    if ref.overflows:
        side["overflows"] = [entry.sentence for entry in ref.overflows]
    if ref.source.device_address is not None:
        side["device_address"] = ref.source.device_address
    if logical is not None and logical != shape:
        side["logical_shape"] = list(logical)
    return side


def _source(ref: TensorRef) -> dict[str, Any]:
    """The line of the user's program that made the operator; nothing where no graph tells."""
    line = ref.line
    return {} if line is None else {"source": {"file": line.file, "line": line.line, "text": line.text}}


def _coordinates(at: Coordinates) -> dict[str, Any]:
    """All five coordinates, ``None`` where the dump does not have one."""
    return dict(zip(COORDINATES, _coordinates_of(at), strict=True))


@lru_cache(maxsize=1024)
def _transform(transform: Transform) -> dict[str, Any]:
    """What was done to make the sides meet; empty when nothing was."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields_of(transform).items()
        if value not in (None, False)
    }


def _measured(comparison: Comparison | None) -> dict[str, Any]:
    """The numbers of a record; every key is there, empty, when nothing was measured."""
    if comparison is None:
        keys = ("metrics", "undefined", "not_applicable", "where", "vendor", "nonfinite")
        return {"elements": None, "equal": None, **{key: {} for key in keys}, "worst": []}
    nonfinite = zip(Nonfinite._fields, comparison.nonfinite, strict=True)
    sampled: dict[str, Any] = {} if comparison.total_elements is None else {"total_elements": comparison.total_elements}
    if comparison.sampled:
        sampled["sampled"] = True
    return {
        "elements": comparison.elements,
        **sampled,
        "equal": comparison.equal,
        "finite": comparison.finite,
        "differing": comparison.differing,
        "right_zero_mismatch": comparison.right_zero_mismatch,
        "rtol": encode(comparison.rtol),
        "atol": encode(comparison.atol),
        "absolute_error_sum": encode(comparison.absolute_error_sum),
        **_measurements(comparison.measurements),
        "vendor": {metric: encode(value) for metric, value in comparison.vendor.items()},
        "nonfinite": {name: list(value) if type(value) is tuple else value for name, value in nonfinite},
        "worst": [_worst(element) for element in comparison.worst],
    }


def _worst(element: WorstElement) -> dict[str, Any]:
    """One of the worst elements."""
    return {
        "index": list(element.index),
        "left": encode(element.left),
        "right": encode(element.right),
        "ratio": encode(element.ratio),
    }


def _measurements(measurements: Mapping[str, Measurement]) -> dict[str, Any]:
    """Values, reasons and places, each by metric."""
    metrics, undefined, not_applicable, where = {}, {}, {}, {}
    for metric, measurement in measurements.items():
        if measurement.value is not None:
            metrics[metric] = encode(measurement.value)
        if not measurement.applies:
            not_applicable[metric] = measurement.undefined
        elif measurement.undefined is not None or measurement.value is None:
            undefined[metric] = measurement.undefined
        if measurement.where is not None:
            where[metric] = list(measurement.where)
    return {"metrics": metrics, "undefined": undefined, "not_applicable": not_applicable, "where": where}


def _finding(finding: Finding) -> dict[str, Any]:
    """One sentence with its numbers."""
    return {
        "outcome": finding.outcome,
        "metric": finding.metric,
        "value": encode(finding.value),
        "limit": encode(finding.limit),
        "rule": finding.rule,
        "sentence": finding.sentence,
    }


def _check(
    metric: str,
    value: float | int | tuple[float, ...] | None,
    limit: float | None,
    level: str | None,
    rule: str | None,
    outcome: str,
) -> dict[str, Any]:
    """One line of the table: a `Check`."""
    return {
        "metric": metric,
        "value": encode(value),
        "limit": encode(limit),
        "level": level,
        "rule": rule,
        "outcome": outcome.lower(),
    }
