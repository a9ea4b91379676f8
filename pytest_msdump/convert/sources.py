"""The files of a dump that are to be converted, each with its tensors and its place below the output folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pytest_msdump.convert.file_names import Stem, stem_of
from pytest_msdump.dumps.file_names import parse_opdebug
from pytest_msdump.dumps.listing import walk
from pytest_msdump.dumps.sidefiles import MAPPING, read_mapping
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import TensorRef

__all__ = ["SourceFile", "WantedTensor", "claim_names", "sources_of"]

# The reader of tensors of which only statistics were saved.
_NO_FILE = "statistics"


@dataclass(frozen=True)
class WantedTensor:
    """One tensor to convert, the beginning of its file's name, and the source that has taken that name before."""

    ref: TensorRef
    stem: Stem
    taken_by: Path | None = None

    @property
    def label(self) -> str:
        """Its name in lists of failures."""
        return f"{self.ref.key.io}:{self.ref.key.slot}"


@dataclass(frozen=True)
class SourceFile:
    """One file to convert.

    Parameters
    ----------
    path : Path
        Where it is.
    name : str
        Its name before it was shortened.
    folder : Path
        Where its files go, relative to the output folder.
    tensors : tuple of WantedTensor
        Those that were asked for.
    is_overflow : bool
        Whether it is a record of the overflow check, which has no tensors.
    with_untyped : bool
        Whether its buffers and workspaces are wanted, too.
    taken_by : Path, optional
        The source of the same name, whose files these would overwrite.
    """

    path: Path
    name: str
    folder: Path
    tensors: tuple[WantedTensor, ...] = ()
    is_overflow: bool = False
    with_untyped: bool = False
    taken_by: Path | None = None


def sources_of(
    dump: Dump, *, takes: Callable[[TensorRef], bool], everything: bool, below: Path = Path()
) -> list[SourceFile]:
    """List the files of a dump, those of earlier runs too, in order of their paths.

    Parameters
    ----------
    dump : Dump
        Its index. Each slice of a sliced operator is a file of its own here.
    takes : callable
        Whether a tensor was asked for.
    everything : bool
        Whether all tensors were; then records of the overflow check, buffers and workspaces are taken, too.
    below : Path
        Where the dump's files go, relative to the output folder.
    """
    root = dump.root if dump.root.is_dir() else dump.root.parent
    names = cache(_names_of)
    by_file: defaultdict[Path, list[TensorRef]] = defaultdict(list)
    for ref in _of_one_file((*dump.refs, *dump.older)):
        if takes(ref):
            by_file[ref.source.path].append(ref)
    found = []
    for path, refs in by_file.items():
        name = names(path.parent).get(path.name, path.name)
        tensors = tuple(WantedTensor(ref, stem_of(ref, name)) for ref in refs)
        found.append(SourceFile(path, name, below / _place(path, root), tensors, with_untyped=everything))
    if everything:
        found += [
            SourceFile(path, path.name, below / _place(path, root), is_overflow=True)
            for path in _overflow_files(dump.root)
        ]
    return sorted(found, key=lambda source: source.path)


def _of_one_file(refs: Iterable[TensorRef]) -> Iterator[TensorRef]:
    for ref in refs:
        for path in ref.source.pieces or (ref.source.path,):
            if ref.reader != _NO_FILE and not _is_overflow(path):
                yield replace(ref, source=replace(ref.source, folder=path.parent, name=path.name, pieces=()))


def _names_of(folder: Path) -> Mapping[str, str]:
    """Return original names by short ones; none that could lead out of the output folder."""
    path = folder / MAPPING
    names = read_mapping(path)[0] if path.exists() else {}
    return {short: name for short, name in names.items() if name.isprintable() and "/" not in name and name.strip(".")}


def _place(path: Path, root: Path) -> Path:
    return path.parent.relative_to(root) if path.is_relative_to(root) else Path()


def _overflow_files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield from filter(_is_overflow, (root,))
        return
    for folder in walk(root):
        yield from filter(_is_overflow, (folder.below(root) / name for name in folder.files))


def _is_overflow(path: Path) -> bool:
    parsed = parse_opdebug(path.name)
    return parsed is not None and not parsed.is_json


def claim_names(sources: Sequence[SourceFile], to: str) -> list[SourceFile]:
    """Give each name to the first source that wants it, and note that source in `taken_by` of the others.

    `sources` are those of all dumps of one command line; a file that is there twice is converted once. `to` is a key of
    `file_names.SUFFIXES`.
    """
    owners: dict[tuple[Path, str], Path] = {}
    found: dict[Path, SourceFile] = {}
    for source in sources:
        if source.path.absolute() in found:
            continue
        whole = owners.setdefault((source.folder, source.name), source.path)
        tensors = tuple(_claim(source, tensor, to, owners) for tensor in source.tensors)
        taken_by = None if whole == source.path else whole
        found[source.path.absolute()] = replace(source, tensors=tensors, taken_by=taken_by)
    return list(found.values())


def _claim(source: SourceFile, tensor: WantedTensor, to: str, owners: dict[tuple[Path, str], Path]) -> WantedTensor:
    stem = tensor.stem
    if to == "msnpy" and stem.renamed is not None:
        # The last part of an operator's name may be that of another one's, too; the file's name is its own.
        mine = owners.setdefault((source.folder, stem.renamed), source.path) == source.path
        return tensor if mine else _claim(source, replace(tensor, stem=stem._replace(renamed=None)), to, owners)
    owner = owners.setdefault((source.folder, stem.numbered or stem.whole), source.path)
    return tensor if owner == source.path else replace(tensor, taken_by=owner)
