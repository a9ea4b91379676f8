"""The execution order and the true names of a dump's operators, as the JSON of the compiled model tells them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import Operator, OperatorGraph, file_spellings, joined_spelling
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
    operators, meant = graph.operators, _meant(graph)
    found = _found(dump.refs, meant)
    if not any(found):
        return dump
    refs = in_order([_placed(ref, operators, places) for ref, places in zip(dump.refs, found, strict=True)])
    older = zip(dump.older, _found(dump.older, meant), strict=True)
    return replace(dump, refs=refs, older=tuple([_placed(ref, operators, places) for ref, places in older]))


def _found(refs: Sequence[TensorRef], meant: Mapping[str, Sequence[int]]) -> list[Sequence[int]]:
    """Return for each tensor the operators of the model that may be its own."""
    return [meant.get(spelled, ()) for spelled in file_spellings([ref.key.op.name for ref in refs])]


def _meant(graph: OperatorGraph) -> Mapping[str, Sequence[int]]:
    """Number the operators of a model by each name that a dump may have for them."""
    names = graph.names
    spelled = file_spellings(names)
    meant: defaultdict[str, list[int]] = defaultdict(list)
    for place, spelling in enumerate(spelled):
        meant[spelling].append(place)
    for place, spelling in enumerate(spelled):
        joined = joined_spelling(names[place]) if "__" in spelling else None
        if joined and joined not in meant:
            meant[joined].append(place)
    return meant


def _placed(ref: TensorRef, operators: Sequence[Operator], places: Sequence[int]) -> TensorRef:
    key, op = ref.key, ref.key.op
    if op.op_type == PARAMETER:
        return placed_at(ref, None)
    if len(places) > 1:
        exact = [place for place in places if operators[place].name == op.true_name]
        places = exact or [place for place in places if operators[place].op_type == op.op_type]
    if len(places) != 1:
        return placed_at(ref, None)
    if op.true_name:
        return placed_at(ref, places[0])
    true_name = operators[places[0]].name
    return placed_at(ref, places[0], key=TensorKey(OpKey(op.name, op.at, op.op_type, true_name), key.io, key.slot))
