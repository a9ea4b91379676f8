"""A tensor file that is open.

Notes
-----
Files are read with ``pread``, not mapped: a mapped page counts as resident memory, and a file that shrinks under a
mapping kills the process.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import TensorFileError
from pytest_msdump.storage.files import open_descriptor
from pytest_msdump.storage.remote import RemoteFile, RemotePath

__all__ = ["FileState", "StoredFile"]

# Of a file this small all is read with the first of it: one more system call costs more than so many bytes.
_SMALL_BYTES = 2**15

_HINTS = {
    errno.EACCES: "make it readable (MindSpore writes its files for their owner only)",
    errno.ELOOP: "its symbolic links go round in a circle; remove them",
    errno.EINVAL: "a tensor is read from regular files only",
    errno.ENOENT: "it was there when the dump was indexed; run again, and check links that lead nowhere",
}
_REMOTE_HINT = "check the network and your permissions, and that the file is still there"
_CHANGED_HINT = "compare again when nothing writes to it"


class FileState(NamedTuple):
    """What differs once a file was written anew, whoever wrote it: times are in ns, `changed_ns` is the inode's."""

    size: int
    device: int
    number: int
    modified_ns: int
    changed_ns: int


class StoredFile:
    """A file, opened for reading at any offset. Closed by `close`, or with the last reference to it.

    `path` may be given as text where it is one of this machine. A file on object storage has no `descriptor` and no
    `state`; its bytes are fetched when they are read.

    Raises
    ------
    TensorFileError
        When the file cannot be opened, or is no regular file.
    """

    # Of one that could not be opened, and of a closed one.
    _descriptor = -1
    _whole: bytes | None = None

    # Of a file on object storage, and of one of this machine.
    _remote: RemoteFile | None = None
    _status: os.stat_result | None = None

    def __init__(self, path: Path | str) -> None:
        self._location = path
        if isinstance(path, RemotePath):
            try:
                self._remote = RemoteFile(path)
            except OSError as error:
                raise TensorFileError(f"{path}: cannot be opened: {error.strerror}; {_REMOTE_HINT}") from error
            self.size = self._remote.size
        else:
            self._descriptor, self._status = _open_regular(path)
            self.size = self._status.st_size

    @property
    def path(self) -> Path:
        """What was opened."""
        return Path(self._location) if isinstance(self._location, str) else self._location

    @property
    def state(self) -> FileState | None:
        """What it is until it is written anew; ``None`` on object storage."""
        return None if self._status is None else _state_of(self._status)

    @property
    def is_remote(self) -> bool:
        """Whether it is on object storage."""
        return self._remote is not None

    @property
    def descriptor(self) -> int | None:
        """The number of the open file; ``None`` on object storage; not after `close`."""
        return None if self._remote is not None else self._open_descriptor()

    def _open_descriptor(self) -> int:
        # The number of a closed file may belong to another one by now.
        if self._descriptor < 0:
            raise ValueError(f"{self.path}: read after close()")
        return self._descriptor

    def close(self) -> None:
        """Close the file. Harmless when it is closed already."""
        descriptor, self._descriptor, self._whole, self._remote = self._descriptor, -1, None, None
        if descriptor >= 0:
            os.close(descriptor)

    # Simpler than `weakref.finalize`, and a fifth of the time, which counts for 100,000 files.
    __del__ = close

    def hold(self) -> None:
        """Read all of a small file at once; what is read from now on is what it holds at this moment."""
        if self._remote is not None or self.size > _SMALL_BYTES:
            return
        # What is wrong with a file that cannot be read, or shrinks meanwhile, is told by who wants its bytes.
        try:
            found = os.pread(self._descriptor, self.size, 0)
        except OSError:
            return
        self._whole = found if len(found) == self.size else None

    def first_bytes(self, count: int) -> bytes:
        """Return up to `count` bytes from the first on; none where they cannot be read, for any reason."""
        if self._remote is not None:
            return b""
        try:
            return os.pread(self._descriptor, count, 0)
        except OSError:
            return b""

    def held(self, offset: int, count: int) -> bytes | None:
        """Return all of the file where `hold` read it and it has these bytes, else ``None``."""
        return self._whole if offset + count <= self.size else None

    def read_bytes(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset` on.

        Raises
        ------
        TensorFileError
            As `read_into`.
        """
        whole = self.held(offset, count)
        if whole is not None:
            return whole[offset : offset + count]
        descriptor = self.descriptor
        with suppress(OSError):
            found = b"" if descriptor is None else os.pread(descriptor, count, offset)
            if len(found) == count:
                return found
        content = bytearray(count)
        self.read_into(memoryview(content), offset)
        return bytes(content)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` (bytes) from `offset` (bytes) on.

        Raises
        ------
        TensorFileError
            When the file ends before, which it did not when it was opened, or cannot be read.
        """
        whole = self.held(offset, len(target))
        if whole is not None:
            target[:] = whole[offset : offset + len(target)]
            return
        if self._remote is not None:
            self._fetch_into(self._remote, target, offset)
            return
        done, descriptor = 0, self._open_descriptor()
        while done < len(target):
            try:
                count = os.preadv(descriptor, [target[done:]], offset + done)
            except OSError as error:
                raise TensorFileError(
                    f"{self.path}: cannot be read at byte {offset + done}: {error.strerror}"
                ) from error
            if count == 0:
                raise TensorFileError(
                    f"{self.path}: ends at byte {offset + done}, but had {self.size} bytes when it was opened; "
                    "compare again when nothing writes to it"
                )
            done += count

    def _fetch_into(self, remote: RemoteFile, target: memoryview, offset: int) -> None:
        try:
            remote.read_into(target, offset)
        except OSError as error:
            hint = _CHANGED_HINT if error.errno == errno.ESTALE else _REMOTE_HINT
            raise TensorFileError(f"{self.path}: cannot be read at byte {offset}: {error.strerror}; {hint}") from error


def _state_of(status: os.stat_result) -> FileState:
    found = (status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return tuple.__new__(FileState, found)


def _open_regular(path: Path | str) -> tuple[int, os.stat_result]:
    """Return the descriptor, and what the system says of the file."""
    try:
        return open_descriptor(path)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "check the path, its permissions and its disk")
        raise TensorFileError(f"{path}: cannot be opened: {error.strerror}; {hint}") from error
