"""What a rule file says of each tensor of the left side: whom it was, or why nobody knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pytest_msdump.facts.operators import (
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
from pytest_msdump.matching.rules import FusionRules, combined
from pytest_msdump.model.graph import Edge, Operator, OperatorGraph, OriginOutput
from pytest_msdump.text import Message, Parameter

__all__ = ["Rulebook", "Wish"]

# (operator, output slot)
_Output = tuple[str, int]

_UNLISTED = (OriginOutput(),)
_TYPES = QUANT_TYPES | DEQUANT_TYPES


@dataclass(frozen=True, slots=True)
class Quantised:
    """The quantised part of a model.

    Parameters
    ----------
    outputs : frozenset of (str, int)
        Outputs that hold quantised numbers.
    between : frozenset of str
        Operators that compute with quantised numbers: nothing of them can be compared.
    dequantising : frozenset of str
        Operators whose inputs are quantised and whose outputs are not.
    """

    outputs: frozenset[_Output] = frozenset()
    between: frozenset[str] = frozenset()
    dequantising: frozenset[str] = frozenset()

    def output_reason(self, operator: Operator, slot: int) -> str | None:
        """Return the key of the reason why an output cannot be compared."""
        if operator.name in self.between:
            return "quantised"
        return "quant_output" if (operator.name, slot) in self.outputs else None

    def input_reason(self, operator: Operator, slot: int) -> str | None:
        """Return the key of the reason why an input cannot be compared."""
        if operator.name in self.between:
            return "quantised"
        if operator.name in self.dequantising:
            return "dequant_input"
        edge = operator.inputs[slot] if slot < len(operator.inputs) else None
        return "quantised_input" if edge and (edge.producer, edge.slot) in self.outputs else None


def find_quantised(graph: OperatorGraph) -> Quantised:
    """Follow quantised numbers through a model, from quantisation to dequantisation.

    Parameters
    ----------
    graph : OperatorGraph
        A compiled model, or the rules of AMCT.

    Returns
    -------
    Quantised
        Empty for a model without quantisation.

    Notes
    -----
    A name alone says little (``stats.quantile``): an output is a quantisation's only if the model gives it an integer
    type of few bits, and a dequantisation's only if it is floating point.
    """
    if not _may_be_quantised(graph):
        return Quantised()
    outputs: set[_Output] = set()
    between: set[str] = set()
    dequantising: set[str] = set()
    for operator in sorted(graph.operators, key=lambda each: each.id):
        kinds = _kinds(operator)
        fed = bool(outputs) and any(
            edge is not None and (edge.producer, edge.slot) in outputs for edge in operator.inputs
        )
        if _ends_as_dequantisation(operator):
            dequantising.add(operator.name)
        if fed and kinds and any(kind != "dequant" for kind in kinds):
            between.add(operator.name)
            kinds = ["quant"] * len(kinds)
        outputs.update((operator.name, slot) for slot, kind in enumerate(kinds) if kind == "quant")
    return Quantised(frozenset(outputs), frozenset(between), frozenset(dequantising))


def _may_be_quantised(graph: OperatorGraph) -> bool:
    """Whether to look at each operator: all names at once, as most models have no such name."""
    if any(operator.op_type in _TYPES for operator in graph.operators):
        return True
    names = "\n".join(["\n".join((operator.name, *operator.originals)) for operator in graph.operators])
    return _any_in((*QUANT_FRAGMENTS, *DEQUANT_FRAGMENTS, *DEQUANT_ENDINGS), names)


def _kinds(operator: Operator) -> Sequence[str]:
    """Return for each output ``"quant"``, ``"dequant"`` or nothing."""
    # Fragments do not hold the character between the names.
    names = "\n".join((operator.name, *operator.originals))
    quantises = operator.op_type in QUANT_TYPES or _any_in(QUANT_FRAGMENTS, names)
    dequantises = operator.op_type in DEQUANT_TYPES or _any_in(DEQUANT_FRAGMENTS, names)
    if not (quantises or dequantises):
        return [""] * (len(operator.outputs) or 1)
    kinds = []
    for output in operator.outputs or _UNLISTED:
        if quantises and (output.dtype in QUANTISED_DTYPES or (output.dtype is None and not dequantises)):
            kinds.append("quant")
        elif dequantises and (output.dtype in FLOAT_DTYPES or (output.dtype is None and not quantises)):
            kinds.append("dequant")
        else:
            kinds.append("")
    # AscendQuant alone is enough for the vendor, whatever type the model gives.
    return ["quant"] * len(kinds) if operator.op_type in QUANT_TYPES else kinds


def _ends_as_dequantisation(operator: Operator) -> bool:
    return operator.op_type in DEQUANT_TYPES or operator.name.endswith(DEQUANT_ENDINGS)


def _any_in(fragments: Iterable[str], names: str) -> bool:
    for fragment in fragments:  # noqa: SIM110 - a generator for each operator takes most of the time
        if fragment in names:
            return True
    return False


# -- What a rule file says of each tensor of the left side -----------------------------------------------------------


_MOST_ORIGINALS = 8

# Whose outputs are not, or not only, what they say that they were.
_SPECIAL_TYPES = frozenset({*AIPP_TYPES, *CARRIER_TYPES, *UNDUMPED_TYPES})


class Wish(NamedTuple):
    """Whom a left tensor is to be compared with.

    Parameters
    ----------
    origins : tuple of OriginOutput
        Tensors of the right side, best first; empty when there is none.
    by : str
        Which rule says so.
    reason : Message, optional
        Why there is none.
    expected : bool
        Whether both sides are bound to have dumped it, so that one of them alone is a loss.
    """

    origins: tuple[OriginOutput, ...] = ()
    by: str = ""
    reason: Message | None = None
    expected: bool = True


class Rulebook:
    """The rule files, ready to be asked about single tensors.

    Parameters
    ----------
    rules : FusionRules
        At least `model` or `quant`.
    """

    def __init__(self, rules: FusionRules) -> None:
        graph = combined(rules)
        self.label = rules.label
        self.operators = {operator.name: operator for operator in graph.operators}
        # Quantisation is to be seen in the left side's own names, not in those of the original.
        self._quantised = find_quantised(rules.base or graph)
        self._is_quantised = self._quantised != Quantised()
        self._before_aipp = {
            edge.producer
            for operator in graph.operators
            if operator.op_type in AIPP_TYPES
            for edge in operator.inputs
            if edge is not None
        }
        self._graph = graph

    @cached_property
    def _makers(self) -> Mapping[str, Sequence[tuple[Operator, int, OriginOutput]]]:
        """By the name of a right operator; nobody asks where every right tensor has its partner."""
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
        makers = {output.name for operator in operators for output in _outputs_of(operator) if output.name}
        return frozenset(makers.union(*(operator.originals for operator in operators)))

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

    def wish(self, operator: Operator, io: str, slot: int, dumped_inputs: int) -> Wish:
        """Return what the rules say of one tensor.

        Parameters
        ----------
        operator : Operator
            Whose tensor.
        io, slot : str, int
            Which of its tensors, as the dump numbers them.
        dumped_inputs : int
            How many inputs the dump has of this operator.

        Returns
        -------
        Wish
            Never without both origins and reason.
        """
        if io == "output" and (own := self._plainly(operator, slot)):
            return own
        if reason := self._barred(operator, io, slot):
            return Wish(reason=reason)
        if io == "output":
            return self._followed(operator, operator.name, slot, operator)
        position = _position(operator, slot, dumped_inputs)
        if position is None:
            return Wish(reason=self._say("no_slot", operator.name, io=io, slot=slot))
        edge = operator.inputs[position]
        if edge is None:
            return Wish(reason=self._say("unconnected", operator.name, slot=slot))
        if reason_key := self._quantised.input_reason(operator, position):
            return Wish(reason=Message(reason_key))
        return self._followed(operator, edge.producer, edge.slot, None)

    def undumped(self, operator: Operator) -> Message | None:
        """Return why an operator's type never dumps; ``None`` when it does."""
        key = UNDUMPED_TYPES.get(operator.op_type)
        return None if key is None else Message(key)

    def output_barred(self, operator: Operator, slot: int) -> Message | None:
        """Return why an output cannot be compared although it has an origin; ``None`` when it can."""
        return self._barred(operator, "output", slot)

    def _barred(self, operator: Operator, io: str, slot: int) -> Message | None:
        if self._is_quantised and io == "output" and (key := self._quantised.output_reason(operator, slot)):
            return Message(key)
        inner = operator.is_multiop and not any(output.name for output in operator.outputs)
        return Message("inner") if inner else None

    def _plainly(self, operator: Operator, slot: int) -> Wish | None:
        """Return what an output was where it says so itself and nothing is in the way, as nearly always."""
        is_special = operator.op_type in _SPECIAL_TYPES or operator.is_multiop or self._is_quantised
        if is_special or operator.name in self._before_aipp:
            return None
        origin = _origin(operator, slot)
        return Wish((origin,), self._by(operator, operator)) if origin is not None and origin.name else None

    def _followed(self, asked: Operator, producer: str, slot: int, own: Operator | None) -> Wish:
        """Walk to what a tensor was: through Cast and TransData, which carry it on."""
        trail = self._trail(producer, slot)
        if not trail:
            return Wish(reason=self._say("unknown_producer", producer))
        origins = tuple([origin for _, origin in trail if origin is not None and origin.name])
        end, _ = trail[-1]
        if end.name in self._before_aipp or end.op_type in AIPP_TYPES:
            return Wish(reason=self._say("aipp", end.name))
        if not origins:
            lacking = self._lacking(end, trail[-1][1], slot)
            return Wish(reason=lacking if own else Message("fed_by", {"op": end.name, "why": lacking}))
        expected = end.op_type not in UNDUMPED_TYPES and asked.op_type not in UNDUMPED_TYPES
        return Wish(origins, self._by(asked if own else None, end), None, expected)

    def _trail(self, producer: str, slot: int) -> Sequence[tuple[Operator, OriginOutput | None]]:
        first = self.operators.get(producer)
        # Nearly all tensors are what they are: nothing carries them.
        if first is None or first.op_type not in CARRIER_TYPES:
            return () if first is None else ((first, _origin(first, slot)),)
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

    def _by(self, own: Operator | None, end: Operator) -> str:
        """Name the file and the originals; of a tensor that is carried on, the originals of where it comes from."""
        if own is not None and own.originals:
            return f"{self.label}: {_joined(own.originals)}"
        return f"{self.label}: fed by {_joined(end.originals or (end.name,))}"

    def _say(self, code: str, op: str, **values: Parameter) -> Message:
        return Message(code, {"rule": self.label, "op": op, **values})


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


def _position(operator: Operator, slot: int, dumped: int) -> int | None:
    """Return which input of the model a dumped input is: dumps may or may not count those that are not connected."""
    connected = [position for position, edge in enumerate(operator.inputs) if edge is not None]
    positions = connected if dumped == len(connected) else range(len(operator.inputs))
    return positions[slot] if slot < len(positions) else None


def _joined(originals: Sequence[str]) -> str:
    more = len(originals) - _MOST_ORIGINALS
    return " + ".join(originals[:_MOST_ORIGINALS]) + (f" and {more} more" if more > 0 else "")
