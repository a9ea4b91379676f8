"""One pair's record as results.json has it: the entry of `tensors`, written from what was measured and judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.report import CheckRow, Record
from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.model.verdict import Limits, Verdict
from pytest_msdump.reporting.comparison_text import SECTIONS, UNMEASURED, comparison_text
from pytest_msdump.reporting.opinion_text import OPINION, opinion_text
from pytest_msdump.reporting.record_names import names_of
from pytest_msdump.reporting.values import dumps
from pytest_msdump.reporting.written import Layout, WrittenRecord, layout_of

__all__ = ["not_run", "to_json", "with_verdict", "written"]

# Transforms are alike in very many records: their text is kept. They are looked up by their fields, which takes less
# than asking the class for its hash.
_ALIKE = 1024
_TRANSFORMS = tuple(asdict(Transform()))
_transform_of = attrgetter(*_TRANSFORMS)


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
    entry: dict[str, Any] = json.loads(written(record, left_root=left_root, right_root=right_root).line)
    return entry


def written(record: Record, *, left_root: Path, right_root: Path) -> WrittenRecord:
    """Return the same record as text that is parsed when somebody looks into it.

    Parameters
    ----------
    record, left_root, right_root
        As for `to_json`.
    """
    comparison, pair = record.comparison, record.pair
    roots = {"left_root": left_root, "right_root": right_root}
    names = names_of(pair, record.left_spec, record.right_spec, statistics=record.statistics, **roots)
    measured = UNMEASURED if comparison is None else comparison_text(comparison)
    first, *numbers = measured.sections
    outcome, more = record.verdict.outcome, _more(record)
    sections = (
        *names,
        _transform(_transform_of(pair.transform)),
        f'"verdict": "{outcome}", {first}',
        *numbers,
        *((dumps(more)[1:-1],) if more else ()),
        *opinion_text(record.verdict, record.limits, record.checks),
    )
    told = {
        "order": pair.order,
        "verdict": outcome,
        "elements": None if comparison is None else comparison.elements,
        "equal": None if comparison is None else comparison.equal,
    }
    return WrittenRecord(_layout(pair.left.line is not None, measured.keys, tuple(more)), sections, told)


def with_verdict(
    entry: Mapping[str, Any], verdict: Verdict, limits: Limits, checks: Sequence[CheckRow]
) -> dict[str, Any]:
    """Return `entry` with another opinion about the same numbers, as `msdump check` forms it."""
    opinion = json.loads(f"{{{', '.join(opinion_text(verdict, limits, checks))}}}")
    return {**entry, "verdict": verdict.outcome, **opinion}


def not_run(pair: Pair, *, left_root: Path, right_root: Path) -> dict[str, Any]:
    """Return the record of a pair that was planned and never run. It counts as nothing but `not_run`."""
    claimed = pair.left.spec.dtype or pair.right.spec.dtype or "unknown"
    record = Record(pair, pair.left.spec, pair.right.spec, Verdict("not_run"), Limits(judged_as=claimed))
    return to_json(record, left_root=left_root, right_root=right_root)


@lru_cache(maxsize=_ALIKE)
def _layout(has_source: bool, measured: tuple[str, ...], more: tuple[str, ...]) -> Layout:
    """The keys of a record, by section."""
    return layout_of(
        (
            ("order", "left", "right"),
            (*COORDINATES, *(("source",) if has_source else ())),
            ("how", "by"),
            ("transform",),
            ("verdict", *measured),
            *SECTIONS,
            *((more,) if more else ()),
            *OPINION,
        )
    )


@lru_cache(maxsize=_ALIKE)
def _transform(values: tuple[Any, ...]) -> str:
    """What was done to make the sides meet; empty when nothing was."""
    done = {name: value for name, value in zip(_TRANSFORMS, values, strict=True) if value not in (None, False)}
    return f'"transform": {dumps(done)}'


def _more(record: Record) -> dict[str, Any]:
    """What only some records have."""
    more: dict[str, Any] = {}
    if record.pair.note:
        more["pair_note"] = record.pair.note
    if any(record.pair.uncompared):
        more["uncompared"] = dict(zip(("left", "right"), record.pair.uncompared, strict=True))
    if record.statistics is not None:
        from pytest_msdump.reporting.statistics import statistics_entry

        more["statistics"] = statistics_entry(record.statistics)
    if record.remarks:
        more["file_remarks"] = [{"code": one.code, "parameters": dict(one.parameters)} for one in record.remarks]
    if record.diagnosis:
        more["diagnosis"] = [dict(found) for found in record.diagnosis]
    if record.spread:
        more["spread"] = dict(record.spread)
    if record.custom:
        more["custom"] = {name: asdict(result) for name, result in record.custom.items()}
    return more
