"""What results.json leaves out of its records, and how reading fills it in.

What many records have in common stands once, in the list ``shared`` of the document: ``shared`` of a record says which
entry is its own. A key that is default, as on the left side, or follows exactly from other numbers is not there; of a
passing record neither is ``where`` nor ``worst``. A document without the list is of an earlier release: nothing is left
out of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.forms import Form, WrongValueError, expected, list_of, optional, table
from pytest_msdump.core.forms.values import COUNT, TEXT
from pytest_msdump.core.model.comparison import Nonfinite
from pytest_msdump.core.model.record import Check, Record, ReportedTensor
from pytest_msdump.core.model.tensor import COORDINATES, Transform
from pytest_msdump.core.report.record_json import CHECK, LEFT, RECORD_KEYS, RIGHT, parts_of

Entry = dict[str, Any]

_SHARED = ("rtol", "atol", "not_applicable", "reasons", "judged_as", "known_drift")
# Ways of pairing that say the same of all their pairs.
_SAYS_THE_SAME = ("name", "mangled")
_OF_A_TENSOR = dict.fromkeys(("op_type", "memory_format", "true_name"))
# Of these the right side is as the left where it does not say otherwise.
_AS_LEFT = ("address", "op_type", "file", "dtype", "shape", "memory_format", "true_name")
_NONFINITE: Mapping[str, Any] = Nonfinite()._asdict()
# Metrics whose 0 is an integer.
_COUNTED = frozenset({"nonfinite_mismatch", "saturated_count", "allclose", "bitwise_mismatch"})
_ZERO: Mapping[str, Any] = {name: 0 if name in _COUNTED else 0.0 for name in METRICS}
# Beyond a limit: the parameters of the sentence are the keys of the finding, and mostly no detail.
_BEYOND = ("above_limit", "below_limit")
_OF_A_FINDING = ("metric", "value", "limit", "rule")
# Nothing is equal to it.
_WRITTEN = object()
_VENDOR = ("accumulated_relative_error", "max_relative_error", "mean_relative_error")


# What is default, by attribute: it is not even written; and as the file has it.
_LEFT_OUT: Mapping[str, Any] = {
    **dict.fromkeys(COORDINATES),
    "iteration": 0,
    "occurrence": 0,
    **{key: {} for key in ("undefined", "not_applicable", "where", "would_pass")},
    **dict.fromkeys(("worst", "findings", "notes"), ()),
    "transform": Transform(),
    "nonfinite": Nonfinite()._asdict(),
    "nan": "match",
    "known_drift": None,
}
_DEFAULTS: Mapping[str, Any] = {
    **{key: RECORD_KEYS[key].write(value) for key, value in _LEFT_OUT.items()},
    "vendor": {},
    "nonfinite": {},
}
_OF_LEFT, _OF_RIGHT = tuple(LEFT.keys), tuple(RIGHT.keys)
_of_left, _of_right = attrgetter(*_OF_LEFT), attrgetter(*_OF_RIGHT)
_as_left = attrgetter(*_AS_LEFT, "at")


def _packed_side(tensor: ReportedTensor, values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    name = tensor.address.rsplit(":", 2)[0]
    return {
        key: value
        for key, value in values.items()
        if (value != usual[key] if key in usual else key != "name" or value != name)
    }


# Nearly all pairs of a dump are held against the same limits; 0 and 0.0 are written in two ways.
@lru_cache(maxsize=1024)
def _packed_check(_is_whole: bool, metric: str, *limit: Any) -> Mapping[str, Any]:
    return {key: value for key, value in CHECK.write(Check(metric, None, *limit)).items() if key != "value"}


def _packed_checks(checks: Sequence[Check], metrics: Mapping[str, Any]) -> list[Any]:
    """Return checks as they are written, without their values where these are those of the metrics."""
    if any(one.value != metrics.get(one.metric) for one in checks):
        return [CHECK.write(one) for one in checks]
    return [_packed_check(isinstance(one.limit, int), one.metric, *one[2:]) for one in checks]


def _packed_parts(record: Record) -> dict[str, Any]:
    """Return what to write of a record, without what is default or as on the left side."""
    parts, left, right = parts_of(record), record.left, record.right
    if record.verdict.outcome == "pass":
        parts |= {"where": {}, "worst": ()}
    parts["left"] = _packed_side(left, dict(zip(_OF_LEFT, _of_left(left), strict=True)), _OF_A_TENSOR)
    as_left = dict(zip((*_AS_LEFT, "at"), _as_left(left), strict=True))
    parts["right"] = _packed_side(right, dict(zip(_OF_RIGHT, _of_right(right), strict=True)), as_left)
    parts["checks"] = _packed_checks(record.checks, parts["metrics"])
    return parts


_PACKED_KEYS = {
    **{key: optional(form, _LEFT_OUT[key]) if key in _LEFT_OUT else form for key, form in RECORD_KEYS.items()},
    "left": table(dict, LEFT.keys, parts=dict),
    "right": table(dict, RIGHT.keys, parts=dict),
    "checks": Form(RECORD_KEYS["checks"].read),
}
write_to_pack = table(dict, _PACKED_KEYS, parts=_packed_parts).write


def pack(entry: Entry, shared: dict[str, int], dumps: Callable[[Any], str]) -> Entry:
    """Return a record as the file has it; what it shares with others is added to `shared`: its text → its number.

    `entry` is what `write_to_pack` wrote: without what is default, and as on the left side.
    """
    common = {key: entry[key] for key in _SHARED if key in entry}
    if entry["how"] in _SAYS_THE_SAME:
        common["by"] = entry["by"]
    if "amplification" in entry and entry["amplification"] == 1.0:
        common["amplification"] = 1.0
    metrics = entry["metrics"]
    if not [row for row in entry["checks"] if "value" in row]:
        common["checks"] = entry["checks"]
    left_out = _DEFAULTS
    if entry["elements"] is not None:
        usual = {**_ZERO, **_following(entry, metrics)}
        derived = [
            name
            for name, value in metrics.items()
            if name in usual and value == usual[name] and _is_same(value, usual[name])
        ]
        common["derived"] = derived
        numbers = {**_counts(entry), **_sums(entry, metrics)}
        for key, number in numbers.items():
            if entry[key] == number and not _is_same(entry[key], number):
                numbers[key] = _WRITTEN
        left_out = {**_DEFAULTS, **numbers}
        entry["metrics"] = {name: value for name, value in metrics.items() if name not in derived}
        if "nonfinite" in entry:
            entry["nonfinite"] = {key: value for key, value in entry["nonfinite"].items() if value != _NONFINITE[key]}
    if "findings" in entry:
        entry["findings"] = [_packed_finding(one) for one in entry["findings"]]
    # As `_is_same` has it but for -0.0, for each of some fifty keys.
    packed = {
        key: value
        for key, value in entry.items()
        if key not in common
        and (key not in left_out or value != left_out[key] or type(value) is not type(left_out[key]))
    }
    packed["shared"] = shared.setdefault(dumps(common), len(shared))
    return packed


def _is_same(value: Any, other: Any) -> bool:
    """Whether two equal values are written in the same way: 1 is not as 1.0 is, nor 0.0 as -0.0."""
    kind = type(value)
    if kind is not type(other):
        return False
    return kind is int or (kind is float and value != 0.0) or repr(value) == repr(other)


def _packed_finding(finding: Entry) -> Entry:
    if finding.get("code") in _BEYOND:
        usual = _usual_parameters(finding)
        written = {
            key: value
            for key, value in finding["parameters"].items()
            if key not in usual or value != usual[key] or not _is_same(value, usual[key])
        }
        finding = {**finding, "parameters": written}
    return {key: value for key, value in finding.items() if key not in _OF_A_FINDING or value is not None}


def _usual_parameters(finding: Mapping[str, Any]) -> Entry:
    return {key: finding[key] for key in _OF_A_FINDING} | {"detail": None}


def _counts(entry: Mapping[str, Any]) -> Entry:
    """Return the counts of a pair that is finite everywhere, and equal everywhere or nowhere."""
    elements = entry["elements"]
    return {"finite": elements, "differing": 0 if entry.get("equal") else elements, "right_zero_mismatch": 0}


def _sums(entry: Mapping[str, Any], metrics: Mapping[str, Any]) -> Entry:
    """Return what follows of other keys from metrics."""
    mean = metrics.get("mean_absolute_error")
    return {
        "absolute_error_sum": mean * entry["finite"] if type(mean) is float else None,
        "vendor": {name: metrics[name] for name in _VENDOR if name in metrics},
    }


def _following(entry: Mapping[str, Any], metrics: Mapping[str, Any]) -> Entry:
    """Return the metrics that follow from other numbers."""
    mean, distance = metrics.get("mean_relative_error"), metrics.get("relative_euclidean_distance")
    follows = {"bitwise_mismatch": entry["differing"]}
    if type(mean) is float:
        follows["accumulated_relative_error"] = mean * (entry["finite"] - entry["right_zero_mismatch"])
    if type(distance) is float and distance > 0.0:
        follows["signal_to_noise_ratio"] = -20.0 * math.log10(distance)
    return follows


def unpack(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a document with all keys of its records; `WrongValueError` where it cannot be what `pack` wrote."""
    shared, entries = document.get("shared"), document.get("tensors")
    if type(entries) is not list or (
        shared is None and not any(type(one) is dict and "shared" in one for one in entries)
    ):
        return document
    if shared is None:
        raise WrongValueError("'shared' is missing")
    if type(shared) is not list or not all(type(common) is dict for common in shared):
        raise _at(".shared", expected("a list of objects", shared, ""))
    full: list[Entry] = []
    try:
        for entry in entries:
            full.append(_unpacked(entry, shared))  # noqa: PERF401 - their number is the place of an error
    except WrongValueError as wrong:
        raise _at(f".tensors[{len(full)}]", wrong) from None
    return {key: value for key, value in document.items() if key != "shared"} | {"tensors": full}


