"""The text of one pair's record, written in one go from what was measured and judged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_msdump.lazy_dataclass import fields_of
from pytest_msdump.model.pairing import Transform
from pytest_msdump.model.report import CheckRow, Record
from pytest_msdump.model.tensor import COORDINATES, Coordinates, TensorRef, TensorSpec
from pytest_msdump.model.verdict import Finding, Limits, Verdict
from pytest_msdump.reporting.comparison_text import UNMEASURED, comparison_text
from pytest_msdump.reporting.values import encode
from pytest_msdump.reporting.written import dumps, index_json, number_json, text_json

__all__ = ["opinion_text", "record_text", "relative_file"]

# Coordinates, policies, notes and limits are alike in very many records: their text is kept.
_ALIKE = 1024


def record_text(record: Record, *, left_root: Path, right_root: Path) -> str:
    """Return the record as results.json has it: strict JSON in ASCII on one line; NaN and Inf are strings.

    Parameters
    ----------
    record, left_root, right_root
        As for `reporting.records.to_json`.
    """
    pair, statistics = record.pair, record.statistics
    rows = (None, None) if statistics is None else (statistics.left.source, statistics.right.source)
    left = _side(pair.left, record.left_spec, left_root)
    left += "" if rows[0] is None else f', "row": {dumps(rows[0].part)}'
    right = _side(pair.right, record.right_spec, right_root) + _source(pair.right)
    right += "" if rows[1] is None else f', "row": {dumps(rows[1].part)}'
    at = pair.left.key.op.at
    measured = UNMEASURED if record.comparison is None else comparison_text(record.comparison)
    return (
        f'{{"order": {pair.order}, "left": {{{left}}}, "right": {{{right}, "at": {_known(pair.right.key.op.at)}}}, '
        f'{_coordinates(at)}{_source(pair.left)}, "how": {text_json(pair.how)}, "by": {text_json(pair.by)}, '
        f'"transform": {_transform(pair.transform)}, "verdict": "{record.verdict.outcome}", {measured}'
        f"{_more(record)}, {opinion_text(record.verdict, record.limits, record.checks)}}}"
    )


def opinion_text(verdict: Verdict, limits: Limits, checks: Iterable[CheckRow]) -> str:
    """Return what judging says of a pair, beside the verdict: the last keys of a record."""
    passing = {metric: encode(bound) for metric, bound in verdict.would_pass.items()}
    return (
        f'"would_pass": {dumps(passing) if passing else "{}"}, '
        f'"findings": [{", ".join([_finding(finding) for finding in verdict.findings])}], '
        f'"checks": [{", ".join([_check(*check) for check in checks])}], {_policy(limits)}'
    )


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


def _side(ref: TensorRef, spec: TensorSpec, root: Path) -> str:
    """One side of a record. Where the opened file left something open, the name's claim holds."""
    claimed, key, source = ref.spec, ref.key, ref.source
    shape = spec.shape if spec.shape is not None else claimed.shape
    logical = spec.logical_shape if spec.logical_shape is not None else claimed.logical_shape
    text = (
        f'"address": {text_json(key.address)}, "op_type": {text_json(key.op.op_type)}, '
        f'"file": {text_json(relative_file(source.path, root))}, "dtype": {text_json(spec.dtype or claimed.dtype)}, '
        f'"shape": {index_json(shape)}, "memory_format": {text_json(spec.memory_format or claimed.memory_format)}, '
        f'"name": {text_json(key.op.name)}, "true_name": {text_json(key.op.true_name)}'
    )
    if ref.overflows:
        text += f', "overflows": {dumps([entry.sentence for entry in ref.overflows])}'
    if source.device_address is not None:
        text += f', "device_address": {source.device_address}'
    if logical is not None and logical != shape:
        text += f', "logical_shape": {index_json(logical)}'
    return text


def _source(ref: TensorRef) -> str:
    """The line of the user's program that made the operator; nothing where no graph tells."""
    line = ref.line
    if line is None:
        return ""
    return f', "source": {dumps({"file": line.file, "line": line.line, "text": line.text})}'


@lru_cache(maxsize=_ALIKE)
def _coordinates(at: Coordinates) -> str:
    """All five coordinates, null where the dump does not have one."""
    return dumps({name: getattr(at, name) for name in COORDINATES})[1:-1]


@lru_cache(maxsize=_ALIKE)
def _known(at: Coordinates) -> str:
    """The coordinates that the dump has."""
    return dumps({name: value for name in COORDINATES if (value := getattr(at, name)) is not None})


@lru_cache(maxsize=_ALIKE)
def _transform(transform: Transform) -> str:
    """What was done to make the sides meet; empty when nothing was."""
    return dumps({name: value for name, value in fields_of(transform).items() if value not in (None, False)})


def _more(record: Record) -> str:
    """What only some records have."""
    more: dict[str, Any] = {}
    if record.pair.note:
        more["pair_note"] = record.pair.note
    if record.statistics is not None:
        from pytest_msdump.reporting.statistics import statistics_entry

        more["statistics"] = statistics_entry(record.statistics)
    if record.diagnosis:
        more["diagnosis"] = [dict(found) for found in record.diagnosis]
    if record.spread:
        more["spread"] = dict(record.spread)
    if record.custom:
        more["custom"] = {name: fields_of(result) for name, result in record.custom.items()}
    return f", {dumps(more)[1:-1]}" if more else ""


def _finding(finding: Finding) -> str:
    """One sentence with its numbers."""
    # 0 is equal to 0.0, and written otherwise: what has numbers is written anew.
    return _note(finding) if finding.value is None and finding.limit is None else _told(finding)


def _told(finding: Finding) -> str:
    return dumps(
        {
            "outcome": finding.outcome,
            "metric": finding.metric,
            "value": encode(finding.value),
            "limit": encode(finding.limit),
            "rule": finding.rule,
            "sentence": finding.sentence,
        }
    )


_note = lru_cache(maxsize=_ALIKE)(_told)


def _check(
    metric: str,
    value: float | int | tuple[float, ...] | None,
    limit: float | None,
    level: str | None,
    rule: str | None,
    outcome: str,
) -> str:
    """One line of the table: a `Check`."""
    return (
        f'{{"metric": "{metric}", "value": {number_json(value)}, {_limit(number_json(limit), level, rule, outcome)}}}'
    )


@lru_cache(maxsize=_ALIKE)
def _limit(limit: str, level: str | None, rule: str | None, outcome: str) -> str:
    return (
        f'"limit": {limit}, "level": {text_json(level)}, "rule": {text_json(rule)}, '
        f'"outcome": {text_json(outcome.lower())}'
    )


def _policy(limits: Limits) -> str:
    """What the pair was judged by."""
    return (
        f'"judged_as": {text_json(limits.judged_as)}, "nan": {text_json(limits.nan)}, '
        f'"known_drift": {text_json(limits.known_drift)}, "notes": {dumps(limits.notes) if limits.notes else "[]"}'
    )
