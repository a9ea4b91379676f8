"""What every entry of a saved report must hold before anything is told or judged from it; files get edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.model.verdict import FAILING

__all__ = ["check_entries"]

_Fields = Mapping[str, type | tuple[type, ...]]

# List of the report → what each of its entries holds.
_ENTRIES: Mapping[str, _Fields] = {
    "tensors": {
        "order": int,
        "left": dict,
        "right": dict,
        "verdict": str,
        "findings": list,
        "checks": list,
        "worst": list,
        "metrics": dict,
        "would_pass": dict,
        "transform": dict,
        "where": dict,
        "nonfinite": dict,
        "by": str,
        "how": str,
    },
    "unmatched": {"side": str, "address": str, "reason": str, "candidates": list},
    "missing": {"left": str, "right": str, "reason": str, "candidates": list},
}
# A report has these only where a rule file told of a compiled model.
_NETWORK: _Fields = {
    "index": int,
    "sequence": int,
    "name": str,
    "op_type": str,
    "left": list,
    "right": list,
    "relation": str,
}
_NESTED: Mapping[str, _Fields] = {
    "findings": {"outcome": str, "sentence": str},
    "checks": {"metric": str, "outcome": str},
    "worst": {"index": list, "left": object, "right": object, "ratio": (int, float, str)},
}
# What a failing pair's record has where files beside the tensors tell it.
_DIFFERING: _Fields = {"kind": str, "name": str, "left": (str, type(None)), "right": (str, type(None))}
_SAVED: _Fields = {"file": str, "values": dict}
_SAVED_NOTE: _Fields = {"file": str, "note": str}
# What localising may have added to a record.
_ROLE: _Fields = {"role": str, "causes": list, "suspects": list, "role_reason": str}
# What is there where somebody knows, or asked for it.
_SOURCE: _Fields = {"file": str, "line": int, "text": str}
_SUGGESTION: _Fields = {"address": str, "confidence": str, "why": str}
_SUSPICIOUS: _Fields = {"side": str, **_SUGGESTION, "apart": (int, float), "shape": str}
_SHAPES = ("same", "transposed", "reshaped")
_DOUBTS = ("several", "values", "names")
_ROLE_WHY: _Fields = {"why": str, "suspects": list, "given": list}
_SUSPECT: _Fields = {"operator": str, "state": str}
_ROLES = ("cause", "inherited", "unknown")
_SIDES = ("left", "right")
_PASSING = ("pass", "warn")


def check_entries(values: Mapping[str, Any], *, place: str) -> None:
    """Refuse a report whose entries are not what this package writes, or contradict themselves.

    Parameters
    ----------
    values : mapping
        results.json as parsed; its lists are lists.
    place : str
        How messages call the file.

    Raises
    ------
    ConfigError
        Names the entry and the key.
    """
    for name, fields in _ENTRIES.items():
        for number, entry in enumerate(values[name]):
            _check(entry, fields, f"{place}: {name}[{number}]")
    _check_network(values.get("network", []), f"{place}: network")
    _check_edges(values.get("edges", []), f"{place}: edges")
    for number, record in enumerate(values["tensors"]):
        where = f"{place}: tensors[{number}]"
        for name, fields in _NESTED.items():
            for index, entry in enumerate(record[name]):
                _check(entry, fields, f"{where}: {name}[{index}]")
        _check_arguments(record, where)
        _check_role(record, where)
        _check_suspicious(record.get("suspicious", []), f"{where}: suspicious")
        _check_sources(record, where)
        _check_verdict(record, where)
    for number, entry in enumerate(values["unmatched"]):
        if entry["side"] not in _SIDES:
            raise _damaged(f"{place}: unmatched[{number}]: 'side' is {entry['side']!r:.40}")
        _check_suggestions(entry.get("suggestions", []), f"{place}: unmatched[{number}]: suggestions")


def _check(entry: Any, fields: _Fields, where: str) -> None:
    """Every key is there and of its kind."""
    if not isinstance(entry, dict):
        raise _damaged(f"{where}: no JSON object")
    for key, kind in fields.items():
        if key not in entry or not isinstance(entry[key], kind) or (kind is int and isinstance(entry[key], bool)):
            raise _damaged(f"{where}: '{key}' is missing or of another kind")


def _check_network(entries: Any, where: str) -> None:
    """Every operator of the compiled model has what tables say of it."""
    if not isinstance(entries, list):
        raise _damaged(f"{where}: no list")
    for number, entry in enumerate(entries):
        _check(entry, _NETWORK, f"{where}[{number}]")
        if not all(isinstance(name, str) for name in (*entry["left"], *entry["right"])):
            raise _damaged(f"{where}[{number}]: 'left' and 'right' are lists of names")


def _check_arguments(record: Mapping[str, Any], where: str) -> None:
    """What a failing record may tell of its operator's arguments."""
    differing, saved = record.get("differing_arguments", []), record.get("kernel_args", {})
    if not isinstance(differing, list) or not isinstance(saved, dict):
        raise _damaged(f"{where}: 'differing_arguments' or 'kernel_args' is of another kind")
    for index, entry in enumerate(differing):
        _check(entry, _DIFFERING, f"{where}: differing_arguments[{index}]")
    for side, entry in saved.items():
        _check(entry, _SAVED_NOTE if isinstance(entry, dict) and "note" in entry else _SAVED, f"{where}: {side}")


