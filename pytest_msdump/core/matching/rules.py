"""The rule files of a comparison: what they say together, and which operators stand for the same originals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pytest_msdump.core.model.graph import Operator, OperatorGraph, OriginOutput
from pytest_msdump.core.model.report import NetworkOperator


@dataclass(frozen=True, slots=True)
class FusionRules:
    """The rule files that were given."""

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
        return " with ".join(graph.source for graph in (self.model, self.quant, self.close) if graph is not None)


def combined(rules: FusionRules) -> OperatorGraph:
    """Return the left side's operators, each with the names that the right side uses for its originals."""
    base = with_origins(rules.base or OperatorGraph())
    if rules.model is None:
        return base
    if rules.close is not None:
        return _through_close(base, with_origins(rules.close))
    return base if rules.quant is None else _through_quantisation(base, with_origins(rules.quant))


def _through_quantisation(model: OperatorGraph, quant: OperatorGraph) -> OperatorGraph:
    known = {operator.name: operator for operator in quant.operators}

    def origin(output: OriginOutput) -> OriginOutput:
        operator = known.get(output.name)
        if operator is None:
            return output
        if output.index < len(operator.outputs):
            found = operator.outputs[output.index]
            return replace(output, name=found.name, index=found.index)
        # A file that lists no outputs leaves their numbers as they are.
        alone = not operator.outputs and len(operator.originals) == 1
        return replace(output, name=operator.originals[0] if alone else "")

    def renamed(operator: Operator) -> Operator:
        names = (known[name].originals if name in known else (name,) for name in operator.originals)
        return replace(operator, originals=_distinct(names), outputs=tuple(map(origin, operator.outputs)))

    return replace(model, operators=tuple(map(renamed, model.operators)))


def _through_close(model: OperatorGraph, close: OperatorGraph) -> OperatorGraph:
    places: dict[tuple[str, int], tuple[str, int]] = {}
    hosts: dict[str, dict[str, None]] = {}
    for operator in close.operators:
        # Where several operators make one original's output, the last of them has all of it.
        places.update({(out.name, out.index): (operator.name, k) for k, out in enumerate(operator.outputs) if out.name})
        for original in operator.originals:
            hosts.setdefault(original, {})[operator.name] = None

    def origin(output: OriginOutput) -> OriginOutput:
        name, index = places.get((output.name, output.index), (output.name, output.index))
        return replace(output, name=name, index=index)

    def renamed(operator: Operator) -> Operator:
        names = (hosts.get(name, (name,)) for name in operator.originals)
        return replace(operator, originals=_distinct(names), outputs=tuple(map(origin, operator.outputs)))

    return replace(model, operators=tuple(map(renamed, model.operators)))


def _distinct(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))


@dataclass(frozen=True, slots=True)
class FusedGroup:
    """One or more operators of the compiled model, in its order, and the operators of the original model they were."""

    number: int
    operators: tuple[Operator, ...]
    originals: tuple[str, ...]
    relation: str


def group_operators(graph: OperatorGraph) -> tuple[FusedGroup, ...]:
    """Group the operators that have the same originals, or are of one L1 fusion group; each is in exactly one."""
    members: dict[tuple[str, ...] | str, list[Operator]] = {}
    for operator in graph.operators:
        key = f"L1 {operator.l1_group}" if operator.l1_group else operator.originals or f"inserted {operator.name}"
        members.setdefault(key, []).append(operator)
    return tuple(
        FusedGroup(
            number, tuple(operators), _distinct(operator.originals for operator in operators), _relation(operators)
        )
        for number, operators in enumerate(members.values())
    )


def _relation(operators: list[Operator]) -> str:
    first = operators[0]
    if first.l1_group:
        return "L1"
    if not first.originals:
        return "inserted"
    return f"{'one' if len(first.originals) == 1 else 'many'}-to-{'one' if len(operators) == 1 else 'many'}"


def with_origins(graph: OperatorGraph) -> OperatorGraph:
    """Where one operator alone stands for one original, let its outputs without an origin be that original's."""
    # Most models of up to 100,000 operators lack nothing.
    if all(output.name for operator in graph.operators for output in operator.outputs):
        return graph
    renamed: dict[str, Operator] = {}
    for group in group_operators(graph):
        if group.relation == "one-to-one":
            (operator,), (original,) = group.operators, group.originals
            outputs = tuple(output if output.name else replace(output, name=original) for output in operator.outputs)
            renamed[operator.name] = replace(operator, outputs=outputs)
    return replace(graph, operators=tuple(renamed.get(operator.name, operator) for operator in graph.operators))


def network_of(graph: OperatorGraph) -> tuple[NetworkOperator, ...]:
    """Return a combined graph's operators by group, for the report; ``*`` stands for no original."""
    return tuple(
        NetworkOperator(
            group.number,
            operator.id,
            operator.name,
            operator.op_type,
            tuple(each.name for each in group.operators),
            group.originals or ("*",),
            group.relation,
        )
        for group in group_operators(graph)
        for operator in group.operators
    )
