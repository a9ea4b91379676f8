"""Index a dump: choose its reader, list its tensors by name, and add what lies beside them. Opens no tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_msdump.capabilities.overflow.indexing import with_overflows
from pytest_msdump.core import registry
from pytest_msdump.core.dumps.array_files import ArrayFileReader
from pytest_msdump.core.dumps.base import EMPTY, index_dump
from pytest_msdump.core.dumps.mindspore import MindSporeReader
from pytest_msdump.core.dumps.reruns import order_by_time
from pytest_msdump.core.dumps.run_history import disagreements, read_histories
from pytest_msdump.core.errors import IncompleteRecordingError, MsdumpError
from pytest_msdump.core.model.dump import (
    EVERY_ITERATION,
    JOURNAL_FILE,
    MANIFEST_FILE,
    Dump,
    DumpConfiguration,
    PartialRun,
    RunFacts,
)
from pytest_msdump.core.model.ordering import PARAMETER
from pytest_msdump.core.model.tensor import Coordinates, TensorRef
from pytest_msdump.core.storage.listings import names_kept
from pytest_msdump.core.storage.locations import RemotePath, storage
from pytest_msdump.core.text import Message, Parameter, say
from pytest_msdump.dumps.ascend import AscendReader
from pytest_msdump.dumps.converted import ConvertedReader
from pytest_msdump.dumps.graphs.execution_order import find_orders, order_files, read_order, read_orders, with_order
from pytest_msdump.dumps.graphs.graph_files import find_irs, read_graphs, read_named_graphs
from pytest_msdump.dumps.graphs.ir_names import with_ir
from pytest_msdump.dumps.manifest import graphs_of, labels_of, read_manifest, why_incomplete
from pytest_msdump.dumps.run_facts import read_run
from pytest_msdump.dumps.statistics import READER as STATISTICS
from pytest_msdump.dumps.statistics import read_statistics

if TYPE_CHECKING:
    from pytest_msdump.core.dumps.base import Reader

# The reader of one array, which is a whole dump without anything beside it.
_ARRAY_READER, _ARRAY = "npy-file", ".npy"

_RECORD = frozenset({Path(MANIFEST_FILE), Path(JOURNAL_FILE)})
# From the folder of one iteration, in the deepest tree that a framework writes, to what a recorder was given.
_LEVELS_ABOVE = 4


@cache
def readers() -> Mapping[str, Reader]:
    """All readers by name, looked up once in a process."""
    found: dict[str, Reader] = registry.load("dumps", "Reader")
    return found


@cache
def reader(name: str) -> Reader:
    """The reader of this name; loads no other."""
    return cast("Reader", registry.find("dumps", "Reader", name))


def index(root: Path, *, graph_files: Iterable[Path] = (), allow_incomplete: bool = False) -> Dump:
    """Index the dump at `root`, in execution order and with lines of the program as far as these are known.

    `root` is a dump directory or one tensor file; a remote one is listed anew. `graph_files` are orders and graphs
    outside of the tree. With `allow_incomplete` a recording that has not ended is taken as it is, and its notes say so.

    Raises DumpNotFoundError; UnknownDumpFormatError for files that no reader knows, with what each reader looked for;
    IncompleteRecordingError; ConfigError where a graph file cannot be used, or a URL needs a package that is not
    installed.
    """
    kept = tuple(graph_files)
    if not kept and root.suffix == _ARRAY and not isinstance(root, RemotePath) and root.is_file():
        return reader(_ARRAY_READER).index(root)
    return _index(root, kept, allow_incomplete=allow_incomplete)


def _index(root: Path, graph_files: tuple[Path, ...], *, allow_incomplete: bool) -> Dump:
    """Index anything, in stages, each of which adds to the dump."""
    unfit = storage().list_below(root) if isinstance(root, RemotePath) else ()
    with names_kept():
        dump = _only_whole(_with_manifest(index_dump(root, readers())), allow_incomplete=allow_incomplete)
        dump = _with_run(with_overflows(_with_graphs(_with_statistics(_with_perturbation(dump)), graph_files)))
    if isinstance(root, RemotePath):
        storage().refuse_changed()
    return replace(dump, unexplained=(*dump.unexplained, *unfit)) if unfit else dump


def listed(path: Path) -> Path:
    """Return the same path; a remote one is listed, after which it knows whether it is a file or a folder."""
    if isinstance(path, RemotePath):
        storage().list_below(path)
    return path


def names_arrays(path: Path) -> bool:
    """Whether a file holds arrays of many operators by name, and so is a whole dump."""
    return any(isinstance(each, ArrayFileReader) and each.recognises(path) for each in readers().values())


def _with_graphs(dump: Dump, files: tuple[Path, ...]) -> Dump:
    """Add places and names of operators from execution orders, then lines and shapes from graphs."""
    kept_orders, kept_graphs = order_files(files)
    kept_numbers = {at.graph for at in kept_orders}
    own = {at: path for at, path in find_orders(dump.root).items() if at.graph not in kept_numbers}
    orders, order_notes = read_orders({**own, **kept_orders})
    dump = with_order(dump, orders, notes=order_notes)
    graphs, graph_notes = read_graphs(find_irs(dump.root))
    graphs = (*graphs, *read_named_graphs(kept_graphs))
    if not graphs:
        return replace(dump, notes=(*dump.notes, *graph_notes))
    return replace(with_ir(dump, graphs, orders=orders, notes=graph_notes), graphs=(*dump.graphs, *graphs))


# A folder of a reference is no run: a table in it is not about its tensors.
_WITH_TENSORS = frozenset({MindSporeReader.name, AscendReader.name, ConvertedReader.name})

# Operator, type, coordinates but for the occurrence, input or output, slot: a name that a table spells with slashes is
# the same tensor.
_Identity = tuple[str, str | None, Coordinates, str, int]


def _with_statistics(dump: Dump) -> Dump:
    """Attach the statistics of a run to its tensors; those without a tensor become tensors that cannot be opened.

    The keys of `dump` are still those of file names. The reader is ``"statistics"`` if no tensor was saved at all.
    """
    if dump.reader not in _WITH_TENSORS or not dump.root.is_dir():
        return dump
    tables = read_statistics(dump.root)
    notes = (*dump.notes, *(note for note in tables.notes if note not in dump.notes))
    files: frozenset[Path] = frozenset(tables.files)
    dump = replace(dump, notes=notes, unexplained=tuple(path for path in dump.unexplained if path not in files))
    if not (tables.rows or tables.older):
        return dump
    saved = _rows_by_tensor((*dump.refs, *dump.older), (*tables.rows, *tables.older))
    refs, older = (
        tuple(replace(ref, statistics=saved[ref].statistics) if ref in saved else ref for ref in part)
        for part in (dump.refs, dump.older)
    )
    if not refs and not older:
        return replace(dump, reader=STATISTICS, refs=tables.rows, older=tables.older, partial=tables.partial)
    alone = _other_rows(refs, tables.rows, saved.values())
    if alone:
        about: dict[str, Parameter] = {"n": len(alone), "name": alone[0].key.address}
        notes = (*notes, say(Message("note_statistics_only", about)))
        refs = order_by_time((*refs, *alone), PartialRun.total((dump.partial, tables.partial)))
    return replace(dump, refs=refs, older=older, notes=notes)


def _rows_by_tensor(refs: Iterable[TensorRef], rows: Iterable[TensorRef]) -> dict[TensorRef, TensorRef]:
    """Find the rows of tensors; all rows are needed, since which run one is of follows from its time only."""
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


def _other_rows(
    refs: Iterable[TensorRef], rows: Iterable[TensorRef], used: Iterable[TensorRef]
) -> tuple[TensorRef, ...]:
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


# A folder of a reference is no run, whatever lies in it.
_OF_RUNS = _WITH_TENSORS | {STATISTICS, EMPTY}


def _with_run(dump: Dump) -> Dump:
    """Add version, device and configuration from the files beside a dump; notes say what does not fit together.

    What a configuration says and the tensors contradict is left out: it is of an earlier run, since MindSpore does not
    write it again.
    """
    if dump.reader not in _OF_RUNS or not dump.root.is_dir():
        return dump
    run, notes = read_run(dump.root)
    notes_now = [*dump.notes, *(note for note in notes if note not in dump.notes)]
    if run is not None:
        checked = [_checked(one, dump.refs, notes_now) for one in run.configurations]
        run = replace(run, configurations=tuple(checked))
        notes_now += [note for note in _scenes(run) if note not in notes_now]
        if not dump.refs and not dump.older and not dump.unexplained:
            notes_now.append(say(Message("note_ended_early")))
        dump = _sampled(dump, run)
    histories, failures = read_histories(dump.root)
    notes_now += failures
    notes_now += disagreements(histories, (*dump.refs, *dump.older), ran_nothing=_ran_nothing(dump, run))
    return replace(dump, run=run, notes=tuple(notes_now), labels=_labels(dump, run))


def _sampled(dump: Dump, run: RunFacts) -> Dump:
    """Mark the tensors of ranks that saved samples."""
    if all(one.sample is None for one in run.configurations):
        return dump
    samples = {
        rank: one.sample for rank in {ref.key.op.at.rank for ref in dump.refs} if (one := run.configuration(rank))
    }
    return replace(dump, refs=tuple(replace(ref, sample=samples.get(ref.key.op.at.rank)) for ref in dump.refs))


def _labels(dump: Dump, run: RunFacts | None) -> tuple[tuple[str, str], ...]:
    """Return the dump's labels, with version and device if its reader does not know their file."""
    known = dict(dump.labels)
    if run is not None:
        for name, value in (("ms_version", run.version), ("device_target", run.device)):
            if value is not None:
                known.setdefault(name, value)
    return tuple(sorted(known.items()))


