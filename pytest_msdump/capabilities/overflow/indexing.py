"""Operators that the device's own overflow check reports, found by task and stream. Opens no tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_msdump.capabilities.overflow.chunks import OverflowEntry
from pytest_msdump.capabilities.overflow.opdebug import OverflowFile, overflow_files
from pytest_msdump.core.dumps.file_names import parse_ascend, parse_converted, parse_mindspore
from pytest_msdump.core.matching.coordinates import compatible
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import OpKey, TensorRef
from pytest_msdump.core.ports import IndexRequest
from pytest_msdump.core.text import Message, say

# The number of an unknown task or stream.
_UNKNOWN = 65535

_MOST_LISTED = 3


@dataclass(frozen=True)
class ReportedOverflow:
    """An entry of the device's check, and the tensors of its operator; empty if none was dumped."""

    file: OverflowFile
    entry: OverflowEntry
    refs: tuple[TensorRef, ...] = ()


def reported_overflows(dump: Dump, files: Iterable[OverflowFile]) -> Iterator[ReportedOverflow]:
    """Find the operator of each entry that reports an overflow: the oldest dump in its folder with its task and stream.

    Operators of earlier runs count, too. The numbers in the overflow file's own name belong to the check, not to the
    operator. A dump whose name has no stream is found by its task alone; 65535 as task or stream means unknown and
    finds nothing. Context and thread count if both the entry and the dump's name have them: 0 is a number like any
    other.
    """
    reported = [(file, entry) for file in files for entry in file.entries if entry.is_overflow]
    if not reported:
        return
    by_folder: defaultdict[Path, list[tuple[TensorRef, tuple[int | None, ...]]]] = defaultdict(list)
    for ref in (*dump.refs, *dump.older):
        ids = _ids(ref)
        if ids is not None:
            by_folder[ref.source.path.parent].append((ref, ids))
    for file, entry in reported:
        yield ReportedOverflow(file, entry, _tensors_of_entry(entry, by_folder[file.path.parent]))


def _ids(ref: TensorRef) -> tuple[int | None, ...] | None:
    """Task, stream, context and thread of a tensor's file."""
    name = ref.source.path.name
    plain = parse_mindspore(name)
    if plain is not None:
        return (plain.task, plain.stream, None, None)
    converted = parse_converted(name)
    parsed = converted.dump if converted else parse_ascend(name)
    return None if parsed is None else (parsed.task, parsed.stream, parsed.context, parsed.thread)


def _tensors_of_entry(
    entry: OverflowEntry, candidates: Sequence[tuple[TensorRef, tuple[int | None, ...]]]
) -> tuple[TensorRef, ...]:
    if _UNKNOWN in (entry.task_id, entry.stream_id):
        return ()
    wanted = (entry.task_id, entry.stream_id, entry.context_id, entry.thread_id)
    found = [ref for ref, ids in candidates if ids[0] == entry.task_id and compatible(ids, wanted)]
    if not found:
        return ()
    oldest = min(found, key=lambda ref: (ref.source.timestamp or 0, ref.source.path.name))
    return tuple(ref for ref in found if ref.key.op == oldest.key.op)


def with_overflows(dump: Dump, request: IndexRequest) -> Dump:  # noqa: ARG001 - as every stage takes it
    """Set `TensorRef.overflows` by the device's own check; notes name what overflowed, and what cannot be read."""
    files = overflow_files(dump.root)
    if not files:
        return dump
    found: defaultdict[OpKey, list[OverflowEntry]] = defaultdict(list)
    lost: list[OverflowEntry] = []
    for report in reported_overflows(dump, files):
        (found[report.refs[0].key.op] if report.refs else lost).append(report.entry)
    by_operator = {op: tuple(entries) for op, entries in found.items()}

    def with_entries(ref: TensorRef) -> TensorRef:
        entries = by_operator.get(ref.key.op)
        return replace(ref, overflows=entries) if entries else ref

    sentences = [f"{file.path.name} is left out: {file.problem}" for file in files if file.problem]
    return replace(
        dump,
        refs=tuple(map(with_entries, dump.refs)),
        older=tuple(map(with_entries, dump.older)),
        notes=(*dump.notes, *_notes(by_operator, lost), *sentences),
    )


def _notes(by_operator: Mapping[OpKey, Sequence[OverflowEntry]], lost: Sequence[OverflowEntry]) -> Iterator[str]:
    if by_operator:
        yield say(Message("note_overflow", {"names": _listed(op.label for op in by_operator)}))
    if lost:
        tasks = _listed(f"task {entry.task_id} on stream {entry.stream_id}" for entry in lost)
        yield say(Message("note_overflow_lost", {"names": tasks}))


def _listed(names: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(names)), _MOST_LISTED)