def _at(place: str, wrong: WrongValueError) -> WrongValueError:
    wrong.place = place + wrong.place
    return wrong


def _unpacked(entry: Any, shared: list[Entry]) -> Entry:
    number = entry.get("shared") if type(entry) is dict else None
    if type(number) is not int or not 0 <= number < len(shared):
        raise _at(".shared" if type(entry) is dict else "", expected("the number of an entry of 'shared'", number, ""))
    full = {**_DEFAULTS, **shared[number], **entry}
    del full["shared"]
    derived = full.pop("derived", [])
    if type(full.get("metrics")) is dict:
        if full.get("elements") is not None:
            _fill_numbers(full, entry, derived)
        if "checks" not in entry and type(full.get("checks")) is list:
            full["checks"] = [_with_value(row, full["metrics"]) for row in full["checks"]]
    if type(full["findings"]) is list:
        full["findings"] = [_full_finding(one) for one in full["findings"]]
    left = full.get("left")
    if type(left) is dict:
        at = {name: full[name] for name in COORDINATES if full[name] is not None}
        full["left"] = _filled(left, _OF_A_TENSOR)
        as_left = {name: full["left"][name] for name in _AS_LEFT if name in full["left"]}
        full["right"] = _filled(full.get("right", {}), as_left | {"at": at})
    return full


