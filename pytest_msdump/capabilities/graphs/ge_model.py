"""The JSON of a compiled model as ATC writes it, and the rule JSON of AMCT, which has the same structure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_word
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import Edge, Operator, OperatorGraph, OriginOutput
from pytest_msdump.core.storage.files import read_user_file

# Fields of JSON that another program wrote; what is not as it should be is one line that says where.

WHOLE = re.compile(r"-?[0-9]{1,18}")

# Longer ones take minutes to become an int.
_LONGEST_NUMBER = 4000

_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a fraction",
    type(None): "null",
}


def document(data: str | bytes, source: str) -> dict[str, Any]:
    """Read a JSON text whose top level is an object; messages call it `source`. ConfigError for anything else."""
    text = text_of(data, source)
    try:
        model = json.loads(text, parse_int=_number if may_hold_long_number(text) else None)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}: not JSON, line {error.lineno} column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: not a model's JSON, it is nested too deeply") from error
    except _LongNumberError as error:
        raise ConfigError(f"{source}: not a model's JSON, it holds a number of {error} digits") from error
    top: dict[str, Any] = checked(model, dict, source, "the top level")
    return top


def text_of(data: str | bytes, source: str) -> str:
    """Decode a text that is to be JSON; ConfigError where it is not UTF-8."""
    try:
        return data.decode("utf-8-sig") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: not JSON, byte {error.start} is not UTF-8 text") from error


class _LongNumberError(ValueError):
    """A number of too many digits."""


def may_hold_long_number(text: str) -> bool:
    """Whether a number may be too long: a long run of digits fills one of these pieces."""
    piece = _LONGEST_NUMBER // 2
    return any(text[start : start + piece].isdigit() for start in range(0, len(text), piece))


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise _LongNumberError(len(text))
    return int(text)


def need(holder: Mapping[str, Any], key: str, kind: type, place: str) -> Any:
    """Return a field that must be there and of that kind; `place` is where its object is."""
    if key not in holder:
        raise ConfigError(f"{place}: '{key}' is missing")
    return get(holder, key, kind, None, place)


def get(holder: Mapping[str, Any], key: str, kind: type, default: Any, place: str) -> Any:
    """Return a field that must be of that kind where it is there."""
    value = holder.get(key, default)
    return value if isinstance(value, kind) or key not in holder else checked(value, kind, place, f"'{key}'")


def checked(value: Any, kind: type, place: str, what: str) -> Any:
    """Return the value, which must be of that kind; messages call it `what`."""
    if not isinstance(value, kind):
        raise ConfigError(f"{place}: {what} is {_KINDS[type(value)]}, and must be {_KINDS[kind]}")
    return value


def whole(value: Any, place: str) -> int:
    """Read a whole number of 64 bits, also one in quotes, as protobuf writes them into JSON."""
    # A bool is an int to `isinstance`.
    if type(value) is int and -(2**63) < value < 2**63:
        return value
    if isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    raise ConfigError(f"{place} is {shown(value)}, and must be a whole number of 64 bits")


def shown(value: object) -> str:
    """Write a value into a message, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


MAX_BYTES = 512 * 2**20

_COMPILED = ".om"
_UNCOMPILED = frozenset({".air", ".pb", ".onnx", ".caffemodel"})
# The first bytes of an offline model, whatever its file is called.
_MAGIC = b"IMOD"

# From this length on, the objects of a whole text take more memory, and so more time, than reading them one by one.
_LARGE = 2**16

_MOST_LISTED = 3


def read_model(path: Path) -> OperatorGraph:
    """Read the JSON of a compiled model, or the rule JSON that AMCT writes; a model itself is refused."""
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
    """Read the text of a model's JSON, which messages call `source`."""
    text = text_of(data, source)
    if len(text) > _LARGE:
        # Whatever is wrong is reported by reading the whole, which knows where it is.
        with suppress(_UnusualJsonError, ConfigError):
            return _read_one_by_one(text, source)
    return model_graph(document(text, source), source=source)


