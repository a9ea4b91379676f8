"""What every reader of a dump format does, the choice among readers, and how each builds its `Dump`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pytest_msdump.core import ports, registry
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.errors import DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.core.model.dump import Dump, PartialRun, placed_by_time
from pytest_msdump.core.storage.files import irregular_kind
from pytest_msdump.core.storage.locations import RemotePath
from pytest_msdump.core.text import Message, say

if TYPE_CHECKING:
    from pytest_msdump.core.dumps.dump_tree import TreePlace
    from pytest_msdump.core.dumps.reruns import Reruns
    from pytest_msdump.core.model.tensor import OpKey, TensorRef, TensorView

# The `Dump.reader` of a folder without files, which no reader is needed for.
EMPTY = "empty"

_LONGEST_EXAMPLE = 24


class Reader(ABC):
    """One dump format. Another package extends it and names it in the entry-point group ``pytest_msdump.dumps``.

    Attributes
    ----------
    name : str
        Short and unique, e.g. ``"mindspore"``.
    looks_for : str
        What a dump of this format looks like, as the end of a sentence in an error.
    precedence : int
        Of several readers that recognise one directory, the one with the highest reads it. More specific formats have
        more.
    one_file_is_whole : bool
        Whether a file that it recognises holds many operators by name, and so is a whole dump.
    """

    name: ClassVar[str]
    looks_for: ClassVar[str]
    precedence: ClassVar[int] = 0
    one_file_is_whole: ClassVar[bool] = False

    @abstractmethod
    def recognises(self, root: Path) -> bool:
        """Return whether `root`, which exists, is a dump of this format. Looks at names only."""

    @abstractmethod
    def index(self, root: Path) -> Dump:
        """List every tensor below `root` without opening one. Files that do not belong go to `Dump.unexplained`."""

    @abstractmethod
    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor of this reader lazily.

        Raises
        ------
        TensorFileError
            The file is not what it claims to be.
        """

    def with_placements(self, dump: Dump) -> Dump:
        """Return a dump of this reader with what only its files say of ranks and of how tensors are cut over them.

        Called where a suite asks for it (``from = "meta"``), since it may open every file; by default nothing is added.
        """
        return dump


@cache
def reader(name: str) -> Reader:
    """Return the reader of this name, and load no other of ours; KeyError where there is none."""
    if row := ports.rows("READERS").get(name):
        made: Reader = ports.load(row[0])()
        return made
    return _foreign()[name]


@cache
def _foreign() -> dict[str, Reader]:
    """Return the readers that other packages name as entry points."""
    classes = [point.load() for point in registry.entry_points_of("pytest_msdump.dumps")]
    return {one.name: one() for one in classes}


def _likely(root: Path) -> Iterator[Reader]:
    """Yield readers by precedence; of ours none that a file's name speaks against."""
    names = [name.lower() for folder in walk(root) for name in folder.files] if root.is_dir() else [root.name.lower()]
    rows = [(-precedence, target, name, ends) for name, (target, precedence, ends) in ports.rows("READERS").items()]
    rows += [(-one.precedence, "~", name, ()) for name, one in _foreign().items()]
    for _, _, name, ends in sorted(rows, key=lambda row: (row[0], row[1].partition(":")[0].rpartition(".")[2])):
        if not ends or any(map(methodcaller("endswith", ends), names)):
            yield reader(name)


def reader_of(path: Path) -> Reader | None:
    """Return the reader that knows a path, if there is one."""
    return next((each for each in _likely(path) if each.recognises(path)), None)


def is_whole_dump(path: Path) -> bool:
    """Whether a path is a folder, or a file of many operators."""
    found = reader_of(path) if path.is_file() else None
    return not path.is_file() or (found is not None and found.one_file_is_whole)


def index_dump(root: Path) -> Dump:
    """Choose the reader for `root`, a directory or one file, by looking at names, and index it."""
    # Unlike `Path.exists`, false rather than an exception where a parent may not be entered or the name is too long.
    if not isinstance(root, RemotePath) and not os.path.exists(root):  # noqa: PTH110
        raise DumpNotFoundError(f"{root}: no such directory or file; give the directory a dump was written to")
    if not root.is_dir() and (kind := irregular_kind(root.stat())):
        raise DumpNotFoundError(f"{root}: {kind}; give the directory a dump was written to")
    if (known := reader_of(root)) is not None:
        return known.index(root)
    found = (folder.text(name) for folder in walk(root) for name in (*folder.files, *folder.closed))
    example = next(found, None) if root.is_dir() else root.name
    if example is None:
        return Dump(root=root, reader=EMPTY)
    about = ports.rows("OFFERS").get("foreign_files")
    if about and (seeming := ports.load(about).described(root)):
        raise UnknownDumpFormatError(f"{root}: {seeming}")
    shown = example if len(example) <= _LONGEST_EXAMPLE else f"{example[:_LONGEST_EXAMPLE]}..."
    raise UnknownDumpFormatError(
        f"{root}: give the directory of a dump; no known format has names like '{shown}'. Tensors are read from .npy, "
        f".npz, .pt, .safetensors and {', '.join(('others', *_foreign()))} (docs/reference/dump_formats.md)"
    )


class DumpBuilder:
    """Collects what a reader finds below a root.

    Attributes
    ----------
    refs : list of TensorRef
        Every tensor, in any order.
    labels : mapping of str to set of str
        What is known of the run; a label may be found several times.
    around : dict of OpKey to OpKey
        See `Dump.around`.
    """

    def __init__(self, root: Path, reader: str) -> None:
        self.root, self.reader = root, reader
        self.refs: list[TensorRef] = []
        self.labels: defaultdict[str, set[str]] = defaultdict(set)
        self.around: dict[OpKey, OpKey] = {}
        self._unexplained: list[Path] = []
        self._notes: list[str] = []
        self._examples: defaultdict[str, list[str]] = defaultdict(list)

    def leave_out(self, folder: Folder, names: Iterable[str]) -> None:
        """Add files of a folder that are not understood, and what in it could not be looked into."""
        self._unexplained += map(folder.relative, (*names, *folder.closed))

    def add_labels(self, place: TreePlace | None) -> None:
        """Add what the path of a folder with tensors says of the run."""
        for title, value in place.labels if place else ():
            self.labels[title].add(value)

    def note(self, *sentences: str) -> None:
        """Add sentences for the header."""
        self._notes += sentences

    def note_file(self, code: str, example: str) -> None:
        """Count a file; the sentence of `code` has the fields ``n`` and ``example``, and is said once."""
        self._examples[code].append(example)

    def build(
        self,
        runs: Reruns,
        *,
        order: Callable[[Iterable[TensorRef], PartialRun | None], tuple[TensorRef, ...]] = placed_by_time,
    ) -> Dump:
        """Return the dump. `runs` are made of `refs`; `order` gives them their places."""
        file_notes = [
            say(Message(code, {"n": len(examples), "example": min(examples)}))
            for code, examples in self._examples.items()
        ]
        return Dump(
            root=self.root,
            reader=self.reader,
            refs=order(runs.newest, runs.partial),
            older=runs.older,
            partial=runs.partial,
            unexplained=tuple(sorted(self._unexplained)),
            labels=tuple((name, ", ".join(sorted(values))) for name, values in sorted(self.labels.items())),
            notes=(*runs.notes, *self._notes, *file_notes),
            around=self.around,
        )
