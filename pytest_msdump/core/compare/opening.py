"""Open tensors: of a dump, which is a mapping from addresses to them, or whatever stands for a tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from pytest_msdump.core import ports
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.base import index_dump, reader
from pytest_msdump.core.dumps.manifest import graphs_of, labels_of, read_manifest, why_incomplete
from pytest_msdump.core.errors import (
    ConfigError,
    IncompleteRecordingError,
    MsdumpError,
    TensorFileError,
    TensorShapeError,
    UnknownNameError,
    nearest,
)
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.model.dump import JOURNAL_FILE, MANIFEST_FILE, Dump
from pytest_msdump.core.model.spellings import typed_addresses
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView
from pytest_msdump.core.storage.files import names_kept
from pytest_msdump.core.storage.locations import RemotePath, parse_location, storage
from pytest_msdump.core.text import Message, say

# Index a dump: choose its reader, list its tensors by name, and add what lies beside them. Opens no tensor.

# The reader of one array, which is a whole dump without anything beside it.
_ARRAY_READER, _ARRAY = "npy-file", ".npy"

_RECORD = frozenset({Path(MANIFEST_FILE), Path(JOURNAL_FILE)})
# From the folder of one iteration, in the deepest tree that a framework writes, to what a recorder was given.
_LEVELS_ABOVE = 4


def index(
    root: Path, *, graph_files: Iterable[Path] = (), allow_incomplete: bool = False, stored: tuple[Any, Any] = ((), ())
) -> Dump:
    """Index the dump at `root`, in execution order and with lines of the program as far as these are known.

    `stored` are `dtype` and `shape` of a side of files without a header.
    """
    kept = tuple(graph_files)
    if not kept and not stored[0] and root.suffix == _ARRAY and not isinstance(root, RemotePath) and root.is_file():
        return reader(_ARRAY_READER).index(root)
    return _index(root, kept, stored, allow_incomplete=allow_incomplete)


def _index(root: Path, graph_files: tuple[Path, ...], stored: tuple[Any, Any], *, allow_incomplete: bool) -> Dump:
    """Index anything, in stages, each of which adds to the dump."""
    unfit = storage().list_below(root) if isinstance(root, RemotePath) else ()
    with names_kept():
        dump = ports.offered("raw_files").index_as(root, *stored) if stored[0] else index_dump(root)
        dump = _only_whole(_with_manifest(dump), allow_incomplete=allow_incomplete)
        dump, request = _with_perturbation(dump), ports.IndexRequest(graph_files, allow_incomplete)
        for step in ports.steps("indexed"):
            # The reader is another one where only statistics were saved.
            if step.is_met({dump.reader}):
                dump = step.function(dump, request)
    if isinstance(root, RemotePath):
        storage().refuse_changed()
    return replace(dump, unexplained=(*dump.unexplained, *unfit)) if unfit else dump


def listed(path: Path) -> Path:
    """Return the same path; a remote one is listed, after which it knows whether it is a file or a folder."""
    if isinstance(path, RemotePath):
        storage().list_below(path)
    return path


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


_MOST_LISTED = 5
# An array (anything numpy can make one of), an opened tensor, a reference to one, or a tensor file.
Tensor: TypeAlias = Union[TensorView, TensorRef, str, "PathLike[str]", Any]


def open_view(ref: TensorRef) -> TensorView:
    """Open one tensor lazily: its header is read and checked, its data is not."""
    if ref.parts:
        # What a capability that needs another one opens is made of what that one opens.
        for name, target in reversed([*ports.rows("OPENERS").items()]):
            if name in ref.parts:
                opened: TensorView = ports.load(target)(ref)
                return opened
    return reader(ref.reader).open(ref)


def open_logical(ref: TensorRef) -> TensorView:
    """Open one tensor in its logical shape: without its memory format and the padding that goes with it."""
    view = open_view(ref)
    try:
        layout = ports.load("pytest_msdump.core.layouts.device_layout")
        shape, axes = layout.target(view.spec, rule_format=None, rule_shape=None)
        logical: TensorView = layout.logical(view, logical_shape=shape, logical_format=axes)
        return logical
    except TensorShapeError:
        return view
    except BaseException:
        view.close()
        raise


def logical_shape(ref: TensorRef) -> tuple[int, ...] | None:
    """Return a tensor's logical shape, by its header; ``None`` where it is unknown, or the file cannot be opened."""
    known = ref.spec.logical_shape
    if known is not None and ref.key.op.op_type in VIEW_TYPES and ref.key.io == "output":
        return known
    if ref.is_unseen:
        return known or ref.spec.shape
    try:
        with closing(open_logical(ref)) as view:
            is_known = view.spec.logical_shape is not None or not may_be_padded(view.spec.memory_format)
            return view.shape if is_known else None
    except (MsdumpError, OSError):
        return None


