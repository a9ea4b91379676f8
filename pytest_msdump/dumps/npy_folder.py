"""A folder of ``op.index.timestamp.npy`` files, as reference runs of PyTorch, TensorFlow, Caffe or ONNX are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.dumps.base import Reader
from pytest_msdump.dumps.filename import ReferenceName, number, parse_reference
from pytest_msdump.dumps.listing import Folder, walk
from pytest_msdump.dumps.manifest import read_manifest
from pytest_msdump.dumps.repeats import Repeats, numbered, sort_out
from pytest_msdump.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.model.dump import JOURNAL_FILE, MANIFEST_FILE, Dump, Manifest
from pytest_msdump.model.ordering import placed_by_time
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

__all__ = ["NpyFolderReader"]

_SUFFIX = ".npy"
_RECORD = frozenset({MANIFEST_FILE, JOURNAL_FILE})
_NO_TIME = (
    "{files} of which the last number is no time (15 or 16 digits, microseconds since 1970): each is an operator of "
    "its own name, e.g. {op} of {file}; a counter, or a time in another unit? `msdump rename` mends such names"
)
# What the name of a file claims of its tensor.
_UNKNOWN = TensorSpec()


class NpyFolderReader(Reader):
    """Outputs of a reference run, flat or with one iteration in each sub-folder whose name is a plain number.

    A flat folder is iteration 0. Where numbered sub-folders hold tensors, files beside these sub-folders belong to no
    iteration and are listed as unexplained. Of two sub-folders with the same number (``1`` and ``01``) the shorter
    name counts. A manifest tells true names, inputs and types; names that were too long are in a ``mapping.csv``.
    Where the last number of a name is no time, as in ``features.0.1.npy``, the whole name is the operator's.
    """

    name = "npy-folder"
    looks_for = "a folder of OP.INDEX.TIMESTAMP.npy files, or of numbered sub-folders of them"

    def recognises(self, root: Path) -> bool:
        """Tell whether a file directly in `root`, or in a numbered sub-folder, has such a name; or a manifest does."""
        if not root.is_dir():
            return False
        return any(
            _holds_tensors(folder) or (not folder.parts and not _RECORD.isdisjoint(folder.files))
            for folder in walk(root)
            if _may_hold(folder)
        )

    def index(self, root: Path) -> Dump:
        """List the tensors of `root`; see `Reader.index`."""
        folders = tuple(walk(root))
        manifest, notes = read_manifest(root)
        found = _find(root, folders, self.name)
        refs = found.refs
        unexplained = [path for path in found.unexplained if str(path) not in _RECORD]
        if manifest is None:
            repeats = sort_out(refs.values())
            return _dump(root, self.name, repeats, unexplained, (*notes, *found.notes))
        from pytest_msdump.dumps.manifest import labels_of, told, why_incomplete

        named = {path: told(ref, manifest.tensors.get(path)) for path, ref in refs.items()}
        is_one_run = refs.keys() <= manifest.tensors.keys()
        repeats = Repeats(numbered(named.values())) if is_one_run else sort_out(named.values())
        dump = _dump(root, self.name, repeats, unexplained, (*notes, *found.notes))
        incomplete = why_incomplete(manifest, refs)
        return replace(dump, labels=labels_of(manifest), manifest=_light(manifest), incomplete=incomplete)

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        return self._open_npy(ref.source.location, ref.spec)

    # Importing it costs more than all else that happens above, and it brings numpy, which listing needs not.
    @cached_property
    def _open_npy(self) -> Callable[[Path | str, TensorSpec], TensorView]:
        from pytest_msdump.dumps.npy import open_npy

        return open_npy


class _Found(NamedTuple):
    """Tensors by path below the root, with ``/``; the files that are none; sentences."""

    refs: dict[str, TensorRef]
    unexplained: list[Path]
    notes: list[str]


def _find(root: Path, folders: Sequence[Folder], reader: str) -> _Found:
    iterations = _iterations(folders)
    found = _Found({}, [], [])
    for folder in folders:
        found.unexplained.extend(map(folder.relative, folder.closed))
        iteration = iterations.get(folder.parts)
        if iteration is None:
            found.unexplained.extend(map(folder.relative, folder.files))
            continue
        parsed_files: list[tuple[str, ReferenceName]] = []
        originals, notes = originals_in(root, folder)
        found.notes.extend(notes)
        for name in folder.files:
            parsed = parse_reference(name)
            if parsed is None and originals:
                parsed = parse_reference(originals.get(name, ""))
            if parsed is not None:
                parsed_files.append((name, parsed))
            elif name != MAPPING or not originals:
                found.unexplained.append(folder.relative(name))
        # They are looked at in order of time: what is made one after the other lies side by side in memory.
        parsed_files.sort(key=lambda file: file[1].timestamp or 0)
        at, path, prefix = Coordinates(iteration=iteration, occurrence=0), folder.below(root), folder.text("")
        for place, (name, (op, slot, timestamp)) in enumerate(parsed_files):
            key, source = TensorKey(OpKey(op, at), "output", slot), TensorSource(path, name, timestamp)
            # Where nothing else comes between, this is its place, and it need not be made anew.
            found.refs[prefix + name] = TensorRef(key, _UNKNOWN, source, reader, place)
    timeless = [ref for ref in found.refs.values() if ref.source.timestamp is None]
    if timeless:
        files = "1 file" if len(timeless) == 1 else f"{len(timeless)} files"
        first = min(timeless, key=lambda ref: ref.source.name)
        found.notes.append(_NO_TIME.format(files=files, op=first.key.op.name, file=first.source.name))
    return found


def _dump(root: Path, reader: str, repeats: Repeats, unexplained: Sequence[Path], notes: tuple[str, ...]) -> Dump:
    return Dump(
        root=root,
        reader=reader,
        refs=placed_by_time(repeats.newest, repeats.partial),
        older=repeats.older,
        partial=repeats.partial,
        unexplained=tuple(sorted(unexplained)),
        notes=(*notes, *repeats.notes),
    )


def _light(manifest: Manifest) -> Manifest:
    return replace(manifest, tensors={})


def _may_hold(folder: Folder) -> bool:
    return not folder.parts or (len(folder.parts) == 1 and number(folder.parts[0]) is not None)


def _holds_tensors(folder: Folder) -> bool:
    return any(parse_reference(name) for name in _names(folder))


def _names(folder: Folder) -> Iterator[str]:
    """Names of files; a numbered file beside a mapping may stand for any name."""
    is_mapped = MAPPING in folder.files
    for name in folder.files:
        stem = name.removesuffix(_SUFFIX)
        yield f"{name}.0.0.npy" if is_mapped and stem != name and number(stem) is not None else name


def _iterations(folders: Sequence[Folder]) -> Mapping[tuple[str, ...], int]:
    """Say which directories hold an iteration, and which one."""
    holding = [folder.parts for folder in folders if _may_hold(folder) and _holds_tensors(folder)]
    steps = sorted((parts for parts in holding if parts), key=lambda parts: (len(parts[0]), parts), reverse=True)
    if not steps:
        return {(): 0}
    # Shorter names come last and win: of `1` and `01`, `1` is the iteration.
    by_number = {int(parts[0]): parts for parts in steps}
    return {parts: iteration for iteration, parts in by_number.items()}
