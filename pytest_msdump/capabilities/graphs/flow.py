"""Makes operators of a graph's nodes: follows data through nodes that only pass it on and never run.

Not recursive, and linear in nodes and edges: a damaged file may nest its tuples as deeply as it is long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, Union

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.describe import counted, listed
from pytest_msdump.core.model.dump import Edge, Operator, OperatorGraph, SourceStack
from pytest_msdump.core.model.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class Of:
    """An operand that is a node, by its number in the list of nodes."""

    node: int


@dataclass(frozen=True, slots=True)
class FlowWeight:
    """An operand that is a parameter of the graph."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand whose value is in the file; `number` is set where that is a whole number."""

    number: int | None = None


@dataclass(frozen=True, slots=True)
class Monad:
    """An operand that only orders side effects: it carries no data and takes no slot."""


CONSTANT = Constant()
MONAD = Monad()

Operand: TypeAlias = Of | FlowWeight | Constant | Monad

# One operand: a tensor or a number, a tuple without its monads, no data at all, or unknown.
HostType: TypeAlias = TensorSpec | tuple[TensorSpec | None, ...] | Monad | None


class FlowNode(NamedTuple):
    """One line of a graph. `name` is empty where the file has none; `label` is then where the node is."""

    op_type: str
    name: str
    label: str
    operands: tuple[Operand, ...] = ()
    host_inputs: tuple[HostType, ...] = ()
    host_outputs: tuple[TensorSpec | None, ...] = ()
    device_inputs: tuple[TensorSpec | None, ...] = ()
    device_outputs: tuple[TensorSpec | None, ...] = ()
    stacks: tuple[SourceStack, ...] = ()
    is_call: bool = False
    attributes: str = ""

    @property
    def known_as(self) -> str:
        """Its name, or where it is."""
        return self.name or self.label


@dataclass(frozen=True, slots=True)
class _Output:
    """What a kernel returns: output `slot`, or all of them."""

    node: int
    slot: int | None = None


_Value: TypeAlias = Union[_Output, FlowWeight, Constant, Monad, "tuple[_Value, ...]"]

# By the type without its underscores, in lower case: older releases write `make_tuple` for `MakeTuple`.
_HANDED_ON = frozenset({"load", "depend"})
_TUPLES = frozenset({"maketuple", "makelist"})
_CHOICES = frozenset({"tuplegetitem", "listgetitem"})
_STATES = frozenset({"updatestate"})
# They steer, or are words of the compiler; no kernel runs for them.
_OTHERS = frozenset({"call", "return", "partial", "switch", "switchlayer", "resolve", "getattr", "embed", "j"})
_NO_KERNELS = _HANDED_ON | _TUPLES | _CHOICES | _STATES | _OTHERS
_TYPE_PREFIX = "PrimFunc_"

_MOST_SLOTS = 2**16
# Tuples that hold each other may have more members than there is memory; 100,000 kernels take a few a piece.
_MOST_MEMBERS = 2**17
_MOST_STEPS = 2**24
_MOST_LISTED = 3


def plain_type(op_type: str) -> str:
    """Write an operator's type as file names have it, without the prefix of newer releases."""
    return op_type.removeprefix(_TYPE_PREFIX)


def operator_graph(
    nodes: Sequence[FlowNode], *, source: str, parameters: Sequence[str] = (), notes: Sequence[str] = ()
) -> OperatorGraph:
    """Keep the nodes that run, and find for each of their inputs which tensor it is."""
    values: list[_Value] = []
    operators: dict[str, Operator] = {}
    repeated: dict[str, None] = {}
    nameless = 0
    flow = _Flow(nodes, values, source)
    for number, node in enumerate(nodes):
        kind = "call" if node.is_call else plain_type(node.op_type).replace("_", "").lower()
        if kind in _NO_KERNELS:
            values.append(_handed_on(kind, [_value(operand, values) for operand in node.operands]))
            continue
        values.append(_Output(number))
        operator = flow.operator(node, number)
        nameless += not node.name
        if operator.name in operators:
            repeated[operator.name] = None
        operators.setdefault(operator.name, operator)
    own = list(notes)
    if repeated:
        own.append(f"{source}: {listed(tuple(repeated), _MOST_LISTED)} occurs more than once; the first counts")
    if nameless:
        own.append(f"{source}: {counted(nameless, 'operator')} without a full name, called by their place")
    return OperatorGraph(tuple(operators.values()), source, tuple(own), tuple(dict.fromkeys(parameters)))


