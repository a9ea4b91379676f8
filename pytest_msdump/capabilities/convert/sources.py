"""The files of a dump to convert, each with its tensors, its place below the output folder and the names of its arrays.

Names are the vendor's, so that its users' scripts and our readers find the files.

References
----------
Ascend "Accuracy Comparison Tool", ``msaccucmp.py convert``, release 26.2.0.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dumps.array_files import file_name_of, is_named_array
from pytest_msdump.core.dumps.file_names import (
    parse_ascend,
    parse_converted,
    parse_mindspore,
    parse_opdebug,
    parse_protobuf,
)
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.sidefiles import MAPPING, read_mapping
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import TensorRef, mangle

SUFFIXES = {"npy": ".npy", "msnpy": ".npy", "npz": ".npz", "bin": ".bin", "txt": ".txt"}

# Where the vendor's tool begins to write names into mapping.csv.
_TOO_LONG = 255
# An npy file holds complex64 where a dump holds complex32; the name would contradict it.
_UNSAYABLE = frozenset({"complex32"})
_MSNPY_FIELDS = 5
# The reader of tensors of which only statistics were saved.
_NO_FILE = "statistics"


class Stem(NamedTuple):
    """Beginnings of the name of a tensor's file."""

    whole: str
    numbered: str | None
    renamed: str | None = None

    def file_name(self, to: str, *, shape: tuple[int, ...], dtype: str, memory_format: str, converted: bool) -> str:
        """Return the name of a tensor's file of the kind `to`, other than ``npz``."""
        lengths = [str(length) for length in shape]
        if to == "msnpy":
            fields = [self.renamed or self.numbered or self.whole, memory_format]
            # The type, where an npy file holds it as another one.
            fields += [dtype] if DTYPES[dtype].native != dtype and dtype not in _UNSAYABLE else []
        elif to == "bin":
            fields = [self.numbered or self.whole, "_".join(lengths) if converted and lengths else str(prod(shape))]
            fields += [dtype, memory_format]
        elif converted and self.numbered is not None and lengths:
            fields = [self.numbered, "x".join(lengths)]
        else:
            fields = [self.whole]
        return ".".join(fields) + SUFFIXES[to]


@dataclass(frozen=True)
class WantedTensor:
    """One tensor to convert, the beginning of its file's name, and the source that took that name before."""

    ref: TensorRef
    stem: Stem
    taken_by: Path | None = None


@dataclass(frozen=True)
class SourceFile:
    """One file to convert."""

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
    """List the files of a dump, those of earlier runs too, in order of their paths; each slice is a file of its own."""
    root = dump.root if dump.root.is_dir() else dump.root.parent
    names = cache(_original_names)
    by_file: defaultdict[Path, list[TensorRef]] = defaultdict(list)
    for ref in (*dump.refs, *dump.older):
        for path in ref.source.pieces or (ref.source.path,):
            part = replace(ref, source=replace(ref.source, folder=path.parent, name=path.name, pieces=()))
            if ref.reader != _NO_FILE and not _is_overflow(path) and takes(part):
                by_file[part.source.path].append(part)
    found = []
    for path, refs in by_file.items():
        name = names(path.parent).get(path.name, path.name)
        tensors = tuple(_wanted(refs, name))
        found.append(SourceFile(path, name, below / _place(path, root), tensors, with_untyped=everything))
    if everything:
        found += [
            SourceFile(path, path.name, below / _place(path, root), is_overflow=True)
            for path in _overflow_files(dump.root)
        ]
    return sorted(found, key=lambda source: source.path)


def _wanted(refs: Iterable[TensorRef], name: str) -> Iterator[WantedTensor]:
    """Yield the tensors of a file called `name`. Of arrays that it names, two may want one name; the first has it."""
    taken: set[Stem] = set()
    for ref in refs:
        stem = stem_of(ref, name)
        yield WantedTensor(ref, stem, ref.source.path if stem in taken else None)
        if is_named_array(ref):
            taken.add(stem)


def _original_names(folder: Path) -> Mapping[str, str]:
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
    """Give each name to the first source that wants it, and note that source in `taken_by` of the others."""
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


def stem_of(ref: TensorRef, name: str) -> Stem:
    """Return what the names of a tensor's files begin with; `name` is its own file's, before it was shortened."""
    number = f"{ref.key.io}.{ref.key.slot}"
    protobuf = parse_protobuf(name)
    if protobuf is not None:
        return Stem(protobuf.filename.removesuffix(".npy"), None)
    array, mindspore = parse_converted(name), parse_mindspore(name)
    if array is not None or mindspore is not None:
        # The file's name up to the tensor's number.
        fields = name.split(".")
        last = max(place for place, field in enumerate(fields[:-1]) if field in ("input", "output"))
        return Stem(name.removesuffix(".npy"), ".".join(fields[: last + 2]))
    if parse_ascend(name) is not None:
        return Stem(f"{name}.{number}", f"{name}.{number}", f"{_renamed(ref, name)}.{number}")
    return Stem(file_name_of(ref) if is_named_array(ref) else name.rpartition(".")[0] or name, None)


def _renamed(ref: TensorRef, name: str) -> str:
    """Put the last part of the operator's own name into a file name of five fields, as the vendor's msnpy does."""
    fields = name.split(".")
    if len(fields) != _MSNPY_FIELDS:
        return name
    fields[1] = mangle(ref.key.op.label.rpartition("/")[2]) or fields[1]
    return ".".join(fields)


def short_name(name: str) -> str | None:
    """Return the name that stands for one too long for the file system; ``None`` where it is not."""
    if len(os.fsencode(name)) < _TOO_LONG:
        return None
    # The vendor's way, so that both tools give one file one name; no secret depends on it.
    # `uuid.uuid3` does the same, but for UTF-8 names only.
    digest = hashlib.md5(uuid.NAMESPACE_DNS.bytes + os.fsencode(name), usedforsecurity=False).digest()
    return uuid.UUID(bytes=digest, version=3).hex + os.path.splitext(name)[1]  # noqa: PTH122
