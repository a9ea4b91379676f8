"""The operators of a compiled model as a table: who stands for what of the original model, and in which group."""

from __future__ import annotations

from pytest_msdump.matching.groups import grouped
from pytest_msdump.model.graph import OperatorGraph
from pytest_msdump.model.report import NetworkOperator

__all__ = ["network_of"]

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
