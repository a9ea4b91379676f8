"""Tells apart why a tensor was dumped several times in one iteration: a loop, or a second run into the same directory.

Nothing in a dump says so. INTERFACE 2 draws the line: when a Parameter file repeats, or all repeats follow the whole
first pass, it is a re-run, and of each tensor the newest file is compared; otherwise repeats are occurrences, numbered
in time. What the newest run does not hold stays compared from the run before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from pytest_msdump.dumps.filename import is_time
from pytest_msdump.model.dump import PartialRun
from pytest_msdump.model.ordering import PARAMETER, placed_at
from pytest_msdump.model.tensor import TensorKey, TensorRef

__all__ = ["Repeats", "numbered", "sort_out"]

# How many times the longest pause inside the first pass must be exceeded before repeats that neither are complete nor
# begin where the pass began count as another run. A module used twice at the end of a network pauses about as long as
# its neighbours; starting a process again takes far longer.
_UNLIKELY_PAUSE = 10

# No program imports MindSpore and compiles a network in less.
_START_US = 1_000_000


class Repeats(NamedTuple):
    """What is there several times in a dump, and which of it is compared.

    Parameters
    ----------
    newest : tuple of TensorRef
        The tensors to compare, with their occurrences numbered.
    older : tuple of TensorRef
        Tensors of which a later run wrote a newer file.
    notes : tuple of str
        A sentence for each re-run found.
    partial : PartialRun, optional
        Set where the newest run does not hold all tensors.
    """

    newest: tuple[TensorRef, ...]
    older: tuple[TensorRef, ...] = ()
    notes: tuple[str, ...] = ()
    partial: PartialRun | None = None


def sort_out(refs: Iterable[TensorRef], *, once: Collection[tuple[int, int]] = ()) -> Repeats:
    """Find re-runs in each iteration, and number what repeats inside one run.

    Parameters
    ----------
    refs : iterable of TensorRef
        All tensors of one dump; which occurrence they claim does not matter.
    once : collection of (int, int)
        Ranks and iterations of which the run itself notes that they ran once. A run that was killed before it could
        note them is found even there, by the time that a program takes to start.

    Returns
    -------
    Repeats
        Each tensor is in exactly one of `newest` and `older`, in order of time; ties go by file name. Files without a
        plausible time are neither a re-run nor a further occurrence.
    """
    groups: defaultdict[tuple[int | None, str | None, int | None], list[TensorRef]] = defaultdict(list)
    # Tensors of one directory share their coordinates, which are looked at once.
    known: dict[int, list[TensorRef]] = {}
    for ref in _in_time(refs):
        at = ref.key.op.at
        members = known.get(id(at))
        if members is None:
            members = known[id(at)] = groups[at.rank, at.net, at.iteration]
        members.append(ref)
    newest: list[TensorRef] = []
    older: list[TensorRef] = []
    notes: list[str] = []
    partials: list[PartialRun | None] = []
    for group, members in groups.items():
        files = _truly_named(members)
        if _are_distinct(files):
            newest += _numbered(files)
            continue
        rank, _, iteration = group
        timed = [ref for ref in files if is_time(ref.source.timestamp)]
        newest += [_at_occurrence(ref, 0) for ref in files if not is_time(ref.source.timestamp)]
        if not timed:
            continue
        merged = _merged(timed, _START_US if (rank, iteration) in once else 0)
        newest += merged.newest
        # They have no place in what is compared, whatever a reader thought.
        older += [placed_at(ref, None) for ref in merged.older]
        partials.append(merged.partial)
        if merged.older or merged.partial:
            notes.append(_sentence(len(merged.older), merged.partial, *group))
    return Repeats(tuple(newest), tuple(older), tuple(notes), PartialRun.total(partials))


def numbered(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Number the occurrences of tensors that are known to be of one run, in each iteration by itself.

    Returns
    -------
    tuple of TensorRef
        In order of time.
    """
    groups: defaultdict[int | None, list[TensorRef]] = defaultdict(list)
    for ref in _in_time(refs):
        groups[ref.key.op.at.iteration].append(ref)
    return tuple(ref for run in groups.values() for ref in _numbered(run))


def _merged(files: Sequence[TensorRef], start_us: int) -> Repeats:
    """Return the newest file of each tensor of one iteration, given in order of time, and the files it replaces."""
    runs = [_numbered(run) for run in _runs(files, start_us)]
    if len(runs[0]) == len(files):
        return Repeats(tuple(runs[0]))
    kept: dict[TensorKey, TensorRef] = {}
    oldest: dict[TensorKey, int] = {}
    for run in runs:
        for ref in run:
            kept.setdefault(ref.key, ref)
            oldest[ref.key] = _time(ref)
    compared = {id(ref.source) for ref in kept.values()}
    older = tuple(ref for ref in files if id(ref.source) not in compared)
    newest = tuple(_in_time(kept.values()))
    newer = {ref.key for ref in runs[0]}
    if len(kept) == len(newer):
        return Repeats(newest, older)
    before = {ref.key for run in runs[1:] for ref in run}
    since = {kept[key].source: time for key, time in oldest.items() if time != _time(kept[key])}
    return Repeats(newest, older, (), PartialRun(len(newer & before), len(kept), since))


