"""A cause that comes again in later iterations is one mistake: its first iteration stands for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pytest_msdump.core.model.record import Diagnosis, Record
from pytest_msdump.core.model.tensor import Coordinates, OpKey
from pytest_msdump.core.text import Message


def first_iterations(ops: Iterable[OpKey]) -> set[OpKey]:
    """Return the operators that no earlier iteration has among these."""
    first: dict[OpKey, OpKey] = {}
    for op in ops:
        known = first.setdefault(op._replace(at=op.at._replace(iteration=None)), op)
        if (op.at.iteration or 0) < (known.at.iteration or 0):
            first[op._replace(at=op.at._replace(iteration=None))] = op
    return set(first.values())


def with_first_iteration(records: Mapping[int, Record]) -> dict[int, Record]:
    """Return causes that an earlier iteration has, too, as inherited from that, and the first with what all show."""
    causes: defaultdict[Coordinates, dict[int | None, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, record in records.items():
        at = record.left.at
        if record.role == "cause" and at.iteration is not None:
            causes[at._replace(iteration=None)][at.iteration].append(number)
    found: dict[int, Record] = {}
    for by_iteration in causes.values():
        first: dict[str, int] = {}
        for _, numbers in sorted(by_iteration.items(), key=lambda one: one[0] or 0):
            for number in numbers:
                origin = first.setdefault(_end_of(records[number]), number)
                if records[origin].left.at.iteration != records[number].left.at.iteration:
                    found[number] = records[number].inherited_from(records[origin])
        found |= {number: one for number in first.values() for one in _since(records, number)}
    return found


def _end_of(record: Record) -> str:
    """Return the operator whose tensor is the first that fails, behind what is wrong."""
    region = record.role_why.region if record.role_why is not None else None
    return record.left.key.op.label if region is None else region.end


def _since(records: Mapping[int, Record], number: int) -> Iterator[Record]:
    """Yield a cause with what its iterations show: it passes in some, and fails in all from one on."""
    record = records[number]
    key = record.left.key
    outcomes = {
        other.left.at.iteration: other.fails
        for other in records.values()
        if other.left.key._replace(op=other.left.key.op._replace(at=key.op.at)) == key
        and other.left.at._replace(iteration=None) == record.left.at._replace(iteration=None)
    }
    begun = record.left.at.iteration
    earlier = [fails for iteration, fails in outcomes.items() if (iteration or 0) < (begun or 0)]
    later = [fails for iteration, fails in outcomes.items() if (iteration or 0) >= (begun or 0)]
    if earlier and not any(earlier) and all(later) and len(later) > 1:
        evidence = Message("since_iteration", {"iteration": begun, "n": len(earlier)})
        found = Diagnosis("since_iteration", "high", evidence, {"iteration": begun})
        yield replace(record, diagnosis=(found, *record.diagnosis))