def _fill_numbers(full: Entry, entry: Entry, derived: Any) -> None:
    try:
        for name in ("elements", "finite", "differing", "right_zero_mismatch"):
            full.setdefault(name, _counts(full)[name] if name != "elements" else 0)
            COUNT.read(full[name], "")
        names = list_of(TEXT).read(derived, "")
    except WrongValueError as wrong:
        raise _at("." + name, wrong) from None
    metrics = full["metrics"]
    metrics = {name: _ZERO.get(name, 0.0) for name in names} | metrics
    follows = _following(full, metrics)
    metrics |= {name: value for name, value in follows.items() if name in names and name not in full["metrics"]}
    full["metrics"] = {name: metrics[name] for name in METRICS if name in metrics} | metrics
    if type(full["nonfinite"]) is dict:
        full["nonfinite"] = {**_NONFINITE, **full["nonfinite"]}
    full |= {name: value for name, value in _sums(full, metrics).items() if name not in entry}


def _full_finding(finding: Any) -> Any:
    if type(finding) is not dict:
        return finding
    full = {**dict.fromkeys(_OF_A_FINDING), **finding}
    if full.get("code") in _BEYOND and type(full.get("parameters")) is dict:
        full["parameters"] = _usual_parameters(full) | full["parameters"]
    return full


def _with_value(row: Any, metrics: Mapping[str, Any]) -> Any:
    metric = row.get("metric") if type(row) is dict else None
    return {**row, "value": metrics.get(metric)} if type(metric) is str else row


def _filled(tensor: Any, usual: Entry) -> Any:
    if type(tensor) is not dict:
        return tensor
    full = {**usual, **tensor}
    address = full.get("address")
    return {"name": address.rsplit(":", 2)[0], **full} if type(address) is str else full
