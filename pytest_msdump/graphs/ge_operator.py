"""One operator of a compiled model's JSON.

An error says only where in the operator it is, as in ``.output_desc[0]: 'dtype' is a number``: whoever reads the model
puts the operator's own place before it. There are up to 100,000 operators, and hardly any of them is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.graphs.json_fields import WHOLE, checked, get, need, shown, whole, wholes
from pytest_msdump.model.graph import Edge, Operator, OriginOutput

__all__ = ["named_operator"]

_ORIGINALS = "_datadump_original_op_names"
_MULTIOP = "_datadump_is_multiop"
_L1_GROUP = "_L1_fusion_sub_graph_no"
_L2_GROUP = "_l2_fusion_group_id"
_ORIGIN_NAME = "_datadump_origin_name"
_ORIGIN_INDEX = "_datadump_origin_output_index"
_ORIGIN_FORMAT = "_datadump_origin_format"
_GE_FORMAT = "origin_format"
_GE_SHAPE = "origin_shape"
_OF_OPERATORS = frozenset({_ORIGINALS, _MULTIOP, _L1_GROUP, _L2_GROUP})
_OF_OUTPUTS = frozenset({_ORIGIN_NAME, _ORIGIN_INDEX, _ORIGIN_FORMAT, _GE_FORMAT, _GE_SHAPE})

# Where messages say that these are.
_AT_SHAPE, _AT_INDEX = f": {_GE_SHAPE}", f": {_ORIGIN_INDEX}"

_SLICE_MARK = "_lxslice"
_SLICE = re.compile(_SLICE_MARK + r"[0-9]+")
_NO_VALUE: Mapping[str, Any] = {}
_CONTROL = -1

# Attributes of one operator or output, by key: the `value` objects.
_Attributes = Mapping[str, Mapping[str, Any]]


def named_operator(entry: Any) -> tuple[str, Operator]:
    """Read one operator.

    Parameters
    ----------
    entry : object
        One of a graph's ``op``, as `json.loads` gives it.

    Returns
    -------
    str
        Its name as written, with the numbers of slices.
    Operator
        What it is.

    Raises
    ------
    ConfigError
        It is no operator; the text begins with the place inside of it.
    """
    if not isinstance(entry, dict):
        checked(entry, dict, "", "it")
    raw = entry.get("name")
    return raw, _operator(raw if isinstance(raw, str) else need(entry, "name", str, ""), entry)


def _operator(raw: str, entry: Mapping[str, Any]) -> Operator:
    name = _unsliced(raw) if _SLICE_MARK in raw else raw
    attributes = _attributes(entry, _OF_OPERATORS)
    listed = _ORIGINALS in attributes
    originals = tuple(filter(None, _texts(attributes[_ORIGINALS], f": {_ORIGINALS}"))) if listed else (name,)
    own_name = "" if listed else name
    # What is as it should be is not asked for by a call: there are very many.
    op_type, outputs = entry.get("type"), entry.get("output_desc")
    operator = Operator(
        name,
        op_type if isinstance(op_type, str) else need(entry, "type", str, ""),
        whole(entry.get("id", 0), ": 'id'"),
        _inputs(get(entry, "input", list, [], "")),
        originals,
        tuple(
            [
                _output(output, own_name, position)
                for position, output in enumerate(
                    outputs if isinstance(outputs, list) else get(entry, "output_desc", list, [], "")
                )
            ]
        ),
        _MULTIOP in attributes and get(attributes[_MULTIOP], "b", bool, False, f": {_MULTIOP}"),
        _group(attributes[_L1_GROUP], _L1_GROUP) if _L1_GROUP in attributes else "",
        _group(attributes[_L2_GROUP], _L2_GROUP) if _L2_GROUP in attributes else "",
    )
    if not name:
        raise ConfigError(": 'name' is empty")
    return operator


def _unsliced(name: str) -> str:
    """Take the numbers of slices off a name that has them, as hardly any does."""
    return _SLICE.sub("", name)


def _inputs(entries: Sequence[Any]) -> tuple[Edge | None, ...]:
    edges: list[Edge | None] = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, str):
            checked(entry, str, f".input[{position}]", "it")
        producer, _, number = entry.rpartition(":")
        slot = _slot(number)
        if not entry:
            edges.append(None)
        elif not producer or slot is None:
            raise ConfigError(f".input[{position}]: {shown(entry)} is not 'PRODUCER:INDEX'")
        elif slot != _CONTROL:
            edges.append(Edge(_unsliced(producer) if _SLICE_MARK in producer else producer, slot))
    return tuple(edges)


# A model has very many inputs, and few slots.
@lru_cache(maxsize=1024)
def _slot(text: str) -> int | None:
    """Read the number behind a producer; ``None`` for what is none."""
    slot = int(text) if WHOLE.fullmatch(text) else _CONTROL - 1
    return slot if slot >= _CONTROL else None


def _output(entry: Any, own_name: str, position: int) -> OriginOutput:
    try:
        if not isinstance(entry, dict):
            checked(entry, dict, "", "it")
        attributes = _attributes(entry, _OF_OUTPUTS)
        shape = _shape(attributes[_GE_SHAPE]) if _GE_SHAPE in attributes else None
        own_format = _text(attributes[_ORIGIN_FORMAT], _ORIGIN_FORMAT) if _ORIGIN_FORMAT in attributes else ""
        format_of_ge = _text(attributes[_GE_FORMAT], _GE_FORMAT) if _GE_FORMAT in attributes else ""
        index = _index(attributes[_ORIGIN_INDEX], position) if _ORIGIN_INDEX in attributes else position
        name = _text(attributes[_ORIGIN_NAME], _ORIGIN_NAME) if _ORIGIN_NAME in attributes else ""
        dtype = entry.get("dtype")
        dtype = (dtype if isinstance(dtype, str) else get(entry, "dtype", str, "", "")) or None
    except ConfigError as error:
        raise ConfigError(f".output_desc[{position}]{error}") from error
    return OriginOutput(name or own_name, index, own_format or format_of_ge or None, shape, dtype)


def _index(value: Mapping[str, Any], position: int) -> int:
    index = whole(value.get("i", position), _AT_INDEX)
    if index < 0:
        raise ConfigError(f"{_AT_INDEX} is {index}, and cannot be negative")
    return index


def _shape(value: Mapping[str, Any]) -> tuple[int, ...]:
    return wholes(_list(value, _AT_SHAPE, "i"), _AT_SHAPE)


def _attributes(holder: Mapping[str, Any], used: frozenset[str]) -> _Attributes:
    found: dict[str, Mapping[str, Any]] = {}
    entries = holder.get("attr")
    for position, entry in enumerate(entries if isinstance(entries, list) else get(holder, "attr", list, [], "")):
        if not isinstance(entry, dict):
            checked(entry, dict, f".attr[{position}]", "it")
        key = entry.get("key")
        # Attributes that nobody looks at may hold anything.
        if isinstance(key, str) and key in used:
            value = entry.get("value", _NO_VALUE)
            if not isinstance(value, dict):
                checked(value, dict, f".attr[{position}] ({key})", "'value'")
            found.setdefault(key, value)
    return found


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get("s", "")
    return text if isinstance(text, str) else str(checked(text, str, f": {key}", "'s'"))


def _group(value: Mapping[str, Any], key: str) -> str:
    return str(value["i"]) if isinstance(value.get("i"), int) else _text(value, key)


def _list(value: Mapping[str, Any], place: str, field: str) -> list[Any]:
    holder = value.get("list")
    members = holder.get(field) if isinstance(holder, dict) else None
    if not isinstance(members, list):
        members = get(get(value, "list", dict, _NO_VALUE, place), field, list, [], place)
    return members


def _texts(value: Mapping[str, Any], place: str) -> list[str]:
    members = _list(value, place, "s")
    for position, member in enumerate(members):
        if not isinstance(member, str):
            checked(member, str, place, f"'s[{position}]'")
    return members