def model_graph(model: Mapping[str, Any], *, source: str) -> OperatorGraph:
    """Read a model from the object that its JSON is; as `parse_model`, for other writings of the same structure."""
    entries: list[tuple[str, Operator]] = []
    for number, graph in enumerate(need(model, "graph", list, source)):
        place = f"{source}: graph[{number}]"
        for position, entry in enumerate(need(checked(graph, dict, place, "it"), "op", list, place)):
            entries.append(_placed_operator(entry, f"{place}.op[{position}]"))
    return _graph(entries, model.get("name"), source)


def _placed_operator(entry: Any, place: str) -> tuple[str, Operator]:
    try:
        return _operator(entry)
    except ConfigError as error:
        raise ConfigError(f"{place}{error}") from error


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
    notes = []
    if repeated:
        notes.append(f"{source}: {listed(list(repeated), _MOST_LISTED)} occurs more than once; the first counts")
    found = tuple(operators.values())
    if circles := operators_in_circles(found):
        notes.append(f"{source}: {listed(circles, _MOST_LISTED)} feed one another in a circle")
    return OperatorGraph(found, source, tuple(notes), model=name if isinstance(name, str) else "")


# -- One operator ----------------------------------------------------------------------------------------------------

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
READ_ATTRIBUTES = _OF_OPERATORS | _OF_OUTPUTS

_LONGEST = 64
_PLAIN = re.compile(r"[\w., /-]{1,64}")
_SLICE = re.compile(r"_lxslice[0-9]+")
_CONTROL = -1

# Attributes of one operator or output, by key: the `value` objects.
_Attributes = Mapping[str, Mapping[str, Any]]


def _operator(entry: Any) -> tuple[str, Operator]:
    """Read one of a graph's ``op``; return its name as written, with the numbers of slices, and the operator."""
    raw = need(checked(entry, dict, "", "it"), "name", str, "")
    name = _SLICE.sub("", raw)
    attributes = _attributes(entry, _OF_OPERATORS)
    is_original = _ORIGINALS not in attributes
    originals = (name,) if is_original else tuple(filter(None, _texts(attributes[_ORIGINALS], f": {_ORIGINALS}")))
    outputs = get(entry, "output_desc", list, [], "")
    operator = Operator(
        name=name,
        op_type=need(entry, "type", str, ""),
        id=whole(entry.get("id", 0), ": 'id'"),
        inputs=_inputs(get(entry, "input", list, [], "")),
        originals=originals,
        outputs=tuple([_output(output, name if is_original else "", n) for n, output in enumerate(outputs)]),
        is_multiop=get(attributes.get(_MULTIOP, {}), "b", bool, False, f": {_MULTIOP}"),
        l1_group=_group(attributes, _L1_GROUP),
        l2_group=_group(attributes, _L2_GROUP),
        attributes=", ".join(_written(entry)),
    )
    if not name:
        raise ConfigError(": 'name' is empty")
    return raw, operator


def is_of_type(key: object) -> bool:
    """Whether an attribute is one of the operator's type, not a mark that the compiler left."""
    return isinstance(key, str) and re.fullmatch(r"[A-Za-z]\w{0,63}", key) is not None


