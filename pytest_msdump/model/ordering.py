"""The one order of a dump's tensors (INTERFACE 9), for everybody who changes what the order depends on."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from pytest_msdump.model.tensor import Coordinates, TensorKey, TensorRef

__all__ = ["PARAMETER", "in_order", "placed_at", "placed_by_time"]

# The operator type of weights and network inputs. They are written after the step, so they have no place in it.
PARAMETER = "Parameter"


def in_order(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Sort tensors as reports list them.

    Parameters
    ----------
    refs : iterable of TensorRef
        In any order.

    Returns
    -------
    tuple of TensorRef
        By iteration, rank, net, graph, place, occurrence; within one operator inputs before outputs, by slot. Tensors
        without a place follow all others, by time, then name. The same files always give the same order.
    """
    tensors = list(refs)
    coordinates: dict[int, tuple[Any, ...]] = {}
    keys = [_key(ref, coordinates) for ref in tensors]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    # Hardly ever two tensors have all of this in common, and to write out very many paths takes time and memory.
    if any(keys[one] == keys[next_one] for one, next_one in pairwise(order)):
        keys = [(*key, ref.source.text) for key, ref in zip(keys, tensors, strict=True)]
        order.sort(key=keys.__getitem__)
    return tuple([tensors[number] for number in order])


def placed_by_time(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Give every operator the place that its earliest output has in time, within its own graph and iteration.

    Operators that dumped inputs only take their earliest input. Parameters have no place.

    Parameters
    ----------
    refs : iterable of TensorRef
        In any order.

    Returns
    -------
    tuple of TensorRef
        The same tensors in the order of `in_order`.
    """
    tensors = list(refs)
    # By run, then by operator. Tensors of one directory share their coordinates, which are looked at once.
    runs: dict[tuple[Any, ...], dict[tuple[str, str], list[TensorRef]]] = {}
    known: dict[int, dict[tuple[str, str], list[TensorRef]]] = {}
    placeless: list[TensorRef] = []
    for ref in tensors:
        op = ref.key.op
        if op.op_type == PARAMETER:
            placeless.append(placed_at(ref, None))
            continue
        operators = known.get(id(op.at))
        if operators is None:
            operators = known[id(op.at)] = runs.setdefault(_run(op.at), {})
        operator = (op.name, op.op_type or "")
        if operator in operators:
            operators[operator].append(ref)
        else:
            operators[operator] = [ref]
    placed: list[TensorRef] = []
    for run in sorted(runs):
        operators = runs[run]
        in_time = sorted([(_earliest(group), operator) for operator, group in operators.items()])
        for place, (_, operator) in enumerate(in_time):
            group = [placed_at(ref, place) for ref in operators[operator]]
            placed += group if len(group) == 1 else in_order(group)
    return (*placed, *in_order(placeless))


def _earliest(group: list[TensorRef]) -> int:
    """Return the earliest time of an operator's outputs, or of its inputs where there are no others."""
    if len(group) == 1:
        return group[0].source.timestamp or 0
    # False sorts before True: any output wins over every input.
    return min([(ref.key.io != "output", ref.source.timestamp or 0) for ref in group])[1]


def placed_at(ref: TensorRef, place: int | None, *, key: TensorKey | None = None) -> TensorRef:
    """Return the tensor with another place of its operator in the execution order, or another key as well."""
    if ref.place == place and key is None:
        return ref
    # Spelled out: a dump has very many tensors, and `dataclasses.replace` takes three times as long.
    return TensorRef(
        key or ref.key, ref.spec, ref.source, ref.reader, place, ref.line, ref.overflows, ref.statistics, ref.sample
    )


def _run(at: Coordinates) -> tuple[Any, ...]:
    """Return what tells the runs of a graph apart, as they are sorted."""
    return (_last(at.iteration), _last(at.rank), _last(at.net), _last(at.graph))


def _key(ref: TensorRef, coordinates: dict[int, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return what sorts a tensor, but for its path; `coordinates` keeps those that many tensors share, by identity."""
    key = ref.key
    op, at = key.op, key.op.at
    time = ref.source.timestamp or 0
    if ref.place is None:
        return (1, time, op.name, op.op_type or "", key.io, key.slot, time)
    where = coordinates.get(id(at))
    if where is None:
        where = coordinates[id(at)] = _run(at)
    return (0, where, ref.place, _last(at.occurrence), op.name, op.op_type or "", key.io, key.slot, time)


def _last(value: int | str | None) -> tuple[bool, Any]:
    """A sort key under which an unknown value comes after all known ones."""
    return (value is None, 0 if value is None else value)
