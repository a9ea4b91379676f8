"""What a rule file says of each tensor of the left side: which original tensor it is, or why it is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pytest_msdump.core.facts.operators import (
    AIPP_TYPES,
    CARRIER_TYPES,
    DEQUANT_ENDINGS,
    DEQUANT_FRAGMENTS,
    DEQUANT_TYPES,
    FLOAT_DTYPES,
    QUANT_FRAGMENTS,
    QUANT_TYPES,
    QUANTISED_DTYPES,
    RESHAPING_TYPES,
    UNDUMPED_TYPES,
)
from pytest_msdump.core.matching.rules import FusionRules, combined
from pytest_msdump.core.model.dump import Edge, Operator, OperatorGraph, OriginOutput
from pytest_msdump.core.text import Message, Parameter

_MOST_ORIGINALS = 8


class Wish(NamedTuple):
    """What a left tensor is to be compared with."""

    origins: tuple[OriginOutput, ...] = ()
    by: str = ""
    reason: Message | None = None
    expected: bool = True


class Rulebook:
    """The rule files, of which at least `model` or `quant` is given, for questions about single tensors."""

    def __init__(self, rules: FusionRules) -> None:
        self._graph = combined(rules)
        self.label = rules.label
        self.operators = {operator.name: operator for operator in self._graph.operators}
        # Quantisation shows in the left side's own names, not in those of the original.
        self._quantised = find_quantised(rules.base or self._graph)
        self._before_aipp = {
            edge.producer
            for operator in self._graph.operators
            if operator.op_type in AIPP_TYPES
            for edge in operator.inputs
            if edge is not None
        }

    @cached_property
    def _makers(self) -> Mapping[str, Sequence[tuple[Operator, int, OriginOutput]]]:
        """By the name of a right operator, the outputs that have it as their origin."""
        found: defaultdict[str, list[tuple[Operator, int, OriginOutput]]] = defaultdict(list)
        for operator in self._graph.operators:
            for slot, output in enumerate(_outputs_of(operator)):
                if output.name:
                    found[output.name].append((operator, slot, output))
        return found

    @cached_property
    def _hosts(self) -> Mapping[str, Sequence[Operator]]:
        found: defaultdict[str, list[Operator]] = defaultdict(list)
        for operator in self._graph.operators:
            for original in operator.originals:
                found[original].append(operator)
        return found

    def right_names(self) -> frozenset[str]:
        """Return every name that the right side may use."""
        operators = self._graph.operators
        origins = {output.name for operator in operators for output in _outputs_of(operator) if output.name}
        return frozenset(origins.union(*(operator.originals for operator in operators)))

    def makers(self, name: str, index: int) -> list[tuple[Operator, int]]:
        """Return the operators, and their output slots, that a right tensor is to be compared with."""
        return [
            (operator, slot if operator.outputs else index)
            for operator, slot, output in self._makers.get(name, ())
            if not operator.outputs or output.index == index
        ]

    def hosts(self, name: str) -> Sequence[Operator]:
        """Return the operators that a right operator is part of."""
        return self._hosts.get(name, ())

    def is_origin(self, name: str) -> bool:
        """Whether some output has this right operator as its origin."""
        return name in self._makers

    def wish(self, operator: Operator, io: str, slot: int, *, dumped_inputs: int) -> Wish:
        """Return what the rules say of one tensor; `dumped_inputs` is how many inputs the dump has of its operator."""
        if io == "output":
            reason = self.output_barred(operator, slot)
            return Wish(reason=reason) if reason else self._followed(operator, operator.name, slot, operator)
        if _is_inner(operator):
            return Wish(reason=Message("inner"))
        # Dumps may or may not count the inputs that are not connected.
        positions = [position for position, edge in enumerate(operator.inputs) if edge is not None]
        if dumped_inputs != len(positions):
            positions = list(range(len(operator.inputs)))
        if slot >= len(positions):
            return Wish(reason=self._say("no_slot", operator.name, io=io, slot=slot))
        edge = operator.inputs[positions[slot]]
        if edge is None:
            return Wish(reason=self._say("unconnected", operator.name, slot=slot))
        if code := self._quantised.input_reason(operator, positions[slot]):
            return Wish(reason=Message(code))
        return self._followed(operator, edge.producer, edge.slot, None)

    def undumped(self, operator: Operator) -> Message | None:
        """Return why an operator's type never dumps; ``None`` when it does."""
        code = UNDUMPED_TYPES.get(operator.op_type)
        return None if code is None else Message(code)

    def output_barred(self, operator: Operator, slot: int) -> Message | None:
        """Return why an output cannot be compared although it has an origin; ``None`` when it can."""
        if code := self._quantised.output_reason(operator, slot):
            return Message(code)
        return Message("inner") if _is_inner(operator) else None

    def _followed(self, asked: Operator, producer: str, slot: int, own: Operator | None) -> Wish:
        """Follow a tensor to what it was, through the operators (Cast, TransData) that carry it on."""
        trail = self._trail(producer, slot)
        if not trail:
            return Wish(reason=self._say("unknown_producer", producer))
        origins = tuple(origin for _, origin in trail if origin is not None and origin.name)
        end, last_origin = trail[-1]
        if end.name in self._before_aipp or end.op_type in AIPP_TYPES:
            return Wish(reason=self._say("aipp", end.name))
        if not origins:
            lacking = self._lacking(end, last_origin, slot)
            return Wish(reason=lacking if own else Message("fed_by", {"op": end.name, "why": lacking}))
        expected = end.op_type not in UNDUMPED_TYPES and asked.op_type not in UNDUMPED_TYPES
        # A tensor that is carried on has the originals of where it comes from.
        if own is not None and own.originals:
            by = f"{self.label}: {_joined(own.originals)}"
        else:
            by = f"{self.label}: fed by {_joined(end.originals or (end.name,))}"
        return Wish(origins, by, None, expected)

    def _trail(self, producer: str, slot: int) -> Sequence[tuple[Operator, OriginOutput | None]]:
        trail: list[tuple[Operator, OriginOutput | None]] = []
        seen: set[str] = set()
        while producer in self.operators and producer not in seen:
            operator = self.operators[producer]
            trail.append((operator, _origin(operator, slot)))
            edge = _carried(operator, slot) if operator.op_type in CARRIER_TYPES else None
            if edge is None:
                break
            seen.add(producer)
            producer, slot = edge.producer, edge.slot
        return trail

    def _lacking(self, operator: Operator, origin: OriginOutput | None, slot: int) -> Message:
        """Say why an operator's output has no counterpart."""
        if operator.op_type in CARRIER_TYPES and any(operator.inputs):
            return self._say("circle", operator.name)
        if operator.is_multiop:
            return Message("inner")
        if operator.op_type in RESHAPING_TYPES:
            return Message("strided_slice")
        if operator.l1_group:
            return Message("l1_fusion", {"group": operator.l1_group})
        if operator.l2_group:
            return Message("l2_fusion", {"group": operator.l2_group})
        if not operator.originals:
            return Message("inserted")
        if origin is None:
            return self._say("no_slot", operator.name, io="output", slot=slot)
        return self._say("no_origin", operator.name)

    def _say(self, code: str, op: str, **values: Parameter) -> Message:
        return Message(code, {"rule": self.label, "op": op, **values})