def _sentence(
    left_out: int, partial: PartialRun | None, rank: int | None, net: str | None, iteration: int | None
) -> str:
    named = (("rank", rank), ("net", net), ("iteration", iteration))
    where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
    of = f" of {where}" if where else ""
    files = "1 older file" if left_out == 1 else f"{left_out} older files"
    if partial is None:
        return f"re-run into the same directory: {files} left out{of}"
    return (
        f"the directory holds a partial second run: {partial.newer} of {partial.tensors} tensors{of}; "
        f"{files} left out, what the second run does not hold is compared from the run before"
    )


def _time(ref: TensorRef) -> int:
    return ref.source.timestamp or 0


def _in_time(refs: Iterable[TensorRef]) -> list[TensorRef]:
    """Sort tensors by time; ties go by file name."""
    tensors = list(refs)
    times = [ref.source.timestamp or 0 for ref in tensors]
    # Names are looked at only where a time is there twice: a dump has very many of them.
    if len(set(times)) < len(times):
        return sorted(tensors, key=_time_and_name)
    return [tensors[number] for number in sorted(range(len(times)), key=times.__getitem__)]


def _time_and_name(ref: TensorRef) -> tuple[int, str, str]:
    return (_time(ref), ref.source.name, ref.source.text)


def _operator(ref: TensorRef) -> Hashable:
    op = ref.key.op
    # Files of `a/b_c` and of `a_b/c` have one name, and neither operator ran twice for that.
    return (op.at.graph, op.op_type, op.name, op.true_name)


def _identity(ref: TensorRef) -> Hashable:
    return (_operator(ref), ref.key.io, ref.key.slot)


def _are_distinct(files: Sequence[TensorRef]) -> bool:
    """Whether no tensor is there twice."""
    # Where no operator is there twice, no tensor is.
    if len({ref.key.op.name for ref in files}) == len(files):
        return True
    keys = [(ref.key.op, ref.key.io, ref.key.slot) for ref in files]
    told = {(op.name, op.true_name, op.op_type, op.at.graph, io, slot) for op, io, slot in keys}
    return len(told) == len(keys)


def _truly_named(files: list[TensorRef]) -> list[TensorRef]:
    """Give files that cannot be read the true name of their operator, where the others of that file name have one."""
    if not any(ref.key.op.true_name for ref in files):
        return files
    unreadable = {_spelled(ref) for ref in files if ref.spec.dtype is None and ref.key.op.true_name is None}
    if not unreadable:
        return files
    names: defaultdict[Hashable, set[str | None]] = defaultdict(set)
    for ref in files:
        if ref.spec.dtype is not None and _spelled(ref) in unreadable:
            names[_spelled(ref)].add(ref.key.op.true_name)
    alone = {spelled: name for spelled, found in names.items() if len(found) == 1 for name in found if name}
    return [
        replace(ref, key=replace(ref.key, op=replace(ref.key.op, true_name=alone[_spelled(ref)])))
        if ref.spec.dtype is None and ref.key.op.true_name is None and _spelled(ref) in alone
        else ref
        for ref in files
    ]


def _spelled(ref: TensorRef) -> Hashable:
    """An operator as files name it."""
    return (ref.key.op.at.graph, ref.key.op.op_type, ref.key.op.name)


def _runs(files: Sequence[TensorRef], start_us: int) -> Iterator[Sequence[TensorRef]]:
    """Yield the runs that wrote one iteration's files, given in order of time, the newest run first.

    `start_us` is how long a run takes at least to start where nothing but time tells of one. Runs that hold the same
    tensors as the one yielded last are left out: nothing of them is compared.
    """
    while not _are_distinct(files):
        piece = _last_equal_piece(files, start_us)
        if piece is not None:
            yield piece
            return
        start = _start_by_parameters(files)
        if start is None:
            starts = _starts_of_passes(files, start_us)
            ends = [*starts[1:], len(files)]
            yield from (files[begin:end] for begin, end in reversed(list(zip(starts, ends, strict=True))))
            return
        yield files[start:]
        files = files[:start]
    yield files


