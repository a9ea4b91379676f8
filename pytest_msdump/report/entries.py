"""What a saved report must hold before anything is told or judged from it: files get cut and edited.

One table of shapes describes all of results.json (``docs/reference/results_json.md``). It is held against a file once,
when the file is read; what reads a report afterwards relies on it. Keys that are not in the table are left alone: a
later release may add some.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isfinite
from typing import Any

from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import VALUE_KINDS
from pytest_msdump.facts.metrics import METRICS, STATISTICS
from pytest_msdump.model.comparison import FAILING, OUTCOMES
from pytest_msdump.model.json_values import NONFINITE

__all__ = ["check_entries", "check_record"]

# Checks one value, and raises where it is not as it should be.
_Shape = Callable[[Any], None]

# No count, index or address of ours is beyond 64 bits; no exact sum of integers beyond what a float64 can hold.
_LARGEST_WHOLE = 2**64
_LARGEST_NUMBER = 2**1023
_MOST_AXES = 64
_DEEPEST = 20

_IO = ("input", "output")
_SIDES = ("left", "right")
_PASSING = ("pass", "warn")


class _WrongError(Exception):
    """A value that is not as it should be; `path` grows on the way out."""

    def __init__(self, said: str) -> None:
        self.path = ""
        self.said = said


def check_entries(values: Mapping[str, Any], *, place: str) -> None:
    """Refuse a report that is not what this package writes, or contradicts itself.

    Parameters
    ----------
    values : mapping
        results.json as parsed.
    place : str
        How messages call the file.

    Raises
    ------
    ConfigError
        Names the first wrong value, what was expected there, and what was found.
    """
    _check(_REPORT, values, place)


def check_record(entry: Any, *, place: str) -> None:
    """Refuse one entry of `tensors` in the same way; parameters as of `check_entries`."""
    _check(_RECORD, entry, place)


def _check(shape: _Shape, values: Any, place: str) -> None:
    try:
        shape(values)
    except _WrongError as wrong:
        where = f"{place}: {wrong.path.removeprefix('.')}".removesuffix(": ")
        raise ConfigError(f"{where}: {wrong.said}; the file was cut or edited: compare again") from None


# -- single values ---------------------------------------------------------------------------------------------------


def _expected(what: str, found: object) -> _WrongError:
    return _WrongError(f"expected {what}, found {found!r:.60}")


def _one_of(words: Collection[str], what: str | None = None) -> _Shape:
    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in words:
            raise _expected(what or f"one of {', '.join(words)}", value)

    return check


def _of(kind: type, what: str) -> _Shape:
    def check(value: Any) -> None:
        if type(value) is not kind:
            raise _expected(what, value)

    return check


_text = _of(str, "a text")
_flag = _of(bool, "true or false")


def _whole(value: Any) -> None:
    if type(value) is not int or abs(value) >= _LARGEST_WHOLE:
        raise _expected("a whole number", value)


def _count(value: Any) -> None:
    if type(value) is not int or not 0 <= value < _LARGEST_WHOLE:
        raise _expected("a count", value)


def _number(value: Any) -> None:
    """A real number, as `model.json_values.encode` writes it."""
    kind = type(value)
    if kind is float and isfinite(value):
        return
    if kind is int and abs(value) < _LARGEST_NUMBER:
        return
    if kind is not str or value not in NONFINITE:
        raise _expected("a number", value)


def _element(value: Any) -> None:
    """An element of any tensor: also true or false, or [real, imaginary]."""
    if type(value) is list and len(value) == 2:
        _number(value[0])
        _number(value[1])
    elif type(value) is not bool:
        _number(value)


def _share(value: Any) -> None:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise _expected("a share of 0 to 1", value)


def _index(value: Any) -> None:
    """A shape, or the place of an element."""
    if type(value) is not list or len(value) > _MOST_AXES:
        raise _expected("a list of integers", value)
    for length in value:
        if type(length) is not int or not 0 <= length < _LARGEST_WHOLE:
            raise _expected("a list of integers", value)


def _address(value: Any) -> None:
    label, io, slot = value.rsplit(":", 2) if type(value) is str and value.count(":") >= 2 else ("", "", "")
    if io not in _IO or not (slot.isascii() and slot.isdecimal()) or not label or len(slot) > 9:
        raise _expected("OP:input:SLOT or OP:output:SLOT", value)


def _outcome_of_check(value: Any) -> None:
    if type(value) is not str or value.lower() not in ("ok", "skipped", *OUTCOMES):
        raise _expected("an outcome", value)


def _shallow(value: Any, levels: int = _DEEPEST) -> None:
    """Whatever a later release may have added, as long as it can be written again."""
    if not levels:
        raise _WrongError(f"is nested more than {_DEEPEST} levels deep")
    for item in value.values() if type(value) is dict else value if type(value) is list else ():
        _shallow(item, levels - 1)


# -- what holds values -----------------------------------------------------------------------------------------------


def _within(shape: _Shape, value: Any, step: str) -> None:
    try:
        shape(value)
    except _WrongError as wrong:
        wrong.path = step + wrong.path
        raise


def _maybe(shape: _Shape) -> _Shape:
    def check(value: Any) -> None:
        if value is not None:
            shape(value)

    return check


def _either(one: _Shape, other: _Shape) -> _Shape:
    """Of lists `one`, of all else `other`."""

    def check(value: Any) -> None:
        (one if type(value) is list else other)(value)

    return check


def _list(shape: _Shape, *, length: int | None = None) -> _Shape:
    def check(value: Any) -> None:
        if type(value) is not list:
            raise _expected("a list", value)
        if length is not None and len(value) != length:
            raise _expected(f"a list of {length}", value)
        for number, item in enumerate(value):
            _within(shape, item, f"[{number}]")

    return check


def _by_name(shape: _Shape, names: Collection[str] | None = None) -> _Shape:
    """An object of values of one shape, under any names or under some of these."""

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise _expected("a JSON object", value)
        for name, item in value.items():
            if names is not None and name not in names:
                raise _WrongError(f"there is no {name!r:.60} here")
            _within(shape, item, f".{name}")

    return check


def _table(
    required: Mapping[str, _Shape],
    optional: Mapping[str, _Shape] | None = None,
    *,
    whole: Callable[[Any], None] | None = None,
) -> _Shape:
    """An object whose values have each a shape of its own, then a look at `whole` of it."""
    shapes = {**required, **(optional or {})}

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise _expected("a JSON object", value)
        for key in required:
            if key not in value:
                raise _WrongError(f"'{key}' is missing")
        for key, item in value.items():
            _within(shapes.get(key, _shallow), item, f".{key}")
        if whole is not None:
            whole(value)

    return check


def _parameter(value: Any) -> None:
    """A parameter of a message: a text, a number, a list of such, a message, or nothing."""
    _shallow(value)
    if type(value) in (dict, list):
        (_MESSAGE if type(value) is dict else _list(_parameter))(value)
    elif value is not None and type(value) is not str:
        _number(value)


# -- what only a look at several values tells ------------------------------------------------------------------------


def _told(value: Any) -> None:
    if "values" not in value and "note" not in value:
        raise _WrongError("neither 'values' nor 'note' is there")


def _same_length(*names: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if len({len(value[name]) for name in names}) > 1:
            raise _WrongError(f"{' and '.join(names)} have not the same length")

    return check


def _rectangle(value: Any) -> None:
    _list(_list(_number))(value)
    if len({len(row) for row in value}) > 1:
        raise _WrongError("its rows have not the same length")


def _statistics_of(value: Any) -> None:
    """One side's row of a table of statistics."""
    _by_name(_shallow, STATISTICS)(value)
    kinds: Mapping[str, _Shape] = {"digest": _text, "count": _count}
    for name, item in value.items():
        _within(_maybe(kinds.get(STATISTICS[name].kind, _number)), item, f".{name}")