def _scenes(run: RunFacts) -> Iterator[str]:
    for one in run.configurations:
        if one.scene == "exception" and run.device in ("CPU", "GPU"):
            yield say(Message("note_exception_on", {"device": run.device}))
        elif one.scene:
            yield say(Message(f"note_{one.scene}_dump"))
        if one.sample is not None:
            yield say(Message("note_sampled_dump", {"sample": one.sample}))


def _checked(one: DumpConfiguration, refs: Iterable[TensorRef], notes: list[str]) -> DumpConfiguration:
    """Take out of a configuration what tensors of its rank contradict."""
    own = [ref for ref in refs if one.rank is None or ref.key.op.at.rank in (None, one.rank)]
    operators = [ref for ref in own if ref.key.op.op_type != PARAMETER]
    wrong: list[str] = []
    if any(not one.selects_io(ref.key.io) for ref in operators):
        wrong.append(f"{one.io}s only")
        one = replace(one, io="all", scene="" if one.scene == "exception" else one.scene)
    iterations = {ref.key.op.at.iteration for ref in own if ref.key.op.at.iteration is not None}
    if not all(map(one.selects_iteration, iterations)):
        wrong.append(f"iteration {one.iterations!r}")
        one = replace(one, iterations=EVERY_ITERATION)
    if one.kernels and any(one.selects_operator(op) is False for op in {ref.key.op for ref in operators}):
        wrong.append(f"the kernels {one.kernels_text}")
        one = replace(one, kernels=())
    if wrong:
        notes.append(f"{one.source} says {' and '.join(wrong)}, but there are other tensors: it is of another run")
    return one


