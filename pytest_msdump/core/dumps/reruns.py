"""Find out why a tensor was dumped several times: steps of a training, a loop, or a second run into one directory.

Nothing in a dump says so. When a Parameter file repeats, or all repeats follow the whole first pass, it is a re-run,
and of each tensor the newest file is compared; otherwise repeats are occurrences, numbered in time. What the newest run
does not hold stays compared from the run before it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dumps.file_names import is_time
from pytest_msdump.core.dumps.run_history import read_histories, run_once
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import PARAMETER, Dump, PartialRun, in_order, placed_at, placed_by_time
from pytest_msdump.core.model.tensor import TensorKey, TensorRef, location_of
from pytest_msdump.core.text import Message, Parameter, say

# How many times the longest pause inside the first pass must be exceeded before repeats that neither are complete nor
# begin where the pass began count as another run. A module used twice at the end of a network pauses about as long as
# its neighbours; starting a process again takes far longer.
_UNLIKELY_PAUSE = 10

# How the note on a re-run begins.

# No program imports MindSpore and compiles a network in less.
_START_US = 1_000_000

_FIRST_ASYNCHRONOUS = re.compile(r"[0-9]{1,9}/.+_graph_[0-9]{1,9}/[0-9]{1,18}/[0-9]{1,18}", re.DOTALL)
_STEPPED = re.compile(r"[0-9]{1,9}/[0-9]{14}/[0-9]{1,9}/.+/[0-9]{1,18}/(?P<index>[0-9]{1,18})", re.DOTALL)


class Reruns(NamedTuple):
    """What is there several times in a dump, and which of it is compared.

    `newest` are the tensors to compare, with their occurrences numbered; `older` those of which a later run wrote a
    newer file; `notes` has a sentence for each re-run; `partial` is set where the newest run does not hold all tensors.
    """

    newest: tuple[TensorRef, ...]
    older: tuple[TensorRef, ...] = ()
    notes: tuple[str, ...] = ()
    partial: PartialRun | None = None


def separate_tree_runs(root: Path, refs: Iterable[TensorRef]) -> Reruns:
    """Separate steps, occurrences and re-runs of a dump by its directories, and by `separate_runs` within these."""
    folders: defaultdict[str, list[TensorRef]] = defaultdict(list)
    for ref in refs:
        folders[str(ref.source.folder)].append(ref)
    by_index: defaultdict[int, list[TensorRef]] = defaultdict(list)
    notes: list[str] = []
    for _, members in sorted(folders.items()):
        folder = members[0].source.folder
        split, note = _split_steps(folder, members)
        # The device's own count below a step of the user's.
        parts = folder.relative_to(root).parts if folder.is_relative_to(root) else ()
        match = _STEPPED.fullmatch("/".join(parts))
        by_index[int(match["index"]) if match else 0] += split
        notes += note
    newest: list[TensorRef] = []
    older: list[TensorRef] = []
    partials: list[PartialRun | None] = []
    seen: Counter[Hashable] = Counter()
    once = run_once(read_histories(root)[0])
    for _, members in sorted(by_index.items()):
        runs = separate_runs(members, once=once)
        newest += _number_on(runs.newest, seen) if len(by_index) > 1 else runs.newest
        older += runs.older
        notes += [note for note in runs.notes if note not in notes]
        partials.append(runs.partial)
    return Reruns(tuple(newest), tuple(older), tuple(notes), PartialRun.total(partials))


def separate_runs(refs: Iterable[TensorRef], *, once: Collection[tuple[int, int]] = ()) -> Reruns:
    """Find re-runs in each iteration, and number what repeats inside one run.

    `refs` are all tensors of one dump; which occurrence they claim does not matter. `once` has the ranks and iterations
    that ran once by the run's own history; a run that was killed before it could write its history is found even there,
    by the time that a program takes to start.

    Each tensor is in exactly one of `newest` and `older`, in order of time; ties go by file name. Files without a
    plausible time are neither a re-run nor a further occurrence.
    """
    groups: defaultdict[tuple[int | None, str | None, int | None], list[TensorRef]] = defaultdict(list)
    for ref in _in_time(refs):
        at = ref.key.op.at
        groups[at.rank, at.net, at.iteration].append(ref)
    newest: list[TensorRef] = []
    older: list[TensorRef] = []
    notes: list[str] = []
    partials: list[PartialRun | None] = []
    for (rank, net, iteration), members in groups.items():
        files = _truly_named(members)
        if _are_distinct(files):
            newest += _numbered(files)
            continue
        timed = [ref for ref in files if is_time(ref.source.timestamp)]
        newest += [_moved(ref, occurrence=0) for ref in files if not is_time(ref.source.timestamp)]
        if not timed:
            continue
        merged = _merge_runs(timed, _START_US if (rank, iteration) in once else 0)
        newest += merged.newest
        # Older files have no place among what is compared, even where a reader gave them one.
        older += [placed_at(ref, None) for ref in merged.older]
        partials.append(merged.partial)
        if merged.older or merged.partial:
            notes.append(_rerun_note(merged, _shown(rank=rank, net=net, iteration=iteration)))
    return Reruns(tuple(newest), tuple(older), tuple(notes), PartialRun.total(partials))


def newest_files(dump: Dump) -> Dump:
    """Keep the newest file of every tensor, or operator, as the vendor's programs do; a note names the others."""
    of_file = _operator if dump.reader == "ascend" else _identity
    newest = {of_file(ref): (_time(ref), ref.source.name) for ref in _in_time(dump.refs)}
    kept = [ref for ref in dump.refs if newest[of_file(ref)] == (_time(ref), ref.source.name)]
    if len(kept) == len(dump.refs):
        return dump
    names = dict.fromkeys(ref.source.name for ref in dump.refs if newest[of_file(ref)] != (_time(ref), ref.source.name))
    note = say(Message("newest_files", {"n": len(names), "names": listed(list(names), 3)}))
    return replace(dump, refs=tuple(_moved(ref, occurrence=0) for ref in kept), notes=(*dump.notes, note))


