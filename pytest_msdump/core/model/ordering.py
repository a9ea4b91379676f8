"""The order of a dump's tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_msdump.core.model.tensor import Coordinates, TensorKey, TensorRef, TensorSource

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import PartialRun

# The operator type of weights and network inputs. They are written after the step, so they have no place in it.
PARAMETER = "Parameter"

# Place and time of what has neither.
_LISTED = (1, 0)
_NUMBER = re.compile(r"([0-9]+)")


def in_order(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Sort tensors as reports list them: by iteration, rank, net, graph, place, occurrence.

    Within an operator inputs come before outputs, by slot. Tensors without a place follow the others of their
    iteration, by time, then name: weights are written after the step, and the next step starts from them. Where there
    is no time either, numbers in names count as numbers. The same files always give the same order.
    """
    return tuple(sorted(refs, key=_sort_key))


def placed_by_time(refs: Iterable[TensorRef], partial: PartialRun | None = None) -> tuple[TensorRef, ...]:
    """Place every operator by the time of its earliest output (or input) within its graph and iteration, and sort.

    Parameters have no place. `partial` is a second run that wrote only some of the tensors: their operators keep the
    places of the first run.
    """
    since = partial.since if partial else {}
    placed: list[TensorRef] = []
    runs: dict[tuple[Any, ...], dict[tuple[str, str], list[TensorRef]]] = {}
    for ref in refs:
        op = ref.key.op
        if op.op_type == PARAMETER:
            placed.append(placed_at(ref, None))
        else:
            operators = runs.setdefault(_run_key(op.at), {})
            operators.setdefault((op.name, op.op_type or ""), []).append(ref)
    for operators in runs.values():
        times = sorted((_earliest(group, since), operator) for operator, group in operators.items())
        for place, (_, operator) in enumerate(times):
            placed += [placed_at(ref, place) for ref in operators[operator]]
    return in_order(placed)


def placed_at(ref: TensorRef, place: int | None, *, key: TensorKey | None = None) -> TensorRef:
    """Return the tensor with another place of its operator in the execution order, or another key as well."""
    if ref.place == place and key is None:
        return ref
    # Spelled out: a dump has very many tensors, and `dataclasses.replace` takes three times as long.
    return TensorRef(
        key or ref.key,
        ref.spec,
        ref.source,
        ref.reader,
        place,
        ref.line,
        ref.overflows,
        ref.statistics,
        ref.sample,
        ref.computed,
        ref.sketch,
        ref.placement,
        ref.parts,
    )


def _earliest(group: list[TensorRef], since: Mapping[TensorSource, int]) -> int:
    """Return the earliest time of an operator's outputs, or of its inputs where there are no others."""
    # False sorts before True: any output wins over every input.
    return min((ref.key.io != "output", since.get(ref.source, ref.source.timestamp or 0)) for ref in group)[1]


def _sort_key(ref: TensorRef) -> tuple[Any, ...]:
    key, at = ref.key, ref.key.op.at
    iteration, *where = _run_key(at)
    time = ref.source.timestamp or 0
    place = (1, time) if ref.place is None else (0, *where, ref.place, _unknown_last(at.occurrence))
    return (
        iteration,
        place,
        _natural(key.op.name) if place == _LISTED else key.op.name,
        key.op.op_type or "",
        key.io,
        key.slot,
        time,
        str(ref.source.folder),
        ref.source.name,
    )


def _natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Return a sort key with which ``conv2`` is before ``conv10``; numbers may be longer than `int` takes."""
    parts: list[str | tuple[int, str]] = [*_NUMBER.split(name)]
    for place in range(1, len(parts), 2):
        digits = str(parts[place])
        parts[place] = (len(digits.lstrip("0")), digits.lstrip("0"))
    return parts, name


def _run_key(at: Coordinates) -> tuple[Any, ...]:
    # As `_unknown_last` has it, without a call for each: a dump has very many tensors.
    return (
        (at.iteration is None, at.iteration or 0),
        (at.rank is None, at.rank or 0),
        (at.net is None, at.net or ""),
        (at.graph is None, at.graph or 0),
    )


def _unknown_last(value: int | str | None) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)