def _some_side(value: Any) -> None:
    _list(_one_of(_SIDES))(value)
    if not value:
        raise _WrongError("no side is unseen")


def _metric_values(value: Any) -> None:
    _by_name(_either(_list(_number, length=4), _number), METRICS)(value)
    for name, item in value.items():
        if (type(item) is list) != (name == "standard_deviation"):
            raise _WrongError(f"{name}: expected {'four numbers' if type(item) is not list else 'a number'}")


def _consistent(record: Any) -> None:
    """What was measured is whole; a verdict that passes has no finding and no check that fails."""
    measured = record.get("elements") is not None
    if measured:
        for key in _MEASURED:
            if key not in record:
                raise _WrongError(f"'{key}' is missing")
        for name in _CLASSES:
            if name not in record["nonfinite"]:
                raise _WrongError(f"nonfinite: '{name}' is missing")
        if (
            max(record["finite"], record["differing"], record["right_zero_mismatch"], record.get("near_zero", 0))
            > record["elements"]
        ):
            raise _WrongError("elements: there are fewer than were counted")
    for side in _SIDES if measured or "statistics" in record else ():
        dtype = record[side]["dtype"]
        if dtype is None or canonical(dtype) is None:
            raise _WrongError(f"was measured, but {side}.dtype is {dtype!r:.60}")
    for key in ("causes", "suspects", "role_reason") if "role" in record else ():
        if key not in record:
            raise _WrongError(f"'{key}' is missing")
    told = [*record["findings"], *record["checks"]]
    if record["verdict"] in _PASSING:
        if any(one["outcome"].lower() in FAILING for one in told):
            raise _WrongError(f"the verdict is {record['verdict']}, but a limit was not met")
        if not measured and "statistics" not in record:
            raise _WrongError(f"the verdict is {record['verdict']}, but nothing was measured")


