"""Sorts out what was dumped several times, where a directory holds more than one run of an operator by its layout.

References
----------
MindSpore "Dump" documentation. Release 1.3, asynchronous dump: without data sinking the steps of a training all lie in
one directory. Releases since 2.0 with O2: below ``{step}/{time}/`` a device counts its own iterations.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.model.dump import PartialRun
from pytest_msdump.model.ordering import in_order, placed_by_time
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.readers.filename import is_time
from pytest_msdump.readers.repeats import Repeats, sort_out
from pytest_msdump.readers.run_history import read_histories, run_once

__all__ = ["placed", "sort_out_runs"]

_FIRST_ASYNCHRONOUS = (r"[0-9]{1,9}", r".+_graph_[0-9]{1,9}", r"[0-9]{1,18}", r"[0-9]{1,18}")
_STEPPED = (r"[0-9]{1,9}", r"[0-9]{14}", r"[0-9]{1,9}", r".+", r"[0-9]{1,18}", r"(?P<index>[0-9]{1,18})")
_FIRST_ASYNCHRONOUS_FOLDER = re.compile("/".join(_FIRST_ASYNCHRONOUS), re.DOTALL)
_STEPPED_FOLDER = re.compile("/".join(_STEPPED), re.DOTALL)


class _Run(NamedTuple):
    """One run of an operator: its dump file, or its files of one time."""

    timestamp: int
    path: str


def sort_out_runs(root: Path, refs: Iterable[TensorRef]) -> Repeats:
    """Tell steps, occurrences and re-runs apart; see `repeats.sort_out` for what the layout does not settle.

    Parameters
    ----------
    root : Path
        The dump's root.
    refs : iterable of TensorRef
        All tensors of one dump; which occurrence they claim does not matter.

    Returns
    -------
    Repeats
        Each tensor is in exactly one of `newest` and `older`.
    """
    folders: defaultdict[str, list[TensorRef]] = defaultdict(list)
    # Files of one directory share its path, whose text is looked at once.
    texts: dict[int, tuple[str, Path]] = {}
    for ref in refs:
        folder = ref.source.folder
        text = texts.get(id(folder)) or texts.setdefault(id(folder), (str(folder), folder))
        folders[text[0]].append(ref)
    by_index: defaultdict[int, list[TensorRef]] = defaultdict(list)
    notes: list[str] = []
    for _, members in sorted(folders.items()):
        folder = members[0].source.folder
        split, note = _split_steps(folder, members)
        by_index[_index_in_step(root, folder)] += split
        notes += note
    newest: list[TensorRef] = []
    older: list[TensorRef] = []
    partials: list[PartialRun | None] = []
    seen: Counter[Hashable] = Counter()
    once = run_once(read_histories(root)[0])
    for index in sorted(by_index):
        repeats = sort_out(by_index[index], once=once)
        newest += _behind(repeats.newest, seen) if len(by_index) > 1 else repeats.newest
        older += repeats.older
        notes += [note for note in repeats.notes if note not in notes]
        partials.append(repeats.partial)
    return Repeats(tuple(newest), tuple(older), tuple(notes), PartialRun.total(partials))


def placed(refs: Iterable[TensorRef], partial: PartialRun | None = None) -> tuple[TensorRef, ...]:
    """Order tensors by time. Those of 1.2 and 1.3 have none, so they have no place: their names would give a false one.

    Parameters
    ----------
    refs : iterable of TensorRef
        In any order.
    partial : PartialRun, optional
        As `model.ordering.placed_by_time` takes it.

    Returns
    -------
    tuple of TensorRef
        In the order of `model.ordering.in_order`.
    """
    tensors = list(refs)
    timeless = [ref for ref in tensors if ref.source.timestamp is None]
    if not timeless:
        return placed_by_time(tensors, partial)
    timed = [ref for ref in tensors if ref.source.timestamp is not None]
    return in_order((*placed_by_time(timed, partial), *timeless))


def _behind(refs: Sequence[TensorRef], seen: Counter[Hashable]) -> Sequence[TensorRef]:
    """Number occurrences on from those `seen` under lower indices of the same step, and add these to them."""
    moved = [_at(ref, occurrence=seen[_operator(ref)] + (ref.key.op.at.occurrence or 0)) for ref in refs]
    for ref in moved:
        seen[_operator(ref)] = max(seen[_operator(ref)], (ref.key.op.at.occurrence or 0) + 1)
    return moved


def _at(ref: TensorRef, *, iteration: int | None = None, occurrence: int | None = None) -> TensorRef:
    """Change the coordinates that are given."""
    at = ref.key.op.at
    iteration = at.iteration if iteration is None else iteration
    occurrence = at.occurrence if occurrence is None else occurrence
    if (iteration, occurrence) == (at.iteration, at.occurrence):
        return ref
    at = replace(at, iteration=iteration, occurrence=occurrence)
    return replace(ref, key=replace(ref.key, op=replace(ref.key.op, at=at)))


def _operator(ref: TensorRef) -> Hashable:
    op, at = ref.key.op, ref.key.op.at
    return (at.rank, at.net, at.graph, at.iteration, op.op_type, op.name, op.true_name)


def _index_in_step(root: Path, folder: Path) -> int:
    """Return the device's own count below a step of the user's; 0 elsewhere."""
    parts = folder.relative_to(root).parts if folder.is_relative_to(root) else ()
    match = _STEPPED_FOLDER.fullmatch("/".join(parts))
    return int(match["index"]) if match else 0


def _split_steps(folder: Path, refs: Sequence[TensorRef]) -> tuple[Sequence[TensorRef], Sequence[str]]:
    """Give each step of a training its iteration, where all of them were dumped into one directory."""
    if not _FIRST_ASYNCHRONOUS_FOLDER.fullmatch("/".join(folder.absolute().parts[-4:])):
        return refs, ()
    if not all(is_time(ref.source.timestamp) for ref in refs):
        return refs, ()
    steps = _steps(refs)
    if not steps:
        return refs, ()
    first = refs[0].key.op.at.iteration or 0
    split = [_at(ref, iteration=first + steps[_operator(ref), _run(ref)]) for ref in refs]
    return split, (_sentence(refs[0], first, first + max(steps.values())),)


def _run(ref: TensorRef) -> _Run:
    return _Run(ref.source.timestamp or 0, ref.source.text)


def _steps(refs: Sequence[TensorRef]) -> Mapping[tuple[Hashable, _Run], int]:
    """Number the steps of one directory from 0, by operator and its run; empty where it does not hold several."""
    by_operator: defaultdict[Hashable, set[_Run]] = defaultdict(set)
    for ref in refs:
        by_operator[_operator(ref)].add(_run(ref))
    if min(map(len, by_operator.values())) < 2:
        return {}
    if len(set(map(len, by_operator.values()))) == 1:
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


def _sentence(ref: TensorRef, first: int, last: int) -> str:
    at = ref.key.op.at
    named = (("device", at.rank), ("net", at.net), ("graph", at.graph))
    where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
    return (
        f"every operator of {where} was dumped several times into one directory (a training without data sinking): "
        f"split by time into the iterations {first} to {last}"
    )