def _ran_nothing(dump: Dump, run: RunFacts | None) -> Callable[[int, int], bool]:
    """Return whether a graph may have run without a trace: it has no operators, or none that was to be dumped."""

    def ran_nothing(rank: int, graph: int) -> bool:
        one = run.configuration(rank) if run else None
        if one is not None and (one.kernels or one.scene or one.by_script or one.io != "all"):
            return True
        path = find_orders(dump.root).get(Coordinates(rank=rank, graph=graph))
        try:
            return path is None or not read_order(path)
        except MsdumpError:
            return True

    return ran_nothing


def _with_manifest(dump: Dump) -> Dump:
    """Take labels and origins of a framework's own dump from the manifest beside it, if there is one."""
    if dump.manifest is not None or _RECORD.isdisjoint(dump.unexplained):
        return dump
    manifest, notes = read_manifest(dump.root)
    if manifest is None:
        return dump
    known = dict((*labels_of(manifest), *dump.labels))
    if "ms_version" in known:
        known.pop("framework", None)
    return replace(
        dump,
        unexplained=tuple(path for path in dump.unexplained if path not in _RECORD),
        labels=tuple(sorted(known.items())),
        notes=(*dump.notes, *notes),
        graphs=(*dump.graphs, *graphs_of(manifest)),
        manifest=replace(manifest, tensors={}, graph={}),
        incomplete=why_incomplete(manifest),
    )


def _with_perturbation(dump: Dump) -> Dump:
    """Say first of all that a run was perturbed, so that it is taken for no reference."""
    if not any(one is not None and one.perturbation for one in (dump.manifest, *dump.ranks.values())):
        return dump
    return replace(dump, notes=(say(Message("perturbed_run")), *dump.notes))


def _only_whole(dump: Dump, *, allow_incomplete: bool) -> Dump:
    """Refuse a dump that is part of a recording that has not ended; or say so in a note, if it is allowed."""
    why = dump.incomplete or _why_around(dump)
    if not why:
        return dump
    if not allow_incomplete:
        raise IncompleteRecordingError(
            f"{dump.root}: {why}; record it again, or take what there is of it with --msdump-allow-incomplete "
            "(msdump: --allow-incomplete; in Python: allow_incomplete=True)"
        )
    return replace(dump, incomplete=why, notes=(say(Message("note_incomplete", {"why": why})), *dump.notes))


def _why_around(dump: Dump) -> str:
    """Return why the manifests in folders below the root, or in those above it, say that a recording is not whole."""
    if dump.root.is_file():
        return ""
    below = {path.parent for path in dump.unexplained if path.name in (MANIFEST_FILE, JOURNAL_FILE)}
    folders = [dump.root / folder for folder in sorted(below)]
    if not isinstance(dump.root, RemotePath):
        folders += dump.root.absolute().parents[:_LEVELS_ABOVE]
    for folder in folders:
        manifest, _ = read_manifest(folder)
        why = "" if manifest is None else why_incomplete(manifest)
        if why:
            return f"{why}, in {folder}"
    return ""
