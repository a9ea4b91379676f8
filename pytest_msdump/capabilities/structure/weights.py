"""Pairing the weights of a training step, and what is kept beside each: its gradient, momentum and moments.

Frameworks name them differently (``moments.bn1.gamma`` and ``bn1.weight.momentum_buffer``); MindSpore calls a gradient
after the operator that made it, and its graph says to which weight an optimizer applies it. No values are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pytest_msdump.capabilities.structure.scopes import ScopeRun
from pytest_msdump.core.facts.checks import OPTIMIZERS
from pytest_msdump.core.matching.kinds import WeightName, is_weight, weight_name
from pytest_msdump.core.model.dump import Edge, OperatorGraph


def states_of(run: ScopeRun) -> Mapping[WeightName, int]:
    """Return the weights, and what is kept beside each of them, as positions in `Side.refs`."""
    labels: dict[str, int] = {}
    named: defaultdict[WeightName, dict[tuple[int, int], None]] = defaultdict(dict)
    for number in run.numbers:
        key = run.side.ops[number].key
        labels[key.label] = number
        if is_weight(key) and (name := weight_name(key.label)) is not None:
            named[name][number, 0] = None
    for parameter, source in _gradients(run.graph) if run.graph is not None and not run.graph.is_recorded else ():
        if (name := weight_name(parameter)) is not None and source.producer in labels:
            named[name._replace(state="gradient")][labels[source.producer], source.slot] = None
    places = ((name, *places) for name, (places, *more) in ((name, [*own]) for name, own in named.items()) if not more)
    tensors = {name: run.side.ops[number].tensors.get(("output", slot)) for name, number, slot in places}
    return {name: ref for name, ref in tensors.items() if ref is not None}


def _gradients(graph: OperatorGraph) -> Iterator[tuple[str, Edge]]:
    """Yield each weight that an optimizer writes with the one tensor from outside of the optimizer that it takes."""
    operators = {operator.name: operator for operator in graph.operators}
    for operator in graph.operators:
        weight = operator.inputs[0] if operator.inputs else None
        if weight is None or not weight.is_parameter or not operator.op_type.lower().startswith(OPTIMIZERS):
            continue
        outside: dict[tuple[str, int], Edge] = {}
        waiting: list[Sequence[Edge | None]] = [operator.inputs]
        seen: set[str] = set()
        while waiting:
            for edge in waiting.pop():
                if edge is None or edge.is_parameter or edge.producer in seen:
                    continue
                if "/optimizer" in edge.producer and edge.producer in operators:
                    seen.add(edge.producer)
                    waiting.append(operators[edge.producer].inputs)
                else:
                    outside[edge.producer, edge.slot] = edge
        if len(outside) == 1:
            yield weight.producer, next(iter(outside.values()))
