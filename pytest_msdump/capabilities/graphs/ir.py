"""MindSpore's IR, the text form of its graphs, of releases 1.2 to 2.10.

``ms_output_trace_code_graph_<N>.ir`` beside a dump is one, and so are the many that ``save_graphs`` writes.

References: MindSpore tutorials "IR file analysis" (1.5 to 2.10) and "Dump" (1.3 to master), whose samples show the
older forms; files written by MindSpore 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import cache
from io import BytesIO, TextIOWrapper

from pytest_msdump.capabilities.graphs.flow import (
    CONSTANT,
    MONAD,
    Constant,
    FlowNode,
    FlowWeight,
    HostType,
    Monad,
    Of,
    Operand,
    operator_graph,
)
from pytest_msdump.capabilities.graphs.source_lines import FrameReader
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import OperatorGraph
from pytest_msdump.core.model.tensor import TensorSpec

_SIZES = re.compile(r"-?[0-9]{1,18}")
_LONGEST_SHAPE = 64
_DIMENSIONS = r"[(\[](?P<sizes>[-0-9, ]*)[)\]]"
_TENSOR_TYPE = re.compile(
    r"(?:Ref\[)?Tensor[\[(](?P<dtype>\w+)[\])]\]?(?:, ?|x)(?:\[const vector\])?" + _DIMENSIONS + r"(?:, .*)?", re.DOTALL
)
_NUMBER = re.compile(r"(?P<dtype>(?:Bool|U?Int|Float|BFloat|Complex|HiFloat)\w*)(?:, ?NoShape)?(?:, .*)?", re.DOTALL)
_MONAD = re.compile(r"(?:UMonad|IOMonad)(?:, .*)?", re.DOTALL)
_TUPLE = re.compile(r"(?:Tuple|List)\[")
_TUPLE_SHAPE = re.compile(r"\], (?:Tuple|List)Shape\(")
_DEVICE = re.compile(
    r"(?P<dtype>Complex[0-9]+|[^x<>\s]+)x(?P<format>\w+)\[const vector\][\[{](?P<sizes>[-0-9, ]*)[\]}]"
)
_TIMES = re.compile(r"(?P<type>.*?)\*(?P<count>[0-9]{1,6})")

# Front-end graphs write types in short: F32, I64, U8, B.
_SHORT = re.compile(r"(?P<kind>[FIU])(?P<bits>[0-9]{1,3})")
_KINDS = {"F": "float", "I": "int", "U": "uint"}
_SEPARATOR = re.compile(r'[",()\[\]{}]')

_SIGNATURE_ARROW = ") -> ("


def dtype_name(written: str) -> str | None:
    """Return a data type's name in this package; ``None`` for what is none."""
    short = _SHORT.fullmatch(written)
    name = _KINDS[short["kind"]] + short["bits"] if short else written.lower()
    return canonical(name)


def host_types(line: str) -> tuple[tuple[HostType, ...], tuple[TensorSpec | None, ...]]:
    """Read a ``: (…) -> (…)`` line: types of operands, and of results by slot, on the host."""
    given, made = _sides(line)
    return tuple(map(_host, given)), tuple(_flat(list(map(_host, made))))


def device_types(line: str) -> tuple[tuple[TensorSpec | None, ...], tuple[TensorSpec | None, ...]]:
    """Read such a line of the device: types, sizes and memory formats by slot."""
    given, made = _sides(line)
    return tuple(map(_device, given)), tuple(map(_device, made))


def is_device(line: str) -> bool:
    """Whether a line of types is the device's."""
    start = line.find("<")
    return start >= 0 and _DEVICE.match(line, start + 1) is not None


def _sides(line: str) -> tuple[list[str], list[str]]:
    """Split a line into what is written between ``<`` and ``>``: operands, and results."""
    body = line.strip().removeprefix(":").strip()
    # Some releases separate the operands by arrows as well.
    *given, made = body.removeprefix("(").removesuffix(")").split(_SIGNATURE_ARROW)
    return [text for side in given for text in _types(side)], _types(made) if given else []


def _types(side: str) -> list[str]:
    side = side.strip()
    return side.removeprefix("<").removesuffix(">").split(">, <") if side else []


def _host(text: str) -> HostType:
    tensor = _TENSOR_TYPE.fullmatch(text)
    if tensor:
        shape = _shape(tensor["sizes"])
        return None if shape is None else TensorSpec(dtype=dtype_name(tensor["dtype"]), shape=shape)
    if _MONAD.fullmatch(text):
        return MONAD
    number = _NUMBER.fullmatch(text)
    if number:
        return TensorSpec(dtype=dtype_name(number["dtype"]), shape=())
    return _tuple(text)


