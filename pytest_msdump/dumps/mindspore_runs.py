"""What the files of one directory are, by their names: tensors of any release, side files, or neither."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.dumps.ascend_names import AscendName, Found, Remarks, parse_ascend, parse_converted
from pytest_msdump.dumps.dump_tree import Place, below_rank, is_first_layout
from pytest_msdump.dumps.filename import MindSporeName, is_time, may_tell_io, number, parse_mindspore
from pytest_msdump.dumps.flat_bin import FlatName, parse_flat, parse_flat_npy
from pytest_msdump.dumps.listing import Folder
from pytest_msdump.dumps.opdebug import parse_opdebug
from pytest_msdump.dumps.repeats import Repeats, sort_out
from pytest_msdump.dumps.run_facts import read_histories, run_once
from pytest_msdump.dumps.sidefiles import MAPPING, STATISTICS_FILE, originals_in
from pytest_msdump.model.dump import PartialRun
from pytest_msdump.model.ordering import in_order, placed_by_time
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

__all__ = ["contents_of", "has_own_tensors", "placed", "side_files", "sort_out_runs"]

_MADE_OF_DUMPS = "{files} made of dumps that are still beside them, which are read instead, e.g. {example}"
_OVERFLOW = "{files} of the overflow check (Opdebug), which are no tensors to compare, e.g. {example}"

# Directories beside the nets that hold no tensors. A rank's were those of a net or a device up to 1.3.
_RANK_FOLDERS = frozenset({".dump_metadata", "graphs", "execution_order"})
_FIRST_FOLDERS = re.compile(r"(?:(?:.+/)?(?:device_)?[0-9]{1,9}/)?(?:graphs|execution_order)|\.metadata", re.DOTALL)
_RANK_SIDE_FILES = frozenset({"hccl.json"})
_BESIDE_TENSORS = frozenset({MAPPING, STATISTICS_FILE})
# Arguments of a kernel, OP_TYPE.OP.json.
_ARGUMENTS = re.compile(r"[^.]+\..+\.json", re.DOTALL)
# What the compiler was told and made of it, wherever a user keeps that.
_ANYWHERE = re.compile(
    r"acl_dump_[0-9]+\.json|hccl\.json|ge_(?:proto|onnx)_.+\.(?:txt|pbtxt)|convert_failed_file_list\.txt"
)
_GRAPH_FILES = re.compile(
    r"ms_output_trace_code_graph_[0-9]+\.(?:ir|pb)|ms_(?:global_)?execution_order_graph_[0-9]+\.csv"
)
_CSV = ".csv"


_SHAPE = re.compile(r"[0-9x]+")


class _Array(NamedTuple):
    """A tensor in a file of its own; `dump` is what its name says of the dump file that it may have been made of."""

    op: str
    op_type: str | None
    io: str
    slot: int
    timestamp: int | None
    spec: TensorSpec
    dump: MindSporeName | AscendName | None = None


class Contents(NamedTuple):
    """Arrays, dump files, and the names of files that are neither these nor side files."""

    arrays: list[TensorRef]
    dumps: list[Found]
    unexplained: list[str]


def has_own_tensors(root: Path, folder: Folder, place: Place) -> bool:
    """Tell whether MindSpore itself wrote arrays to a directory, by names alone."""
    tells_io = may_tell_io(folder.files)
    if tells_io and any(parse_mindspore(name) or parse_flat(name) for name in folder.files):
        return True
    if tells_io and is_first_layout(root, folder.parts) and any(map(parse_flat_npy, folder.files)):
        return True
    # Directories in which every name was too long: numbers, and the table of their meaning.
    return place.at.rank is not None and MAPPING in folder.files and any(map(_is_numbered, folder.files))


def _is_numbered(name: str) -> bool:
    return name.endswith(".npy") and number(name[: -len(".npy")]) is not None


def contents_of(root: Path, folder: Folder, place: Place | None, remarks: Remarks, *, reader: str) -> Contents:
    """Sort the files of one directory.

    Parameters
    ----------
    root : Path
        The dump's root.
    folder : Folder
        The directory.
    place : Place, optional
        Where in a run it is; ``None`` for one that holds no tensors.
    remarks : Remarks
        Gets what is worth telling.
    reader : str
        Who opens the arrays.

    Returns
    -------
    Contents
        `unexplained` without known side files. An array that was made of a dump file beside it is left out.
    """
    originals = _originals(root, folder, remarks) if place else {}
    path, is_first = folder.below(root), is_first_layout(root, folder.parts)
    arrays: list[tuple[str, _Array]] = []
    dumps: list[Found] = []
    rest: list[str] = []
    for name in folder.files:
        names = (name, originals[name]) if name in originals else (name,)
        array = _first_array(names, is_first=is_first) if place else None
        dump = next(_dumps(path, names, place.at), None) if place and not array else None
        if array:
            arrays.append((name, array))
        elif dump:
            dumps.append(dump)
        else:
            rest.append(name)
    runs = {_run_of_file(dump.name) for dump in dumps}
    # They are looked at in order of time: what is made one after the other lies side by side in memory.
    arrays.sort(key=lambda array: array[1].timestamp or 0)
    refs: list[TensorRef] = []
    for name, array in arrays:
        if runs and array.dump and _run_of_file(array.dump) in runs:
            remarks.add(_MADE_OF_DUMPS, folder.relative(name).as_posix())
        elif place:
            refs.append(_ref(array, place.at, TensorSource(path, name, array.timestamp), reader))
    known = side_files(root, folder, place, has_tensors=bool(arrays or dumps))
    _remark_overflow(folder, rest, remarks)
    return Contents(refs, dumps, [name for name in rest if name not in known])


def _originals(root: Path, folder: Folder, remarks: Remarks) -> Mapping[str, str]:
    """Return the names that were too long for the file system, by the names they were given."""
    originals, notes = originals_in(root, folder)
    remarks.say(*notes)
    absent = sorted(set(originals) - set(folder.files))
    if absent:
        count = "1 that is" if len(absent) == 1 else f"{len(absent)} that are"
        remarks.say(f"{folder.text(MAPPING)} names {count} not there, e.g. {absent[0]}")
    return originals


def _first_array(names: tuple[str, ...], *, is_first: bool) -> _Array | None:
    """Read a file's name, and the one it stands for where there is one, by each grammar."""
    for name in names:
        parsed = parse_mindspore(name)
        # A shape in the place of the memory format is the mark of the vendor's first tool.
        is_sure = parsed is not None and not _is_shape(parsed.dtype or parsed.memory_format)
        converted = None if is_sure else parse_converted(name)
        if parsed and (is_sure or (converted and not converted.has_shape)):
            return _Array(parsed.op, parsed.op_type, parsed.io, parsed.slot, parsed.timestamp, parsed.spec, parsed)
        if converted:
            dump, spec = converted.dump, TensorSpec(memory_format=converted.memory_format)
            return _Array(dump.op, dump.op_type, converted.io, converted.slot, dump.timestamp, spec, dump)
        flat: FlatName | None = parse_flat(name) or (parse_flat_npy(name) if is_first else None)
        if flat:
            return _Array(flat.op, flat.op_type, flat.io, flat.slot, None, flat.spec)
    return None


