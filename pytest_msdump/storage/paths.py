"""A path on object storage: told to people as its URL, to the operating system as its stand-in on this machine.

So every reader lists and names a remote dump as it does a local one. Only who reads *bytes* must know:
`RemotePath.open` fetches them, and `readers.stored_file.StoredFile` does. Nobody else can take a stand-in for a tensor,
since it is empty.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path, PosixPath
from typing import IO, TYPE_CHECKING, Any

from pytest_msdump.storage.standins import standins

if TYPE_CHECKING:
    from pytest_msdump.storage.copies import LazyCopy

__all__ = ["RemotePath", "spelled_out"]


class RemotePath(PosixPath):
    """A file or folder on object storage; made by `storage.urls.located`.

    Its parts are ``/``, the scheme with its colon, and what follows. Two processes that hold the same URL mean the same
    file: that, and not where the stand-in is, is what travels when it is pickled.
    """

    __slots__ = ()

    def __str__(self) -> str:
        parts = self.parts
        if len(parts) < 2 or parts[0] != "/":
            return super().__str__()
        return f"{parts[1]}//{'/'.join(parts[2:])}"

    def __fspath__(self) -> str:
        parts = self.parts
        if not parts or parts[0] != "/":
            return super().__str__()
        return "/".join((standins().folder, *parts[1:]))

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the stand-in's status with the size of what it stands for."""
        found = os.stat(self, follow_symlinks=follow_symlinks)  # noqa: PTH116 - Path.stat is what this is
        size = standins().sizes.get(os.fspath(self))
        if size is None:
            return found
        told = list(found[:10])
        told[6] = size
        return os.stat_result(told, {"st_mtime_ns": found.st_mtime_ns, "st_ctime_ns": found.st_ctime_ns})

    def open(  # type: ignore[override]
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open for reading; the bytes are fetched piece by piece as they are asked for.

        Raises
        ------
        OSError
            Opened for writing, or the storage gives no answer.
        """
        from pytest_msdump.storage.streams import open_stream

        return open_stream(self, mode, buffering, encoding=encoding, errors=errors, newline=newline)

    def local_copy(self) -> LazyCopy:
        """Open a file of this machine that gets the bytes of this one as they are asked for.

        Raises
        ------
        TensorFileError
            The file is not there, or there is no room for a local one.
        """
        from pytest_msdump.storage.copies import LazyCopy

        return LazyCopy(self)

    def iterdir(self) -> Generator[RemotePath, None, None]:
        """Yield what was listed in this folder."""
        yield from (self / name for name in os.listdir(self))  # noqa: PTH208 - Path.iterdir is what this is

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002 - as Path.resolve takes it
        """Return itself: there are no links on object storage."""
        return self


def spelled_out(path: Path) -> Path:
    """Return the absolute path by its spelling alone: a link that is called rank_0 is that rank, wherever it leads."""
    return path if isinstance(path, RemotePath) else Path(os.path.abspath(path))  # noqa: PTH100
