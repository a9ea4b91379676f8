"""Models of ONNX in 8 bits: which float tensor a dequantised one stands for, by recorded graphs or by names.

ONNX Runtime has `X` go into `X_QuantizeLinear`, whose whole numbers go into `X_DequantizeLinear`; an activation behind
`X` may have been folded into that pair. So what is compared with the float model's `X` is what is dequantised.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pytest_msdump.capabilities.quantised.graph import DEQUANTISING, INTEGER_TYPES, integer_nodes, quantised_tensors
from pytest_msdump.core.matching.coordinates import compatible
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import mangle
from pytest_msdump.core.text import Message, say

_MARK = "uantizeLinear"
# Nodes have `_DequantizeLinear` behind the tensor's name, and `_Output` behind that is what they put out.
_NAME = re.compile(r"(?P<tensor>.+)_(?:(?P<float>DequantizeLinear)|QuantizeLinear)(?:_Output)?(?:_output)?")
_COUNTERS = re.compile(r"^[0-9]{2,9}_+(?=.)|_(?:float|u?int)[0-9]+_[0-9]+$")
# PyTorch's older exports give a node's first output this name, its newer ones a node this one.
_OUTPUT, _NODE = "_output_0", "node_"
# How some end the name of every file.
_SAVED = "_output"


def pair_dequantised(state: PairingState, request: PairingRequest) -> None:
    """Pair what was dequantised with the float tensor that it stands for, and keep whole numbers from other ways."""
    sides = (state.left, state.right)
    for op in (*state.left.ops, *state.right.ops):
        if _MARK in op.key.name or _MARK in (op.key.op_type or ""):
            break
    else:
        return
    integers = [set(_integers(side, dump)) for side, dump in zip(sides, request.dumps, strict=True)]
    # Where both are in 8 bits, or neither is, names say enough.
    if bool(integers[0]) == bool(integers[1]):
        return
    side, other = sides if integers[0] else sides[::-1]
    own = integers[0] or integers[1]
    for number in own:
        _withhold(state, side, number, "quant_output")
    dumps = request.dumps if side is state.left else request.dumps[::-1]
    graphs, others = ([graph for _, graph in dump.graphs] for dump in dumps)
    known = {
        name: one
        for one in (quantised_tensors(graphs[0], others[0]) if graphs and others else ())
        for name in one.dequantised
        if one.stands_for is not None
    }
    weights = {call.name for graph in graphs for call in graph.operators if not any(call.inputs)}
    by_name = [_by_name(one) for one in (side, other)]
    quantised = {match["tensor"] for name in by_name[0] if (match := _NAME.fullmatch(name)) and not match["float"]}
    for name, numbers in by_name[0].items():
        match = _NAME.fullmatch(name)
        tensor = match["tensor"] if match is not None and match["float"] else None
        for number in numbers:
            label = side.ops[number].key.label
            is_known = label in known or (bool(graphs) and side.ops[number].key.op_type == DEQUANTISING)
            if tensor is None and not is_known:
                continue
            if label in weights if graphs else tensor not in quantised:
                _withhold(state, side, number, "dequantised_weight")
                continue
            for one in by_name[0].get(tensor or "", ()):
                if one not in own:
                    _withhold(state, side, one, "before_quantising")
            found = next((name for name in _names_of(tensor or "") if name in by_name[1]), None)
            if label in known:
                found = mangle(known[label].stands_for or "")
            partners = [one for one in by_name[1].get(found or "", ())
                        if compatible(side.ops[number].common, other.ops[one].common)]  # fmt: skip
            if found != tensor and found in by_name[0]:
                # The same node is there, and what it puts out is not rounded.
                _withhold(state, side, number, "before_rounding")
            elif len(partners) == 1:
                spelled = _NAME.fullmatch(_COUNTERS.sub("", label))
                stands_for = known[label].stands_for if label in known else spelled["tensor"] if spelled else tensor
                _pair(state, request, (side, number), (other, partners[0]), stands_for or "")


def _by_name(side: Side) -> Mapping[str, Sequence[int]]:
    """Return the operators of a side by name, without the counters that people put before and behind it."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, op in enumerate(side.ops):
        found[_COUNTERS.sub("", mangle(op.key.label))].append(number)
    return found


def _names_of(tensor: str) -> Iterator[str]:
    """Yield how a tensor may be called, or the node that puts it out."""
    yield from (tensor, tensor.removesuffix(_OUTPUT), _NODE + tensor, tensor + _SAVED)


def _integers(side: Side, dump: Dump) -> Iterator[int]:
    """Yield the operators that put out whole numbers which stand for others: quantised, and what passes such on."""
    names = {name for _, graph in dump.graphs for name in integer_nodes(graph)}
    for number, op in enumerate(side.ops):
        match = _NAME.fullmatch(_COUNTERS.sub("", mangle(op.key.label)))
        if op.key.label in names or (op.key.op_type or "").startswith(INTEGER_TYPES) or (match and not match["float"]):
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