def _written(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield an operator's own attributes as an IR of MindSpore has them: numbers, texts, and lists of these."""
    for attribute in get(entry, "attr", list, [], ""):
        key, value = attribute.get("key"), attribute.get("value")
        if is_of_type(key) and isinstance(value, dict):
            members = value.get("list")
            found = [value] if not isinstance(members, dict) else _members(members)
            texts = [text for one in found for text in _literals(one)]
            if texts and len(texts) == len(found):
                yield f"{key}: {texts[0]}" if found == [value] else f"{key}: ({', '.join(texts)})"


def _members(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the members of a list, each as a value; a list has one kind of them, and shapes are short."""
    lists = [(kind, values) for kind in "ifbs" if isinstance(values := members.get(kind), list) and values]
    return [{kind: value} for kind, values in lists[:1] for value in values[:_LONGEST]]


def _literals(value: Mapping[str, Any]) -> Iterator[str]:
    kind = next((kind for kind in "sbif" if kind in value), None)
    found = value.get(kind or "")
    if kind == "s" and isinstance(found, str) and _PLAIN.fullmatch(found):
        yield f'"{found}"'
    elif isinstance(found, bool):
        yield str(found).lower()
    elif kind == "i" and isinstance(found, int):
        yield str(found)
    elif kind == "f" and found is not None:
        with suppress(TypeError, ValueError):
            # Nine digits are a float32 exactly.
            yield f"F32({float(found):.8e})"


def _inputs(entries: Sequence[Any]) -> tuple[Edge | None, ...]:
    edges: list[Edge | None] = []
    for position, entry in enumerate(entries):
        producer, _, number = checked(entry, str, f".input[{position}]", "it").rpartition(":")
        slot = int(number) if WHOLE.fullmatch(number) else _CONTROL - 1
        if not entry:
            edges.append(None)
        elif not producer or slot < _CONTROL:
            raise ConfigError(f".input[{position}]: {shown(entry)} is not 'PRODUCER:INDEX'")
        elif slot != _CONTROL:
            edges.append(Edge(_SLICE.sub("", producer), slot))
    return tuple(edges)


def _output(entry: Any, own_name: str, position: int) -> OriginOutput:
    try:
        attributes = _attributes(checked(entry, dict, "", "it"), _OF_OUTPUTS)
        shape = None
        if _GE_SHAPE in attributes:
            place = f": {_GE_SHAPE}"
            shape = tuple([whole(value, place) for value in _list(attributes[_GE_SHAPE], place, "i")])
        memory_format = _text(attributes, _ORIGIN_FORMAT), _text(attributes, _GE_FORMAT)
        index = whole(attributes.get(_ORIGIN_INDEX, {}).get("i", position), f": {_ORIGIN_INDEX}")
        if index < 0:
            raise ConfigError(f": {_ORIGIN_INDEX} is {index}, and cannot be negative")
        name = _text(attributes, _ORIGIN_NAME)
        dtype = get(entry, "dtype", str, "", "")
    except ConfigError as error:
        raise ConfigError(f".output_desc[{position}]{error}") from error
    return OriginOutput(name or own_name, index, memory_format[0] or memory_format[1] or None, shape, dtype or None)


def _attributes(holder: Mapping[str, Any], read: frozenset[str]) -> _Attributes:
    found: dict[str, Mapping[str, Any]] = {}
    for position, entry in enumerate(get(holder, "attr", list, [], "")):
        key = checked(entry, dict, f".attr[{position}]", "it").get("key")
        # Attributes that are not read may hold anything.
        if isinstance(key, str) and key in read:
            found.setdefault(key, checked(entry.get("value", {}), dict, f".attr[{position}] ({key})", "'value'"))
    return found


def _text(attributes: _Attributes, key: str) -> str:
    return str(get(attributes[key], "s", str, "", f": {key}")) if key in attributes else ""


def _group(attributes: _Attributes, key: str) -> str:
    number = attributes.get(key, {}).get("i")
    return str(number) if isinstance(number, int) else _text(attributes, key)


def _list(value: Mapping[str, Any], place: str, field: str) -> list[Any]:
    members: list[Any] = get(get(value, "list", dict, {}, place), field, list, [], place)
    return members


def _texts(value: Mapping[str, Any], place: str) -> list[str]:
    return [checked(text, str, place, f"'s[{n}]'") for n, text in enumerate(_list(value, place, "s"))]


# -- Large models, operator by operator ------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\n\r]*")


class _UnusualJsonError(ValueError):
    """A text that is not JSON, or not what was looked for: `json.loads` is to say what it is."""


class _Walk:
    """A place in a JSON text, which moves on with all that is taken."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode

    def value(self) -> Any:
        self._next()
        try:
            found, self._at = self._decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise _UnusualJsonError from error
        return found

    def members(self) -> Iterator[str]:
        """Yield each key of the object here; its value is to be taken before the next one."""
        keys: set[str] = set()
        for _ in self._parts("{}"):
            key = self.value()
            # Of two members of one name the last counts, which is not known yet.
            if not isinstance(key, str) or key in keys or self._next() != ":":
                raise _UnusualJsonError
            self._at += 1
            keys.add(key)
            yield key

    def items(self) -> Iterator[None]:
        """Yield for each item of the list here; the item is to be taken before the next one."""
        return self._parts("[]")

    def end(self) -> None:
        if self._next():
            raise _UnusualJsonError

    def _parts(self, brackets: str) -> Iterator[None]:
        if self._next() != brackets[0]:
            raise _UnusualJsonError
        self._at += 1
        if self._next() != brackets[1]:
            yield
            while self._next() == ",":
                self._at += 1
                yield
            if self._next() != brackets[1]:
                raise _UnusualJsonError
        self._at += 1

    def _next(self) -> str:
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text[self._at : self._at + 1]


def _read_one_by_one(text: str, source: str) -> OperatorGraph:
    """Read a model's text operator by operator: the objects of a whole file take ten times its size."""
    if may_hold_long_number(text):
        raise _UnusualJsonError
    walk, name = _Walk(text), None
    operators: list[tuple[str, Operator]] | None = None
    for key in walk.members():
        if key == "graph":
            operators = [operator for _ in walk.items() for operator in _operators_of_graph(walk)]
        else:
            value = walk.value()
            name = value if key == "name" else name
    walk.end()
    if operators is None:
        raise _UnusualJsonError
    return _graph(operators, name, source)


def _operators_of_graph(walk: _Walk) -> Iterator[tuple[str, Operator]]:
    has_operators = False
    for key in walk.members():
        if key == "op":
            has_operators = True
            for _ in walk.items():
                yield _operator(walk.value())
        else:
            walk.value()
    if not has_operators:
        raise _UnusualJsonError


def operators_in_circles(operators: Sequence[Operator]) -> tuple[str, ...]:
    """Name the operators that lie on a circle, or between two circles, in the order given."""
    if _is_in_order(operators):
        return ()
    names = {operator.name for operator in operators}
    fed_by = {op.name: {edge.producer for edge in op.inputs if edge is not None} & names for op in operators}
    feeds: dict[str, set[str]] = {name: set() for name in names}
    for name, producers in fed_by.items():
        for producer in producers:
            feeds[producer].add(name)
    # What is left after peeling from the front has a circle before it; from the back, one behind it.
    left = _peeled(fed_by, feeds) & _peeled(feeds, fed_by)
    return tuple(operator.name for operator in operators if operator.name in left)


def _is_in_order(operators: Sequence[Operator]) -> bool:
    """Whether every operator comes behind all that feed it, as compilers write them: then there is no circle."""
    waiting = {operator.name for operator in operators}
    for operator in operators:
        if any(edge is not None and edge.producer in waiting for edge in operator.inputs):
            return False
        waiting.discard(operator.name)
    return True


def _peeled(needs: Mapping[str, set[str]], gives: Mapping[str, set[str]]) -> set[str]:
    """Take away, again and again, what needs nothing that is left; return the rest."""
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


def named_graphs(folder: Path, *, where: str) -> dict[str, Path]:
    """Map the name of each graph in a folder of rule files to its file; `where` is the option as it is written."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.json")):
        data = read_user_file(path, MAX_BYTES, want="give a folder of the JSON of compiled models")
        for number, graph in enumerate(need(document(data, str(path)), "graph", list, str(path))):
            place = f"{path}: graph[{number}]"
            name = str(need(checked(graph, dict, place, "it"), "name", str, place))
            if found.setdefault(name, path) != path:
                raise ConfigError(f"{where}: {found[name]} and {path} both name the graph {name}; take one away")
    if not found:
        raise ConfigError(f"{where}: there is no rule file (*.json) with a named graph in {folder}")
    return found
