"""A compiled model as ATC writes it into JSON, and the rule JSON of AMCT, which has the same structure.

References
----------
ATC user guide, ``--mode=1`` (offline model to JSON); AMCT user guides, quantisation fusion rule file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.graphs.circles import operators_in_circles
from pytest_msdump.graphs.json_fields import WHOLE, checked, document, get, need, shown, whole
from pytest_msdump.model.graph import Edge, Operator, OperatorGraph, OriginOutput

__all__ = ["MAX_BYTES", "model_graph", "parse_model", "read_model"]

MAX_BYTES = 512 * 2**20

_COMPILED = ".om"
_UNCOMPILED = frozenset({".air", ".pb", ".onnx", ".caffemodel"})
# The first bytes of an offline model, whatever its file is called.
_MAGIC = b"IMOD"

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

_SLICE_MARK = "_lxslice"
_SLICE = re.compile(_SLICE_MARK + r"[0-9]+")
_NO_VALUE: Mapping[str, Any] = {}
_CONTROL = -1
_MOST_LISTED = 3


# Attributes of one operator or output, by key: the `value` objects.
_Attributes = Mapping[str, Mapping[str, Any]]


def read_model(path: Path) -> OperatorGraph:
    """Read the JSON of a compiled model, or the rule JSON that AMCT writes.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    OperatorGraph
        `source` is the file's name.

    Raises
    ------
    ConfigError
        There is no such file, it is larger than 512 MiB, it is a model and not the JSON of one (the text has the
        command that writes the JSON), or `parse_model` cannot read it.
    """
    _refuse_model(path, b"")
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            data = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if max(size, len(data)) > MAX_BYTES:
        raise ConfigError(f"{path}: not read, it is larger than {MAX_BYTES // 2**20} MiB; is it a model's JSON?")
    _refuse_model(path, data)
    return parse_model(data, source=path.name)


def _refuse_model(path: Path, data: bytes) -> None:
    suffix = path.suffix.lower()
    if suffix in _UNCOMPILED:
        compiled = path.with_suffix(_COMPILED)
        raise ConfigError(
            f"{path}: not the JSON of a compiled model; compile it to {compiled.name}, then run: {_command(compiled)}"
        )
    if suffix == _COMPILED or data.startswith(_MAGIC):
        raise ConfigError(f"{path}: a compiled model, not its JSON; write the JSON with: {_command(path)}")


def _command(model: Path) -> str:
    return f"atc --mode=1 --om={shlex.quote(str(model))} --json={shlex.quote(str(model.with_suffix('.json')))}"


def parse_model(data: str | bytes, *, source: str) -> OperatorGraph:
    """Read the text of a model's JSON.

    Parameters
    ----------
    data : str or bytes
        The whole text; bytes are UTF-8.
    source : str
        What messages call the text, e.g. ``"fusion.json"``.

    Returns
    -------
    OperatorGraph
        In the file's order. Of two operators of one name the first counts, and `notes` says so; `notes` also tells
        operators that feed one another in a circle.

    Raises
    ------
    ConfigError
        It is not JSON, or not a model's: the text names the place, as in ``fusion.json: graph[0].op[17]: 'name' is
        missing``.

    Notes
    -----
    An operator without the attribute ``_datadump_original_op_names`` is itself part of the original model. With the
    attribute but without a list in it, it was inserted by the compiler.
    """
    return model_graph(document(data, source), source=source)


def model_graph(model: Mapping[str, Any], *, source: str) -> OperatorGraph:
    """Read a model from the object that its JSON is; as `parse_model`, for other writings of the same structure."""
    operators: dict[str, Operator] = {}
    written: set[str] = set()
    repeated: dict[str, None] = {}
    for raw, operator in _operators(model, source):
        operators.setdefault(operator.name, operator)
        # The slices of one operator share their name by intention.
        if raw in written:
            repeated[raw] = None
        written.add(raw)
    found = tuple(operators.values())
    own = model.get("name")
    notes = tuple(_notes(found, list(repeated), source))
    return OperatorGraph(found, source, notes, model=own if isinstance(own, str) else "")


def _operators(model: Mapping[str, Any], source: str) -> Iterator[tuple[str, Operator]]:
    """Yield each operator with its name as written."""
    for number, graph in enumerate(need(model, "graph", list, source)):
        place = f"{source}: graph[{number}]"
        for position, entry in enumerate(need(checked(graph, dict, place, "it"), "op", list, place)):
            # What is below tells of an error only where in the operator it is: a model has up to 100,000 of them.
            try:
                if not isinstance(entry, dict):
                    checked(entry, dict, "", "it")
                raw = need(entry, "name", str, "")
                operator = _operator(raw, entry)
            except ConfigError as error:
                raise ConfigError(f"{place}.op[{position}]{error}") from error
            yield raw, operator


def _operator(raw: str, entry: Mapping[str, Any]) -> Operator:
    name = _unsliced(raw)
    attributes = _attributes(entry, _OF_OPERATORS)
    listed = _ORIGINALS in attributes
    originals = tuple(filter(None, _texts(attributes[_ORIGINALS], f": {_ORIGINALS}"))) if listed else (name,)
    own_name = "" if listed else name
    operator = Operator(
        name,
        need(entry, "type", str, ""),
        whole(entry.get("id", 0), ": 'id'"),
        _inputs(get(entry, "input", list, [], "")),
        originals,
        tuple(
            [
                _output(output, own_name, position)
                for position, output in enumerate(get(entry, "output_desc", list, [], ""))
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
    """Take the numbers of slices off a name; hardly any has them."""
    return _SLICE.sub("", name) if _SLICE_MARK in name else name


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
            edges.append(Edge(_unsliced(producer), slot))
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
        formats = [_text(attributes[key], key) for key in (_ORIGIN_FORMAT, _GE_FORMAT) if key in attributes]
        index = _index(attributes[_ORIGIN_INDEX], position) if _ORIGIN_INDEX in attributes else position
        name = _text(attributes[_ORIGIN_NAME], _ORIGIN_NAME) if _ORIGIN_NAME in attributes else ""
        dtype = get(entry, "dtype", str, "", "") or None
    except ConfigError as error:
        raise ConfigError(f".output_desc[{position}]{error}") from error
    return OriginOutput(name or own_name, index, next(filter(None, formats), None), shape, dtype)


def _index(value: Mapping[str, Any], position: int) -> int:
    index = whole(value.get("i", position), f": {_ORIGIN_INDEX}")
    if index < 0:
        raise ConfigError(f": {_ORIGIN_INDEX} is {index}, and cannot be negative")
    return index


def _shape(value: Mapping[str, Any]) -> tuple[int, ...]:
    place = f": {_GE_SHAPE}"
    return tuple([whole(size, place) for size in _list(value, place, "i")])


def _attributes(holder: Mapping[str, Any], used: frozenset[str]) -> _Attributes:
    found: dict[str, Mapping[str, Any]] = {}
    for position, entry in enumerate(get(holder, "attr", list, [], "")):
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
    members: list[Any] = get(get(value, "list", dict, _NO_VALUE, place), field, list, [], place)
    return members


def _texts(value: Mapping[str, Any], place: str) -> list[str]:
    members = _list(value, place, "s")
    for position, member in enumerate(members):
        if not isinstance(member, str):
            checked(member, str, place, f"'s[{position}]'")
    return members


def _notes(operators: Sequence[Operator], repeated: Sequence[str], source: str) -> Iterator[str]:
    if repeated:
        yield f"{source}: {_listed(repeated)} is there more than once; the first counts"
    circles = operators_in_circles(operators)
    if circles:
        yield f"{source}: {_listed(circles)} feed one another in a circle"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
