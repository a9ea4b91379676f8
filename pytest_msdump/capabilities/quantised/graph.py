"""Which tensors of a recorded graph are quantised, and which node of the float model gives out what each stands for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_msdump.core.model.dump import Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import mangle

INTEGER_TYPES = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "QGemm", "ConvInteger", "MatMulInteger")
DEQUANTISING = "DequantizeLinear"
# Their output is not of the type of what they are given.
_CHANGING = frozenset({DEQUANTISING, "Cast", "Shape", "Size"})
# What ONNX Runtime's quantiser calls a node of whole numbers: as the float one, and this.
_WHOLE = "_quant"
_CONSTANTS = frozenset({"Constant", "ConstantOfShape"})
_MOST_STEPS = 16


class Quantised(NamedTuple):
    """A tensor of whole numbers: the nodes that give it out, are given it in floats, and dequantise it.

    `stands_for` is the node of the float model whose output it is, as far as that is certain; `activations` are types
    of nodes behind the namesake of `given` that its range does the work of.
    """

    codes: str
    given: str | None
    dequantised: tuple[str, ...]
    stands_for: str | None = None
    activations: tuple[str, ...] = ()


def integer_nodes(graph: OperatorGraph) -> set[str]:
    """Return the nodes that put out whole numbers which stand for others: quantised, and what passes such on."""
    names: set[str] = set()
    for call in graph.operators:
        is_fed = any(edge is not None and edge.producer in names and not edge.slot for edge in call.inputs)
        if call.op_type.startswith(INTEGER_TYPES) or (is_fed and call.op_type not in _CHANGING):
            names.add(call.name)
    return names


def quantised_tensors(own: OperatorGraph, other: OperatorGraph) -> Iterator[Quantised]:
    """Yield the tensors of whole numbers of one graph, in order, with what they stand for in the float one."""
    integers = integer_nodes(own)
    calls = {call.name: call for call in own.operators}
    takers = takers_of(own)
    floats, behind = _Floats(other), takers_of(other)
    for call in own.operators:
        if call.name not in integers or not call.op_type.startswith(INTEGER_TYPES):
            continue
        fed = call.inputs[0].producer if call.inputs and call.inputs[0] is not None else None
        dequantised = tuple(one for one, _ in takers[call.name] if calls[one].op_type == DEQUANTISING)
        is_rounding = call.op_type.endswith("QuantizeLinear")
        begin = floats.named(fed if is_rounding else call.name)
        given = fed if is_rounding and fed not in integers else None
        users = [one for name in dequantised for one in takers[name]]
        users += [one for one in takers[call.name] if one[0] not in dequantised]
        ends = {end for user, slot in users if (end := floats.feeding(user, slot, calls[user].op_type)) is not None}
        if begin is not None and not ends and not behind[begin]:
            ends = {begin}
        way = floats.way(begin, next(iter(ends))) if begin is not None and len(ends) == 1 else None
        stands_for, types = (None, ()) if way is None else (ends.pop(), tuple(floats.calls[one].op_type for one in way))
        yield Quantised(call.name, given, dequantised, stands_for, types)


class _Floats:
    """The float graph by names, as the quantiser changes them."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.calls: dict[str, Operator] = {call.name: call for call in graph.operators}
        self._names = {mangle(name): name for name in self.calls}

    def named(self, name: str | None) -> str | None:
        """Return the node of a name, with or without what the quantiser puts behind it."""
        filed = mangle(name or "")
        return self._names.get(filed) or self._names.get(filed.removesuffix(_WHOLE))

    def feeding(self, user: str, slot: int, kind: str) -> str | None:
        """Return what feeds an input of the namesake of a node."""
        namesake = self.named(user)
        inputs = self.calls[namesake].inputs if namesake is not None else ()
        # Each tensor of whole numbers has its scale and zero point behind it.
        if kind.startswith(("QLinear", "QGemm")):
            slot = (slot - 2 if kind == "QLinearConcat" else slot) // 3
        edge = inputs[slot] if slot < len(inputs) else None
        return edge.producer if edge is not None and not edge.slot and edge.producer in self.calls else None

    def _is_fed(self, edge: Edge) -> bool:
        """Whether an edge carries more than a constant."""
        return edge.producer not in self.calls or self.calls[edge.producer].op_type not in _CONSTANTS

    def way(self, begin: str, end: str) -> tuple[str, ...] | None:
        """Return the nodes behind one as far as another, each fed by the one before alone; ``None`` if none leads."""
        found: list[str] = []
        name: str | None = end
        while name is not None and name != begin and len(found) < _MOST_STEPS:
            found.append(name)
            feeds = [edge.producer for edge in self.calls[name].inputs if edge is not None and self._is_fed(edge)]
            name = feeds[0] if len(feeds) == 1 and feeds[0] in self.calls else None
        return tuple(reversed(found)) if name == begin else None


def takers_of(graph: OperatorGraph) -> Mapping[str, list[tuple[str, int]]]:
    """Return by node those that take its first output, and at which of their inputs."""
    found: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for call in graph.operators:
        for slot, edge in enumerate(call.inputs):
            if edge is not None and not edge.slot:
                found[edge.producer].append((call.name, slot))
    return found