def _tuple(text: str) -> tuple[TensorSpec | None, ...] | None:
    """Join types and shapes of a tuple's members, without its monads and members that are tuples themselves."""
    begin, shape = _TUPLE.match(text), _TUPLE_SHAPE.search(text)
    if begin is None or shape is None:
        return None
    sizes = list(members(text[shape.end() :]))
    types = list(_repeated(text[begin.end() : shape.start()], len(sizes)))
    if len(types) != len(sizes):
        return None
    specs = [None if _TUPLE.match(of) else _host(f"{of}, {size}") for of, size in zip(types, sizes, strict=True)]
    return tuple(_flat([member for member in specs if not isinstance(member, tuple)]))


def _repeated(types: str, most: int) -> Iterator[str]:
    for text in members(types):
        times = _TIMES.fullmatch(text)
        # One more than there are shapes is as wrong as many more.
        yield from [times["type"]] * min(int(times["count"]), most + 1) if times else [text]


def members(text: str) -> Iterator[str]:
    """Split at the commas that are in no bracket and no quotes, up to a bracket that ends more than began."""
    start, end = 0, len(text)
    for position, letter, depth in separators(text):
        if depth < 0:
            end = position
            break
        if letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:end].strip():
        yield text[start:end].strip()


def separators(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield each bracket and comma that is not within quotes: where, which, and in how many brackets from there on."""
    depth, is_quoted = 0, False
    for match in _SEPARATOR.finditer(text):
        letter = match[0]
        if letter == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (letter in "([{") - (letter in ")]}")
            yield match.start(), letter, depth


def _flat(results: list[HostType]) -> Iterator[TensorSpec | None]:
    for one in results:
        if isinstance(one, tuple):
            yield from one
        elif not isinstance(one, Monad):
            yield one


def _device(text: str) -> TensorSpec | None:
    match = _DEVICE.fullmatch(text)
    shape = _shape(match["sizes"]) if match else None
    if match is None or shape is None:
        return None
    return TensorSpec(dtype=dtype_name(match["dtype"]), shape=shape, memory_format=match["format"])


def _shape(sizes: str) -> tuple[int, ...] | None:
    written = [size.strip() for size in sizes.split(",") if size.strip()]
    if len(written) > _LONGEST_SHAPE or not all(map(_SIZES.fullmatch, written)):
        return None
    return tuple(map(int, written))


_OPEN = "([{"
_CLOSE = ")]}"
_PARAMETER = re.compile(r"(?:\$\(@[^:]{0,1000}:|%)?para([0-9]{1,9})_")
_LOCAL = re.compile(r"%([0-9]{1,9})(?![0-9A-Za-z_])")
_FOREIGN = re.compile(r"\$\(@(?P<graph>[^:]{0,1000}):(?P<alias>.*)\)", re.DOTALL)
_WHOLE = re.compile(r"(?:[A-Za-z]\w*\()?(-?[0-9]{1,18})\)?")
_MONADS = frozenset({"U", "IO", "UMonad[U]", "IOMonad[IO]", "UMonad", "IOMonad"})
_OPERAND_MARKS = re.compile(r"[()\[\]{},\"%$]")


class IrNames:
    """Finds what the names in operands stand for: nodes, by number, and parameters, by name."""

    def __init__(self, parameters: MutableMapping[int, str]) -> None:
        self.parameters = parameters
        self._local: dict[int, int] = {}
        self._foreign: dict[tuple[str, str], int] = {}
        self._graph = ""

    def enter(self, graph: str) -> None:
        """Begin a subgraph, in which nodes are numbered anew."""
        self._graph = graph
        self._local.clear()

    def add(self, local: int, alias: str, node: int) -> None:
        """Add a node."""
        self._local[local] = node
        self._foreign[self._graph, alias] = node

    def resolve(self, text: str) -> Operand:
        """Return what an operand is."""
        if text in _MONADS:
            return MONAD
        local = _LOCAL.match(text)
        if local:
            number = self._local.get(int(local[1]))
            return CONSTANT if number is None else Of(number)
        parameter = _PARAMETER.match(text)
        if parameter:
            written = text[parameter.end() :].removesuffix(")") if text.startswith("$") else text[parameter.end() :]
            number = int(parameter[1])
            # Graphs of control flow list their parameters without names.
            if not self.parameters.get(number):
                self.parameters[number] = written or f"para{number}"
            return FlowWeight(self.parameters[number])
        foreign = _FOREIGN.fullmatch(text)
        if foreign:
            number = self._foreign.get((foreign["graph"], foreign["alias"]))
            return CONSTANT if number is None else Of(number)
        whole = _WHOLE.fullmatch(text)
        return Constant(int(whole[1])) if whole else CONSTANT


def split_call(text: str) -> tuple[str, int]:
    """Return the type before a call's ``(`` and where its operands begin; an empty type where there are none."""
    depth = 0
    for match in re.finditer(r"[()\[\]{}]", text):
        letter = match[0]
        if letter == "(" and depth == 0 and not text.startswith("$(", match.start() - 1):
            return text[: match.start()].strip(), match.end()
        depth = max(depth + (letter in _OPEN) - (letter in _CLOSE), 0)
    return "", len(text)


def operands(text: str, start: int, names: IrNames) -> tuple[Operand, ...]:
    """Read the operands in a node's line, from `start` just behind their bracket up to the one that ends them."""
    return tuple(names.resolve(part) for part in _operand_parts(text, start, names.parameters))


def _operand_parts(text: str, start: int, parameters: Mapping[int, str]) -> Iterator[str]:
    depth, begin, position = 0, start, start
    while True:
        match = _OPERAND_MARKS.search(text, position)
        if match is None:
            break
        position = match.end()
        letter = match[0]
        if letter == '"' or letter in "%$":
            position = _behind(text, match.start(), parameters)
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        if depth < 0 or (letter == "," and depth == 0):
            part = text[begin : match.start()].strip()
            if part or depth == 0:
                yield part
            begin = position
        if depth < 0:
            return


def _behind(text: str, start: int, parameters: Mapping[int, str]) -> int:
    """Return where a text or the name of a parameter ends; one behind `start` for anything else."""
    if text[start] == '"':
        end = text.find('"', start + 1)
        return end + 1 if end > 0 else start + 1
    match = _PARAMETER.match(text, start)
    name = parameters.get(int(match[1]), "") if match else ""
    end = match.end() + len(name) if match else 0
    if name and text.startswith(name, end - len(name)) and text[end : end + 1] in (",", ")"):
        # `$(@graph:para1_name)` ends with a bracket of its own.
        return end + (text[start] == "$")
    return start + 1


_BEGIN = re.compile(r"[)}]\s*primitive_attrs: \{")
_VALUE = r'(?:Bool|U?I(?:nt)?[0-9]+|B?F(?:loat)?[0-9]+)\([^()%]{0,40}\)|"[^"]{0,200}"'
_TENSOR = r"Tensor\(shape=\[[0-9]{0,9}\], dtype=\w{1,20}, value=[^()\"%]{0,400}\)"
_LITERAL = re.compile(rf"(?:{_VALUE})|{_TENSOR}|\((?:(?:{_VALUE})(?:, (?:{_VALUE})){{0,15}})?\)")
_LONGEST = 4096

# What the compiler keeps for itself; it differs between runs of one program.
_BOOKKEEPING = frozenset(
    {
        *("IsFeatureMapInputList", "IsFeatureMapOutput", "checkpoint", "compile_info", "input_names", "is_dynamic_len"),
        *("output_names", "output_used_num", "pri_format", "side_effect_mem", "unique_id", "visited"),
    }
)


def attributes_text(call: str) -> str:
    """Return the text of an operator's attributes, plain operands among them; `call` begins behind its bracket."""
    operands = enumerate(members(call[:_LONGEST]))
    literals = [f"operand {slot}: {operand}" for slot, operand in operands if _LITERAL.fullmatch(operand)]
    return ", ".join(filter(None, (*literals, _between_braces(call))))


def _between_braces(line: str) -> str:
    match = _BEGIN.search(line)
    if match is None:
        return ""
    text = line[match.end() : match.end() + _LONGEST]
    end = next((position for position, _, depth in separators(text) if depth < 0), None)
    # Cut short, or longer than any: the last one would be half a value.
    return text.rpartition(", ")[0] if end is None else text[:end]


def parse_attributes(text: str) -> Mapping[str, str]:
    """Return attributes by name, without those that the compiler keeps for itself."""
    named = (part.partition(":") for part in members(text))
    return {
        name.strip(): value.strip()
        for name, colon, value in named
        if colon and name.strip() and name.strip() not in _BOOKKEEPING
    }


# -- Lines and nodes -------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"%(?P<id>[0-9]{1,9})\((?P<alias>.*?)\) = ")
_LAST = re.compile(r"[Rr]eturn\(")
_SUBGRAPH = re.compile(r"subgraph @(?P<name>[^\s(]+).*\{")
_ENTRY = re.compile(r"# ?IR entry\s*:")
_PARAMETER_LINE = re.compile(r"%para(?P<number>[0-9]{1,9})_(?P<name>.*?) ?: ?<")
_FULL_NAME = re.compile(r"[#:]\s*full_?\s?name[_ ]with[_ ]scope:\s*\((?P<name>.*)\)", re.IGNORECASE)
# Releases 1.x write the name like a line of types.
_BARE_NAME = re.compile(r":\s*\((?P<name>[^<>]+)\)")
_ARROW = " -> "
_TYPE = re.compile(r"[\w.:/-]+")
# What is called is a graph, or the result of another node.
_CALLS = ("call ", "%", "$", "@", "para")
_NOT_KNOWN = "0"
_COMMENTS = ("# In", "# Corresponding", "# inlined")


class _IrRecord:
    """The lines of one node."""

    def __init__(self, local: int, alias: str, head: str) -> None:
        self.local = local
        self.alias = alias
        self.head = [head]
        self.types: list[str] = []
        self.name = ""
        self.comments: list[str] = []

    def add(self, text: str) -> None:
        """Add a line that follows the first, without the space around it."""
        if text.startswith(_COMMENTS):
            self.comments.append(text)
        elif text.startswith(("#", ":")):
            self._add_name_or_types(text)
        elif not self.types and not self.comments:
            # A value may go on for several lines.
            self.head.append(text)

    def _add_name_or_types(self, text: str) -> None:
        full = _FULL_NAME.fullmatch(text)
        bare = _BARE_NAME.fullmatch(text) if _ARROW not in text else None
        name = full or bare
        if name:
            self.name = self.name or name["name"].strip()
        elif text.startswith(":"):
            self.types.append(text)


class _IrReader:
    """Collects the nodes of one file."""

    def __init__(self) -> None:
        self.nodes: list[FlowNode] = []
        self.is_ir = self.is_open = False
        self.graph = ""
        self.parameters: dict[int, str] = {}
        self.names = IrNames(self.parameters)
        # Very many operators share few lines of types.
        self._host_types, self._device_types = cache(host_types), cache(device_types)
        self._frames = FrameReader()

    def records(self, lines: Iterable[str]) -> Iterator[_IrRecord]:
        """Yield the nodes' lines; those between them are read on the way."""
        record: _IrRecord | None = None
        for line in lines:
            text = line.strip()
            head = _HEAD.match(text) if text.startswith("%") else None
            if record is not None and head is None and not (line.startswith("}") or _LAST.match(text)):
                record.add(text)
                continue
            if record is not None:
                yield record
            record = _IrRecord(int(head["id"]), head["alias"], text[head.end() :]) if head else None
            if head is None:
                self._between(text)
        if record is not None and not (self.is_open and not record.name):
            yield record

    def _between(self, text: str) -> None:
        subgraph = _SUBGRAPH.fullmatch(text)
        parameter = None if self.is_open else _PARAMETER_LINE.match(text)
        if subgraph:
            self.is_open = self.is_ir = True
            self.graph = subgraph["name"]
            self.names.enter(self.graph)
        elif text.startswith("}"):
            self.is_open = False
        elif parameter:
            self.parameters[int(parameter["number"])] = parameter["name"]
        self.is_ir = self.is_ir or _ENTRY.match(text) is not None

    def take(self, record: _IrRecord) -> None:
        self.is_ir = True
        head = "\n".join(record.head)
        called, start = split_call(head)
        host = next((line for line in record.types if not is_device(line)), "")
        device = next((line for line in record.types if is_device(line)), "")
        host_in, host_out = self._host_types(host) if host else ((), ())
        device_in, device_out = self._device_types(device) if device else ((), ())
        plain = _TYPE.match(called)
        self.nodes.append(
            FlowNode(
                op_type=plain[0] if plain else called,
                name="" if record.name == _NOT_KNOWN else record.name,
                label=f"@{self.graph}:%{record.local}" if self.graph else f"%{record.local}",
                operands=operands(head, start, self.names),
                host_inputs=host_in,
                host_outputs=host_out,
                device_inputs=device_in,
                device_outputs=device_out,
                stacks=self._frames.stacks(record.comments),
                is_call=called.startswith(_CALLS),
                attributes=attributes_text(head[start:]),
            )
        )
        self.names.add(record.local, record.alias, len(self.nodes) - 1)


def parse_ir(data: str | bytes, *, source: str) -> OperatorGraph:
    """Read the text of an IR file, or a part of it that begins with a node; messages call it `source`."""
    stored = data if isinstance(data, bytes) else data.encode("utf-8", errors="replace")
    reader = _IrReader()
    # Line by line: a graph of 100,000 operators has some hundred megabytes of source lines.
    for record in reader.records(TextIOWrapper(BytesIO(stored), encoding="utf-8-sig", errors="replace", newline="\n")):
        reader.take(record)
    if not reader.is_ir:
        raise ConfigError(f"{source}: not an IR of MindSpore, no line of it is an operator")
    notes = [f"{source} ends too early: of its operators {len(reader.nodes)} lines are read"] if reader.is_open else []
    return operator_graph(reader.nodes, source=source, parameters=tuple(reader.parameters.values()), notes=notes)
