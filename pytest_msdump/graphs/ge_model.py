"""A compiled model as ATC writes it into JSON, and the rule JSON of AMCT, which has the same structure.

References
----------
ATC user guide, ``--mode=1`` (offline model to JSON); AMCT user guides, quantisation fusion rule file.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    repeated: Counter[str] = Counter()
    for place, entry in _entries(model, source):
        raw = need(entry, "name", str, place)
        operator = _operator(raw, entry, place)
        if not operator.name:
            raise ConfigError(f"{place}: 'name' is empty")
        operators.setdefault(operator.name, operator)
        # The slices of one operator share their name by intention.
        repeated[raw] += raw in written
        written.add(raw)
    found = tuple(operators.values())
    notes = tuple(_notes(found, [name for name in repeated if repeated[name]], source))
    own = model.get("name")
    return OperatorGraph(found, source, notes, model=own if isinstance(own, str) else "")


def _entries(model: Mapping[str, Any], source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, graph in enumerate(need(model, "graph", list, source)):
        place = f"{source}: graph[{number}]"
        for position, entry in enumerate(need(checked(graph, dict, place, "it"), "op", list, place)):
            here = f"{place}.op[{position}]"
            yield here, checked(entry, dict, here, "it")


def _operator(raw: str, entry: Mapping[str, Any], place: str) -> Operator:
    name = _unsliced(raw)
    attributes = _attributes(entry, _OF_OPERATORS, place)
    listed = _ORIGINALS in attributes
    originals = tuple(filter(None, _list_value(attributes, _ORIGINALS, "s", str, place))) if listed else (name,)
    own_name = "" if listed else name
    return Operator(
        name=name,
        op_type=need(entry, "type", str, place),
        id=whole(entry.get("id", 0), f"{place}: 'id'"),
        inputs=_inputs(get(entry, "input", list, [], place), place),
        originals=originals,
        outputs=tuple(
            _output(output, own_name, position, place)
            for position, output in enumerate(get(entry, "output_desc", list, [], place))
        ),
        is_multiop=_MULTIOP in attributes and _value(attributes, _MULTIOP, "b", bool, False, place),
        l1_group=_group(attributes, _L1_GROUP, place) if _L1_GROUP in attributes else "",
        l2_group=_group(attributes, _L2_GROUP, place) if _L2_GROUP in attributes else "",
    )


def _unsliced(name: str) -> str:
    """Take the numbers of slices off a name; hardly any has them."""
    return _SLICE.sub("", name) if _SLICE_MARK in name else name


def _inputs(entries: Sequence[Any], place: str) -> tuple[Edge | None, ...]:
    edges: list[Edge | None] = []
    for position, entry in enumerate(entries):
        text = entry if isinstance(entry, str) else checked(entry, str, f"{place}.input[{position}]", "it")
        producer, _, slot = text.rpartition(":")
        if not text:
            edges.append(None)
        elif not producer or not WHOLE.fullmatch(slot) or int(slot) < _CONTROL:
            raise ConfigError(f"{place}.input[{position}]: {shown(text)} is not 'PRODUCER:INDEX'")
        elif int(slot) != _CONTROL:
            edges.append(Edge(_unsliced(producer), int(slot)))
    return tuple(edges)


def _output(entry: object, own_name: str, position: int, place: str) -> OriginOutput:
    here = f"{place}.output_desc[{position}]"
    output: Mapping[str, Any] = checked(entry, dict, here, "it")
    attributes = _attributes(output, _OF_OUTPUTS, here)
    shape = _shape(attributes, here) if _GE_SHAPE in attributes else None
    formats = [_value(attributes, key, "s", str, "", here) for key in (_ORIGIN_FORMAT, _GE_FORMAT) if key in attributes]
    index = position
    if _ORIGIN_INDEX in attributes:
        index = whole(attributes[_ORIGIN_INDEX].get("i", position), f"{here}: {_ORIGIN_INDEX}")
    if index < 0:
        raise ConfigError(f"{here}: {_ORIGIN_INDEX} is {index}, and cannot be negative")
    return OriginOutput(
        name=_value(attributes, _ORIGIN_NAME, "s", str, "", here) or own_name,
        index=index,
        memory_format=next(filter(None, formats), None),
        shape=shape,
        dtype=get(output, "dtype", str, "", here) or None,
    )


def _shape(attributes: _Attributes, here: str) -> tuple[int, ...]:
    sizes = _list_value(attributes, _GE_SHAPE, "i", object, here)
    place = f"{here}: {_GE_SHAPE}"
    return tuple([whole(size, place) for size in sizes])


def _attributes(holder: Mapping[str, Any], used: frozenset[str], place: str) -> _Attributes:
    found: dict[str, Mapping[str, Any]] = {}
    for position, entry in enumerate(get(holder, "attr", list, [], place)):
        # Where it is told only in errors: a model has some ten attributes for each of up to 100,000 operators.
        if not isinstance(entry, dict):
            checked(entry, dict, f"{place}.attr[{position}]", "it")
        key = entry.get("key")
        # Attributes that nobody looks at may hold anything.
        if isinstance(key, str) and key in used:
            value = entry.get("value", _NO_VALUE)
            if not isinstance(value, dict):
                checked(value, dict, f"{place}.attr[{position}] ({key})", "'value'")
            found.setdefault(key, value)
    return found


def _value(attributes: _Attributes, key: str, field: str, kind: type, default: Any, place: str) -> Any:
    # Most operators have few of them, and there may be 100,000 operators.
    return get(attributes[key], field, kind, default, f"{place}: {key}") if key in attributes else default


def _group(attributes: _Attributes, key: str, place: str) -> str:
    value = attributes.get(key, {})
    return str(value["i"]) if isinstance(value.get("i"), int) else str(_value(attributes, key, "s", str, "", place))


def _list_value(attributes: _Attributes, key: str, field: str, kind: type, place: str) -> list[Any]:
    here = f"{place}: {key}"
    members: list[Any] = get(_value(attributes, key, "list", dict, {}, place), field, list, [], here)
    for position, member in enumerate(members):
        if not isinstance(member, kind):
            checked(member, kind, here, f"'{field}[{position}]'")
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
