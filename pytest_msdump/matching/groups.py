"""Operators of a compiled model that stand for the same part of the original model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_msdump.model.graph import Operator, OperatorGraph

__all__ = ["Group", "group_operators", "grouped", "with_renamed"]


@dataclass(frozen=True, slots=True)
class Group:
    """One or more operators of the compiled model, and what they were.

    Parameters
    ----------
    number : int
        By first appearance in the model, from 0.
    operators : tuple of Operator
        In the model's order.
    originals : tuple of str
        Operators of the original model, each once; empty for one that the compiler inserted.
    relation : str
        ``"one-to-one"``, ``"many-to-one"`` (several originals in one operator), ``"one-to-many"``,
        ``"many-to-many"``, ``"inserted"``, or ``"L1"``.
    """

    number: int
    operators: tuple[Operator, ...]
    originals: tuple[str, ...]
    relation: str


def group_operators(graph: OperatorGraph) -> tuple[Group, ...]:
    """Put together the operators that have the same originals, or are of one L1 fusion group.

    Parameters
    ----------
    graph : OperatorGraph
        A compiled model.

    Returns
    -------
    tuple of Group
        Every operator is in exactly one.
    """
    return tuple(
        Group(number, tuple(operators), originals, relation)
        for number, (operators, originals, relation) in enumerate(grouped(graph))
    )


def grouped(graph: OperatorGraph) -> Iterator[tuple[Sequence[Operator], tuple[str, ...], str]]:
    """Yield the operators, the originals and the relation of each of the same groups."""
    members: dict[tuple[str, ...] | str, list[Operator]] = {}
    for operator in graph.operators:
        members.setdefault(_key(operator), []).append(operator)
    for operators in members.values():
        yield operators, _originals(operators), _relation(operators)


def with_renamed(graph: OperatorGraph) -> OperatorGraph:
    """Fill in what a renamed operator was.

    Parameters
    ----------
    graph : OperatorGraph
        A compiled model.

    Returns
    -------
    OperatorGraph
        Where one operator alone stands for one original, its outputs without an origin are that original's.
    """
    # Models have up to 100,000 operators: most lack nothing, and those that lack nothing are not made anew.
    if all(output.name for operator in graph.operators for output in operator.outputs):
        return graph
    renamed: Mapping[str, Operator] = {
        group.operators[0].name: _renamed(group.operators[0])
        for group in group_operators(graph)
        if group.relation == "one-to-one" and not all(output.name for output in group.operators[0].outputs)
    }
    return replace(graph, operators=tuple(renamed.get(operator.name, operator) for operator in graph.operators))


def _key(operator: Operator) -> tuple[str, ...] | str:
    """What its group has in common: the originals, else a text."""
    if operator.l1_group:
        return f"L1 {operator.l1_group}"
    return operator.originals or f"inserted {operator.name}"


def _originals(operators: list[Operator]) -> tuple[str, ...]:
    first = operators[0].originals
    if len(operators) == 1:
        return tuple(dict.fromkeys(first)) if len(first) > 1 else first
    return tuple(dict.fromkeys(name for operator in operators for name in operator.originals))


def _relation(operators: list[Operator]) -> str:
    first = operators[0]
    if first.l1_group:
        return "L1"
    if not first.originals:
        return "inserted"
    return f"{'one' if len(first.originals) == 1 else 'many'}-to-{'one' if len(operators) == 1 else 'many'}"


def _renamed(operator: Operator) -> Operator:
    (original,) = operator.originals
    outputs = tuple(output if output.name else replace(output, name=original) for output in operator.outputs)
    return replace(operator, outputs=outputs)
