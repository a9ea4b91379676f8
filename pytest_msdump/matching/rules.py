"""The rule files of a comparison: which of them a pair of dumps needs, and what they say when taken together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_msdump.matching.groups import grouped
from pytest_msdump.model.graph import OperatorGraph
from pytest_msdump.model.report import NetworkOperator

if TYPE_CHECKING:
    from pytest_msdump.model.graph import Operator, OriginOutput

__all__ = ["FusionRules", "combined", "network_of"]


@dataclass(frozen=True, slots=True)
class FusionRules:
    """The rule files that were given.

    Parameters
    ----------
    model : OperatorGraph, optional
        The left side's compiled model (ATC's JSON).
    quant : OperatorGraph, optional
        What quantisation made of the original model (AMCT's JSON).
    close : OperatorGraph, optional
        The right side's model, compiled with fusion off (ATC's JSON).
    """

    model: OperatorGraph | None = None
    quant: OperatorGraph | None = None
    close: OperatorGraph | None = None

    @property
    def given(self) -> frozenset[str]:
        """Which of ``"model"``, ``"quant"`` and ``"close"`` there are."""
        return frozenset(name for name in ("model", "quant", "close") if getattr(self, name) is not None)

    @property
    def base(self) -> OperatorGraph | None:
        """The model whose operators the left side dumped."""
        return self.model or self.quant

    @property
    def label(self) -> str:
        """The files' names, as messages show them."""
        graphs = (self.model, self.quant, self.close)
        return " with ".join(graph.source for graph in graphs if graph is not None)


def combined(rules: FusionRules) -> OperatorGraph:
    """Return the left side's operators with the names that the right side uses for what they were.

    Parameters
    ----------
    rules : FusionRules
        At least `model` or `quant`.

    Returns
    -------
    OperatorGraph
        `model` itself, led on through `quant` or `close`; `quant` where it is alone. An origin that the second file
        does not know stays: quantisation and fusion leave many operators as they are.
    """
    from pytest_msdump.matching.groups import with_renamed
    from pytest_msdump.model.graph import OperatorGraph

    base = with_renamed(rules.base or OperatorGraph())
    if rules.model is None:
        return base
    if rules.close is not None:
        return _through_close(base, rules.close)
    return base if rules.quant is None else _through_quantisation(base, with_renamed(rules.quant))


def _through_quantisation(model: OperatorGraph, quant: OperatorGraph) -> OperatorGraph:
    operators = {operator.name: operator for operator in quant.operators}

    def origin(output: OriginOutput) -> OriginOutput:
        operator = operators.get(output.name)
        if operator is None:
            return output
        if output.index < len(operator.outputs):
            found = operator.outputs[output.index]
            return replace(output, name=found.name, index=found.index)
        # A file that lists no outputs leaves their numbers as they are.
        alone = not operator.outputs and len(operator.originals) == 1
        return replace(output, name=operator.originals[0] if alone else "")

    def originals(name: str) -> tuple[str, ...]:
        return operators[name].originals if name in operators else (name,)

    return replace(
        model,
        operators=tuple(
            replace(
                operator,
                originals=_distinct(original for name in operator.originals for original in originals(name)),
                outputs=tuple(map(origin, operator.outputs)),
            )
            for operator in model.operators
        ),
    )


def _through_close(model: OperatorGraph, close: OperatorGraph) -> OperatorGraph:
    from pytest_msdump.matching.groups import with_renamed

    places: dict[tuple[str, int], tuple[str, int]] = {}
    hosts: dict[str, dict[str, None]] = {}
    for operator in with_renamed(close).operators:
        # Where several operators make one original's output, the last of them has all of it.
        places.update({(out.name, out.index): (operator.name, k) for k, out in enumerate(operator.outputs) if out.name})
        for original in operator.originals:
            hosts.setdefault(original, {})[operator.name] = None
    return replace(model, operators=tuple(_renamed(operator, places, hosts) for operator in model.operators))


def _renamed(
    operator: Operator,
    places: Mapping[tuple[str, int], tuple[str, int]],
    hosts: Mapping[str, Mapping[str, None]],
) -> Operator:
    outputs = []
    for output in operator.outputs:
        name, index = places.get((output.name, output.index), (output.name, output.index))
        outputs.append(replace(output, name=name, index=index))
    originals = _distinct(host for name in operator.originals for host in hosts.get(name, (name,)))
    return replace(operator, originals=originals, outputs=tuple(outputs))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


# -- The operators of a compiled model as a table --------------------------------------------------------------------


_NOBODY = "*"


def network_of(graph: OperatorGraph) -> tuple[NetworkOperator, ...]:
    """Return the operators by group.

    Parameters
    ----------
    graph : OperatorGraph
        The left side's model, with the names that the right side uses (`matching.rules.combined`).
    """
    found: list[NetworkOperator] = []
    for number, (operators, originals, relation) in enumerate(grouped(graph)):
        left, right = tuple(operator.name for operator in operators), tuple(originals) or (_NOBODY,)
        found += [
            NetworkOperator(number, operator.id, operator.name, operator.op_type, left, right, relation)
            for operator in operators
        ]
    return tuple(found)
