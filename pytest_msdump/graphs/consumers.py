"""Who takes a tensor of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_msdump.model.graph import Edge, OperatorGraph

__all__ = ["consumers"]


def consumers(graph: OperatorGraph) -> Mapping[Edge, tuple[tuple[str, int], ...]]:
    """List for each tensor the inputs that it feeds.

    Parameters
    ----------
    graph : OperatorGraph
        Any.

    Returns
    -------
    mapping of Edge to tuple of (str, int)
        Operators and their input slots, in execution order. Tensors that feed nothing are left out.

    Examples
    --------
    >>> from pytest_msdump.model.graph import Operator
    >>> add = Operator("add", "Add", inputs=(Edge("conv", 0), Edge("conv", 0)))
    >>> dict(consumers(OperatorGraph((Operator("conv", "Conv2D"), add))))
    {Edge(producer='conv', slot=0, is_parameter=False): (('add', 0), ('add', 1))}
    """
    found: dict[Edge, list[tuple[str, int]]] = {}
    for operator in graph.operators:
        for slot, edge in enumerate(operator.inputs):
            if edge is not None:
                found.setdefault(edge, []).append((operator.name, slot))
    return {edge: tuple(inputs) for edge, inputs in found.items()}