def _check_edges(edges: Any, where: str) -> None:
    """Who feeds whom, as pairs of places."""
    if not isinstance(edges, list):
        raise _damaged(f"{where}: no list")
    for number, edge in enumerate(edges):
        if not isinstance(edge, list) or len(edge) != 2 or any(type(place) is not int for place in edge):
            raise _damaged(f"{where}[{number}]: no pair of operators' places")


def _check_role(record: Mapping[str, Any], where: str) -> None:
    """What localising said of a record is whole."""
    if "role" in record:
        _check(record, _ROLE, where)
        if record["role"] not in _ROLES or not all(
            isinstance(name, str) for name in (*record["causes"], *record["suspects"])
        ):
            raise _damaged(f"{where}: 'role', 'causes' or 'suspects' is of another kind")
        _check_role_why(record.get("role_why"), where)
    grown = record.get("amplification", 0.0)
    if not isinstance(grown, (int, float)) or isinstance(grown, bool):
        raise _damaged(f"{where}: 'amplification' is no number")


def _check_sources(record: Mapping[str, Any], where: str) -> None:
    """The line that made an operator is whole."""
    for name, entry in (("source", record), ("right: source", record["right"])):
        if "source" in entry:
            _check(entry["source"], _SOURCE, f"{where}: {name}")


def _check_suggestions(entries: Any, where: str) -> None:
    """Who may be the partner of a tensor without one."""
    if not isinstance(entries, list):
        raise _damaged(f"{where}: no list")
    for number, entry in enumerate(entries):
        _check(entry, _SUGGESTION, f"{where}[{number}]")


def _check_suspicious(entries: Any, where: str) -> None:
    """Who fits better than the partner."""
    if not isinstance(entries, list):
        raise _damaged(f"{where}: no list")
    for number, entry in enumerate(entries):
        _check(entry, _SUSPICIOUS, f"{where}[{number}]")
        told = (entry["side"], entry["shape"], entry.get("doubt", _DOUBTS[0]))
        if any(word not in words for word, words in zip(told, (_SIDES, _SHAPES, _DOUBTS), strict=True)):
            raise _damaged(f"{where}[{number}]: 'side', 'shape' or 'doubt' is no word of this release")
        if "map" in entry:
            _check(entry["map"], {"left": str, "right": str}, f"{where}[{number}]: map")


def _check_role_why(why: Any, where: str) -> None:
    """Why it has its role, as far as it is told."""
    if why is None:
        return
    _check(why, _ROLE_WHY, f"{where}: role_why")
    for suspect in why["suspects"]:
        _check(suspect, _SUSPECT, f"{where}: role_why: suspects")
    for key in ("given", "before"):
        names = why.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _damaged(f"{where}: role_why: '{key}' is no list of names")


def _check_verdict(record: Mapping[str, Any], where: str) -> None:
    """A verdict that passes has no finding and no check that fails."""
    told: Sequence[Mapping[str, Any]] = [*record["findings"], *record["checks"]]
    if record["verdict"] in _PASSING and any(one["outcome"].lower() in FAILING for one in told):
        raise _damaged(f"{where}: the verdict is {record['verdict']}, but a limit was not met")


def _damaged(what: str) -> ConfigError:
    return ConfigError(f"{what}; the file was cut or edited: compare again")
