"""Statistics that a run saved of its tensors: beside the tensors, and in the place of those that are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_msdump.dumps.ascend import AscendReader
from pytest_msdump.dumps.converted import ConvertedReader
from pytest_msdump.dumps.mindspore import MindSporeReader
from pytest_msdump.dumps.reruns import order_by_time
from pytest_msdump.dumps.statistics import READER, read_statistics
from pytest_msdump.model.dump import Dump, PartialRun
from pytest_msdump.model.tensor import Coordinates, TensorRef

__all__ = ["with_statistics"]

# A folder of a reference is no run: a table in it is not about its tensors.
_OF_RUNS = frozenset({MindSporeReader.name, AscendReader.name, ConvertedReader.name})

# Operator, type, coordinates but for the occurrence, input or output, slot: a name that a table spells with slashes is
# the same tensor.
_Identity = tuple[str, str | None, Coordinates, str, int]


def with_statistics(dump: Dump) -> Dump:
    """Attach the statistics of a run to its tensors; those without a tensor become tensors that cannot be opened.

    The keys of `dump` are still those of file names. The reader is ``"statistics"`` if no tensor was saved at all.
    """
    if dump.reader not in _OF_RUNS or not dump.root.is_dir():
        return dump
    tables = read_statistics(dump.root)
    notes = (*dump.notes, *(note for note in tables.notes if note not in dump.notes))
    files: frozenset[Path] = frozenset(tables.files)
    dump = replace(dump, notes=notes, unexplained=tuple(path for path in dump.unexplained if path not in files))
    if not (tables.rows or tables.older):
        return dump
    saved = _statistics_of((*dump.refs, *dump.older), (*tables.rows, *tables.older))
    refs, older = (
        tuple(replace(ref, statistics=saved[ref].statistics) if ref in saved else ref for ref in part)
        for part in (dump.refs, dump.older)
    )
    if not refs and not older:
        return replace(dump, reader=READER, refs=tables.rows, older=tables.older, partial=tables.partial)
    alone = _alone(refs, tables.rows, saved.values())
    if alone:
        count = "1 tensor was" if len(alone) == 1 else f"{len(alone)} tensors were"
        notes = (*notes, f"{count} saved as statistics only, e.g. {alone[0].key.address}")
        refs = order_by_time((*refs, *alone), PartialRun.total((dump.partial, tables.partial)))
    return replace(dump, refs=refs, older=older, notes=notes)


def _statistics_of(refs: Iterable[TensorRef], rows: Iterable[TensorRef]) -> dict[TensorRef, TensorRef]:
    """Find the row of each tensor that has one.

    The run of a row follows from its time only: if there is no row for some tensor, counting rows would go wrong.
    """
    by_identity: defaultdict[_Identity, list[TensorRef]] = defaultdict(list)
    for row in rows:
        by_identity[_identity(row)].append(row)
    found: dict[TensorRef, TensorRef] = {}
    members: defaultdict[_Identity, list[TensorRef]] = defaultdict(list)
    for ref in refs:
        members[_identity(ref)].append(ref)
    for identity, tensors in members.items():
        found.update(_by_time(tensors, by_identity.get(identity, [])))
    return found


def _by_time(tensors: list[TensorRef], rows: list[TensorRef]) -> Iterator[tuple[TensorRef, TensorRef]]:
    """Pair by time: one by one if there are as many of both, else each of the fewer with the nearest."""
    tensors, rows = sorted(tensors, key=_time), sorted(rows, key=_time)
    fewer, more = (tensors, rows) if len(tensors) <= len(rows) else (rows, tensors)
    place = 0
    for number, one in enumerate(fewer):
        last = len(more) - (len(fewer) - number)
        while place < last and abs(_time(more[place + 1]) - _time(one)) <= abs(_time(more[place]) - _time(one)):
            place += 1
        yield (one, more[place]) if fewer is tensors else (more[place], one)
        place += 1


def _alone(refs: Iterable[TensorRef], rows: Iterable[TensorRef], used: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Return the rows of tensors that were not saved."""
    known = {(_identity(ref), ref.key.op.at.occurrence) for ref in refs}
    taken = {row.source for row in used}
    return tuple(
        row for row in rows if row.source not in taken and (_identity(row), row.key.op.at.occurrence) not in known
    )


def _time(ref: TensorRef) -> int:
    return ref.source.timestamp or 0


def _identity(ref: TensorRef) -> _Identity:
    op = ref.key.op
    return (op.name, op.op_type, replace(op.at, occurrence=None), ref.key.io, ref.key.slot)