def _covered(value: Any) -> None:
    if value["right_paired"] > value["right_total"]:
        raise _WrongError("more tensors were paired than there are")


def _remarked(value: Any) -> None:
    for name in _REMARKED[value["code"]]:
        if name not in value["parameters"]:
            raise _WrongError(f"parameters: '{name}' is missing")


def _several_statistics(value: Any) -> None:
    for name in value["compared"]:
        if name not in value["left"] or name not in value["right"]:
            raise _WrongError(f"compared: {name} is not there on both sides")


# -- the shapes of results.json --------------------------------------------------------------------------------------

_texts = _list(_text)
_SAID: Mapping[str, _Shape] = {"code": _text, "parameters": _by_name(_parameter)}
_MESSAGE = _table(_SAID)
_metric = _one_of(METRICS, "a metric")
_AT: Mapping[str, _Shape] = {
    "rank": _maybe(_count),
    "net": _maybe(_text),
    "graph": _maybe(_count),
    "iteration": _maybe(_count),
    "occurrence": _maybe(_count),
}
_SOURCE = _table({"file": _text, "line": _whole, "text": _text})
_TENSOR: Mapping[str, _Shape] = {
    "address": _address,
    "file": _text,
    "name": _maybe(_text),
    "true_name": _maybe(_text),
    "op_type": _maybe(_text),
    "dtype": _maybe(_text),
    "shape": _maybe(_index),
    "memory_format": _maybe(_text),
}
_TENSOR_TOO: Mapping[str, _Shape] = {
    "logical_shape": _maybe(_index),
    "device_address": _maybe(_whole),
    "overflows": _texts,
    "row": _maybe(_whole),
    "source": _SOURCE,
}
_FIT: Mapping[str, _Shape] = {"address": _address, "confidence": _text, "why": _text}
_SHAPE_WORD = _one_of(("same", "transposed", "reshaped"))
_SUGGESTION = _table(_FIT, {"apart": _maybe(_number), "shape": _SHAPE_WORD, "by": _text})
_SUSPICIOUS = _table(
    {**_FIT, "side": _one_of(_SIDES), "apart": _number, "shape": _SHAPE_WORD},
    {
        "doubt": _one_of(("several", "values", "names")),
        "map": _table({"left": _text, "right": _text}, {"reshape": _flag, "transpose": _index}),
    },
)
_SUSPECT = _table({"operator": _text, "state": _text}, {"before": _count})
_ARGUMENTS = _table({"file": _text}, {"values": _by_name(_text), "note": _text}, whole=_told)
_SPREAD = _table(
    {},
    {
        "histogram": _table({"low": _whole, "counts": _list(_count)}),
        "magnitude": _table(
            {"low": _whole, "mean": _list(_number), "largest": _list(_number)}, whole=_same_length("mean", "largest")
        ),
        "axis": _table({"axis": _count, "step": _count, "values": _list(_number)}),
        "heat": _rectangle,
    },
)
_STATISTICS = _table(
    {
        "unseen": _some_side,
        "compared": _list(_one_of(STATISTICS, "a statistic")),
        "elements": _maybe(_count),
        "left": _statistics_of,
        "right": _statistics_of,
        "digits": _table({"left": _maybe(_count), "right": _maybe(_count)}),
    },
    {
        "at_least": _by_name(_number, METRICS),
        "equal_bits": _maybe(_flag),
        "note": _maybe(_text),
        "note_said": _MESSAGE,
    },
    whole=_several_statistics,
)
_CLASSES = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")
# Of each code of `text.en`, its parameters beside the side.
_REMARKED = {
    "trailing_bytes": ("bytes",),
    "shape_from_graph": ("stored", "used"),
    "coarser_values": ("dtype", "values"),
}
_REMARK = _table(
    {
        "code": _one_of(_REMARKED),
        "parameters": _table(
            {"side": _one_of(_SIDES)},
            {"bytes": _count, "stored": _index, "used": _index, "dtype": _text, "values": _one_of(VALUE_KINDS)},
        ),
    },
    whole=_remarked,
)
_FINDING = _table(
    {
        "outcome": _one_of((*OUTCOMES, "note")),
        "metric": _maybe(_metric),
        "value": _maybe(_number),
        "limit": _maybe(_number),
        "rule": _maybe(_text),
        "sentence": _text,
    },
    _SAID,
)
_CHECK = _table(
    {
        "metric": _metric,
        "value": _maybe(_either(_list(_number), _number)),
        "limit": _maybe(_number),
        "level": _maybe(_text),
        "rule": _maybe(_text),
        "outcome": _outcome_of_check,
    }
)
# What a record has where its tensors were compared element by element.
_MEASURED: Mapping[str, _Shape] = {
    "finite": _count,
    "differing": _count,
    "right_zero_mismatch": _count,
    "vendor": _by_name(_number, METRICS),
    "rtol": _number,
    "atol": _number,
    "undefined": _by_name(_text, METRICS),
    "not_applicable": _by_name(_text, METRICS),
}
_RECORD = _table(
    {
        "order": _count,
        "left": _table(_TENSOR, _TENSOR_TOO),
        "right": _table({**_TENSOR, "at": _table({}, _AT)}, _TENSOR_TOO),
        "by": _text,
        "how": _text,
        "transform": _table(
            {},
            {
                "reshape": _flag,
                "transpose": _index,
                "left_format": _text,
                "right_format": _text,
                "left_logical_shape": _index,
                "left_logical_format": _text,
            },
        ),
        "verdict": _one_of((*OUTCOMES, "not_run")),
        "elements": _maybe(_count),
        "equal": _maybe(_flag),
        "metrics": _metric_values,
        "where": _by_name(_maybe(_index), METRICS),
        "nonfinite": _table(
            {},
            {
                **dict.fromkeys(_CLASSES, _count),
                "first_mismatch": _maybe(_index),
                "first_nonfinite": _maybe(_index),
            },
        ),
        "worst": _list(_table({"index": _index, "left": _element, "right": _element, "ratio": _number})),
        "findings": _list(_FINDING),
        "checks": _list(_CHECK),
        "would_pass": _by_name(_number, METRICS),
        "judged_as": _text,
        "nan": _text,
        "known_drift": _maybe(_text),
        "notes": _texts,
        **_AT,
    },
    {
        **_MEASURED,
        "source": _SOURCE,
        "reasons": _by_name(_maybe(_MESSAGE), METRICS),
        "notes_said": _list(_MESSAGE),
        "pair_note": _text,
        "pair_note_said": _MESSAGE,
        "file_remarks": _list(_REMARK),
        "uncompared": _table({"left": _count, "right": _count}),
        "absolute_error_sum": _maybe(_number),
        "total_elements": _maybe(_count),
        "near_zero": _count,
        "sampled": _flag,
        "statistics": _STATISTICS,
        "diagnosis": _list(_table({"id": _text, "confidence": _text, "evidence": _text}, _SAID)),
        "spread": _SPREAD,
        "custom": _by_name(_table({"value": _text, "message": _text})),
        "kernel_args": _by_name(_ARGUMENTS, _SIDES),
        "differing_arguments": _list(
            _table({"kind": _text, "name": _text, "left": _maybe(_text), "right": _maybe(_text)})
        ),
        "role": _one_of(("cause", "inherited", "unknown")),
        "causes": _texts,
        "suspects": _texts,
        "role_reason": _text,
        "role_why": _maybe(_table({"why": _text, "suspects": _list(_SUSPECT), "given": _texts}, {"before": _texts})),
        "amplification": _number,
        "suspicious": _list(_SUSPICIOUS),
    },
    whole=_consistent,
)
_UNMATCHED = _table(
    {
        "side": _one_of(_SIDES),
        "address": _address,
        "file": _text,
        "op_type": _maybe(_text),
        "dtype": _maybe(_text),
        "io": _one_of(_IO),
        "slot": _count,
        "shape": _maybe(_index),
        "device_address": _maybe(_whole),
        "order": _maybe(_count),
        **_AT,
        "reason": _text,
        "candidates": _texts,
    },
    {"suggestions": _list(_SUGGESTION), **_SAID},
)
_SIDE = _table(
    {"directory": _text, "reader": _text},
    {
        "labels": _by_name(_text),
        "notes": _texts,
        "unexplained": _texts,
        "operators": _count,
        "tensors": _count,
        "partial_run": _table({"newer": _count, "tensors": _count}),
    },
)
_REPORT = _table(
    {
        "left": _SIDE,
        "right": _SIDE,
        "profile": _text,
        "limits": _table({}, {"nan": _text, "threshold": _by_name(_number), "rules": _texts, "known_drift": _texts}),
        "coverage": _table(
            {"right_total": _count, "right_paired": _count, "value": _share},
            {"min_coverage": _maybe(_share)},
            whole=_covered,
        ),
        "counts": _by_name(_count),
        "tensors": _list(_RECORD),
        "unmatched": _list(_UNMATCHED),
        "missing": _list(_table({"left": _text, "right": _text, "reason": _text, "candidates": _texts}, _SAID)),
    },
    {
        "complete": _flag,
        "localised_by": _text,
        "notes": _texts,
        "rerun": _texts,
        "edges": _list(_list(_whole, length=2)),
        "network": _list(
            _table(
                {
                    "index": _whole,
                    "sequence": _whole,
                    "name": _text,
                    "op_type": _text,
                    "left": _texts,
                    "right": _texts,
                    "relation": _text,
                }
            )
        ),
    },
)
