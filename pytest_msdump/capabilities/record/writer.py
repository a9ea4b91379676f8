"""Writes dumps: each tensor at once, by the grammar of reference folders, and a manifest that says when it is whole."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.record.given import Given, given_of_trial
from pytest_msdump.capabilities.record.manifest import add_to_journal, digests, marked_incomplete, write_manifest
from pytest_msdump.capabilities.record.sketching import (
    BLOCK_ELEMENTS,
    SOME,
    Archive,
    Looks,
    Sketched,
    described,
    is_worth_it,
    keep_latest,
    looks_of,
    npy_content,
    sketch_of,
    sketched,
)
from pytest_msdump.capabilities.statistics.count_sketch import BUCKETS, SEEDS
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.dtypes.arrays import RawArray, array_to_save
from pytest_msdump.core.dumps.file_names import ReferenceName
from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.dumps.sidefiles import MAPPING
from pytest_msdump.core.errors import ConfigError, MsdumpError, nearest
from pytest_msdump.core.model.dump import (
    ARCHIVE_FILE,
    JOURNAL_FILE,
    MANIFEST_FILE,
    PARAMETER,
    DistributedRank,
    Dump,
    Manifest,
    Operator,
    TensorEntry,
)
from pytest_msdump.core.model.tensor import TensorRef, TensorView
from pytest_msdump.core.storage.files import write_atomic

__all__ = ["SAVE", "DumpWriter", "FileNames", "RawArray", "check_save", "safe_name", "sketch_dump"]

_IO = ("input", "output")
SAVE = ("full", "sketch")
# What `DumpWriter.describe` takes beside inputs, weights and seeds.
DESCRIBED = frozenset(
    {"framework", "version", "device", "dtype_policy", "key", "command", "notes", "perturbation", "outputs", "settings"}
)
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME_BYTES = 255
# Where MindSpore's own short names begin.
_FIRST_SHORT = 400_000_000
_INPUT = "_input"


class DumpWriter:
    """A dump being written. Close it, or use it in a ``with`` statement: only then is the dump complete.

    Until then its manifest says that it is not, and comparisons refuse it: a process that is killed, a full disk or an
    error of the model leave no dump that passes for a whole one. It belongs to the process that makes it.

    Parameters
    ----------
    directory : path
        An empty folder, or one that will be made.
    framework, version, device : str
        What runs the model, for the manifest and for headers of comparisons.
    iterations : bool
        ``True`` when the run has several iterations: each gets a numbered sub-folder. One iteration is a flat folder.
    save : str
        ``"full"``: every tensor in a file of its own. ``"sketch"``: a sketch of each in one archive, 8 KB a tensor,
        which another run can be compared with; tensors of at most 4,096 elements are kept as they are.
    full : sequence of str
        With ``save="sketch"``, globs of operators whose tensors are kept whole all the same.
    buckets : int
        Numbers of a sketch: 1,024, or 4,096 for intervals half as wide in 32 KB a tensor, where tensors of at most
        16,384 elements are kept as they are. Only sketches of one size can be compared with each other.
    distributed : DistributedRank, optional
        Which process of several this one is, e.g. ``record.this_rank()``: it writes into ``rank_R`` of the folder.

    Raises
    ------
    ConfigError
        `directory` is not empty: two runs in one folder could be taken for one.
    MsdumpError
        It cannot be made.

    Examples
    --------
    >>> import numpy, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, DumpWriter(folder, framework="numpy") as writer:
    ...     path = writer.write("layers.0/relu", numpy.zeros((2, 3), "float32"))
    >>> path.name.rpartition(".0.")[0]
    'layers_0_relu'
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        *,
        framework: str = "",
        version: str = "",
        device: str = "",
        iterations: bool = False,
        save: str = "full",
        full: Sequence[str] = (),
        buckets: int = BUCKETS,
        distributed: DistributedRank | None = None,
    ) -> None:
        check_save(save, buckets)
        self.directory = Path(directory) if distributed is None else Path(directory, distributed.folder)
        self._full, self.buckets = tuple(full), buckets
        self._about: dict[str, Any] = {"framework": framework, "version": version, "device": device}
        self._about["distributed"] = distributed
        self._iterations = iterations
        self._names = FileNames()
        self._tensors: dict[str, TensorEntry] = {}
        self._graph: dict[int, list[Operator]] = {}
        # The files of the last outputs, and the last sketches, by what their tensors look like.
        self._outputs: dict[Looks, Path] = {}
        self._sketches: dict[Looks, tuple[npt.NDArray[Any], TensorEntry]] = {}
        self._failed = False
        self._closed = False
        # What goes on in place of what operators made, where the program is tried.
        self.given: Given | None = None
        self._process = os.getpid()
        # Frameworks call hooks from threads of their own.
        self._lock = threading.RLock()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            # An empty journal is the mark of the program that started this one to dump here.
            names = sorted(path.name for path in self.directory.iterdir() if path.name != JOURNAL_FILE)
            if distributed is not None and Path(directory, MANIFEST_FILE).exists():
                raise ConfigError(f"{directory}: holds a recording of one process; give another folder for several")
        except OSError as error:
            raise self._unwritable(error) from error
        if names:
            known = read_manifest(self.directory)[0] if MANIFEST_FILE in names else None
            what = (
                f"it holds e.g. '{names[0]}'" if known is None or known.complete else "a recording that has not ended"
            )
            raise ConfigError(
                f"{self.directory}: is not empty ({what}), and two runs in one folder could be taken for one; "
                "empty it, or give another folder"
            )
        self._write_manifest(complete=False)
        try:
            self._archive = Archive(self.directory) if save == "sketch" else None
        except OSError as error:
            raise self._unwritable(error) from error

    def write(
        self,
        op: str,
        array: Any,
        *,
        slot: int = 0,
        io: str = "output",
        iteration: int = 0,
        dtype: str | None = None,
        op_type: str | None = None,
        line: str | None = None,
        placement: str = "",
    ) -> Path:
        """Write one tensor, at once and whole. The order of the calls is the execution order of the dump.

        Parameters
        ----------
        op : str
            The operator's true name, as the framework calls it. Gradients are operators of their own
            (``"conv1/grad_output"``, ``"conv1.weight/grad"``).
        array : array or RawArray
            A numpy array of any numeric type, or a framework's tensor; `RawArray` for types that numpy does not have.
        slot : int
            Number of the operator's input or output.
        io : str
            ``"input"`` or ``"output"``. Write an operator's inputs before its outputs.
        iteration : int
            0 unless the writer was made with ``iterations=True``.
        dtype : str, optional
            The logical type, where `array` holds the bit patterns of another one (``uint16`` of bfloat16).
        op_type : str, optional
            E.g. ``"Conv2d"``; ``"Parameter"`` for weights, which have no place in the execution order.
        line : str, optional
            ``path:line`` of the program that made it.
        placement : str
            How the tensor is cut of which this rank holds a part, in the dims language: ``"a[tp] b # dp:replicated"``.
            The axes are those of ``distributed.groups``.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        ConfigError
            An array without numbers, an iteration in a flat dump, a closed writer, a forked process.
        MsdumpError
            The file cannot be written.
        """
        self._check(op, slot, io, iteration)
        if isinstance(array, Sketched):
            values, entry = described(array, TensorEntry(op, io, slot, None, op_type, line, placement=placement))
        else:
            values, logical = array_to_save(array, dtype)
            entry = TensorEntry(op, io, slot, logical, op_type, line, placement=placement)
            if self.keeps_sketch(op, values.size):
                values, entry = sketched(values, entry, self.buckets, self._sketches)
        with self._lock:
            return self._write(entry, values, iteration)

    def pass_on(self, op: str, array: Any, *, slot: int = 0, iteration: int = 0, **about: Any) -> Any:
        """Write an output, and return what the program goes on with, as `array` itself.

        Where ``msdump upgrade`` runs the program to try each operator by itself, it is what another run had here.
        """
        self.write(op, array, slot=slot, iteration=iteration, **about)
        self.given = self.given or given_of_trial()
        return array if self.given is None else self.given.instead(op, array, slot, iteration)

    def keeps_sketch(self, op: str, elements: int) -> bool:
        """Whether a sketch is kept of an operator's tensor with so many elements."""
        is_full = self._archive is None or any(fnmatchcase(op, glob) for glob in self._full)
        return not is_full and is_worth_it(elements, self.buckets)

    def write_view(self, ref: TensorRef, view: TensorView) -> None:
        """Write the sketch of a tensor of another dump, which is read piece by piece; see `sketch_dump`."""
        key, frame = ref.key, ref.line
        op, iteration = key.op.true_name or key.op.name, key.op.at.iteration or 0 if self._iterations else 0
        line = f"{frame.file}:{frame.line}" if frame is not None else None
        self._check(op, key.slot, key.io, iteration)
        entry = TensorEntry(op, key.io, key.slot, view.dtype, key.op.op_type, line)
        if self.keeps_sketch(op, view.size):
            blocks = view.blocks(BLOCK_ELEMENTS)
            values, entry = described(sketch_of(blocks, view.dtype, view.shape, self.buckets), entry)
        else:
            values = view.read(0, view.size).reshape(view.shape)
        with self._lock:
            self._write(entry, values, iteration)

    def describe(
        self,
        *,
        inputs: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        seeds: Mapping[str, int] | None = None,
        **about: Any,
    ) -> None:
        """Add to what the manifest says of the run; what it says under other names stays.

        Parameters
        ----------
        inputs, weights : mapping of str to array
            The network's, by name: kept as digests, so that a comparison can say when two runs had different ones.
        seeds : mapping of str to int
            By what they seed.
        **about : str
            `framework`, `version`, `device`, `dtype_policy`, `key`; `command` as a sequence of arguments; `notes`;
            `perturbation`, a mapping with `u`, `what` and `seed`; `outputs`, each a `ModelOutput`; `settings`, a
            mapping of str to str of what changes numbers: precision, threads, layouts.
        """
        unknown = set(about) - DESCRIBED
        if unknown:
            raise TypeError(f"describe() got an unexpected name '{min(unknown)}'")
        with self._lock:
            for name, values in (("inputs", digests(inputs)), ("weights", digests(weights)), ("seeds", seeds)):
                self._about[name] = {**self._about.get(name, {}), **(values or {})}
            self._about.update(about)

    def adopt(self, about: Mapping[str, Any], graph: Mapping[int, Sequence[Operator]]) -> None:
        """Take over what the manifest of another dump says of its run."""
        with self._lock:
            self._about.update(about)
            self._graph = {iteration: list(calls) for iteration, calls in graph.items()}

    def add_call(self, call: Operator, *, iteration: int = 0) -> None:
        """Add a call to the graph of the manifest: an operator that has ended, and what fed it."""
        # Without the lock: a model does not wait for what is being written.
        self._graph.setdefault(iteration, []).append(call)

    def close(self) -> None:
        """Fold the journal into the manifest. Nothing can be written afterwards; closing again does nothing.

        In a forked process it does nothing either: the dump is its parent's.
        """
        if self._process != os.getpid():
            # The lock may be held by a thread that was not forked.
            self._closed = True
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._archive is not None:
                    self._archive.close()
            except OSError as error:
                raise self._unwritable(error) from error
            self._write_manifest(complete=not self._failed)
            if self.given is not None:
                made = (one for one in self._tensors.values() if one.io == "output" and one.op_type != PARAMETER)
                self.given.close(one.op for one in made)
            (self.directory / JOURNAL_FILE).unlink(missing_ok=True)

    def _write_manifest(self, *, complete: bool) -> None:
        about = {**self._about, "command": tuple(map(str, self._about.get("command", ())))}
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        try:
            manifest = Manifest(**about, time=now, complete=complete, tensors=self._tensors, graph=self._graph)
            write_manifest(self.directory, manifest)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> MsdumpError:
        return MsdumpError(f"{self.directory}: cannot be written to: {error.strerror or error}")

    def __enter__(self) -> DumpWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._failed |= kind is not None
        self.close()

    def _check(self, op: str, slot: int, io: str, iteration: int) -> None:
        if self._closed:
            raise ConfigError(f"{self.directory}: this dump is closed; {op} cannot be added to it")
        if self._process != os.getpid():
            raise ConfigError(
                f"{self.directory}: is recorded by process {self._process}, and {op} comes from one that was forked; "
                "record in one process, or give each its own folder"
            )
        if io not in _IO:
            raise ConfigError(f"io of {op} is {io!r}; it is 'input' or 'output' (a gradient is an operator of its own)")
        if slot < 0 or iteration < 0:
            raise ConfigError(f"{op}: slot {slot} and iteration {iteration} count from 0")
        if iteration and not self._iterations:
            raise ConfigError(f"{op}: iteration {iteration} needs a writer that is made with iterations=True")

    def _write(self, entry: TensorEntry, values: npt.NDArray[Any], iteration: int) -> Path:
        folder = self.directory / str(iteration) if self._iterations else self.directory
        name = self._names.name(entry.op, entry.io, entry.slot)
        try:
            if self._archive is not None:
                path, file = self.directory / ARCHIVE_FILE, f"{iteration}/{name}" if self._iterations else name
                entry = self._archive.add(file, values, entry)
            else:
                name, mapping = self._names.shortened(folder, name)
                folder.mkdir(exist_ok=True)
                if mapping is not None:
                    write_atomic(folder / MAPPING, mapping.encode())
                path, file = folder / name, (folder / name).relative_to(self.directory).as_posix()
                if not self._linked(path, values, entry.io):
                    write_atomic(path, npy_content(values))
                # Of an archive that is not whole nothing can be read.
                add_to_journal(self.directory, file, entry)
        except OSError as error:
            self._failed = True
            raise MsdumpError(f"{folder / name}: cannot be written: {error.strerror or error}") from error
        self._tensors[file] = entry
        return path

    def _linked(self, path: Path, values: npt.NDArray[Any], io: str) -> bool:
        """Have an input that an operator gave back share the file of that; return whether there is such a file."""
        if values.size <= SOME:
            return False
        # Some elements say where to look; the file itself says whether all are equal.
        looks = looks_of(values)
        if io == "output":
            keep_latest(self._outputs, looks, path)
            return False
        known = self._outputs.get(looks)
        if known is None:
            return False
        held, own = (array.reshape(-1).view(np.uint8) for array in (np.load(known, mmap_mode="r"), values))
        try:
            if np.array_equal(held, own):
                path.hardlink_to(known)
                return True
        except OSError:
            # Not every file system has a second name for a file.
            pass
        return False


