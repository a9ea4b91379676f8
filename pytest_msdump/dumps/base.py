"""What every reader of a dump format does, and the choice among them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from pytest_msdump.dumps.listing import walk
from pytest_msdump.errors import DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.model.dump import Dump
from pytest_msdump.pages import pages
from pytest_msdump.storage.files import irregular
from pytest_msdump.storage.remote import RemotePath

if TYPE_CHECKING:
    from pytest_msdump.model.tensor import TensorRef, TensorView

__all__ = ["EMPTY", "Reader", "Scratch", "index_dump"]

# The `Dump.reader` of a folder without files, which no reader is needed for.
EMPTY = "empty"


class Reader(ABC):
    """One dump format. Extend it in another package and name it under the entry point group ``pytest_msdump.readers``.

    Attributes
    ----------
    name : str
        Short and unique, e.g. ``"mindspore"``.
    looks_for : str
        What a dump of this format looks like, as the end of a sentence for a person whose directory was not recognised.
    precedence : int
        Who is asked when several readers recognise one directory: the highest. More specific formats have more.
    """

    name: ClassVar[str]
    looks_for: ClassVar[str]
    precedence: ClassVar[int] = 0

    @abstractmethod
    def recognises(self, root: Path) -> bool:
        """Tell whether `root`, which exists, is a dump of this format. Looks at names only."""

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


def index_dump(root: Path, readers: Mapping[str, Reader]) -> Dump:
    """Choose the reader for `root` by looking at names, and index it.

    Parameters
    ----------
    root : Path
        A directory, or one file.
    readers : mapping of str to Reader
        Who may be chosen, by name.

    Returns
    -------
    Dump
        With reader ``"empty"`` for a directory that holds no file at any depth.

    Raises
    ------
    DumpNotFoundError
        There is nothing at `root`, or it cannot be listed.
    UnknownDumpFormatError
        There are files, but none that any reader knows.
    """
    # Unlike `Path.exists`, false rather than an exception where a parent may not be entered or the name is too long.
    if not isinstance(root, RemotePath) and not os.path.exists(root):  # noqa: PTH110
        raise DumpNotFoundError(f"{root}: no such directory or file; give the directory a dump was written to")
    if not root.is_dir() and (kind := irregular(root.stat())):
        raise DumpNotFoundError(f"{root}: {kind}; give the directory a dump was written to")
    # In this order the first to recognise it is the one, and the others need not look at every name.
    for reader in sorted(readers.values(), key=lambda each: -each.precedence):
        if reader.recognises(root):
            return reader.index(root)
    example = _example(root)
    if example is None:
        return Dump(root=root, reader=EMPTY)
    wanted = "; ".join(f"{reader.name}: {reader.looks_for}" for reader in readers.values())
    raise UnknownDumpFormatError(
        f"{root}: no dump format that is known here (found e.g. '{example}'). Looked for {wanted}"
    )


def _example(root: Path) -> str | None:
    """Name something that is at or below `root`; ``None`` when there is nothing."""
    if not root.is_dir():
        return root.name
    for folder in walk(root):
        for name in (*folder.files, *folder.closed):
            return folder.relative(name).as_posix()
    return None


# -- Memory that tensors are read into -------------------------------------------------------------------------------


Array = npt.NDArray[Any]

_NO_BYTES: Array = np.empty(0, np.uint8)
_BYTE = np.dtype(np.uint8)


class Scratch:
    """Memory that is used again and again for one tensor."""

    def __init__(self) -> None:
        self._bytes = _NO_BYTES

    def take(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return a 1-D array of `count` elements over this memory, with whatever is in it."""
        needed = count * dtype.itemsize
        if needed > self._bytes.size:
            self._bytes = pages(needed, _BYTE)
        return self._bytes[:needed].view(dtype)
