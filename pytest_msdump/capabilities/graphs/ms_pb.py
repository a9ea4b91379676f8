"""MindSpore's graphs in Protobuf, ``ms_output_trace_code_graph_<N>.pb``; every length is checked against the bytes.

References: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.capabilities.graphs import flow
from pytest_msdump.capabilities.graphs.source_lines import FrameReader
from pytest_msdump.capabilities.protobuf.wire import LENGTH, VARINT, Memory, NotAMessageError, WireSpan, fields
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import OperatorGraph
from pytest_msdump.core.model.tensor import TensorSpec


class PbMessage(NamedTuple):
    """Bytes of a file that are read as a message."""

    file: Memory
    span: WireSpan

    def by_number(self) -> dict[int, list[int | PbMessage]]:
        """Collect the fields, those of one number in their order; fixed-size ones are skipped."""
        found: dict[int, list[int | PbMessage]] = {}
        for field in fields(self.file, self.span, most=self.file.size):
            if field.wire_type == VARINT:
                found.setdefault(field.number, []).append(field.value)
            elif field.wire_type == LENGTH:
                found.setdefault(field.number, []).append(PbMessage(self.file, field.span))
        return found

    def text(self) -> str:
        """Return the bytes as text; what is not UTF-8 is marked."""
        return self.file.data[self.span.start : self.span.stop].decode("utf-8", errors="replace")


# -- The schema ------------------------------------------------------------------------------------------------------

_MODEL = {"graph": 4}
_GRAPH = {"node": 1, "parameters": 3, "const_vals": 5}
_NODE = {"input": 1, "name": 2, "op_type": 3, "output_type": 6, "full_name": 8, "source_address": 9}
_INPUT = {"name": 1, "type": 2}
_PARAMETER = {"name": 1, "type": 2}
_CONSTANT = {"key": 1, "value": 2}
_VALUE = {"dtype": 1, "int": 3, "uint": 4, "values": 18}
_TYPE = {"data_type": 1, "tensor_type": 2, "sequence_type": 3}
_TENSOR = {"elem_type": 1, "shape": 2}
_SHAPE = {"dim": 1}
_DIMENSION = {"size": 1}
_SEQUENCE = {"elem_types": 1}

_DTYPES: Mapping[int, str] = {
    **dict(enumerate(("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), 1)),
    **dict(enumerate(("float16", "float32", "float64", "string"), 10)),
    43: "complex64",
    44: "complex128",
    46: "bfloat16",
    48: "int4",
}
# Outside of a tensor, the numbers of complex types stand for monads.
_MONADS = frozenset({43, 44})
_TUPLES = frozenset({31, 32})
_CONTROL = 1
_SIGN = 2**63
_MOST_DIMENSIONS = 64

_Fields = Mapping[int, Sequence[int | PbMessage]]


class _MessageReader:
    """Collects the nodes of one file."""

    def __init__(self) -> None:
        self.nodes: list[flow.FlowNode] = []
        self.weights: list[str] = []
        self._operands: dict[str, tuple[flow.Operand, flow.HostType]] = {}
        self._frames = FrameReader()

    def weight(self, message: PbMessage) -> None:
        fields = message.by_number()
        name = _text(fields, _PARAMETER["name"])
        self.weights.append(name)
        host = _type(_inner(fields, _PARAMETER["type"]))
        self._operands[name] = (flow.MONAD if isinstance(host, flow.Monad) else flow.FlowWeight(name), host)

    def constant(self, message: PbMessage) -> None:
        fields = message.by_number()
        self._operands[_text(fields, _CONSTANT["key"])] = _constant(_inner(fields, _CONSTANT["value"]))

    def node(self, message: PbMessage) -> None:
        """Add a node; those that feed it come before it."""
        fields = message.by_number()
        inputs = [self._input(entry) for entry in fields.get(_NODE["input"], ()) if isinstance(entry, PbMessage)]
        operands = [entry for entry in inputs if entry is not None]
        made = _type(_inner(fields, _NODE["output_type"]))
        name = _text(fields, _NODE["name"])
        lines = _text(fields, _NODE["source_address"]).split("\n")
        self.nodes.append(
            flow.FlowNode(
                op_type=_text(fields, _NODE["op_type"]),
                name=_text(fields, _NODE["full_name"]),
                label=f"node {name}",
                operands=tuple(operand for operand, _ in operands),
                host_inputs=tuple(host for _, host in operands),
                host_outputs=made if isinstance(made, tuple) else () if isinstance(made, flow.Monad) else (made,),
                stacks=self._frames.stacks(lines, is_innermost_first=True),
            )
        )
        self._operands[name] = (flow.Of(len(self.nodes) - 1), made)

    def _input(self, entry: PbMessage) -> tuple[flow.Operand, flow.HostType] | None:
        fields = entry.by_number()
        if _number(fields, _INPUT["type"]) == _CONTROL:
            return None
        return self._operands.get(_text(fields, _INPUT["name"]), (flow.CONSTANT, None))


def parse_pb(data: bytes, *, source: str) -> OperatorGraph:
    """Read a graph in Protobuf, as `parse_ir` reads its ``.ir``, but for what the file does not have."""
    reader = _MessageReader()
    steps = (("parameters", reader.weight), ("const_vals", reader.constant), ("node", reader.node))
    try:
        graph = _inner(PbMessage(Memory(data), WireSpan(0, len(data))).by_number(), _MODEL["graph"])
        if graph is None:
            raise ConfigError(f"{source}: not a graph of MindSpore, it holds no graph; or it is cut off")
        entries = graph.by_number()
        for name, take in steps:
            for entry in entries.get(_GRAPH[name], ()):
                if isinstance(entry, PbMessage):
                    take(entry)
    except NotAMessageError as error:
        where = f"no field of a message at byte {error.position}"
        raise ConfigError(f"{source}: not a graph, or cut off: {where}") from error
    return flow.operator_graph(reader.nodes, source=source, parameters=reader.weights)


def _constant(value: PbMessage | None) -> tuple[flow.Operand, flow.HostType]:
    if value is None:
        return flow.CONSTANT, None
    fields = value.by_number()
    # A monad is written as a value in which nothing is set.
    if not fields:
        return flow.MONAD, flow.MONAD
    number = _number(fields, _VALUE["int"])
    number = _number(fields, _VALUE["uint"]) if number is None else number
    members = [_scalar(entry.by_number()) for entry in fields.get(_VALUE["values"], ()) if isinstance(entry, PbMessage)]
    host: flow.HostType = tuple(members) if _number(fields, _VALUE["dtype"]) in _TUPLES else _scalar(fields)
    return flow.Constant(None if number is None else _signed(number)), host


def _scalar(fields: _Fields) -> TensorSpec | None:
    dtype = _DTYPES.get(_number(fields, _VALUE["dtype"]) or 0)
    return None if dtype is None else TensorSpec(dtype=dtype, shape=())


def _type(message: PbMessage | None) -> flow.HostType:
    fields = message.by_number() if message else {}
    number = _number(fields, _TYPE["data_type"])
    tensor = _inner(fields, _TYPE["tensor_type"])
    sequence = _inner(fields, _TYPE["sequence_type"])
    if tensor is not None:
        return _tensor(tensor)
    if number in _MONADS:
        return flow.MONAD
    if number in _TUPLES:
        return _members(sequence.by_number()) if sequence else ()
    return TensorSpec(dtype=_DTYPES[number], shape=()) if number is not None and number in _DTYPES else None


def _members(fields: _Fields) -> tuple[TensorSpec | None, ...]:
    """Return what is in a tuple, without its monads; ``None`` for members that are tuples themselves."""
    members: list[TensorSpec | None] = []
    for entry in fields.get(_SEQUENCE["elem_types"], ()):
        one = entry.by_number() if isinstance(entry, PbMessage) else {}
        tensor = _inner(one, _TYPE["tensor_type"])
        number = _number(one, _TYPE["data_type"]) or 0
        if tensor is not None:
            elements = _number(tensor.by_number(), _TENSOR["elem_type"]) or 0
            members.append(TensorSpec(dtype=_DTYPES.get(elements)))
        elif number not in _MONADS:
            members.append(TensorSpec(dtype=_DTYPES[number], shape=()) if number in _DTYPES else None)
    return tuple(members)


def _tensor(message: PbMessage) -> TensorSpec | None:
    fields = message.by_number()
    shape = _inner(fields, _TENSOR["shape"])
    sizes = [
        _signed(_number(entry.by_number(), _DIMENSION["size"]) or 0)
        for entry in (shape.by_number().get(_SHAPE["dim"], ()) if shape else ())
        if isinstance(entry, PbMessage)
    ]
    if len(sizes) > _MOST_DIMENSIONS:
        return None
    return TensorSpec(dtype=_DTYPES.get(_number(fields, _TENSOR["elem_type"]) or 0), shape=tuple(sizes))


def _inner(fields: _Fields, number: int) -> PbMessage | None:
    """Return the last message of a field, as Protobuf asks for."""
    content = fields.get(number, (None,))[-1]
    return content if isinstance(content, PbMessage) else None


def _text(fields: _Fields, number: int) -> str:
    message = _inner(fields, number)
    return message.text() if message else ""


def _number(fields: _Fields, number: int) -> int | None:
    content = fields.get(number, (None,))[-1]
    return content if isinstance(content, int) else None


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number >= _SIGN else number