def check_save(save: str, buckets: int = BUCKETS) -> None:
    """Refuse what a dump cannot be saved as, with a ConfigError."""
    if save not in SAVE:
        raise ConfigError(f"save is {save!r:.40}; {nearest(str(save), SAVE)}")
    if type(buckets) is not int or buckets not in SEEDS:
        raise ConfigError(f"buckets is {buckets!r:.40}; known: {', '.join(map(str, SEEDS))}")


def safe_name(op: str) -> str:
    """Write a name with the letters that every tool allows; each other character becomes ``_``.

    >>> safe_name("layers.0/conv:1")
    'layers_0_conv_1'
    """
    return _UNSAFE.sub("_", op) or "_"


class FileNames:
    """Makes the file names of one dump, each once, with times that only rise, from `first` or the clock's on."""

    def __init__(self, first: int | None = None) -> None:
        self._stems: dict[str, str] = {}
        self._taken: set[str] = set()
        self._latest = 0 if first is None else first - 1
        self._has_clock = first is None
        self._short: dict[Path, list[tuple[str, str]]] = {}

    def name(self, op: str, io: str, slot: int) -> str:
        """Return ``NAME.SLOT.TIMESTAMP.npy``, later than all before; it may be too long for a file."""
        stem = self._stem(op) + (_INPUT if io == "input" else "")
        # µs since 1970. What is written later has a later time, also when the clock is set back.
        self._latest = max(self._latest + 1, time.time_ns() // 1000 if self._has_clock else 0)
        return ReferenceName(stem, slot, self._latest).filename

    def shortened(self, folder: Path, name: str) -> tuple[str, str | None]:
        """Return a name that the file system takes, and the new text of the folder's mapping where it is another."""
        if len(name) <= _LONGEST_NAME_BYTES:
            return name, None
        rows = self._short.setdefault(folder, [])
        rows.append((f"{_FIRST_SHORT + len(rows)}.npy", name))
        return rows[-1][0], "".join(f"{short},{long}\n" for short, long in rows)

    def _stem(self, op: str) -> str:
        if op not in self._stems:
            plain, number = safe_name(op), 1
            stem = plain
            while {stem, stem + _INPUT} & self._taken:
                number += 1
                stem = f"{plain}_{number}"
            self._stems[op] = stem
            self._taken |= {stem, stem + _INPUT}
        return self._stems[op]


# -- dumps of any format -----------------------------------------------------------------------------------------------

_KEPT = (*DESCRIBED, "seeds", "inputs", "weights", "distributed")


def sketch_dump(dump: Dump, directory: Path, *, full: Sequence[str] = (), buckets: int = BUCKETS) -> int:
    """Write a dump's sketches into a new folder, and return how many tensors there were.

    What a manifest says of the run is taken over. Of several ranks each gets a recording of its own. ConfigError for a
    dump of several nets or graphs, for one of statistics, and for a folder that is not empty; TensorFileError, and a
    folder that is marked as incomplete, where a tensor cannot be read.
    """
    check_save("sketch", buckets)
    parts: dict[int | None, list[TensorRef]] = {rank: [] for rank in dump.ranks}
    for ref in dump.refs:
        parts.setdefault(ref.key.op.at.rank, []).append(ref)
    if len({(ref.key.op.at.net, ref.key.op.at.graph) for ref in dump.refs}) > 1 or (None in parts and len(parts) > 1):
        raise ConfigError(f"{dump.root}: holds several nets or graphs; sketch the folder of each by itself")
    if unseen := [ref for ref in dump.refs if ref.is_unseen]:
        raise ConfigError(f"{dump.root}: {unseen[0].key.address} was not saved, so there is nothing to sketch")
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigError(f"{directory}: is not empty; empty it, or give another folder")
    # So that some of the ranks are not taken for all of them.
    with marked_incomplete(directory):
        for rank, refs in parts.items():
            _write_rank(
                dump, refs, directory, None if len(parts) == 1 and not dump.ranks else rank, full=full, buckets=buckets
            )
    return len(dump.refs)


def _write_rank(dump: Dump, refs: Sequence[TensorRef], directory: Path, rank: int | None, **saving: Any) -> None:
    """Write the sketches of one rank into its folder, or those of the whole dump."""
    several = len({ref.key.op.at.iteration for ref in refs}) > 1
    root = dump.root / f"rank_{rank}" if rank in dump.ranks else dump.root
    manifest, _ = read_manifest(root) if root.is_dir() else (None, ())
    own = None if rank is None else (manifest and manifest.distributed) or DistributedRank(rank)
    with DumpWriter(directory, iterations=several, save="sketch", distributed=own, **saving) as writer:
        if manifest is not None:
            writer.adopt({name: value for name in _KEPT if (value := getattr(manifest, name))}, manifest.graph)
        for ref in refs:
            with closing(open_logical(ref)) as view:
                writer.write_view(ref, view)
