"""What the page is drawn from: results.json by columns, each number with the digits that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.model.record import Record, ReportedTensor
from pytest_msdump.model.report import Report, UnmatchedTensor
from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.reporting.html.columns import Pool, column, file_columns, front_coded, short
from pytest_msdump.reporting.html.details import details
from pytest_msdump.reporting.json_report import missing_json, outline, unmatched_json
from pytest_msdump.reporting.values import encode
from pytest_msdump.text import say

__all__ = ["content"]

_OF_A_SIDE = ("op_type", "dtype", "shape", "memory_format", "logical_shape")

# Told as they stand in results.json; a key that is not there is not told.
_HEAD = (
    "left",
    "right",
    "profile",
    "limits",
    "complete",
    "counts",
    "coverage",
    "missing",
    "notes",
    "rerun",
    "localised_by",
)

# A list that nobody would read to its end; results.json has all of it.
_MOST_UNMATCHED = 10_000


def content(report: Report, *, problems: Mapping[str, Sequence[str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the page's data, and what its English sentences are in Chinese.

    Parameters
    ----------
    report : Report
        Of one suite.
    problems : mapping of str to sequence of str
        Why the item `coverage` fails, by language.
    """
    pool = Pool()
    values, records = outline(report), report.records
    numbers = [record.metrics for record in records]
    metrics = _metrics(numbers)
    data: dict[str, Any] = {
        **{key: values[key] for key in _HEAD if key in values},
        "missing": list(map(missing_json, report.missing)),
        "problems": {language: list(listed) for language, listed in problems.items()},
        "metrics": [[name, *_fact(name)] for name in metrics],
        "rows": len(records),
        "tensors": {
            **_counts(records),
            **{key: column(map(pool.add, texts)) for key, texts in _words(records)},
            "left": _side([record.left for record in records], pool),
            "right": _side([record.right for record in records], pool),
            "values": {name: column(_number(one.get(name)) for one in numbers) for name in metrics},
            "limits": column(pool.add(_limits(record)) for record in records),
            "outcomes": column(pool.add(_outcomes(record)) for record in records),
        },
        "unmatched": _unmatched(report.unmatched, pool),
        **({"edges": [number for edge in values["edges"] for number in edge]} if values.get("edges") else {}),
    }
    told, messages = details(records, pool)
    messages |= {one.why for one in report.missing} | {one.why for one in report.unmatched[:_MOST_UNMATCHED]}
    chinese = {say(message): say(message, "zh") for message in messages}
    differing = {english: chinese[english] for english in sorted(chinese) if chinese[english] != english}
    return {**data, "details": told, "pool": pool.values}, differing


def _counts(records: Sequence[Record]) -> dict[str, Any]:
    """The columns of whole numbers; of records without numbers empty."""
    measured = [record.comparison for record in records]
    return {
        "order": column(record.order for record in records),
        "elements": column(None if one is None else one.elements for one in measured),
        "differing": column(None if one is None else one.differing for one in measured),
        "right_zero_mismatch": column(None if one is None else one.right_zero_mismatch for one in measured),
        "equal": column(None if one is None else int(one.equal) for one in measured),
        "total_elements": column(None if one is None else one.total_elements for one in measured),
    }


def _words(records: Sequence[Record]) -> Iterable[tuple[str, list[Any]]]:
    """Yield the columns of which few values differ."""
    yield "verdict", [record.verdict.outcome for record in records]
    for name in ("role", "how", "by", "judged_as", "known_drift"):
        yield name, [getattr(record, name) for record in records]
    for name in ("rtol", "atol"):
        measured = [record.comparison for record in records]
        yield name, [None if one is None else encode(getattr(one, name)) for one in measured]
    for name in COORDINATES:
        yield name, [getattr(record.left.at, name) for record in records]


def _metrics(numbers: Iterable[Mapping[str, Any]]) -> list[str]:
    """The metrics that are single numbers, those that the tool knows first, in its order."""
    found = {name for one in numbers for name, value in one.items() if not isinstance(value, tuple)}
    return [*(name for name in METRICS if name in found), *sorted(found - METRICS.keys())]


def _fact(name: str) -> tuple[str, str]:
    """A metric's title, and which way it is good."""
    fact = METRICS.get(name)
    return (fact.title, fact.direction) if fact else (name, "low")


def _number(value: Any) -> Any:
    """A metric's number; means and deviations stand in the drawer."""
    return None if isinstance(value, tuple) else short(encode(value))


def _side(sides: Sequence[ReportedTensor], pool: Pool) -> dict[str, Any]:
    """One side of all records: which tensor it is, what it holds, which file."""
    addresses = [side.address for side in sides]
    return {
        "label": front_coded(map(_label, addresses)),
        "slot": column(pool.add(_slot(address)) for address in addresses),
        "name": column(pool.add(_other_name(side)) for side in sides),
        **{key: column(pool.add(getattr(side, key)) for side in sides) for key in _OF_A_SIDE},
        **file_columns([side.file for side in sides], list(map(_in_file, addresses)), pool),
    }


def _label(address: str) -> str:
    """The operator's name."""
    return address.rsplit(":", 2)[0]


def _slot(address: str) -> str:
    """The rest of the address."""
    return address[len(_label(address)) :]


def _in_file(address: str) -> str:
    """The operator's name as file names have it."""
    return _label(address).replace("/", "_")


def _other_name(side: ReportedTensor) -> str | None:
    """The dump's own name where it does not follow from the address."""
    return None if side.name in (None, _label(side.address), _in_file(side.address)) else side.name


def _limits(record: Record) -> list[list[Any]]:
    """Metric, limit, level and rule of every limit of a record; most records have the same ones."""
    limited = [check for check in record.checks if check.limit is not None]
    return [[check.metric, encode(check.limit), check.level, check.rule] for check in limited]


def _outcomes(record: Record) -> list[str]:
    """What came of each of these limits, in their order."""
    return [check.outcome for check in record.checks if check.limit is not None]


def _unmatched(tensors: Sequence[UnmatchedTensor], pool: Pool) -> dict[str, Any]:
    """The tensors without a partner."""
    listed = tensors[:_MOST_UNMATCHED]
    entries = list(map(unmatched_json, listed))
    addresses = [one.tensor.address for one in listed]
    return {
        "rows": len(listed),
        "all": len(tensors),
        "label": front_coded(map(_label, addresses)),
        "slot": column(pool.add(_slot(address)) for address in addresses),
        **{
            key: column(pool.add(entry.get(key)) for entry in entries)
            for key in ("side", "op_type", "dtype", "shape", "reason", "candidates", "suggestions", "order")
        },
        **file_columns([one.tensor.file for one in listed], list(map(_in_file, addresses)), pool),
    }
