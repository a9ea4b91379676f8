"""A remote file as a stream, for small files that are read from their beginning: fetched piece by piece, never kept."""

from __future__ import annotations

import errno
import io
import os
from typing import IO, TYPE_CHECKING, Any

from pytest_msdump.storage.access import fetched, size_of
from pytest_msdump.storage.standins import standins

if TYPE_CHECKING:
    from pytest_msdump.storage.paths import RemotePath

__all__ = ["known_size", "open_stream"]

_PIECE_BYTES = 2**20
_LONGEST_FETCH = 2**23


def known_size(path: RemotePath) -> int:
    """Return a file's size as it was listed; where this process has not listed it, the storage is asked.

    Raises
    ------
    OSError
        It is not there, or the storage does not say.
    """
    listed = standins().sizes.get(os.fspath(path))
    return size_of(path) if listed is None else listed


def open_stream(
    path: RemotePath, mode: str, buffering: int, *, encoding: str | None, errors: str | None, newline: str | None
) -> IO[Any]:
    """Open as `pathlib.Path.open` does, for reading only.

    Raises
    ------
    OSError
        Opened for writing, or the storage gives no answer.
    """
    if set(mode) - set("rbt"):
        raise OSError(errno.EROFS, "object storage is only read here", str(path))
    raw = _Remote(path)
    buffered = io.BufferedReader(raw, buffering if buffering > 1 else _PIECE_BYTES)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _Remote(io.RawIOBase):
    """The bytes of a remote file."""

    def __init__(self, path: RemotePath) -> None:
        self._path, self._size, self._at = path, known_size(path), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        count = max(0, min(len(view), self._size - self._at, _LONGEST_FETCH))
        if count:
            view[:count] = fetched(self._path, self._at, self._at + count)
            self._at += count
        return count
