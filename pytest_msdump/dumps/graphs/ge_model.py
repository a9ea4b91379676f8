"""JSON of very many entries, taken one after another: what was taken need not be held until the last one is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_msdump.dumps.graphs.json_fields import (
    WHOLE,
    checked,
    document,
    get,
    may_hold_long_number,
    need,
    shown,
    text_of,
    whole,
    wholes,
)
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_word
from pytest_msdump.model.graph import Edge, Operator, OperatorGraph, OriginOutput
from pytest_msdump.storage.files import read_user_file

__all__ = ["MAX_BYTES", "model_graph", "operators_in_circles", "parse_model", "read_model"]

_SPACE = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")


class UnusualJsonError(ValueError):
    """A text that is not JSON, or not what was looked for: `json.loads` is to say what it is."""


class Walk:
    """A place in a JSON text, which moves on with all that is taken.

    Parameters
    ----------
    text : str
        The whole text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode

    def value(self) -> Any:
        """Take the value here, whatever it is."""
        self._next()
        try:
            found, self._at = self._decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise UnusualJsonError from error
        return found

    def members(self) -> Iterator[str]:
        """Yield each key of the object here; its value is to be taken before the next one."""
        taken: set[str] = set()
        self._take("{")
        while self._goes_on("}", is_first=not taken):
            key = self.value()
            # Of two members of one name the last counts, which is not known yet.
            if not isinstance(key, str) or key in taken:
                raise UnusualJsonError
            taken.add(key)
            self._take(":")
            yield key

    def items(self) -> Iterator[int]:
        """Yield the number of each item of the list here; the item is to be taken before the next one."""
        number = 0
        self._take("[")
        while self._goes_on("]", is_first=not number):
            yield number
            number += 1

    def values(self) -> Iterator[Any]:
        """Yield the value of each item of the list here."""
        self._take("[")
        if not self._goes_on("]", is_first=True):
            return
        while True:
            yield self.value()
            # Spelled out: there are very many, and between nearly all of them is no more than this.
            between = _BETWEEN.match(self._text, self._at)
            if between is None:
                break
            self._at = between.end()
        self._goes_on("]", is_first=False)

    def end(self) -> None:
        """Refuse whatever follows."""
        if _SPACE.fullmatch(self._text, self._at) is None:
            raise UnusualJsonError

    def _goes_on(self, closing: str, *, is_first: bool) -> bool:
        if self._next() == closing:
            self._at += 1
            return False
        if not is_first:
            self._take(",")
        return True

    def _take(self, char: str) -> None:
        if self._next() != char:
            raise UnusualJsonError
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no space, and go there; empty at the end."""
        char = self._text[self._at : self._at + 1]
        if char > " ":
            return char
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text[self._at : self._at + 1]


# -- One operator of a compiled model's JSON -------------------------------------------------------------------------


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


# -- Operators that feed one another in a circle ---------------------------------------------------------------------


def operators_in_circles(operators: Sequence[Operator]) -> tuple[str, ...]:
    """Name the operators that no order of execution can place, without those that only follow them.

    Parameters
    ----------
    operators : sequence of Operator
        Any number, each name once; linear in operators and edges, and not recursive.

    Returns
    -------
    tuple of str
        In the order given: all that lie on a circle, or between two circles.
    """
    if _is_in_order(operators):
        return ()
    fed_by = {operator.name: {edge.producer for edge in operator.inputs if edge is not None} for operator in operators}
    known = {name: {producer for producer in producers if producer in fed_by} for name, producers in fed_by.items()}
    feeds: dict[str, set[str]] = {name: set() for name in known}
    for name, producers in known.items():
        for producer in producers:
            feeds[producer].add(name)
    # What is left after peeling from the front has a circle before it; from the back, one behind it.
    left = _peeled(known, feeds) & _peeled(feeds, known)
    return tuple(operator.name for operator in operators if operator.name in left)


def _is_in_order(operators: Sequence[Operator]) -> bool:
    """Whether every operator comes behind all that feed it, as compilers write them: then there is no circle."""
    waiting = {operator.name for operator in operators}
    for operator in operators:
        for edge in operator.inputs:
            if edge is not None and edge.producer in waiting:
                return False
        waiting.discard(operator.name)
    return True


def _peeled(needs: dict[str, set[str]], gives: dict[str, set[str]]) -> set[str]:
    """Take away, again and again, what needs nothing that is left."""
    waiting = {name: len(needed) for name, needed in needs.items()}
    ready = [name for name, count in waiting.items() if not count]
    while ready:
        name = ready.pop()
        del waiting[name]
        for other in gives[name]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return set(waiting)


# -- A compiled model as ATC writes it into JSON, and the rule JSON of AMCT, which has the same ----------------------


MAX_BYTES = 512 * 2**20

_COMPILED = ".om"
_UNCOMPILED = frozenset({".air", ".pb", ".onnx", ".caffemodel"})
# The first bytes of an offline model, whatever its file is called.
_MAGIC = b"IMOD"

# From this length on, the objects of a whole text take more memory, and so more time, than it costs to do without.
_LARGE = 2**16

_MOST_LISTED = 3


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
    data = read_user_file(path, MAX_BYTES, want="give the JSON of a compiled model")
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
    return f"atc --mode=1 --om={shell_word(str(model))} --json={shell_word(str(model.with_suffix('.json')))}"


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
    text = text_of(data, source)
    if len(text) > _LARGE:
        # What is wrong is told by who sees the whole: a text that is not JSON is told so, whatever its operators are.
        with suppress(UnusualJsonError, ConfigError):
            return _walked(text, source)
    return model_graph(document(text, source), source=source)


def _walked(text: str, source: str) -> OperatorGraph:
    """Read a model's text operator by operator: the objects of a whole file take ten times its size."""
    if may_hold_long_number(text):
        raise UnusualJsonError
    walk, name = Walk(text), None
    operators: list[tuple[str, Operator]] | None = None
    for key in walk.members():
        if key == "graph":
            operators = [named_operator(entry) for _ in walk.items() for entry in _entries(walk)]
        else:
            value = walk.value()
            name = value if key == "name" else name
    walk.end()
    if operators is None:
        raise UnusualJsonError
    return _graph(operators, name, source)


