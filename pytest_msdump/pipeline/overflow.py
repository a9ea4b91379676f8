"""Which operators overflowed: by the device's own check where it left files, by the values themselves always."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.errors import MsdumpError
from pytest_msdump.metrics.overflow import OneSide, scan
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.overflow import OverflowEntry
from pytest_msdump.model.tensor import OpKey, TensorRef
from pytest_msdump.pipeline.opening import open_logical
from pytest_msdump.readers.ascend_names import parse_ascend
from pytest_msdump.readers.filename import parse_mindspore
from pytest_msdump.readers.opdebug_files import OverflowFile, overflow_files

__all__ = ["Culprit", "OperatorOverflow", "Overflows", "culprits_of", "find_overflows", "overflows_by_operator"]

# The number of a task or stream that nobody knew.
_UNKNOWN = 65535


@dataclass(frozen=True)
class Culprit:
    """Whom an entry of the device's check means: `refs` are that operator's tensors, empty when none was dumped."""

    file: OverflowFile
    entry: OverflowEntry
    refs: tuple[TensorRef, ...] = ()


@dataclass(frozen=True)
class OperatorOverflow:
    """One operator that overflowed.

    Parameters
    ----------
    op : OpKey
        Who.
    order : int
        Its 0-based place among all operators of the dump.
    role : str
        ``"origin"``: its dumped inputs are finite; ``"propagated"``: an input overflows already; ``"unknown"``: its
        inputs were not dumped.
    reported : tuple of Culprit
        What the device's own check says of it.
    tensors : tuple of (TensorRef, OneSide)
        Its tensors that hold NaN, Inf, or values at their dtype's maximum.
    """

    op: OpKey
    order: int
    role: str
    reported: tuple[Culprit, ...] = ()
    tensors: tuple[tuple[TensorRef, OneSide], ...] = ()


@dataclass(frozen=True)
class Overflows:
    """All that was found in one dump: `operators` in execution order, entries without a dump, what cannot be read."""

    dump: Dump
    files: tuple[OverflowFile, ...]
    operators: tuple[OperatorOverflow, ...]
    unplaced: tuple[Culprit, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing overflowed, and everything could be looked at."""
        return not (self.operators or self.unplaced or self.unreadable)


def find_overflows(dump: Dump) -> Overflows:
    """Look through one dump.

    Parameters
    ----------
    dump : Dump
        Its index, in execution order.

    Returns
    -------
    Overflows
        An entry whose status is 0 is no overflow and is left out.
    """
    files = overflow_files(dump.root)
    reported: defaultdict[OpKey, list[Culprit]] = defaultdict(list)
    unplaced: list[Culprit] = []
    for culprit in culprits_of(dump, files):
        if culprit.refs:
            reported[culprit.refs[0].key.op].append(culprit)
        else:
            unplaced.append(culprit)
    unreadable = [(str(file.path), file.problem) for file in files if file.problem]
    operators = []
    for order, (op, refs) in enumerate(_by_operator(dump.refs).items()):
        seen = dict(_scanned(refs, unreadable))
        bad = {ref: side for ref, side in seen.items() if side.nan or side.inf or side.saturated}
        if bad or reported[op]:
            operators.append(
                OperatorOverflow(op, order, _role(seen, bad), tuple(reported[op]), tuple(bad.items())),
            )
    return Overflows(dump, files, tuple(operators), tuple(unplaced), tuple(unreadable))


def overflows_by_operator(dump: Dump) -> Mapping[OpKey, tuple[OverflowEntry, ...]]:
    """Return what the device's own check says of each operator; reads no tensor."""
    found: defaultdict[OpKey, list[OverflowEntry]] = defaultdict(list)
    for culprit in culprits_of(dump, overflow_files(dump.root)):
        if culprit.refs:
            found[culprit.refs[0].key.op].append(culprit.entry)
    return {op: tuple(entries) for op, entries in found.items()}


def culprits_of(dump: Dump, files: Iterable[OverflowFile]) -> Iterator[Culprit]:
    """Find whom each entry means: the oldest dump of the same folder with its task and stream.

    Parameters
    ----------
    dump : Dump
        Whose operators; those of earlier runs count, too.
    files : iterable of OverflowFile
        Read already.

    Yields
    ------
    Culprit
        One for each entry that reports an overflow.

    Notes
    -----
    The numbers in the overflow file's own name are of the check, not of who overflowed. A dump whose name has no
    stream is found by its task alone; 65535 as task or stream means unknown and finds nothing. Context and thread
    count where the entry has them and the dump's name does: 0 is a number like any other.
    """
    by_folder: defaultdict[Path, list[tuple[TensorRef, tuple[int | None, ...]]]] = defaultdict(list)
    for ref in (*dump.refs, *dump.older):
        ids = _ids(ref)
        if ids is not None:
            by_folder[ref.source.path.parent].append((ref, ids))
    for file in files:
        for entry in file.entries:
            if entry.is_overflow:
                yield Culprit(file, entry, _meant(entry, by_folder[file.path.parent]))


def _ids(ref: TensorRef) -> tuple[int | None, ...] | None:
    """Task, stream, context and thread of a tensor's file."""
    name = ref.source.path.name
    plain = parse_mindspore(name)
    if plain is not None:
        return (plain.task, plain.stream, None, None)
    parsed = parse_ascend(name)
    return None if parsed is None else (parsed.task, parsed.stream, parsed.context, parsed.thread)


def _meant(
    entry: OverflowEntry, candidates: Sequence[tuple[TensorRef, tuple[int | None, ...]]]
) -> tuple[TensorRef, ...]:
    if _UNKNOWN in (entry.task_id, entry.stream_id):
        return ()
    wanted = (entry.task_id, entry.stream_id, entry.context_id, entry.thread_id)
    found = [ref for ref, ids in candidates if ids[0] == entry.task_id and _agree(ids, wanted)]
    if not found:
        return ()
    oldest = min(found, key=lambda ref: (ref.source.timestamp or 0, ref.source.path.name))
    return tuple(ref for ref in found if ref.key.op == oldest.key.op)


def _agree(ids: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(ids, wanted, strict=True))


def _by_operator(refs: Iterable[TensorRef]) -> Mapping[OpKey, Sequence[TensorRef]]:
    operators: dict[OpKey, list[TensorRef]] = {}
    for ref in refs:
        operators.setdefault(ref.key.op, []).append(ref)
    return operators


def _scanned(refs: Iterable[TensorRef], unreadable: list[tuple[str, str]]) -> Iterator[tuple[TensorRef, OneSide]]:
    for ref in refs:
        side = _scan(ref)
        if isinstance(side, str):
            unreadable.append((ref.key.address, side))
        elif side.elements:
            yield ref, side


def _scan(ref: TensorRef) -> OneSide | str:
    """What one tensor holds, or why it cannot be read."""
    try:
        with closing(open_logical(ref)) as view:
            return scan(view)
    except (MsdumpError, OSError) as error:
        return str(error)


def _role(seen: Mapping[TensorRef, OneSide], bad: Mapping[TensorRef, OneSide]) -> str:
    if any(ref.key.io == "input" for ref in bad):
        return "propagated"
    return "origin" if any(ref.key.io == "input" for ref in seen) else "unknown"
