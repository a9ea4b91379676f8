"""Folders of ``op.index.timestamp.npy``, as runs of PyTorch, TensorFlow, Caffe or ONNX are saved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from pytest_msdump.core.dumps.array_files import ArrayFileReader
from pytest_msdump.core.dumps.base import DumpBuilder, Reader, reader
from pytest_msdump.core.dumps.dump_tree import RANK_FOLDER
from pytest_msdump.core.dumps.file_names import ReferenceName, number, numbered_folder, parse_reference
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.manifest import apply_entry, graphs_of, labels_of, read_manifest, why_incomplete
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import Reruns, number_occurrences, order_by_time, separate_runs
from pytest_msdump.core.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.core.dumps.stored_file import opened
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.dump import (
    ARCHIVE_FILE,
    JOURNAL_FILE,
    MANIFEST_FILE,
    Dump,
    PartialRun,
    TensorEntry,
    in_order,
    placed_at,
    placed_by_time,
)
from pytest_msdump.core.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    SavedSketch,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
)
from pytest_msdump.core.text import Message, Parameter, message_of_note, say

_SUFFIX = ".npy"
_RECORD = frozenset({MANIFEST_FILE, JOURNAL_FILE, ARCHIVE_FILE})
# What the name of a file claims of its tensor.
_UNKNOWN = TensorSpec()


class NpyFolderReader(Reader):
    """Outputs of a reference run, flat or with one iteration in each sub-folder whose name is a plain number."""

    name = "npy-folder"
    looks_for = "a folder of OP.INDEX.TIMESTAMP.npy files, or of numbered sub-folders of them"

    def recognises(self, root: Path) -> bool:
        """Return whether a file in `root`, or in a numbered sub-folder, has such a name; or there is a manifest."""
        if not root.is_dir():
            return False
        folders = tuple(walk(root))
        return bool(_recorded_ranks(folders)) or any(
            _holds_tensors(folder) or (not folder.parts and not _RECORD.isdisjoint(folder.files))
            for folder in folders
            if _may_hold(folder)
        )

    def index(self, root: Path) -> Dump:
        """List the tensors of `root`; see `Reader.index`."""
        folders = tuple(walk(root))
        ranks = _recorded_ranks(folders)
        whole = self._index_one(root, folders)
        found = {rank: self._index_one(root / name, tuple(walk(root / name))) for rank, name in ranks.items()}
        return _joined(whole, found) if found else whole

    def _index_one(self, root: Path, folders: Sequence[Folder]) -> Dump:
        """List the tensors of one recording."""
        builder = DumpBuilder(root, self.name)
        manifest, notes = read_manifest(root)
        builder.note(*notes)
        entries = {} if manifest is None else manifest.tensors
        archived, damage = _folders_in(root, entries) if ARCHIVE_FILE in folders[0].files else ({}, "")
        refs = _find(builder, folders, archived, is_recording=manifest is not None)
        if damage:
            builder.note(damage)
        if manifest is None:
            runs = separate_runs(refs.values())
        else:
            policy = manifest.dtype_policy
            named = [
                _as_sketched(apply_entry(ref, entries.get(path), policy), entries.get(path))
                for path, ref in refs.items()
            ]
            is_one_run = refs.keys() <= entries.keys()
            runs = Reruns(number_occurrences(named)) if is_one_run else separate_runs(named)
        builder.note(*runs.notes)
        dump = builder.build(runs._replace(notes=()), order=order_by_time)
        if manifest is None:
            return dump
        dump = replace(
            dump,
            labels=labels_of(manifest),
            graphs=graphs_of(manifest),
            manifest=replace(manifest, tensors={}, graph={}),
            incomplete=why_incomplete(manifest, refs),
        )
        return dump if manifest.distributed is None else _of_rank(dump, manifest.distributed.rank)

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        return open_npy(ref.source.location, ref.spec) if ref.source.part is None else _open_member(ref)


def _find(
    builder: DumpBuilder,
    listed: Sequence[Folder],
    archived: Mapping[Folder, Mapping[str, int]],
    *,
    is_recording: bool,
) -> Mapping[str, TensorRef]:
    """Return the tensors by path below the root, with ``/``; of `archived` folders the numbers in the archive."""
    folders = (*listed, *archived)
    iterations = _iterations(folders)
    refs: dict[str, TensorRef] = {}
    for folder in folders:
        parts = archived.get(folder, {})
        iteration = iterations.get(folder.parts)
        if iteration is None:
            builder.leave_out(folder, _beside_record(folder))
            continue
        originals, notes = originals_in(builder.root, folder)
        builder.note(*notes)
        at, path = Coordinates(iteration=iteration, occurrence=0), folder.below(builder.root)
        # A recording and a mapping name what is theirs.
        takes_any = not is_recording and MAPPING not in folder.files
        unknown = []
        for name in _beside_record(folder):
            parsed = parse_reference(name) or parse_reference(originals.get(name, ""))
            if parsed is None and takes_any and name.endswith(_SUFFIX) and name != _SUFFIX:
                parsed = ReferenceName(name.removesuffix(_SUFFIX), 0, None)
            if parsed is not None:
                key = TensorKey(OpKey(parsed.op, at), "output", parsed.slot)
                source = TensorSource(path, name, parsed.timestamp)
                if parts:
                    source = TensorSource(builder.root, ARCHIVE_FILE, parsed.timestamp, parts[name])
                refs[folder.text(name)] = TensorRef(key, _UNKNOWN, source, builder.reader)
            elif name != MAPPING or not originals:
                unknown.append(name)
        builder.leave_out(folder, unknown)
    timeless = [ref for ref in refs.values() if ref.source.timestamp is None]
    if timeless:
        first = min(timeless, key=lambda ref: ref.source.name)
        about: dict[str, Parameter] = {"n": len(timeless), "op": first.key.op.name, "file": first.source.name}
        builder.note(say(Message("note_no_time", about)))
    return refs


def _beside_record(folder: Folder) -> Sequence[str]:
    """Return the files of a folder but for the manifest and the journal of the dump itself."""
    return folder.files if folder.parts else [name for name in folder.files if name not in _RECORD]


def _may_hold(folder: Folder) -> bool:
    return not folder.parts or (len(folder.parts) == 1 and _iteration(folder.parts[0]) is not None)


def _iteration(name: str) -> int | None:
    found = numbered_folder(name)
    return found.number if found and found.coordinate == "iteration" else None


def _holds_tensors(folder: Folder) -> bool:
    # A numbered file beside a mapping may stand for any name.
    is_mapped = MAPPING in folder.files
    return any(
        ((parsed := parse_reference(name)) and parsed.timestamp is not None)
        or (is_mapped and name.endswith(_SUFFIX) and number(name.removesuffix(_SUFFIX)) is not None)
        for name in folder.files
    )


def _iterations(folders: Sequence[Folder]) -> Mapping[tuple[str, ...], int]:
    """Return the directories that hold an iteration, and which one."""
    holding = [folder.parts for folder in folders if _may_hold(folder) and _holds_tensors(folder)]
    steps = sorted((parts for parts in holding if parts), key=lambda parts: (len(parts[0]), parts), reverse=True)
    if not steps:
        return {(): 0}
    # Shorter names come last and win: of `1` and `01`, `1` is the iteration.
    by_number = {_iteration(parts[0]) or 0: parts for parts in steps}
    return {parts: iteration for iteration, parts in by_number.items()}


# -- The tensors of a recording in one archive -----------------------------------------------------------------------

# Its members are npy files, named as the files of a recording are; a member of which the manifest has statistics is the
# sketch of a tensor that was not saved. Of tensors with equal sketches one has a member.


def _archives() -> ArrayFileReader:
    found = reader("npz")
    if not isinstance(found, ArrayFileReader):
        raise TensorFileError("nothing installed reads the archive of a recording; add the reader npz")
    return found


def _open_member(ref: TensorRef) -> TensorView:
    """Open a tensor lazily; TensorFileError where it is damaged, or not there any more."""
    path, part = ref.source.path, ref.source.part or 0
    arrays = _archives().arrays(path)
    parsed = parse_reference(Path(arrays[part].name).name + _SUFFIX) if part < len(arrays) else None
    if parsed is None or parsed.timestamp != ref.source.timestamp:
        raise TensorFileError(f"{path}: {ref.key.address} was in it when it was indexed; run again")
    if arrays[part].problem:
        raise TensorFileError(f"{path}: {arrays[part].name}: {arrays[part].problem}")
    with opened(path) as file:
        return _archives().view_of(file, replace(arrays[part], spec=ref.spec))


def _folders_in(root: Path, entries: Mapping[str, TensorEntry]) -> tuple[dict[Folder, Mapping[str, int]], str]:
    """Return the tensors of the archive in a folder, as folders, with their members' numbers; and why there are none.

    `entries` are what the manifest says of them: some have the member of another one.
    """
    path = root / ARCHIVE_FILE
    try:
        arrays = _archives().arrays(path)
    except TensorFileError as error:
        return {}, str(error)
    members = {array.name + _SUFFIX: part for part, array in enumerate(arrays)}
    shared = {file: members[entry.member] for file, entry in entries.items() if entry.member in members}
    held: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for file, part in {**shared, **members}.items():
        *parts, name = file.split("/")
        held[tuple(parts)][name] = part
    return {Folder(parts, tuple(sorted(names)), ()): names for parts, names in sorted(held.items())}, ""


def _as_sketched(ref: TensorRef, entry: TensorEntry | None) -> TensorRef:
    """Return a tensor of which the archive has the sketch and the manifest the statistics; others as they are."""
    if ref.source.part is None or entry is None or entry.norm is None:
        return ref
    spec = TensorSpec(entry.dtype, entry.shape)
    source = ref.source
    if entry.member is not None:
        parsed = parse_reference(Path(entry.member).name)
        source = replace(source, timestamp=parsed.timestamp if parsed else None)
    member = replace(ref, spec=TensorSpec(), source=source)
    return replace(
        ref,
        spec=spec,
        reader=UNSEEN,
        statistics=Statistics(entry.statistics, digits=None),
        sketch=SavedSketch(member, entry.norm),
    )


# -- Recordings of the processes of one distributed run, each in its `rank_R` ----------------------------------------


def _recorded_ranks(folders: Iterable[Folder]) -> Mapping[int, str]:
    """Return the folders directly below the root that hold the recording of a rank, by rank."""
    recordings = [one for one in folders if MANIFEST_FILE in one.files or JOURNAL_FILE in one.files]
    names = [folder.parts[0] for folder in recordings if len(folder.parts) == 1]
    return dict(sorted((int(match[1]), name) for name in names if (match := RANK_FOLDER.fullmatch(name))))


def _of_rank(dump: Dump, rank: int) -> Dump:
    """Return a dump as that of a rank."""
    return replace(
        dump,
        refs=tuple(_at_rank(ref, rank) for ref in dump.refs),
        older=tuple(_at_rank(ref, rank) for ref in dump.older),
        graphs=tuple((where._replace(rank=rank), graph) for where, graph in dump.graphs),
    )


def _at_rank(ref: TensorRef, rank: int) -> TensorRef:
    op = ref.key.op
    return placed_at(ref, ref.place, key=ref.key._replace(op=op._replace(at=op.at._replace(rank=rank))))


def _joined(whole: Dump, recordings: Mapping[int, Dump]) -> Dump:
    """Return the recordings of ranks as one dump; `whole` is what lies around them."""
    ranks = {rank: _of_rank(dump, rank) for rank, dump in recordings.items()}
    dumps = [whole, *ranks.values()]
    manifests = {rank: dump.manifest for rank, dump in ranks.items() if dump.manifest is not None}
    names = {rank: f"rank_{rank}" for rank in ranks}
    outside = [path for path in whole.unexplained if path.parts[0] not in names.values()]
    inside = [names[rank] / path for rank, dump in ranks.items() for path in dump.unexplained]
    return replace(
        whole,
        refs=in_order(ref for dump in dumps for ref in dump.refs),
        older=in_order(ref for dump in dumps for ref in dump.older),
        partial=PartialRun.total(dump.partial for dump in dumps),
        unexplained=tuple(sorted((*outside, *inside))),
        labels=tuple(sorted({label for dump in dumps for label in dump.labels})),
        notes=(*whole.notes, *(f"{names[rank]}: {note}" for rank, dump in ranks.items() for note in dump.notes)),
        graphs=tuple(graph for dump in dumps for graph in dump.graphs),
        manifest=replace(next(iter(manifests.values())), inputs={}, weights={}, seeds={}, distributed=None),
        ranks=manifests,
        incomplete=whole.incomplete or _why_incomplete(ranks),
    )


def _why_incomplete(ranks: Mapping[int, Dump]) -> str:
    """Return what is missing of a whole run, empty where every rank is there and whole."""
    sizes: dict[int | None, int] = {}
    for rank, dump in ranks.items():
        said = dump.manifest.distributed if dump.manifest is not None else None
        if dump.incomplete:
            return f"rank_{rank}: {dump.incomplete}"
        if said is None or said.rank != rank:
            return f"rank_{rank}/{MANIFEST_FILE} does not say that it is of rank {rank}, and how many there were"
        sizes.setdefault(said.world_size, rank)
    (size, one), *others = sizes.items()
    for other_size, other in others:
        return f"rank_{one} is of a run of {size} ranks, rank_{other} of one of {other_size}"
    if size is None or size == len(ranks):
        return ""
    absent = next(rank for rank in count() if rank not in ranks)
    return f"{size - len(ranks)} of {size} ranks have no recording, e.g. rank_{absent}"


# Steps of a training that hooks wrote into one flat folder: every name is there once for each step, pass after pass.
#
# Files alone cannot tell them from runs of a program into one folder, one after the other. The other side can: where it
# has as many iterations, the passes are these; else the rule of re-runs holds, and both readings are said.

_FLAT = "npy-folder"


def iterations_of(dump: Dump) -> tuple[int, ...]:
    """Return the iterations of a dump, in order."""
    return tuple(sorted({at for ref in dump.refs if (at := ref.key.op.at.iteration) is not None}))


def with_steps(dump: Dump, other: Dump) -> Dump:
    """Return a flat folder that holds every name equally often with its passes as the iterations of the other side."""
    files = sorted((*dump.refs, *dump.older), key=lambda ref: (ref.source.timestamp or 0, ref.source.name))
    passes = _passes(dump, files)
    if passes < 2:
        return dump
    iterations = iterations_of(other)
    said = {"names": len(files) // passes, "times": passes, "iterations": len(iterations)}
    if len(iterations) != passes or any(ref.key.op.at.occurrence for ref in other.refs):
        return replace(dump, notes=(*dump.notes, say(Message("flat_steps_left_alone", {**said, "last": passes - 1}))))
    size = len(files) // passes
    refs = [_at(ref, iterations[number // size]) for number, ref in enumerate(files)]
    note = say(Message("flat_steps", {**said, "numbers": iterations}))
    notes = (note, *(one for one in dump.notes if not message_of_note(one).code.startswith("note_rerun")))
    return replace(dump, refs=placed_by_time(refs), older=(), notes=notes)


def _passes(dump: Dump, files: Collection[TensorRef]) -> int:
    """Return how many whole passes over all names a flat folder without a record of its run holds; 0 where it is none.

    A name of which each pass has several files is one that the model calls several times.
    """
    is_flat = dump.reader == _FLAT and dump.manifest is None and {ref.source.folder for ref in files} == {dump.root}
    if not is_flat or any(ref.source.timestamp is None for ref in files):
        return 0
    names = [(ref.key.op.name, ref.key.slot) for ref in files]
    times = set(Counter(names).values())
    if len(times) != 1:
        return 0
    size = len(set(names))
    pieces = [set(names[start : start + size]) for start in range(0, len(names), size)]
    return len(pieces) if all(piece == pieces[0] for piece in pieces) else 0


def _at(ref: TensorRef, iteration: int) -> TensorRef:
    at = ref.key.op.at._replace(iteration=iteration, occurrence=0)
    return replace(ref, key=ref.key._replace(op=ref.key.op._replace(at=at)))