class OpenDump(Mapping[str, TensorRef]):
    """A dump as a mapping from address (``OP:io:slot``) to `TensorRef`, in execution order.

    Looking up accepts the true name, the mangled name and the path of a module, for what leaves it, and leaves out
    ``:io:slot`` when the operator has one output; what names several tensors raises `UnknownNameError`. Where several
    coordinates (ranks, iterations, occurrences) share an address, the mapping gives the first; `refs` has them all.

    Examples
    --------
    >>> import numpy, tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> numpy.save(folder / "conv1.0.1700000000000000.npy", numpy.arange(3.0))
    >>> dump = open_dump(folder)
    >>> list(dump), dump.read("conv1").tolist()
    (['conv1:output:0'], [0.0, 1.0, 2.0])
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self._by_address: dict[str, TensorRef] = {}
        for ref in dump.refs:
            self._by_address.setdefault(ref.key.address, ref)

    @cached_property
    def _by_name(self) -> Mapping[str, Mapping[str, TensorRef]]:
        """By any name, for outputs also without ``:io:slot``, and then by address: several tensors are none of them."""
        named: defaultdict[str, dict[str, TensorRef]] = defaultdict(dict)
        for ref in self._by_address.values():
            tail = f":{ref.key.io}:{ref.key.slot}"
            for name in typed_addresses(ref.key):
                if ref.key.io == "output" or name.endswith(tail):
                    named[name].setdefault(ref.key.address, ref)
        return named

    @property
    def refs(self) -> tuple[TensorRef, ...]:
        """Every tensor with all its coordinates, in execution order."""
        return self.dump.refs

    def __getitem__(self, address: str) -> TensorRef:
        if (ref := self._by_address.get(address)) is not None:
            return ref
        named = self._named(address)
        if not named:
            raise UnknownNameError(f"{self.dump.root}: no tensor '{address}'; {nearest(address, self._by_address)}")
        if len(named) > 1:
            some = ", ".join([*named][:_MOST_LISTED]) + (", …" if len(named) > _MOST_LISTED else "")
            raise UnknownNameError(
                f"{self.dump.root}: '{address}' is the name of {len(named)} tensors; say which: {some}"
            )
        return next(iter(named.values()))

    def _named(self, typed: str) -> Mapping[str, TensorRef]:
        """Return what the best reading of a name means, by address."""
        try:
            for names in ports.load("pytest_msdump.core.matching.leaving:Names")(self.dump).readings(typed):
                if named := {key: ref for name in names for key, ref in self._by_name.get(name, {}).items()}:
                    return named
        except ConfigError as error:
            raise UnknownNameError(f"{self.dump.root}: {error}") from None
        return {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_address)

    def __len__(self) -> int:
        return len(self._by_address)

    def __fspath__(self) -> str:
        """The dump's folder, so that whatever takes a path to a dump takes an opened one."""
        return str(self.dump.root)

    def open(self, address: str) -> TensorView:
        """Open a tensor lazily, in its logical shape; see `open_logical` and `model.tensor.TensorView`."""
        return open_logical(self[address])

    def read(self, address: str) -> npt.NDArray[Any]:
        """Read a whole tensor into memory, in its logical shape. For small tensors and tests."""
        with closing(self.open(address)) as view:
            values: npt.NDArray[Any] = view.read(0, view.size).reshape(view.shape).copy()
            return values