# A dump has very many names and few of these words.
@lru_cache(maxsize=256)
def _is_shape(word: str) -> bool:
    return _SHAPE.fullmatch(word) is not None


def _run_of_file(parsed: MindSporeName | AscendName) -> tuple[object, ...]:
    """Identify one run of an operator, which arrays that were made of its dump share with it."""
    return (parsed.op_type, parsed.task, parsed.stream, parsed.timestamp)


def _dumps(folder: Path, names: tuple[str, ...], at: Coordinates) -> Iterator[Found]:
    for name in names:
        parsed = parse_ascend(name)
        if parsed and parsed.is_known and not parse_opdebug(name):
            yield Found(folder, names[0], parsed, at)


def _ref(array: _Array, at: Coordinates, source: TensorSource, reader: str) -> TensorRef:
    op_name, op_type, io, slot, _, spec, _ = array
    return TensorRef(TensorKey(OpKey(op_name, at, op_type), io, slot), spec, source, reader)


def _remark_overflow(folder: Folder, names: list[str], remarks: Remarks) -> None:
    for name in names:
        if parse_opdebug(name):
            remarks.add(_OVERFLOW, folder.relative(name).as_posix())


def side_files(root: Path, folder: Folder, place: Place | None, *, has_tensors: bool) -> Container[str]:
    """Return the names in a directory that are no tensors but that MindSpore writes at this place.

    Parameters
    ----------
    root : Path
        The dump's root.
    folder : Folder
        The directory.
    place : Place, optional
        Where in a run it is.
    has_tensors : bool
        Whether there are tensors in it, which makes sure that `place` is what it seems to be.
    """
    in_rank = below_rank(root, folder)
    if (in_rank and in_rank[0] in _RANK_FOLDERS) or _FIRST_FOLDERS.fullmatch("/".join(folder.parts)):
        return frozenset(folder.files)
    is_sure = has_tensors or (place is not None and place.at.rank is not None)
    beside_ranks = _RANK_SIDE_FILES if in_rank == () else frozenset()
    return frozenset(
        name
        for name in folder.files
        # None of them is an array, and arrays are what a directory is full of.
        if not name.endswith(".npy")
        if name in beside_ranks
        or (name == STATISTICS_FILE and not folder.parts)
        or _is_side_file(name, is_sure=is_sure, is_place=place is not None)
    )


def _is_side_file(name: str, *, is_sure: bool, is_place: bool) -> bool:
    if is_sure and (name in _BESIDE_TENSORS or _ARGUMENTS.fullmatch(name)):
        return True
    if is_place and (parse_opdebug(name) or _is_statistics(name)):
        return True
    return _ANYWHERE.fullmatch(name) is not None or _GRAPH_FILES.fullmatch(name) is not None


def _is_statistics(name: str) -> bool:
    """Whether a file holds the statistics of one operator, as devices write them: its dump's name and ``.csv``."""
    return name.endswith(_CSV) and parse_ascend(name[: -len(_CSV)]) is not None


# -- Sorts out what was dumped several times, where a directory holds more than one run of an o ----------------------


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
