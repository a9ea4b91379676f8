"""The one order of a dump's tensors (INTERFACE 9), for everybody who changes what the order depends on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_msdump.model.tensor import TensorRef

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
    return tuple(sorted(refs, key=_key))


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
    earliest: dict[tuple[Any, ...], dict[tuple[str, str], tuple[bool, int]]] = {}
    for ref in tensors:
        if ref.key.op.op_type == PARAMETER:
            continue
        operators = earliest.setdefault(_run(ref), {})
        # False sorts before True: any output wins over every input.
        time = (ref.key.io != "output", ref.source.timestamp or 0)
        operators[_operator(ref)] = min(operators.get(_operator(ref), time), time)
    places = {
        (run, operator): place
        for run, operators in earliest.items()
        for place, operator in enumerate(sorted(operators, key=lambda each: (operators[each][1], each)))
    }
    return in_order(placed_at(ref, places.get((_run(ref), _operator(ref)))) for ref in tensors)


def placed_at(ref: TensorRef, place: int | None) -> TensorRef:
    """Return the tensor with another place of its operator in the execution order."""
    if ref.place == place:
        return ref
    # Spelled out: a dump has very many tensors, and `dataclasses.replace` takes three times as long.
    return TensorRef(
        ref.key, ref.spec, ref.source, ref.reader, place, ref.line, ref.overflows, ref.statistics, ref.sample
    )


def _run(ref: TensorRef) -> tuple[Any, ...]:
    at = ref.key.op.at
    return (at.rank, at.net, at.graph, at.iteration)


def _operator(ref: TensorRef) -> tuple[str, str]:
    return (ref.key.op.name, ref.key.op.op_type or "")


def _key(ref: TensorRef) -> tuple[Any, ...]:
    op, at = ref.key.op, ref.key.op.at
    time = ref.source.timestamp or 0
    tensor = (op.name, op.op_type or "", ref.key.io, ref.key.slot, time, str(ref.source.path))
    if ref.place is None:
        return (1, time, *tensor)
    coordinates = (_last(at.iteration), _last(at.rank), _last(at.net), _last(at.graph))
    return (0, *coordinates, ref.place, _last(at.occurrence), *tensor)


def _last(value: int | str | None) -> tuple[bool, Any]:
    """A sort key under which an unknown value comes after all known ones."""
    return (value is None, 0 if value is None else value)
