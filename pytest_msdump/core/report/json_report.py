"""results.json: the whole report for programs, written whole and read back without trust."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.forms import Form, WrongValueError, by_name, lenient, list_of, nullable, optional, table
from pytest_msdump.core.forms.values import (
    COUNT,
    FLAG,
    INDEX,
    NUMBER,
    SHARE,
    SIDE,
    TEXT,
    TEXTS,
    WHOLE,
    as_given,
    dumps_tight,
    one_of,
    shallow,
    table_with_message,
)
from pytest_msdump.core.limits.permissions import permissions_of
from pytest_msdump.core.model.record import Record, ReportedTensor
from pytest_msdump.core.model.report import (
    Coverage,
    NetworkOperator,
    ReplayShare,
    Report,
    SideInfo,
    SuggestedPartner,
    Uncompared,
    UnmatchedTensor,
)
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, Missing
from pytest_msdump.core.report.base import ReportKind
from pytest_msdump.core.report.coverage import counts
from pytest_msdump.core.report.packing import pack, unpack, write_to_pack
from pytest_msdump.core.report.record_json import (
    ADDRESS,
    AT,
    CODE,
    RECORD,
    SHAPE_RELATION,
    parts_form,
    refusing,
)
from pytest_msdump.core.storage.files import read_user_file, unique_keys, write_file
from pytest_msdump.core.text import say

SCHEMA_VERSION = 1

# About two hundred thousand records; more than any run this reads back, and less than memory.
_LARGEST_FILE_BYTES = 512 * 1024 * 1024
# What is written in many small pieces is written slowly, and all of it at once would be as large as all else of a run.
_LINES_AT_ONCE = 64


def _coverage(**found: Any) -> Coverage:
    if found["right_paired"] > found["right_total"]:
        raise WrongValueError("more tensors were paired than there are")
    if len(found.get("next_entry", ())) not in (0, 2):
        raise WrongValueError("next_entry is not two names")
    return Coverage(**found)


def _unmatched(**found: Any) -> UnmatchedTensor:
    # The address holds both, too.
    del found["io"], found["slot"]
    at = Coordinates(**{name: found.pop(name) for name in COORDINATES})
    named = {name: found.pop(name) for name in _NAMES}
    return UnmatchedTensor(tensor=ReportedTensor(at=at, **named), **found)


def _unmatched_parts(one: UnmatchedTensor) -> Mapping[str, Any]:
    tensor = one.tensor
    _, io, slot = tensor.address.rsplit(":", 2)
    return {
        **{name: getattr(tensor, name) for name in _NAMES},
        **{name: getattr(tensor.at, name) for name in COORDINATES},
        "io": io,
        "slot": int(slot),
        "side": one.side,
        "order": one.order,
        "reason": one.reason,
        "candidates": one.candidates,
        "suggestions": one.suggestions,
        **one.why.entry,
    }


_NAMES = ("address", "file", "op_type", "dtype", "shape", "device_address")
_SUGGESTION = table(
    SuggestedPartner,
    {
        "address": ADDRESS,
        "confidence": TEXT,
        "why": TEXT,
        "apart": optional(nullable(NUMBER)),
        "shape": optional(SHAPE_RELATION, ""),
        "by": optional(TEXT, ""),
    },
)
UNMATCHED = table_with_message(
    _unmatched,
    "reason",
    "why",
    {
        "side": SIDE,
        "address": ADDRESS,
        "file": TEXT,
        "op_type": nullable(TEXT),
        "dtype": nullable(TEXT),
        "io": one_of(("input", "output")),
        "slot": COUNT,
        "shape": nullable(INDEX),
        "device_address": nullable(WHOLE),
        "order": nullable(COUNT),
        **AT,
        "reason": TEXT,
        **CODE,
        "candidates": TEXTS,
        "suggestions": optional(list_of(_SUGGESTION)),
    },
    parts=_unmatched_parts,
)
MISSING = table_with_message(
    Missing, "reason", "why", {"left": TEXT, "right": TEXT, "reason": TEXT, **CODE, "candidates": TEXTS}
)
_OPERATOR = table(
    NetworkOperator,
    {"index": WHOLE, "sequence": WHOLE, "name": TEXT, "op_type": TEXT, "left": TEXTS, "right": TEXTS, "relation": TEXT},
)
_REPLAY_SHARE = table(
    ReplayShare, {"judged": COUNT, "total": COUNT, "least": SHARE, "not_judged": TEXTS}, parts=ReplayShare._asdict
)
_UNCOMPARED = table(Uncompared, {"name": TEXT, "share": SHARE, "side": SIDE})
COVERAGE = table(
    _coverage,
    {
        "right_total": COUNT,
        "right_paired": COUNT,
        "value": SHARE,
        "min_coverage": lenient(nullable(SHARE)),
        "incomplete": optional(list_of(SIDE), ()),
        "replay": optional(_REPLAY_SHARE),
        "partly": optional(COUNT, 0),
        "unlisted": optional(COUNT, 0),
        "uncompared": optional(list_of(_UNCOMPARED), ()),
        "outputs": optional(TEXTS, ()),
        "next_entry": optional(TEXTS, ()),
    },
)
_SIDE = table(
    SideInfo,
    {
        "directory": TEXT,
        "reader": TEXT,
        "labels": lenient(by_name(TEXT)),
        "notes": lenient(TEXTS),
        "unexplained": lenient(TEXTS),
        "operators": lenient(COUNT),
        "tensors": lenient(COUNT),
        "partial_run": optional(as_given(table(dict, {"newer": COUNT, "tensors": COUNT})), {}),
        "by_name": optional(FLAG, False),
        "shown": optional(by_name(TEXT), {}),
    },
)
_LIMITS = as_given(
    table(
        dict,
        {
            "nan": lenient(TEXT),
            "threshold": lenient(by_name(NUMBER)),
            "rules": lenient(TEXTS),
            "known_drift": lenient(TEXTS),
            "limits_file": optional(TEXT, ""),
        },
    )
)
# Made of the notes of records, for programs; reading leaves them aside.
_PERMISSION = table(
    dict,
    {"by": TEXT, "pairs": COUNT, "factor": optional(NUMBER, 0.0), "sentence": TEXT, **CODE},
    parts=lambda one: {**one._asdict(), "sentence": say(one.message), **one.message.entry},
)
# One entry a line: `grep` finds a tensor, and version control shows which records changed.
_BY_LINE: Mapping[str, Form] = {"missing": MISSING, "unmatched": UNMATCHED, "tensors": RECORD, "network": _OPERATOR}
_KEYS: Mapping[str, Form] = {
    "schema_version": lenient(WHOLE),
    "left": _SIDE,
    "right": _SIDE,
    "golden": optional(_SIDE),
    "third": optional(_SIDE),
    "run": optional(by_name(TEXT), {}),
    "profile": TEXT,
    "notes": optional(TEXTS, ()),
    "rerun": optional(TEXTS, ()),
    "limits": _LIMITS,
    "complete": lenient(FLAG),
    "counts": by_name(COUNT),
    "coverage": COVERAGE,
    "permissions": optional(list_of(_PERMISSION), ()),
    "localised_by": optional(TEXT, ""),
    "missing": list_of(MISSING),
    "unmatched": list_of(UNMATCHED),
    "tensors": list_of(RECORD),
    "shared": optional(list_of(as_given(by_name(Form(shallow))))),
    "network": optional(list_of(_OPERATOR), ()),
    "edges": optional(list_of(list_of(WHOLE, length=2)), ()),
    "parts": optional(parts_form("REPORT_PART"), {}),
}


def _report_parts(report: Report) -> Mapping[str, Any]:
    own = {"schema_version", "counts", "tensors", "shared", "permissions"}
    plain = {key: getattr(report, key) for key in _KEYS.keys() - own}
    return {
        **plain,
        "schema_version": SCHEMA_VERSION,
        "counts": counts(report),
        "tensors": report.records,
        "shared": None,
        "permissions": tuple(permissions_of(report)),
    }


def _report(**found: Any) -> Report:
    found.pop("schema_version", None)
    found.pop("permissions", None)
    found.pop("shared", None)
    records, counted = found.pop("tensors"), found.pop("counts")
    ended = found.pop("complete", False) or not all(record.was_run for record in records)
    report = Report(records=records, ended=ended, **found)
    if counted != counts(report):
        raise WrongValueError("'counts' disagree with the entries")
    return report


FORM = table(_report, _KEYS, parts=_report_parts)


def document(report: Report) -> dict[str, Any]:
    """Return results.json as plain values (INTERFACE 9)."""
    entry: dict[str, Any] = FORM.write(report)
    return entry


def head_json(report: Report) -> dict[str, Any]:
    """Return the same without the long lists."""
    parts = _report_parts(report)
    return {
        key: form.write(parts[key]) for key, form in _KEYS.items() if key not in _BY_LINE and parts[key] != form.default
    }


class JsonReport(ReportKind):
    """``json``: results.json."""

    name, file = "json", "results.json"

    def write(self, report: Report, directory: Path) -> Path:
        """Write results.json into `directory`."""
        return write_json(report, directory)


def write_json(report: Report, directory: Path) -> Path:
    """Write results.json into `directory` and return its path."""
    return write_file(directory, "results.json", (piece.encode("ascii") for piece in _pieces(report)))


def _pieces(report: Report) -> Iterator[str]:
    """Yield the text of the file, some lines at a time."""
    parts = _report_parts(report)
    shared: dict[str, int] = {}

    def packed(record: Record) -> dict[str, Any]:
        return pack(write_to_pack(record), shared, dumps_tight)

    before = "{\n"
    for key, form in _KEYS.items():
        value = parts[key]
        if key == "shared" and shared:
            texts = ",\n  ".join(shared)
            yield f'{before}"shared": [\n  {texts}\n]'
        if value == form.default:
            continue
        yield f"{before}{dumps_tight(key)}: "
        before = ",\n"
        if key not in _BY_LINE or not value:
            yield dumps_tight(form.write(value))
            continue
        write = packed if key == "tensors" else _BY_LINE[key].write
        yield "[\n  "
        for start in range(0, len(value), _LINES_AT_ONCE):
            yield ",\n  " if start else ""
            yield ",\n  ".join([dumps_tight(write(one)) for one in value[start : start + _LINES_AT_ONCE]])
        yield "\n]"
    yield "\n}\n"


def read_json(path: Path) -> dict[str, Any]:
    """Read a results.json that this package wrote, with all that `pack` left out filled in."""
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
    with refusing(str(path)):
        return dict(unpack(values))


def report_from(values: Mapping[str, Any], *, place: str = "results.json") -> Report:
    """Return the report that `document` was made from: every value of it is checked here, and nowhere else."""
    with refusing(place):
        report: Report = FORM.read(unpack(values), "")
        return report


def _parsed(content: bytes, path: Path) -> Any:
    """Parse strict JSON; whatever is wrong with it is one line."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ConfigError(f"{path}: bad JSON at {where}: {error.msg}; the file was cut or edited") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: bad JSON: {error!s:.120}; the file was cut or edited") from None


def _refuse_constant(name: str) -> Any:
    """Bare NaN and Infinity are no JSON; reports hold them as strings."""
    raise ValueError(f"{name} outside a string")
