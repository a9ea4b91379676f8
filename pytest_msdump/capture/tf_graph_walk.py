"""Which tensors of a graph of ``tf.compat.v1`` a run computes, and which of them a session gives out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pytest_msdump.capture.tf_values import has_numbers

__all__ = ["Reached", "reached", "tensors_of"]

# What begins and ends one side of a condition, and the inside of a loop: there, tensors have no value, or many.
_SWITCHES, _MERGES = ("Switch", "RefSwitch"), ("Merge", "RefMerge")
_ENTERS, _EXITS = ("Enter", "RefEnter"), ("Exit", "RefExit")
_VARIABLES = ("Variable", "VariableV2")


class Reached(NamedTuple):
    """Operations that a run computes, in the graph's order.

    Parameters
    ----------
    operations : list
        Those that have tensors to give out.
    early : frozenset
        Those of them that hand out the memory of a variable which this run writes to: what a session gives for one is
        what the variable holds at the end.
    """

    operations: list[Any]
    early: frozenset[Any]


def reached(graph: Any, fetches: Iterable[Any], fed: Iterable[Any]) -> Reached:
    """Return what computing `fetches` needs, when the tensors `fed` are given.

    Parameters
    ----------
    graph : tf.Graph
        Of both.
    fetches : iterable of tf.Tensor or tf.Operation
        What the run is asked for.
    fed : iterable of tf.Tensor
        What needs no computation.
    """
    given = {tensor.ref() for tensor in fed}
    found: set[Any] = set()
    waiting = list(fetches)
    while waiting:
        item = waiting.pop()
        if hasattr(item, "ref") and item.ref() in given:
            found.add(item.op)
            continue
        operation = getattr(item, "op", item)
        if operation not in found:
            found.add(operation)
            waiting += [*operation.inputs, *operation.control_inputs]
    in_order = [operation for operation in graph.get_operations() if operation in found]
    uncertain = _uncertain(in_order)
    operations = [
        operation
        for operation in in_order
        if operation not in uncertain and any(tensor is not None for tensor in tensors_of(graph, operation))
    ]
    return Reached(operations, _early(in_order, operations))


def tensors_of(graph: Any, operation: Any) -> list[Any]:
    """The outputs of an operation by slot; ``None`` where a session gives out none, or one without numbers."""
    return [
        tensor if graph.is_fetchable(tensor) and has_numbers(tensor.dtype) else None for tensor in operation.outputs
    ]


def _uncertain(operations: Iterable[Any]) -> set[Any]:
    """Operations inside of loops, and on one side of a condition, which may have no value."""
    depths: dict[Any, tuple[int, int]] = {}
    for operation in operations:
        before = {*(tensor.op for tensor in operation.inputs), *operation.control_inputs}
        # What a loop brings back is made later, and no deeper than what enters it.
        known = [depths[one] for one in before if one in depths]
        conditions, loops = (max((depth[side] for depth in known), default=0) for side in (0, 1))
        begins_loop = any(one.type in _ENTERS for one in before)
        conditions += (operation.type in _SWITCHES) - (operation.type in _EXITS)
        conditions -= operation.type in _MERGES and not begins_loop
        loops += (operation.type in _ENTERS) - (operation.type in _EXITS)
        depths[operation] = (conditions, loops)
    return {operation for operation, depth in depths.items() if max(depth) > 0}


def _early(computed: Iterable[Any], recorded: Iterable[Any]) -> frozenset[Any]:
    """Variables without a handle that are written to, and what reads them at the start of the run."""
    written = {
        tensor.op
        for operation in computed
        for tensor in operation.inputs
        if tensor.dtype._is_ref_dtype and any(output.dtype._is_ref_dtype for output in operation.outputs)
    }
    return frozenset(
        operation
        for operation in recorded
        if operation in written
        or (operation.type == "Identity" and operation.inputs[0].op in written and not operation.control_inputs)
        if operation.type in (*_VARIABLES, "Identity")
    )