def open_dump(path: str | PathLike[str], *, allow_incomplete: bool = False) -> OpenDump:
    """Open a dump directory (or one tensor file) of any format a reader knows. Reads names only.

    Parameters
    ----------
    path : str or Path
        The dump's root: a path, or a URL such as ``s3://bucket/dump``.
    allow_incomplete : bool
        Open a recording that has not ended, or was broken off, as it is; its notes say so.

    Raises
    ------
    DumpNotFoundError, UnknownDumpFormatError, IncompleteRecordingError
        As `index`.
    """
    return OpenDump(index(as_path(path), allow_incomplete=allow_incomplete))


def as_path(path: str | PathLike[str]) -> Path:
    """Return a path or URL as a `Path`; an empty one, which would mean the current folder, is refused."""
    if not str(path):
        raise ConfigError("the path of a dump is empty; give the directory a dump was written to")
    return path if isinstance(path, RemotePath) else parse_location(fspath(path), Path())


class ArrayView(TensorView):
    """A `TensorView` over a numpy array of any order, strides and byte order. The whole is never copied."""

    def __init__(self, array: npt.ArrayLike, dtype: str | None = None) -> None:
        self._array: npt.NDArray[Any] = np.asarray(array)
        self._dtype = _logical_dtype(self._array.dtype, dtype)
        self._native = np.dtype(DTYPES[self._dtype].native)

    @property
    def spec(self) -> TensorSpec:
        """Dtype and shape; an array has no memory format."""
        return TensorSpec(self._dtype, self.shape, None, self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._array.shape

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order, native; only these are copied, if any."""
        array = self._array
        block = array.reshape(-1)[start:stop] if array.flags.c_contiguous else array.flat[start:stop]
        return block.astype(self._native, copy=False)

    def permuted(self, axes: tuple[int, ...]) -> ArrayView:
        """Return the same array with its axes in another order; copies nothing."""
        return ArrayView(self._array.transpose(axes), self._dtype)

    def close(self) -> None:
        """Do nothing: the array is the caller's."""


def _logical_dtype(stored: np.dtype[Any], asked: str | None) -> str:
    name = asked or stored.name
    fact = DTYPES.get(name)
    if fact is None:
        raise TensorFileError(f"cannot compare an array of dtype {name}: {nearest(name, DTYPES)}")
    if stored.name not in (name, fact.native):
        raise TensorFileError(
            f"an array of dtype {stored.name} does not hold {name} values: pass it as {fact.native}, or leave dtype out"
        )
    return name


def open_tensor(side: Tensor, name: str, stack: ExitStack) -> tuple[TensorRef, TensorView]:
    """Open anything that stands for one tensor; return its reference and a view, which `stack` closes."""
    if isinstance(side, (str, PathLike)):
        refs = index(as_path(side)).refs
        if len(refs) != 1:
            raise ConfigError(f"{side}: holds {len(refs)} tensors; give one tensor file, or use assert_dumps_close")
        side = refs[0]
    if isinstance(side, TensorRef):
        view = open_view(side)
        stack.callback(view.close)
        return side, view
    view = side if hasattr(side, "blocks") else _view(side)
    key = TensorKey(OpKey(name), "output", 0)
    return TensorRef(key, view.spec, TensorSource.of(Path("array in memory")), reader="array"), view


def _view(value: Any) -> ArrayView:
    """Return a view of an array in memory; values of types that numpy lacks are judged as that type."""
    arrays = ports.load("pytest_msdump.core.dtypes.arrays")
    array = arrays.as_array(value)
    if not isinstance(array, arrays.RawArray):
        # In arrays of libraries that extend numpy with such types, the type's name says what the bits are.
        known = canonical(getattr(getattr(array, "dtype", None), "name", ""))
        if known is None or DTYPES[known].native == known:
            return ArrayView(array)
        array = arrays.RawArray(array, array.shape, known)
    values, dtype = arrays.decode_raw(array)
    return ArrayView(values, dtype)
