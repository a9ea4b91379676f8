"""Folders of files that each hold one tensor or several: hooks' ``.pt``, ``.npz`` and ``.npy``, checkpoints in shards.

A file of one tensor is the operator that its name says. Of several, ``input`` and ``output`` are what the operator
takes and gives, places in a list are slots, and other keys follow the name. The files of a checkpoint name their
tensors themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_msdump.core.dumps.array_files import ArrayFileReader, NamedArray, dump_of_names, in_counted_order
from pytest_msdump.core.dumps.base import DumpBuilder, Reader, reader
from pytest_msdump.core.dumps.file_names import parse_mindspore, parse_reference
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
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

_NPY = ".npy"
# How names of files end → what reads one.
_KINDS = {
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), "torch-file"),
    ".npz": "npz",
    ".safetensors": "safetensors",
}
_AT = Coordinates(iteration=0, occurrence=0)
_IO = {
    **dict.fromkeys(("input", "inputs", "in", "args"), "input"),
    **dict.fromkeys(("output", "outputs", "out", "result"), "output"),
}
_POSITION = re.compile(r"(?:arr_)?([0-9]{1,6})")
# Hugging Face's names: a part of a checkpoint, and a whole one.
_SHARD = re.compile(r".+-[0-9]{5}-of-[0-9]{5}")
_CHECKPOINTS = frozenset({"model", "pytorch_model", "adapter_model", "diffusion_pytorch_model", "consolidated"})
_INDEX = ".index.json"

# The key of a tensor in its dump, and which of the file's tensors it is; None where the file is one npy array.
_Named = tuple[TensorKey, int | None]


class TensorFolderReader(Reader):
    """A tree of such files. Numbers at the beginning of all names are the order in which hooks wrote them."""

    name = "tensor-folder"
    looks_for = "a folder of .pt, .pth, .bin, .ckpt, .npz or .safetensors files, named by operator, or of a checkpoint"
    precedence = -3

    def recognises(self, root: Path) -> bool:
        """Return whether there is such a file at any depth, and no npy file of another format."""
        if not root.is_dir():
            return False
        names = [name for folder in walk(root) for name in folder.files]
        return any(_kind(name) for name in names) and not any(map(_is_of_another_format, names))

    def index(self, root: Path) -> Dump:
        """List the tensors by name; the directory of each file is read. See `Reader.index`."""
        builder = DumpBuilder(root, self.name)
        refs: list[TensorRef] = []
        for folder in walk(root):
            files = [name for name in folder.files if _kind(name) or name.endswith(_NPY)]
            own_names = _checkpoint_files(folder)
            for name in files:
                path = folder.below(root)
                for key, part in _tensors_of(folder, path / name, names_itself=name in own_names):
                    refs.append(TensorRef(key, TensorSpec(), TensorSource(path, name, part=part), self.name))
            builder.leave_out(folder, [name for name in folder.files if name not in files])
        ordered = in_counted_order(builder, refs)
        return dump_of_names(builder, refs) if ordered is None else ordered

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        path, part = ref.source.path, ref.source.part
        if path.suffix.lower() == _NPY:
            return open_npy(ref.source.location, ref.spec)
        files = _reader_of(path.name)
        arrays = files.arrays(path)
        if part is None or part >= len(arrays):
            raise TensorFileError(f"{path}: {ref.key.address} was in it when it was indexed; run again")
        return files.opened_view(path, arrays[part])


def _kind(name: str) -> str | None:
    """Return the name of the reader of a file with several tensors."""
    return _KINDS.get(Path(name).suffix.lower())


def _reader_of(name: str) -> ArrayFileReader:
    made = reader(_kind(name) or "")
    if not isinstance(made, ArrayFileReader):
        raise TypeError(f"{made.name} reads no files of named arrays")
    return made


def _is_of_another_format(name: str) -> bool:
    reference = parse_reference(name)
    return (reference is not None and reference.timestamp is not None) or parse_mindspore(name) is not None


def _checkpoint_files(folder: Folder) -> frozenset[str]:
    """Return the files of a folder that name their tensors themselves: those of a checkpoint, or its only file."""
    files = [name for name in folder.files if _kind(name)]
    indexed = tuple(name.removesuffix(_INDEX).partition(".")[0] for name in folder.files if name.endswith(_INDEX))
    own = {
        name
        for name in files
        if _SHARD.fullmatch(Path(name).stem)
        or Path(name).stem in _CHECKPOINTS
        or any(name.startswith(f"{begin}-") for begin in indexed)
    }
    return frozenset(own or (files if len(files) == 1 else ()))


def _tensors_of(folder: Folder, path: Path, *, names_itself: bool) -> Iterator[_Named]:
    """Yield what a file holds; one that cannot be read is a tensor whose opening says why."""
    stem = folder.text(path.stem)
    if path.suffix.lower() == _NPY:
        yield _output(stem), None
        return
    try:
        arrays = _reader_of(path.name).arrays(path)
    except TensorFileError:
        yield _output(stem), None
        return
    if names_itself and len(arrays) > 1:
        yield from ((_output(array.name), part) for part, array in enumerate(arrays))
        return
    keys = [_key_of(stem, array, is_alone=len(arrays) == 1) for array in arrays]
    repeated = Counter(keys)
    for part, (key, array) in enumerate(zip(keys, arrays, strict=True)):
        yield (key if repeated[key] == 1 else _output(f"{stem}.{array.name}")), part


def _key_of(stem: str, array: NamedArray, *, is_alone: bool) -> TensorKey:
    """Return the operator, side and slot that the keys of a tensor say."""
    keys: Sequence[str] = array.keys or array.name.split(".")
    io = _IO.get(keys[0].lower(), "") if keys else ""
    rest = keys[1:] if io else keys
    place = _POSITION.fullmatch(rest[-1]) if rest else None
    if place and len(rest) == 1:
        return TensorKey(OpKey(stem, _AT), io or "output", int(place[1]))
    if is_alone or not rest:
        return TensorKey(OpKey(stem, _AT), io or "output", 0)
    return TensorKey(OpKey(".".join((stem, *rest)), _AT), io or "output", 0)


def _output(name: str) -> TensorKey:
    return TensorKey(OpKey(name, _AT), "output", 0)
