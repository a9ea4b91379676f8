"""A tensor file that is open.

Notes
-----
Files are read with ``pread``, not mapped: a mapped page counts as resident memory, and a file that shrinks under a
mapping kills the process.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.files import open_descriptor
from pytest_msdump.core.storage.locations import RemotePath, RemoteStream, storage

LFS_POINTER = (b"version https://git-lfs", "is a Git LFS pointer, not the tensor itself; run `git lfs pull`")

_HINTS = {
    errno.EACCES: "make it readable (MindSpore writes its files for their owner only)",
    errno.ELOOP: "its symbolic links go round in a circle; remove them",
    errno.EINVAL: "a tensor is read from regular files only",
    errno.ENOENT: "it was there when the dump was indexed; run again, and check links that lead nowhere",
}
_HEAD_BYTES = 2**12
_REMOTE_HINT = "check the network and your permissions, and that the file is still there"
_CHANGED_HINT = "compare again when nothing writes to it"


def truncated(where: str, what: str) -> TensorFileError:
    """Return the error of a file that ends too early; `what` says how."""
    return TensorFileError(f"{where}: {what}; the run was probably killed while writing: dump it again")


class StoredFile:
    """A file, opened for reading at any offset. Closed by `close`, or with the last reference to it."""

    # Of one that could not be opened, and of a closed one.
    _descriptor = -1
    _remote: RemoteStream | None = None
    # The first bytes, once they were read: all of a small file, which is then not asked for twice.
    _head = b""

    def __init__(self, path: Path | str) -> None:
        self._location = path
        try:
            if isinstance(path, RemotePath):
                self._remote = storage().stream(path)
                self.size = self._remote.size
            else:
                self._descriptor, status = open_descriptor(path)
                self.size = status.st_size
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "check the path, its permissions and its disk")
            hint = _REMOTE_HINT if isinstance(path, RemotePath) else hint
            raise TensorFileError(f"{path}: cannot be opened: {error.strerror}; {hint}") from error

    @property
    def where(self) -> str:
        """Its path as text, for messages."""
        return str(self._location)

    @property
    def is_remote(self) -> bool:
        """Whether it is on object storage."""
        return self._remote is not None

    @property
    def descriptor(self) -> int | None:
        """The number of the open file; ``None`` on object storage; not after `close`."""
        if self._remote is not None:
            return None
        # The number of a closed file may belong to another one by now.
        if self._descriptor < 0:
            raise ValueError(f"{self.where}: read after close()")
        return self._descriptor

    def close(self) -> None:
        """Close the file. Harmless when it is closed already."""
        descriptor, self._descriptor, self._remote = self._descriptor, -1, None
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close

    def read_bytes(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset` on; raises as `read_into`."""
        content = bytearray(count)
        self.read_into(memoryview(content), offset)
        found = bytes(content)
        if not offset and count <= _HEAD_BYTES:
            self._head = found
        return found

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from byte `offset` on; TensorFileError where the file cannot be read or has become shorter."""
        descriptor, done, needed = self.descriptor, 0, target.nbytes
        if offset + needed <= len(self._head):
            target[:] = self._head[offset : offset + needed]
            return
        try:
            if self._remote is not None:
                self._remote.read_into(target, offset)
            while descriptor is not None and done < needed:
                count = os.preadv(descriptor, [target[done:]], offset + done)
                if count == 0:
                    raise TensorFileError(
                        f"{self.where}: ends at byte {offset + done}, but had {self.size} bytes when it was opened; "
                        "compare again when nothing writes to it"
                    )
                done += count
        except OSError as error:
            hint = _CHANGED_HINT if error.errno == errno.ESTALE else _REMOTE_HINT
            advice = f"; {hint}" if self.is_remote else ""
            raise TensorFileError(
                f"{self.where}: cannot be read at byte {offset + done}: {error.strerror}{advice}"
            ) from error


@contextmanager
def opened(path: Path | str) -> Iterator[StoredFile]:
    """Open a file for a view that keeps it; close it again when the view cannot be made."""
    file = StoredFile(path)
    try:
        yield file
    except BaseException:
        file.close()
        raise
