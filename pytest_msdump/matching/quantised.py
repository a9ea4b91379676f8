"""Which tensors of a quantised model hold quantised numbers, so that they cannot be compared with the original's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_msdump.facts.operators import (
    DEQUANT_ENDINGS,
    DEQUANT_FRAGMENTS,
    DEQUANT_TYPES,
    FLOAT_DTYPES,
    QUANT_FRAGMENTS,
    QUANT_TYPES,
    QUANTISED_DTYPES,
)
from pytest_msdump.model.graph import Operator, OperatorGraph, OriginOutput

__all__ = ["Quantised", "find_quantised"]

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
