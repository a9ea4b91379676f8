"""results.json: the whole report for programs, written whole and read back without trust."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.model.json_values import NONFINITE, dumps, encode
from pytest_msdump.model.pairing import Missing
from pytest_msdump.model.record import ReportedTensor
from pytest_msdump.model.report import Coverage, NetworkOperator, Report, SideInfo, SuggestedPartner, UnmatchedTensor
from pytest_msdump.model.tensor import COORDINATES, Coordinates
from pytest_msdump.report.coverage import counts
from pytest_msdump.report.entries import check_entries
from pytest_msdump.report.record_json import from_json, to_json
from pytest_msdump.storage.files import read_user_file, write_file
from pytest_msdump.text import message_of

__all__ = [
    "SCHEMA_VERSION",
    "coverage_json",
    "document",
    "missing_json",
    "outline",
    "read_json",
    "report_from",
    "unmatched_json",
    "write_json",
]

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
    return {
        key: list(map(_line_json(key), value)) if key in _BY_LINE else value for key, value in outline(report).items()
    }


def outline(report: Report) -> dict[str, Any]:
    """Return the same with the entries of long lists as the report holds them."""
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
        "coverage": coverage_json(report.coverage),
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
            yield dumps(list(value) if key in _BY_LINE else value)
            continue
        yield "[\n  "
        for start in range(0, len(value), _TOGETHER):
            yield ",\n  " if start else ""
            yield ",\n  ".join(map(dumps, map(_line_json(key), value[start : start + _TOGETHER])))
        yield "\n]"
    yield "\n}\n"


def _line_json(key: str) -> Callable[[Any], dict[str, Any]]:
    """What writes an entry of one of the long lists."""
    writers: Mapping[str, Callable[[Any], dict[str, Any]]] = {
        _RECORDS: to_json,
        "unmatched": unmatched_json,
        "missing": missing_json,
        _NETWORK: _operator_json,
    }
    return writers[key]


def coverage_json(coverage: Coverage) -> dict[str, Any]:
    """Return the coverage as results.json has it."""
    entry = {
        "right_total": coverage.right_total,
        "right_paired": coverage.right_paired,
        "value": coverage.value,
        "min_coverage": coverage.min_coverage,
    }
    return {**entry, "incomplete": list(coverage.incomplete)} if coverage.incomplete else entry


def _coverage(entry: Mapping[str, Any]) -> Coverage:
    named = entry.get("incomplete")
    return Coverage(
        entry["right_total"],
        entry["right_paired"],
        entry["value"],
        entry.get("min_coverage"),
        tuple(side for side in ("left", "right") if isinstance(named, list) and side in named),
    )


def missing_json(one: Missing) -> dict[str, Any]:
    """Return a pair that could not be made as results.json has it."""
    names = {"left": one.left, "right": one.right}
    return {**names, "reason": one.reason, **one.why.entry, "candidates": list(one.candidates)}


def _missing(entry: Mapping[str, Any]) -> Missing:
    return Missing(entry["left"], entry["right"], message_of(entry, entry["reason"]), tuple(entry["candidates"]))


def _operator_json(operator: NetworkOperator) -> dict[str, Any]:
    return operator._asdict() | {"left": list(operator.left), "right": list(operator.right)}


def _operator(entry: Mapping[str, Any]) -> NetworkOperator:
    left, right = tuple(entry["left"]), tuple(entry["right"])
    names = entry["index"], entry["sequence"], entry["name"], entry["op_type"]
    return NetworkOperator(*names, left, right, entry["relation"])


def unmatched_json(one: UnmatchedTensor) -> dict[str, Any]:
    """Return a tensor without a partner as results.json has it."""
    tensor = one.tensor
    _, io, slot = tensor.address.rsplit(":", 2)
    entry: dict[str, Any] = {
        "side": one.side,
        "address": tensor.address,
        "file": tensor.file,
        "op_type": tensor.op_type,
        "dtype": tensor.dtype,
        "io": io,
        "slot": int(slot),
        "shape": None if tensor.shape is None else list(tensor.shape),
        "device_address": tensor.device_address,
        "order": one.order,
        **{name: getattr(tensor.at, name) for name in COORDINATES},
        "reason": one.reason,
        **one.why.entry,
        "candidates": list(one.candidates),
    }
    if one.suggestions is not None:
        entry["suggestions"] = [_suggestion_json(suggestion) for suggestion in one.suggestions]
    return entry


def _unmatched(entry: Mapping[str, Any]) -> UnmatchedTensor:
    shape = entry["shape"]
    tensor = ReportedTensor(
        address=entry["address"],
        file=entry["file"],
        op_type=entry["op_type"],
        at=Coordinates(**{name: entry[name] for name in COORDINATES}),
        dtype=entry["dtype"],
        shape=None if shape is None else tuple(shape),
        device_address=entry["device_address"],
    )
    suggestions = tuple(map(_suggestion, entry["suggestions"])) if "suggestions" in entry else None
    why, candidates = message_of(entry, entry["reason"]), tuple(entry["candidates"])
    return UnmatchedTensor(entry["side"], tensor, why, candidates, entry["order"], suggestions)


def _suggestion_json(one: SuggestedPartner) -> dict[str, Any]:
    entry: dict[str, Any] = {"address": one.address, "confidence": one.confidence, "why": one.why}
    if one.shape:
        entry |= {"apart": encode(one.apart), "shape": one.shape}
    return {**entry, "by": one.by} if one.by else entry


def _suggestion(entry: Mapping[str, Any]) -> SuggestedPartner:
    apart = entry.get("apart")
    return SuggestedPartner(
        entry["address"],
        entry["confidence"],
        entry["why"],
        NONFINITE[apart] if isinstance(apart, str) else apart,
        entry.get("shape", ""),
        entry.get("by", ""),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a results.json that this package wrote, to judge it again.

    Raises
    ------
    ConfigError
        There is no such file, it is no JSON, no report, or of a later schema; the text says which.
    """
    content = read_user_file(path, _LARGEST_FILE_BYTES, want="give the path of a results.json")
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
        unmatched=tuple(map(_unmatched, values["unmatched"])),
        missing=tuple(map(_missing, values["missing"])),
        coverage=_coverage(values["coverage"]),
        network=tuple(map(_operator, values.get(_NETWORK, ()))),
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