def _start_by_parameters(files: Sequence[TensorRef]) -> int | None:
    """Say where the newest run starts when Parameters repeat: after the Parameters of the run before."""
    written: defaultdict[int | None, defaultdict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    by_graph: defaultdict[int | None, list[int]] = defaultdict(list)
    for position, ref in enumerate(files):
        graph = ref.key.op.at.graph
        by_graph[graph].append(position)
        if ref.key.op.op_type == PARAMETER:
            written[graph][_identity(ref)].append(position)
    starts: list[int] = []
    for graph, parameters in written.items():
        before = max((positions[-2] for positions in parameters.values() if len(positions) > 1), default=None)
        if before is None:
            continue
        following = [position for position in by_graph[graph] if position > before]
        # A run that was killed while it wrote Parameters leaves the older run's last ones just behind `before`.
        operators = [position for position in following if files[position].key.op.op_type != PARAMETER]
        again = {position for positions in parameters.values() for position in positions[1:]}
        starts.append(min(operators or again.intersection(following)))
    return min(starts, default=None)


def _last_equal_piece(files: Sequence[TensorRef], start_us: int) -> Sequence[TensorRef] | None:
    """Return the last of the most pieces into which the files fall so that every piece holds the same tensors."""
    most = gcd(*Counter(map(_identity, files)).values())
    for pieces in range(most, 1, -1):
        if most % pieces:
            continue
        size = len(files) // pieces
        cut = [files[start : start + size] for start in range(0, len(files), size)]
        contents = [Counter(map(_identity, piece)) for piece in cut]
        if all(content == contents[0] for content in contents) and _is_restart(cut[-2], cut[-1], start_us):
            return cut[-1]
    return None


def _starts_of_passes(files: Sequence[TensorRef], start_us: int) -> list[int]:
    """Say where each run starts: first passes follow each other, as long as all that repeats comes after each."""
    starts = [0]
    while True:
        seen: set[Hashable] = set()
        repeats: list[int] = []
        first = starts[-1]
        for position in range(first, len(files)):
            identity = _identity(files[position])
            if identity in seen:
                repeats.append(position)
            seen.add(identity)
        # Clean when the repeats are the tail, that is when no tensor comes for the first time after a repeat.
        if not repeats or repeats[0] != len(files) - len(repeats):
            return starts
        if not _is_restart(files[first : repeats[0]], files[repeats[0] :], start_us):
            return starts
        starts.append(repeats[0])


def _is_restart(first: Sequence[TensorRef], later: Sequence[TensorRef], start_us: int) -> bool:
    """Whether `later` can be another run rather than more of the same one."""
    pause = _time(later[0]) - _time(first[-1])
    longest = max((_time(after) - _time(before) for before, after in pairwise(first)), default=0)
    return pause >= max(_needed_pause(first, later) * longest, start_us)


def _needed_pause(first: Sequence[TensorRef], later: Sequence[TensorRef]) -> int:
    """How long a pause, in longest pauses of the first pass, makes `later` another run."""
    complete = set(map(_identity, first)) <= set(map(_identity, later))
    if complete and first[0].key.op.op_type is None:
        # Reference folders: a script can call the model twice in a row, without any pause. MindSpore counts its
        # iterations, so a repeat needs a new process.
        return 0
    if complete or _operator(first[0]) == _operator(later[0]):
        return 1
    return _UNLIKELY_PAUSE


def _numbered(run: Sequence[TensorRef]) -> list[TensorRef]:
    """Set the occurrence of every tensor of one run, given in order of time."""
    if _are_distinct(run):
        # Tensors of one directory share their coordinates, and nearly all readers give them this occurrence.
        if all(at.occurrence == 0 for at in {id(ref.key.op.at): ref.key.op.at for ref in run}.values()):
            return list(run)
        return [_at_occurrence(ref, 0) for ref in run]
    operators: defaultdict[Hashable, list[int]] = defaultdict(list)
    for position, ref in enumerate(run):
        operators[_operator(ref)].append(position)
    numbered = list(run)
    for positions in operators.values():
        passes = _passes([run[position] for position in positions])
        for position, occurrence in zip(positions, passes, strict=True):
            numbered[position] = _at_occurrence(run[position], occurrence)
    return numbered


def _passes(files: Sequence[TensorRef]) -> list[int]:
    """Number the passes of one operator's files, given in order of time.

    A pass writes inputs before outputs, each at most once. So a pass ends where a tensor comes again, and where an
    input follows an output: a slot that one pass left out (empty tensors are not written) keeps its number in the next.
    """
    if len({(ref.key.io, ref.key.slot) for ref in files}) == len(files):
        return [0] * len(files)
    numbers: list[int] = []
    current = 0
    written: set[tuple[str, int]] = set()
    for ref in files:
        tensor = (ref.key.io, ref.key.slot)
        after_output = tensor[0] == "input" and any(io == "output" for io, _ in written)
        if tensor in written or after_output:
            current += 1
            written = set()
        written.add(tensor)
        numbers.append(current)
    return numbers


def _at_occurrence(ref: TensorRef, occurrence: int) -> TensorRef:
    if ref.key.op.at.occurrence == occurrence:
        return ref
    at = replace(ref.key.op.at, occurrence=occurrence)
    return replace(ref, key=replace(ref.key, op=replace(ref.key.op, at=at)))