def _entries(walk: Walk) -> Iterator[Any]:
    """Take the graph here; yield its operators."""
    has_operators = False
    for key in walk.members():
        if key != "op":
            walk.value()
            continue
        has_operators = True
        yield from walk.values()
    if not has_operators:
        raise UnusualJsonError


def model_graph(model: Mapping[str, Any], *, source: str) -> OperatorGraph:
    """Read a model from the object that its JSON is; as `parse_model`, for other writings of the same structure."""
    return _graph(_operators(model, source), model.get("name"), source)


def _graph(entries: Iterable[tuple[str, Operator]], name: object, source: str) -> OperatorGraph:
    operators: dict[str, Operator] = {}
    written: set[str] = set()
    repeated: dict[str, None] = {}
    for raw, operator in entries:
        operators.setdefault(operator.name, operator)
        # The slices of one operator share their name by intention.
        if raw in written:
            repeated[raw] = None
        written.add(raw)
    found = tuple(operators.values())
    notes = tuple(_notes(found, list(repeated), source))
    return OperatorGraph(found, source, notes, model=name if isinstance(name, str) else "")


def _operators(model: Mapping[str, Any], source: str) -> Iterator[tuple[str, Operator]]:
    for number, graph in enumerate(need(model, "graph", list, source)):
        place = f"{source}: graph[{number}]"
        for position, entry in enumerate(need(checked(graph, dict, place, "it"), "op", list, place)):
            yield _placed(entry, f"{place}.op[{position}]")


def _placed(entry: Any, place: str) -> tuple[str, Operator]:
    try:
        return named_operator(entry)
    except ConfigError as error:
        raise ConfigError(f"{place}{error}") from error


def _notes(operators: Sequence[Operator], repeated: Sequence[str], source: str) -> Iterator[str]:
    if repeated:
        yield f"{source}: {_listed(repeated)} is there more than once; the first counts"
    circles = operators_in_circles(operators)
    if circles:
        yield f"{source}: {_listed(circles)} feed one another in a circle"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
