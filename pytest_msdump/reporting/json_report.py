"""results.json: the whole report for programs, written whole and read back without trust."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.model.report import Report, SideInfo
from pytest_msdump.reporting.atomic import write_file
from pytest_msdump.reporting.entries import check_entries
from pytest_msdump.reporting.record_json import from_json, to_json, to_text
from pytest_msdump.reporting.tally import counts
from pytest_msdump.reporting.values import dumps
from pytest_msdump.storage.regular import read_given

__all__ = ["SCHEMA_VERSION", "document", "outline", "read_json", "report_from", "write_json"]

SCHEMA_VERSION = 1

# About two hundred thousand records; more than any run this reads back, and less than memory.
_LARGEST_FILE_BYTES = 512 * 1024 * 1024

# One entry a line: `grep` finds a tensor, and version control shows which records changed.
_RECORDS = "tensors"
_LISTS = ("missing", "unmatched", _RECORDS)
_NETWORK = "network"
_BY_LINE = (*_LISTS, _NETWORK)
# What is written in many small pieces is written slowly, and all of it at once would be as large as all else of a run.
_TOGETHER = 64


def document(report: Report) -> dict[str, Any]:
    """Return results.json as plain values (INTERFACE 9)."""
    values = {key: list(value) if key in _BY_LINE else value for key, value in outline(report).items()}
    return {**values, _RECORDS: [to_json(record) for record in report.records]}


def outline(report: Report) -> dict[str, Any]:
    """Return the same with `tensors` as the report holds them: as records."""
    return {
        "schema_version": SCHEMA_VERSION,
        "left": _side(report.left),
        "right": _side(report.right),
        "profile": report.profile,
        **({"notes": list(report.notes)} if report.notes else {}),
        **({"rerun": list(report.rerun)} if report.rerun else {}),
        "limits": dict(report.limits),
        "complete": report.complete,
        "counts": counts(report),
        "coverage": dict(report.coverage),
        **({"localised_by": report.localised_by} if report.localised_by else {}),
        "missing": report.missing,
        "unmatched": report.unmatched,
        _RECORDS: report.records,
        **({_NETWORK: report.network} if report.network else {}),
        **({"edges": [list(edge) for edge in report.edges]} if report.edges else {}),
    }


def write_json(report: Report, directory: Path) -> Path:
    """Write results.json into `directory` and return its path.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    return write_file(directory, "results.json", (piece.encode("ascii") for piece in _pieces(report)))


def _pieces(report: Report) -> Iterator[str]:
    """The text of the file, some lines at a time."""
    before = "{\n"
    for key, value in outline(report).items():
        yield f"{before}{dumps(key)}: "
        before = ",\n"
        if key not in _BY_LINE or not value:
            yield dumps(value)
            continue
        yield "[\n  "
        line = to_text if key == _RECORDS else dumps
        for start in range(0, len(value), _TOGETHER):
            yield ",\n  " if start else ""
            yield ",\n  ".join(map(line, value[start : start + _TOGETHER]))
        yield "\n]"
    yield "\n}\n"


def read_json(path: Path) -> dict[str, Any]:
    """Read a results.json that this package wrote, to judge it again.

    Raises
    ------
    ConfigError
        There is no such file, it is no JSON, no report, or of a later schema; the text says which.
    """
    content = read_given(path, _LARGEST_FILE_BYTES, want="give the path of a results.json")
    values = _parsed(content, path)
    version = values.get("schema_version") if isinstance(values, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError(f"{path}: not a saved report, it has no schema_version; give a results.json of pytest-msdump")
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path}: written with schema_version {version}, this release reads up to {SCHEMA_VERSION}; "
            "upgrade pytest-msdump"
        )
    return dict(values)


def report_from(values: Mapping[str, Any], *, place: str = "results.json") -> Report:
    """Return the report that `document` was made from: every value of it is checked here, and nowhere else.

    Raises
    ------
    ConfigError
        A part of it is missing, is not what this package writes, or contradicts another; the text names it.
    """
    check_entries(values, place=place)
    report = Report(
        left=_side_from(values["left"]),
        right=_side_from(values["right"]),
        profile=values["profile"],
        limits=values["limits"],
        records=tuple(map(from_json, values[_RECORDS])),
        unmatched=tuple(values["unmatched"]),
        missing=tuple(values["missing"]),
        coverage=values["coverage"],
        network=tuple(values.get(_NETWORK, ())),
        notes=tuple(values.get("notes", ())),
        rerun=tuple(values.get("rerun", ())),
        localised_by=values.get("localised_by", ""),
        edges=tuple((edge[0], edge[1]) for edge in values.get("edges", ())),
        ended=values.get("complete") is True or any(record["verdict"] == "not_run" for record in values[_RECORDS]),
    )
    if values.get("counts") != counts(report):
        raise ConfigError(f"{place}: 'counts' disagree with the entries; the file was cut or edited: compare again")
    return report


def _side(side: SideInfo) -> dict[str, Any]:
    """One side: tuples become lists; what hardly any dump has is there where it is said."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(side).items()}
    partial = values.pop("partial_run")
    return {**values, "partial_run": dict(partial)} if partial else values


def _side_from(values: Mapping[str, Any]) -> SideInfo:
    """One side read back; what an earlier release did not write has its default."""
    return SideInfo(
        directory=values["directory"],
        reader=values["reader"],
        labels=values.get("labels", {}),
        notes=tuple(values.get("notes", ())),
        unexplained=tuple(values.get("unexplained", ())),
        operators=values.get("operators", 0),
        tensors=values.get("tensors", 0),
        partial_run=values.get("partial_run", {}),
    )


def _parsed(content: bytes, path: Path) -> Any:
    """Parse strict JSON; whatever is wrong with it is one line."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ConfigError(f"{path}: bad JSON at {where}: {error.msg}; the file was cut or edited") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: bad JSON: {error!s:.120}; the file was cut or edited") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of which no key is there twice: who reads would take the first, or the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r:.60} is there twice")
    return found


def _refuse_constant(name: str) -> Any:
    """Bare NaN and Infinity are no JSON; reports hold them as strings."""
    raise ValueError(f"{name} outside a string")
