"""Files that hold many arrays by name, such as ``.npz``: what their readers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pytest_msdump.core.dumps.array_reader import StoredView
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.listing import Folder
from pytest_msdump.core.dumps.reruns import Reruns
from pytest_msdump.core.dumps.stored_file import StoredFile, opened
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.model.dump import Dump, in_order
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

_AT = Coordinates(iteration=0, occurrence=0)


@dataclass(frozen=True)
class NamedArray:
    """One array of a file: its name, what the file's directory claims of it, and where it is.

    `is_named_inside` says that a file of one array has a name of it.
    """

    name: str
    spec: TensorSpec
    start: int
    size: int
    problem: str = ""
    entry: Any = None
    keys: tuple[str, ...] = ()
    is_named_inside: bool = False


@dataclass(frozen=True)
class Contents:
    """The directory of a file. `unexplained` are names of what is no array; `labels` and `notes` are the dump's."""

    arrays: tuple[NamedArray, ...]
    unexplained: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


class ArrayFileReader(Reader):
    """A reader of one kind of file, known by one of its `suffixes`. Each array is ``NAME:output:0``."""

    suffixes: ClassVar[tuple[str, ...]]
    one_file_is_whole = True

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is a file with such a suffix, in any case."""
        return root.suffix.lower() in self.suffixes and root.is_file()

    def index(self, root: Path) -> Dump:
        """List the arrays by name; UnknownDumpFormatError where the directory of the file cannot be read."""
        try:
            contents = _contents(self, root, _state(root))
        except TensorFileError as error:
            # Nothing else names the tensors that should have been compared.
            raise UnknownDumpFormatError(str(error)) from error
        builder = DumpBuilder(root, self.name)
        builder.note(*contents.notes)
        for label, value in contents.labels:
            builder.labels[label].add(value)
        # One that begins with a slash would not be below the root.
        builder.leave_out(Folder((), (), ()), [name.lstrip("/") for name in contents.unexplained])
        refs = [
            output_of(array.name, TensorSource.of(root, part=part), self.name, array.spec)
            for part, array in enumerate(contents.arrays)
        ]
        return dump_of_names(builder, refs)

    def open(self, ref: TensorRef) -> TensorView:
        """Open an array lazily; see `Reader.open`."""
        path, part = ref.source.path, ref.source.part or 0
        arrays = self.arrays(path)
        if part >= len(arrays) or arrays[part].name != ref.key.op.name:
            raise TensorFileError(f"{path}: {ref.key.op.name} was in it when it was indexed; run again")
        return self.opened_view(path, arrays[part])

    def opened_view(self, path: Path, array: NamedArray) -> StoredView:
        """Open one array of a file. TensorFileError where it has a problem, or is not what it claims to be."""
        if array.problem:
            raise TensorFileError(f"{path}: {array.name}: {array.problem}")
        with opened(path) as file:
            return self.view_of(file, array)

    def arrays(self, path: Path) -> tuple[NamedArray, ...]:
        """Return the arrays of a file, by its directory. TensorFileError where that is damaged."""
        return _contents(self, path, _state(path)).arrays

    @abstractmethod
    def contents_of(self, file: StoredFile) -> Contents:
        """Read the directory. TensorFileError where it is damaged."""

    @abstractmethod
    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open an array of a file, which the view keeps. TensorFileError where it is not what it claims to be."""


def _state(path: Path) -> tuple[int, ...]:
    """Return what changes with the file's content; opening a file that is not there says why."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)


# Every array is opened by itself. Reading the directory each time would take a time that grows with their square.
@lru_cache(maxsize=4)
def _contents(reader: ArrayFileReader, path: Path, state: tuple[int, ...]) -> Contents:  # noqa: ARG001 - of the cache
    with closing(StoredFile(path)) as file:
        return reader.contents_of(file)


def output_of(name: str, source: TensorSource, reader: str, spec: TensorSpec) -> TensorRef:
    """Return an array as the one output of an operator of its name, in iteration 0."""
    return TensorRef(TensorKey(OpKey(name, _AT), "output", 0), spec, source, reader)


def dump_of_names(builder: DumpBuilder, refs: Iterable[TensorRef]) -> Dump:
    """Return a dump of tensors of which nothing says when they were made. They get no place: names would mislead."""
    builder.note(say(Message("note_no_order")))
    return builder.build(Reruns(tuple(refs)), order=lambda found, _: in_order(found))


def is_named_array(ref: TensorRef) -> bool:
    """Whether a tensor is one of the arrays of a file that names them."""
    return ref.source.part is not None and ref.source.timestamp is None and not ref.is_unseen


def file_name_of(ref: TensorRef) -> str:
    """Return an array's name as that of a file, without suffix, folders and control characters; two may become one."""
    name = ref.key.op.name.replace("/", "_").replace("\\", "_")
    return "".join(one if one.isprintable() else f"%{ord(one):02X}" for one in name)
