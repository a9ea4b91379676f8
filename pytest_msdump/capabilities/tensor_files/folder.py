"""Trees of files that each hold one tensor or several: hooks' ``.npy``, ``.pt`` and ``.npz``, checkpoints in shards.

A file of one tensor is the operator that its path says. Of several, ``input`` and ``output`` are what the operator
takes and gives, places in a list are slots, and other keys follow the name. The files of a checkpoint name their
tensors themselves. Folders that are all numbered by one word are iterations or ranks, others are scopes.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.array_files import ArrayFileReader, NamedArray, dump_of_names
from pytest_msdump.core.dumps.base import DumpBuilder, Reader, reader
from pytest_msdump.core.dumps.file_names import numbered_folder, parse_converted, parse_mindspore, parse_reference
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import Reruns, number_occurrences
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
)
from pytest_msdump.core.text import Message, say

_NPY = ".npy"
# How names of files end → what reads one.
_KINDS = {
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), "torch-file"),
    ".npz": "npz",
    ".safetensors": "safetensors",
    **dict.fromkeys((".pb", ".tensorproto"), "onnx-tensor"),
}
_IO = {
    **dict.fromkeys(("input", "inputs", "in", "args"), "input"),
    **dict.fromkeys(("output", "outputs", "out", "result"), "output"),
}
_POSITION = re.compile(r"(?:arr_)?([0-9]{1,6})")
# Hugging Face's names: a part of a checkpoint, and a whole one.
_SHARD = re.compile(r".+-[0-9]{5}-of-[0-9]{5}")
_CHECKPOINTS = frozenset({"model", "pytorch_model", "adapter_model", "diffusion_pytorch_model", "consolidated"})
_INDEX = ".index.json"
_COUNTED = re.compile(r"([0-9]{1,9})[_.-]+(?=[^0-9_.-])(.+)", re.DOTALL)
_TENSORDUMP = re.compile(r"(.+)_([a-z]+[0-9]*(?:_e[0-9]m[0-9]\w*)?)_([0-9]{1,9})", re.DOTALL)
# One name with a number says nothing of an order.
_FEWEST_COUNTED = 2


class NamedInFile(NamedTuple):
    """Which of a file's tensors it is, None of an only one; its operator as the file says; its side and slot.

    `otherwise` is the operator's name where another tensor has this one.
    """

    part: int | None
    name: str
    io: str = "output"
    slot: int = 0
    otherwise: str = ""


class FilesOfFolder(NamedTuple):
    """A folder: the `names` of files with tensors among all `files`; the `scope` that their operators begin with.

    `is_alone` says that no other folder of the dump has any.
    """

    path: Path
    names: Sequence[str]
    files: Sequence[str]
    scope: str
    is_alone: bool


class FileTreeReader(Reader):
    """A tree of files that hold tensors by name; of which ones, a class says that extends it."""

    def recognises(self, root: Path) -> bool:
        """Return whether there is such a file at any depth, and no npy file of another format."""
        if not root.is_dir():
            return False
        folders = tuple(walk(root))
        return not any(_is_of_another_format(name) for folder in folders for name in folder.files) and any(
            self.begins_with(folder.below(root), name) for folder in folders for name in folder.files
        )

    def index(self, root: Path) -> Dump:
        """List the tensors by name; see `Reader.index`."""
        builder = DumpBuilder(root, self.name)
        files: dict[Folder, list[str]] = {}
        for folder in walk(root):
            path = folder.below(root)
            named = [name for name in folder.files if self.takes(path, name)]
            known = set(named)
            if named:
                files[folder] = named
            builder.leave_out(folder, [name for name in folder.files if name not in known])
        found: list[tuple[NamedInFile, Coordinates, TensorSource]] = []
        for (folder, names), (at, scope) in zip(files.items(), _places([*files]), strict=True):
            path = folder.below(root)
            here = FilesOfFolder(path, names, folder.files, "/".join((*scope, "")), is_alone=len(files) == 1)
            for name, several in self.tensors_in(here):
                found += [(one, at, TensorSource(path, name, part=one.part)) for one in several]
        times = Counter((one.name, one.io, one.slot, at) for one, at, _ in found)
        refs = []
        for one, at, source in found:
            is_alone = times[one.name, one.io, one.slot, at] == 1
            name = one.name if is_alone else one.otherwise or one.name + source.path.suffix
            refs.append(TensorRef(TensorKey(OpKey(name, at), one.io, one.slot), TensorSpec(), source, self.name))
        return _in_counted_order(builder, refs) or dump_of_names(builder, refs)

    @abstractmethod
    def takes(self, folder: Path, name: str) -> bool:
        """Whether a file holds tensors."""

    def begins_with(self, folder: Path, name: str) -> bool:
        """Whether one such file makes a folder a dump of this format."""
        return self.takes(folder, name)

    def tensors_in(self, folder: FilesOfFolder) -> Iterator[tuple[str, Sequence[NamedInFile]]]:
        """Yield the files of a folder, each with its tensors."""
        for name in folder.names:
            yield name, [NamedInFile(None, folder.scope + Path(name).stem)]


class TensorFolderReader(FileTreeReader):
    """A tree of files of which some hold several tensors."""

    name = "tensor-folder"
    looks_for = "a folder of .pt, .pth, .bin, .ckpt, .npz or .safetensors files, named by operator, or of a checkpoint"
    precedence = -2

    def takes(self, folder: Path, name: str) -> bool:
        """Whether a file is one npy array, or of a kind that holds several."""
        return _is_npy(name) or _kind(folder / name) is not None

    def begins_with(self, folder: Path, name: str) -> bool:
        """Whether it is of such a kind: a folder of arrays alone is an `npy-tree`."""
        return _kind(folder / name) is not None

    def tensors_in(self, folder: FilesOfFolder) -> Iterator[tuple[str, Sequence[NamedInFile]]]:
        """Yield the files with their tensors; the directory of each file is read. See `FileTreeReader.tensors_in`."""
        own, within = _checkpoint_files(folder), "" if folder.is_alone else folder.scope
        for name in folder.names:
            stem = folder.scope + Path(name).stem
            yield name, [*_tensors_of(folder.path / name, stem, names_itself=name in own, within=within)]

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        path, part = ref.source.path, ref.source.part
        if _is_npy(path.name):
            return open_npy(ref.source.location, ref.spec)
        files = _reader_of(path)
        arrays = files.arrays(path)
        if part is None or part >= len(arrays):
            raise TensorFileError(f"{path}: {ref.key.address} was in it when it was indexed; run again")
        return files.opened_view(path, arrays[part])


class NpyTreeReader(FileTreeReader):
    """A tree of arrays of `numpy.save`; none is opened before it is compared."""

    name = "npy-tree"
    looks_for = "a folder of NAME.npy files, with or without sub-folders"
    # Below others: any name fits.
    precedence = -3

    def takes(self, folder: Path, name: str) -> bool:  # noqa: ARG002 - the name says it
        """Whether a file is one npy array."""
        return _is_npy(name)

    def open(self, ref: TensorRef) -> TensorView:
        """Open an array lazily; see `Reader.open`."""
        return open_npy(ref.source.location, ref.spec)


def _is_npy(name: str) -> bool:
    return name.endswith(_NPY) and name != _NPY


def _kind(path: Path) -> str | None:
    """Return the name of the reader of a file with several tensors; of some, only the content says what they are."""
    suffix = path.suffix.lower()
    kind = _KINDS.get(suffix)
    if kind not in ports.rows("READERS"):
        return None
    return kind if suffix not in (".pb", ".bin") or reader(kind or "").recognises(path) else None


def _reader_of(path: Path) -> ArrayFileReader:
    made = reader(_KINDS[path.suffix.lower()])
    if not isinstance(made, ArrayFileReader):
        raise TypeError(f"{made.name} reads no files of named arrays")
    return made


def _is_of_another_format(name: str) -> bool:
    reference = parse_reference(name)
    is_timed = reference is not None and reference.timestamp is not None
    return is_timed or parse_mindspore(name) is not None or parse_converted(name) is not None


def _places(folders: Sequence[Folder]) -> list[tuple[Coordinates, tuple[str, ...]]]:
    """Return the coordinates of each folder, and what is left of its path: its scope.

    Folders in one folder are iterations or ranks where all that hold tensors are, and no two have one number.
    """
    rest = [folder.parts for folder in folders]
    at = [Coordinates(iteration=0, occurrence=0)] * len(rest)
    known: set[str] = set()
    while any(rest):
        read = {parts[0]: numbered_folder(parts[0]) for parts in rest if parts}
        numbers = {found.number for found in read.values() if found}
        kinds = {(found.word, found.coordinate) if found else ("", "") for found in read.values()}
        coordinate = next(iter(kinds))[1]
        # A number beside files of its own folder is a module of a list: `0.npy` is what `0/0.npy` is inside of.
        are_modules = not all(rest) and kinds == {("", "iteration")}
        if len(kinds) > 1 or len(numbers) < len(read) or coordinate in known or are_modules:
            break
        known.add(coordinate)
        for place, parts in enumerate(rest):
            if parts and (found := read[parts[0]]):
                is_rank = coordinate == "rank"
                at[place] = (
                    at[place]._replace(rank=found.number) if is_rank else at[place]._replace(iteration=found.number)
                )
                rest[place] = parts[1:]
    return list(zip(at, rest, strict=True))


def _checkpoint_files(folder: FilesOfFolder) -> frozenset[str]:
    """Return the files of a folder that name their tensors themselves: those of a checkpoint, or its only file."""
    files = [name for name in folder.names if not _is_npy(name)]
    indexed = tuple(name.removesuffix(_INDEX).partition(".")[0] for name in folder.files if name.endswith(_INDEX))
    own = {
        name
        for name in files
        if _SHARD.fullmatch(Path(name).stem)
        or Path(name).stem in _CHECKPOINTS
        or any(name.startswith(f"{begin}-") for begin in indexed)
    }
    return frozenset(own or (files if len(files) == 1 else ()))


def _tensors_of(path: Path, stem: str, *, names_itself: bool, within: str) -> Iterator[NamedInFile]:
    """Yield what a file holds; one that cannot be read is a tensor whose opening says why."""
    if _is_npy(path.name):
        yield NamedInFile(None, stem)
        return
    try:
        arrays = _reader_of(path).arrays(path)
    except TensorFileError:
        yield NamedInFile(None, stem)
        return
    if names_itself and len(arrays) > 1:
        yield from (NamedInFile(part, within + array.name) for part, array in enumerate(arrays))
        return
    named = [_named(stem, part, array, is_alone=len(arrays) == 1) for part, array in enumerate(arrays)]
    repeated = Counter(one[1:] for one in named)
    for one, array in zip(named, arrays, strict=True):
        yield one if repeated[one[1:]] == 1 else NamedInFile(one.part, f"{stem}.{array.name}")


def _named(stem: str, part: int, array: NamedArray, *, is_alone: bool) -> NamedInFile:
    """Return the operator, side and slot that the keys of a tensor say."""
    if array.is_named_inside:
        return NamedInFile(part, array.name, otherwise=stem)
    keys: Sequence[str] = array.keys or array.name.split(".")
    io = _IO.get(keys[0].lower(), "") if keys else ""
    rest = keys[1:] if io else keys
    place = _POSITION.fullmatch(rest[-1]) if rest else None
    if place and len(rest) == 1:
        return NamedInFile(part, stem, io or "output", int(place[1]))
    name = stem if is_alone or not rest else ".".join((stem, *rest))
    return NamedInFile(part, name, io or "output")


class CountedName(NamedTuple):
    """A name without its number, and the number."""

    name: str
    number: int


def counted_name(name: str) -> CountedName | None:
    """Read ``0017_NAME.EXT`` and ``NAME_DTYPE_17.EXT``, as hooks with a counter and `mindspore.ops.tensordump` write.

    >>> counted_name("017_layers.0.q.pt"), counted_name("fc0_float32_8.npy")
    (CountedName(name='layers.0.q', number=17), CountedName(name='fc0', number=8))
    """
    stem = Path(name).stem
    if match := _COUNTED.fullmatch(stem):
        return CountedName(match[2], int(match[1]))
    match = _TENSORDUMP.fullmatch(stem)
    return CountedName(match[1], int(match[3])) if match and canonical(match[2]) else None


def _in_counted_order(builder: DumpBuilder, refs: Sequence[TensorRef]) -> Dump | None:
    """Return a dump of files whose names all have a number of their own, which is their order and no part of the name.

    None where they have none. Hooks write ``017_layer.pt``, `mindspore.ops.tensordump` ``NAME_float32_17.npy``. A name
    that is there several times ran as often.
    """
    names = {(ref.key.op.at, ref.source.name): counted_name(ref.source.name) for ref in refs}
    numbers = {(at, counted.number) for (at, _), counted in names.items() if counted is not None}
    if len(names) < _FEWEST_COUNTED or len(numbers) < len(names):
        return None
    renamed = []
    for ref in refs:
        op = ref.key.op
        counted = names[op.at, ref.source.name]
        if counted is not None:
            name = op.name.replace(Path(ref.source.name).stem, counted.name, 1)
            key = ref.key._replace(op=op._replace(name=name))
            renamed.append(replace(ref, key=key, source=replace(ref.source, timestamp=counted.number)))
    example = min(name for _, name in names)
    builder.note(say(Message("note_counted", {"n": len(names), "example": example})))
    return builder.build(Reruns(number_occurrences(renamed)))