def _is_inner(operator: Operator) -> bool:
    return operator.is_multiop and not any(output.name for output in operator.outputs)


def _outputs_of(operator: Operator) -> Sequence[OriginOutput]:
    """Return an operator's outputs; one stands for all when the file lists none of an operator that was not fused."""
    if operator.outputs or len(operator.originals) != 1:
        return operator.outputs
    return (OriginOutput(operator.originals[0]),)


def _carried(operator: Operator, slot: int) -> Edge | None:
    """Return what an operator carries on to an output."""
    at_slot = operator.inputs[slot] if slot < len(operator.inputs) else None
    return at_slot or next((edge for edge in operator.inputs if edge is not None), None)


def _origin(operator: Operator, slot: int) -> OriginOutput | None:
    if slot < len(operator.outputs):
        return operator.outputs[slot]
    if operator.outputs or len(operator.originals) != 1:
        return None
    return OriginOutput(operator.originals[0], slot)


def _joined(originals: Sequence[str]) -> str:
    more = len(originals) - _MOST_ORIGINALS
    return " + ".join(originals[:_MOST_ORIGINALS]) + (f" and {more} more" if more > 0 else "")


# (operator, output slot)
_Output = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Quantised:
    """The quantised part of a model."""

    outputs: frozenset[_Output] = frozenset()
    between: frozenset[str] = frozenset()
    dequantising: frozenset[str] = frozenset()

    def output_reason(self, operator: Operator, slot: int) -> str | None:
        """Return the code of the reason why an output cannot be compared."""
        if operator.name in self.between:
            return "quantised"
        return "quant_output" if (operator.name, slot) in self.outputs else None

    def input_reason(self, operator: Operator, slot: int) -> str | None:
        """Return the code of the reason why an input cannot be compared."""
        if operator.name in self.between:
            return "quantised"
        if operator.name in self.dequantising:
            return "dequant_input"
        edge = operator.inputs[slot] if slot < len(operator.inputs) else None
        return "quantised_input" if edge and (edge.producer, edge.slot) in self.outputs else None


def find_quantised(graph: OperatorGraph) -> Quantised:
    """Follow quantised numbers through a compiled model or AMCT's rules, from quantisation to dequantisation."""
    outputs: set[_Output] = set()
    between: set[str] = set()
    dequantising: set[str] = set()
    for operator in sorted(graph.operators, key=lambda each: each.id):
        kinds = _kinds(operator)
        fed = any(edge is not None and (edge.producer, edge.slot) in outputs for edge in operator.inputs)
        if operator.op_type in DEQUANT_TYPES or operator.name.endswith(DEQUANT_ENDINGS):
            dequantising.add(operator.name)
        if fed and any(kind != "dequant" for kind in kinds):
            between.add(operator.name)
            kinds = ["quant"] * len(kinds)
        outputs.update((operator.name, slot) for slot, kind in enumerate(kinds) if kind == "quant")
    return Quantised(frozenset(outputs), frozenset(between), frozenset(dequantising))


def _kinds(operator: Operator) -> Sequence[str]:
    """Return for each output ``"quant"``, ``"dequant"`` or nothing; one stands for all where none is listed."""
    # The vendor goes by the type AscendQuant alone, whatever type the model gives the output.
    if operator.op_type in QUANT_TYPES:
        return ["quant"] * (len(operator.outputs) or 1)
    # No fragment holds the character between the names.
    names = "\n".join((operator.name, *operator.originals))
    quantises = any(fragment in names for fragment in QUANT_FRAGMENTS)
    dequantises = operator.op_type in DEQUANT_TYPES or any(fragment in names for fragment in DEQUANT_FRAGMENTS)
    kinds = []
    for output in operator.outputs or (OriginOutput(),):
        if quantises and (output.dtype in QUANTISED_DTYPES or (output.dtype is None and not dequantises)):
            kinds.append("quant")
        elif dequantises and (output.dtype in FLOAT_DTYPES or (output.dtype is None and not quantises)):
            kinds.append("dequant")
        else:
            kinds.append("")
    return kinds
