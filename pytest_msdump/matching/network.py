"""The operators of a compiled model as a table: who stands for what of the original model, and in which group."""

from __future__ import annotations

from typing import Any

from pytest_msdump.matching.groups import grouped
from pytest_msdump.model.graph import OperatorGraph

__all__ = ["network_of"]

_NOBODY = "*"


def network_of(graph: OperatorGraph) -> tuple[dict[str, Any], ...]:
    """Return one entry for each operator, by group, as reports hold it.

    Parameters
    ----------
    graph : OperatorGraph
        The left side's model, with the names that the right side uses (`matching.rules.combined`).

    Returns
    -------
    tuple of dict
        `index` is the number of the operator's group by first appearance, `sequence` its number in the model, `left`
        the names of the whole group, `right` the originals of the group (``["*"]`` without any), `relation` how these
        belong together.
    """
    entries: list[dict[str, Any]] = []
    for number, (operators, originals, relation) in enumerate(grouped(graph)):
        left, right = [operator.name for operator in operators], list(originals) or [_NOBODY]
        entries += [
            {
                "index": number,
                "sequence": operator.id,
                "name": operator.name,
                "op_type": operator.op_type,
                "left": left,
                "right": right,
                "relation": relation,
            }
            for operator in operators
        ]
    return tuple(entries)
