"""The execution order and the true names of a dump's operators, as the JSON of the compiled model tells them."""

from __future__ import annotations

from collections import defaultdict

from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import OperatorGraph, file_spelling, joined_spelling
from pytest_msdump.model.ordering import PARAMETER, in_order, placed_at
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef

__all__ = ["with_model_order"]


def with_model_order(dump: Dump, graph: OperatorGraph) -> Dump:
    """Give the operators of a dump their place in a compiled model, whatever their coordinates, and their true names.

    Parameters
    ----------
    dump : Dump
        As its reader indexed it; without an execution order of its own.
    graph : OperatorGraph
        The model that was run.

    Returns
    -------
    Dump
        The same tensors, sorted again. An operator that the model does not name has no place; when it names none at
        all, the dump stays as it was. A true name that a file told stays; a name in the dump that several of the
        model's are written as gets none, and a place only if its type tells which is meant.
    """
    meant: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for place, operator in enumerate(graph.operators):
        meant[file_spelling(operator.name)].append((place, operator.name, operator.op_type))
    for place, operator in enumerate(graph.operators):
        joined = joined_spelling(operator.name)
        if joined and joined not in meant:
            meant[joined].append((place, operator.name, operator.op_type))
    if not any(file_spelling(ref.key.op.name) in meant for ref in dump.refs):
        return dump
    refs = in_order([_placed(ref, meant) for ref in dump.refs])
    return replace(dump, refs=refs, older=tuple(_placed(ref, meant) for ref in dump.older))


def _placed(ref: TensorRef, meant: dict[str, list[tuple[int, str, str]]]) -> TensorRef:
    op = ref.key.op
    candidates = [] if op.op_type == PARAMETER else meant.get(file_spelling(op.name), [])
    if len(candidates) > 1:
        exact = [candidate for candidate in candidates if candidate[1] == op.true_name]
        candidates = exact or [candidate for candidate in candidates if candidate[2] == op.op_type]
    if len(candidates) != 1:
        return placed_at(ref, None)
    place, name, _ = candidates[0]
    if op.true_name:
        return placed_at(ref, place)
    return placed_at(ref, place, key=TensorKey(OpKey(op.name, op.at, op.op_type, name), ref.key.io, ref.key.slot))
