"""Models of ONNX in 8 bits: which float tensor a dequantised one stands for, by the names that ONNX Runtime gives.

`X` goes into `X_QuantizeLinear`, whose whole numbers go into `X_DequantizeLinear`; an activation behind `X` may have
been folded into that pair. So what is compared with the float model's `X` is what is dequantised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import mangle
from pytest_msdump.core.text import Message, say

# Nodes have `_DequantizeLinear` behind the tensor's name, and `_Output` behind that is what they put out.
_NAME = re.compile(r"(?P<tensor>.+)_(?:(?P<float>DequantizeLinear)|QuantizeLinear)(?:_Output)?")
_INTEGER_TYPES = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "ConvInteger", "MatMulInteger")
# Their output is not of the type of what they are given.
_CHANGING = frozenset({"DequantizeLinear", "Cast", "Shape", "Size"})
# PyTorch's older exports give a node's first output this name, its newer ones a node this one.
_OUTPUT, _NODE = "_output_0", "node_"
# Why a tensor is kept from other ways of pairing.
WITHHELD = ("quant_output", "dequantised_weight", "before_rounding", "before_quantising")


def pair_dequantised(state: PairingState, request: PairingRequest) -> None:
    """Pair what was dequantised with the float tensor that it stands for, and keep whole numbers from other ways."""
    sides = (state.left, state.right)
    integers = [set(_integers(side, dump)) for side, dump in zip(sides, request.dumps, strict=True)]
    # Where both are in 8 bits, or neither is, names say enough.
    if bool(integers[0]) == bool(integers[1]):
        return
    side, other = sides if integers[0] else sides[::-1]
    own = integers[0] or integers[1]
    for number in own:
        _withhold(state, side, number, "quant_output")
    graphs = [graph for _, graph in request.dumps[0 if side is state.left else 1].graphs]
    weights = {call.name for graph in graphs for call in graph.operators if not any(call.inputs)}
    quantised = {mangle(side.ops[number].key.label) for number in own}
    for number, op in enumerate(side.ops):
        match = _NAME.fullmatch(op.key.label)
        if number in own or match is None or match["float"] is None:
            continue
        tensor = mangle(match["tensor"])
        node = tensor.removesuffix(_OUTPUT)
        ours, theirs = (
            {name: found for name in (tensor, node, _NODE + tensor) if (found := one.mangled.find(name, op.common))}
            for one in (side, other)
        )
        name = next(iter(theirs), None)
        is_quantised = not quantised.isdisjoint((f"{tensor}_QuantizeLinear", f"{tensor}_QuantizeLinear_Output"))
        if op.key.label in weights if graphs else not is_quantised:
            _withhold(state, side, number, "dequantised_weight")
        elif name is not None and len(theirs[name]) == 1:
            if name in ours and name != tensor:
                # The same node is there, and what it puts out is not rounded.
                _withhold(state, side, number, "before_rounding")
            else:
                _pair(state, request, (side, number), (other, theirs[name][0]), match["tensor"])
                for one in ours.get(tensor, ()):
                    _withhold(state, side, one, "before_quantising")


def _integers(side: Side, dump: Dump) -> Iterator[int]:
    """Yield the operators that put out whole numbers which stand for others: quantised, and what passes such on."""
    names: set[str] = set()
    for _, graph in dump.graphs:
        for call in graph.operators:
            is_fed = any(edge is not None and edge.producer in names and not edge.slot for edge in call.inputs)
            if call.op_type.startswith(_INTEGER_TYPES) or (is_fed and call.op_type not in _CHANGING):
                names.add(call.name)
    for number, op in enumerate(side.ops):
        match = _NAME.fullmatch(op.key.label)
        if op.key.label in names or (op.key.op_type or "").startswith(_INTEGER_TYPES) or (match and not match["float"]):
            yield number


def _pair(
    state: PairingState, request: PairingRequest, one: tuple[Side, int], other: tuple[Side, int], tensor: str
) -> None:
    (side, number), (partner_side, partner) = one, other
    ours, theirs = (each.selected(each.ops[of]).get(("output", 0)) for each, of in (one, other))
    if ours is None or theirs is None:
        return
    is_free = state.is_free(side.name, ours, partner_side.ops[partner].at)
    if is_free and state.is_free(partner_side.name, theirs, side.ops[number].at):
        left, right = (ours, theirs) if side is state.left else (theirs, ours)
        by = say(Message("dequantised", {"tensor": tensor}))
        state.add(FoundPair(left, right, "name", by, request.formats))


def _withhold(state: PairingState, side: Side, number: int, why: str) -> None:
    for (io, _), ref in side.selected(side.ops[number]).items():
        if io == "output" and not state.is_decided(side.name, ref):
            state.withheld[side.name, ref] = Message(why)
