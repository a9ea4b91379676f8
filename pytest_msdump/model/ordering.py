"""The order of a dump's tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.model.tensor import Coordinates, TensorKey, TensorRef, TensorSource

if TYPE_CHECKING:
    from pytest_msdump.model.dump import PartialRun

__all__ = ["PARAMETER", "in_order", "placed_at", "placed_by_time"]

# The operator type of weights and network inputs. They are written after the step, so they have no place in it.
PARAMETER = "Parameter"


def in_order(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Sort tensors as reports list them: by iteration, rank, net, graph, place, occurrence.

    Within an operator inputs come before outputs, by slot. Tensors without a place follow the others of their
    iteration, by time, then name: weights are written after the step, and the next step starts from them. The same
    files always give the same order.
    """
    tensors = list(refs)
    if _is_in_order(tensors):
        return tuple(tensors)
    coordinates: dict[int, tuple[Any, ...]] = {}
    # Where operators have one tensor each, their places alone are the order.
    places = [_place(ref, coordinates) for ref in tensors]
    if len(set(places)) == len(places):
        return tuple([tensors[number] for number in sorted(range(len(places)), key=places.__getitem__)])
    keys = [(*place, *_rest(ref)) for place, ref in zip(places, tensors, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    # Hardly ever two tensors have all of this in common, and to write out very many paths takes time and memory.
    if any(keys[one] == keys[next_one] for one, next_one in pairwise(order)):
        keys = [(*key, ref.source.text) for key, ref in zip(keys, tensors, strict=True)]
        order.sort(key=keys.__getitem__)
    return tuple([tensors[number] for number in order])


def placed_by_time(refs: Iterable[TensorRef], partial: PartialRun | None = None) -> tuple[TensorRef, ...]:
    """Place every operator by the time of its earliest output (or input) within its graph and iteration, and sort.

    Parameters have no place. `partial` is a second run that wrote only some of the tensors: their operators keep the
    places of the first run.
    """
    tensors, since = list(refs), partial.since if partial else {}
    if not since and _is_in_time(tensors):
        return tuple([placed_at(ref, place) for place, ref in enumerate(tensors)])
    # By run, then by operator. Tensors of one directory share their coordinates, which are looked at once.
    runs: dict[tuple[Any, ...], _Run] = {}
    known: dict[int, _Run] = {}
    placeless: list[TensorRef] = []
    for ref in tensors:
        op = ref.key.op
        if op.op_type == PARAMETER:
            placeless.append(placed_at(ref, None))
            continue
        run = known.get(id(op.at))
        if run is None:
            run = known[id(op.at)] = runs.setdefault(_run(op.at), _Run({}, {}))
        firsts, others = run
        operator = (op.name, op.op_type or "")
        first = firsts.setdefault(operator, ref)
        if first is not ref:
            others.setdefault(operator, [first]).append(ref)
    placed: list[TensorRef] = []
    for _, (firsts, others) in sorted(runs.items(), key=itemgetter(0)):
        times = {operator: _time(first, since) for operator, first in firsts.items()}
        times.update({operator: _earliest(group, since) for operator, group in others.items()})
        in_time = sorted(zip(times.values(), times, strict=True))
        for place, (_, operator) in enumerate(in_time):
            if operator in others:
                placed += in_order([placed_at(ref, place) for ref in others[operator]])
            else:
                placed.append(placed_at(firsts[operator], place))
    return in_order((*placed, *placeless)) if placeless else tuple(placed)


def _is_in_order(tensors: Sequence[TensorRef]) -> bool:
    """Whether these are of one run of a graph, and each has a higher place than the one before."""
    if len({id(ref.key.op.at) for ref in tensors}) > 1:
        return False
    places = [-1 if ref.place is None else ref.place for ref in tensors]
    return min(places, default=0) >= 0 and all(map(lt, places, islice(places, 1, None)))


def _is_in_time(tensors: Sequence[TensorRef]) -> bool:
    """Whether these are of one run of a graph, each of another operator, later than the one before; no weights."""
    ops = [ref.key.op for ref in tensors]
    if len({op.name for op in ops}) < len(ops) or len({id(op.at) for op in ops}) > 1:
        return False
    times = [ref.source.timestamp or 0 for ref in tensors]
    return all(map(lt, times, islice(times, 1, None))) and PARAMETER not in {op.op_type for op in ops}


class _Run(NamedTuple):
    """One run of a graph: the first tensor of each operator, and all of those that have several."""

    firsts: dict[tuple[str, str], TensorRef]
    others: dict[tuple[str, str], list[TensorRef]]


def _time(ref: TensorRef, since: Mapping[TensorSource, int]) -> int:
    own = ref.source.timestamp or 0
    # Hardly any dump has such times, and to look a file up takes its whole path.
    return since.get(ref.source, own) if since else own


def _earliest(group: list[TensorRef], since: Mapping[TensorSource, int]) -> int:
    """Return the earliest time of an operator's outputs, or of its inputs where there are no others."""
    # False sorts before True: any output wins over every input.
    return min([(ref.key.io != "output", _time(ref, since)) for ref in group])[1]


def placed_at(ref: TensorRef, place: int | None, *, key: TensorKey | None = None) -> TensorRef:
    """Return the tensor with another place of its operator in the execution order, or another key as well."""
    if ref.place == place and key is None:
        return ref
    # Spelled out: a dump has very many tensors, and `dataclasses.replace` takes three times as long.
    return TensorRef(
        key or ref.key, ref.spec, ref.source, ref.reader, place, ref.line, ref.overflows, ref.statistics, ref.sample
    )


def _run(at: Coordinates) -> tuple[Any, ...]:
    """Return the sort key of a run of a graph."""
    return (_last(at.iteration), _last(at.rank), _last(at.net), _last(at.graph))


def _place(ref: TensorRef, coordinates: dict[int, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the first part of a tensor's sort key; `coordinates` keeps those that many tensors share, by identity."""
    at = ref.key.op.at
    where = coordinates.get(id(at))
    if where is None:
        where = coordinates[id(at)] = (*_run(at), _last(at.occurrence))
    iteration, rank, net, graph, occurrence = where
    if ref.place is None:
        return (iteration, 1, ref.source.timestamp or 0)
    return (iteration, 0, rank, net, graph, ref.place, occurrence)


def _rest(ref: TensorRef) -> tuple[Any, ...]:
    """Return the sort key of tensors of one place."""
    key = ref.key
    return (key.op.name, key.op.op_type or "", key.io, key.slot, ref.source.timestamp or 0)


def _last(value: int | str | None) -> tuple[bool, Any]:
    """Return a sort key that puts an unknown value behind all known ones."""
    return (value is None, 0 if value is None else value)