def number_occurrences(refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
    """Number the occurrences of tensors that are known to be of one run, in each iteration; return them by time."""
    groups: defaultdict[int | None, list[TensorRef]] = defaultdict(list)
    for ref in _in_time(refs):
        groups[ref.key.op.at.iteration].append(ref)
    return tuple(ref for run in groups.values() for ref in _numbered(run))


def order_by_time(refs: Iterable[TensorRef], partial: PartialRun | None = None) -> tuple[TensorRef, ...]:
    """Order tensors as `placed_by_time`. Those of 1.2 and 1.3 have no time and get no place: names would mislead."""
    tensors = list(refs)
    timeless = [ref for ref in tensors if ref.source.timestamp is None]
    if not timeless:
        return placed_by_time(tensors, partial)
    timed = [ref for ref in tensors if ref.source.timestamp is not None]
    return in_order((*placed_by_time(timed, partial), *timeless))


def _rerun_note(found: Reruns, where: str) -> str:
    about: dict[str, Parameter] = {"n": len(found.older), "where": where}
    if found.partial is None:
        return say(Message("note_rerun_of" if where else "note_rerun", about))
    about |= {"newer": found.partial.newer, "tensors": found.partial.tensors}
    return say(Message("note_partial_of" if where else "note_partial", about))


def _shown(**coordinates: int | str | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in coordinates.items() if value is not None)


def _time(ref: TensorRef) -> int:
    return ref.source.timestamp or 0


def _in_time(refs: Iterable[TensorRef]) -> list[TensorRef]:
    return sorted(refs, key=_time_and_name)


def _time_and_name(ref: TensorRef) -> tuple[int, str, str]:
    source = ref.source
    return (source.timestamp or 0, source.name, str(location_of(source.folder, source.name)))


def _operator(ref: TensorRef) -> Hashable:
    """Identify an operator. Files of `a/b_c` and of `a_b/c` have one name, and neither operator ran twice for that."""
    op, at = ref.key.op, ref.key.op.at
    return (at.rank, at.net, at.graph, at.iteration, op.op_type, op.name, op.true_name)


def _identity(ref: TensorRef) -> Hashable:
    return (_operator(ref), ref.key.io, ref.key.slot)


def _are_distinct(files: Sequence[TensorRef]) -> bool:
    return len(set(map(_identity, files))) == len(files)


def _moved(ref: TensorRef, *, iteration: int | None = None, occurrence: int | None = None) -> TensorRef:
    """Return the tensor with other coordinates; ``None`` leaves one as it is."""
    at = ref.key.op.at
    iteration = at.iteration if iteration is None else iteration
    occurrence = at.occurrence if occurrence is None else occurrence
    if (iteration, occurrence) == (at.iteration, at.occurrence):
        return ref
    at = at._replace(iteration=iteration, occurrence=occurrence)
    return replace(ref, key=ref.key._replace(op=ref.key.op._replace(at=at)))


def _truly_named(files: list[TensorRef]) -> list[TensorRef]:
    """Give files that cannot be read the true name of their operator, where the others of that file name have one."""
    nameless = [ref for ref in files if ref.spec.dtype is None and ref.key.op.true_name is None]
    if not nameless or not any(ref.key.op.true_name for ref in files):
        return files
    names: defaultdict[Hashable, set[str | None]] = defaultdict(set)
    for ref in files:
        if ref.spec.dtype is not None:
            names[_file_operator(ref)].add(ref.key.op.true_name)
    true_names = {operator: name for operator, found in names.items() if len(found) == 1 for name in found if name}
    return [
        replace(ref, key=ref.key._replace(op=ref.key.op._replace(true_name=true_names[_file_operator(ref)])))
        if ref.spec.dtype is None and ref.key.op.true_name is None and _file_operator(ref) in true_names
        else ref
        for ref in files
    ]


def _file_operator(ref: TensorRef) -> Hashable:
    """Identify an operator as files name it."""
    return (ref.key.op.at.graph, ref.key.op.op_type, ref.key.op.name)


# -- Re-runs ---------------------------------------------------------------------------------------------------------


def _merge_runs(files: Sequence[TensorRef], start_us: int) -> Reruns:
    """Return the newest file of each tensor of one iteration, given in order of time, and the files it replaces."""
    runs = [_numbered(run) for run in _runs(files, start_us)]
    if len(runs[0]) == len(files):
        return Reruns(tuple(runs[0]))
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
        return Reruns(newest, older)
    before = {ref.key for run in runs[1:] for ref in run}
    since = {kept[key].source: time for key, time in oldest.items() if time != _time(kept[key])}
    return Reruns(newest, older, (), PartialRun(len(newer & before), len(kept), since))


def _runs(files: Sequence[TensorRef], start_us: int) -> Iterator[Sequence[TensorRef]]:
    """Yield the runs that wrote one iteration's files, given in order of time, the newest run first.

    `start_us` is how long a run takes at least to start where nothing but time shows one. Runs that hold the same
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
    """Return where the newest run starts when Parameters repeat: after the Parameters of the run before."""
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
    """Return where each run starts: first passes follow each other, as long as all that repeats comes after each."""
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
    """Return how long a pause, in longest pauses of the first pass, makes `later` another run."""
    complete = set(map(_identity, first)) <= set(map(_identity, later))
    if complete and first[0].key.op.op_type is None:
        # Reference folders: a script can call the model twice in a row, without any pause. MindSpore counts its
        # iterations, so a repeat needs a new process.
        return 0
    if complete or _operator(first[0]) == _operator(later[0]):
        return 1
    return _UNLIKELY_PAUSE


# -- Occurrences -----------------------------------------------------------------------------------------------------


def _numbered(run: Sequence[TensorRef]) -> list[TensorRef]:
    """Set the occurrence of every tensor of one run, given in order of time."""
    if _are_distinct(run):
        return [_moved(ref, occurrence=0) for ref in run]
    operators: defaultdict[Hashable, list[int]] = defaultdict(list)
    for position, ref in enumerate(run):
        operators[_operator(ref)].append(position)
    numbered = list(run)
    for positions in operators.values():
        passes = _passes([run[position] for position in positions])
        for position, occurrence in zip(positions, passes, strict=True):
            numbered[position] = _moved(run[position], occurrence=occurrence)
    return numbered


def _passes(files: Sequence[TensorRef]) -> list[int]:
    """Number the passes of one operator's files, given in order of time.

    A pass writes inputs before outputs, each at most once. So a pass ends where a tensor comes again, and where an
    input follows an output: a slot that one pass left out (empty tensors are not written) keeps its number in the next.
    """
    if _are_distinct(files):
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


def _number_on(refs: Sequence[TensorRef], seen: Counter[Hashable]) -> Sequence[TensorRef]:
    """Number occurrences on from those `seen` under lower indices of the same step, and add these to them."""
    moved = [_moved(ref, occurrence=seen[_operator(ref)] + (ref.key.op.at.occurrence or 0)) for ref in refs]
    for ref in moved:
        seen[_operator(ref)] = max(seen[_operator(ref)], (ref.key.op.at.occurrence or 0) + 1)
    return moved


# -- Steps of a training in one directory ----------------------------------------------------------------------------

# One run of an operator: the time and the path of its dump file, or of its files of one time.
_Run = tuple[int, str]


def _split_steps(folder: Path, refs: Sequence[TensorRef]) -> tuple[Sequence[TensorRef], Sequence[str]]:
    """Give each step of a training its iteration, where all of them were dumped into one directory."""
    if not _FIRST_ASYNCHRONOUS.fullmatch("/".join(folder.absolute().parts[-4:])):
        return refs, ()
    steps = _steps(refs) if all(is_time(ref.source.timestamp) for ref in refs) else {}
    if not steps:
        return refs, ()
    at = refs[0].key.op.at
    first = at.iteration or 0
    split = [_moved(ref, iteration=first + steps[_operator(ref), _run(ref)]) for ref in refs]
    where = _shown(device=at.rank, net=at.net, graph=at.graph)
    return split, (say(Message("note_split", {"where": where, "first": first, "last": first + max(steps.values())})),)


def _run(ref: TensorRef) -> _Run:
    return (_time(ref), ref.source.text)


def _steps(refs: Sequence[TensorRef]) -> Mapping[tuple[Hashable, _Run], int]:
    """Number the steps of one directory from 0, by operator and its run; empty where it does not hold several."""
    by_operator: defaultdict[Hashable, set[_Run]] = defaultdict(set)
    for ref in refs:
        by_operator[_operator(ref)].add(_run(ref))
    counts = set(map(len, by_operator.values()))
    if min(counts) < 2:
        return {}
    if len(counts) == 1:
        return {
            (operator, run): step for operator, runs in by_operator.items() for step, run in enumerate(sorted(runs))
        }
    everything = ((run, operator) for operator, runs in by_operator.items() for run in runs)
    return _cut_steps(sorted(everything, key=itemgetter(0)))


def _cut_steps(runs: Sequence[tuple[_Run, Hashable]]) -> Mapping[tuple[Hashable, _Run], int]:
    """Begin a step with each run of the operator that ran first; all must be alike, but for a last one cut short."""
    begins = [position for position, (_, operator) in enumerate(runs) if operator == runs[0][1]]
    steps = [runs[begin:end] for begin, end in zip(begins, [*begins[1:], len(runs)], strict=True)]
    contents = [Counter(operator for _, operator in step) for step in steps]
    if any(content != contents[0] for content in contents[:-1]) or not contents[-1] <= contents[0]:
        return {}
    return {(operator, run): number for number, step in enumerate(steps) for run, operator in step}