def _value(operand: Operand, values: Sequence[_Value]) -> _Value:
    if isinstance(operand, Of):
        return values[operand.node] if operand.node < len(values) else CONSTANT
    return operand


def _handed_on(kind: str, operands: Sequence[_Value]) -> _Value:
    if kind in _STATES:
        return MONAD
    if kind in _TUPLES:
        return tuple(operands)
    if kind in _HANDED_ON:
        return operands[0] if operands else CONSTANT
    return _chosen(operands) if kind in _CHOICES else CONSTANT


def _chosen(operands: Sequence[_Value]) -> _Value:
    if len(operands) != 2 or not isinstance(operands[1], Constant) or operands[1].number is None:
        return CONSTANT
    of, slot = operands[0], operands[1].number
    if isinstance(of, _Output):
        return _Output(of.node, slot) if of.slot is None and 0 <= slot < _MOST_SLOTS else CONSTANT
    if isinstance(of, tuple):
        return of[slot] if -len(of) <= slot < len(of) else CONSTANT
    return CONSTANT


class _Flow:
    """Finds the tensors behind operands; refuses a graph whose tuples hold more than any run needs."""

    def __init__(self, nodes: Sequence[FlowNode], values: Sequence[_Value], source: str) -> None:
        self._nodes = nodes
        self._values = values
        self._source = source
        self._steps = 0

    def operator(self, node: FlowNode, number: int) -> Operator:
        edges: list[Edge | None] = []
        hosts: list[TensorSpec | None] = []
        for position, operand in enumerate(node.operands):
            host = node.host_inputs[position] if position < len(node.host_inputs) else None
            if not isinstance(host, Monad):
                leaves = list(self._edges(_value(operand, self._values)))
                edges += leaves
                hosts += _spread(host, leaves)
        return Operator(
            name=node.known_as,
            op_type=plain_type(node.op_type),
            id=number,
            inputs=tuple(edges),
            host_inputs=tuple(hosts) if node.host_inputs else (),
            host_outputs=node.host_outputs,
            device_inputs=node.device_inputs,
            device_outputs=node.device_outputs,
            stacks=node.stacks,
            attributes=node.attributes,
        )

    def _edges(self, value: _Value) -> Iterator[Edge | None]:
        waiting: list[_Value] = [value]
        begin = self._steps
        while waiting:
            self._steps += 1
            if self._steps - begin > _MOST_MEMBERS or self._steps > _MOST_STEPS:
                raise ConfigError(f"{self._source}: not the graph of a run, its tuples hold each other too often")
            one = waiting.pop()
            if isinstance(one, tuple):
                waiting.extend(reversed(one))
            elif isinstance(one, _Output) and one.slot is None:
                node = self._nodes[one.node]
                slots = range(max(len(node.device_outputs), len(node.host_outputs), 1))
                waiting.extend(_Output(one.node, slot) for slot in reversed(slots))
            elif isinstance(one, _Output):
                yield Edge(self._nodes[one.node].known_as, one.slot or 0)
            elif isinstance(one, FlowWeight):
                yield Edge(one.name, 0, is_parameter=True)
            elif isinstance(one, Constant):
                yield None


def _spread(host: HostType, leaves: Sequence[Edge | None]) -> list[TensorSpec | None]:
    if not isinstance(host, tuple):
        return [None if isinstance(host, Monad) or len(leaves) != 1 else host] * len(leaves)
    first = host[0] if host else None
    # Numbers that stand in the file are passed as one tensor.
    if len(leaves) == 1 and leaves[0] is None and first is not None and first.shape == () and len(set(host)) == 1:
        return [TensorSpec(dtype=first.dtype, shape=(len(host),))]
    return list(host) if len(host) == len(leaves) else [None] * len(leaves)


def consumers(graph: OperatorGraph) -> Mapping[Edge, tuple[tuple[str, int], ...]]:
    """Return for each tensor that is used the operators and input slots that it feeds, in execution order."""
    found: dict[Edge, list[tuple[str, int]]] = {}
    for operator in graph.operators:
        for slot, edge in enumerate(operator.inputs):
            if edge is not None:
                found.setdefault(edge, []).append((operator.name, slot))
    return {edge: tuple(inputs) for edge, inputs in found.items()}
