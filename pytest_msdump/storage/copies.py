"""A tensor file on object storage as a local file without a name, filled in as it is read, gone when it is closed.

So a tensor that is read twice is fetched once, memory stays bounded, and the disk holds what is open and no more.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from pytest_msdump.errors import TensorFileError
from pytest_msdump.storage.access import fetched
from pytest_msdump.storage.streams import known_size

if TYPE_CHECKING:
    from pytest_msdump.storage.paths import RemotePath

__all__ = ["LazyCopy"]

_BLOCK_BYTES = 2**15
# A header is fetched by itself; whoever reads on gets eight times as much each time, up to 8 MiB.
_GROWTH = 8
_MOST_BLOCKS = 2**23 // _BLOCK_BYTES


class LazyCopy:
    """What was fetched of one remote file so far. Not for several threads at a time.

    Parameters
    ----------
    path : RemotePath
        The file.

    Attributes
    ----------
    descriptor : int
        The local file; the caller closes it.
    size : int
        Bytes of the remote file.

    Raises
    ------
    TensorFileError
        The file is not there, or there is no room for a local one.
    """

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        try:
            self.size = known_size(path)
            with tempfile.TemporaryFile(prefix="msdump-") as file:
                os.truncate(file.fileno(), self.size)
                self.descriptor = os.dup(file.fileno())
        except OSError as error:
            raise TensorFileError(f"{path}: cannot be opened: {error.strerror}; {_hint(path, error)}") from error
        self._there = bytearray(-(-self.size // _BLOCK_BYTES))
        self._next = self._step = 0

    def fill(self, start: int, stop: int) -> None:
        """Make sure that bytes `start` to `stop` are in the local file, as far as the file goes.

        Raises
        ------
        TensorFileError
            The storage does not give them, or there is no room.
        """
        block, last = start // _BLOCK_BYTES, min(-(-stop // _BLOCK_BYTES), len(self._there))
        while (block := self._there.find(0, block, last)) >= 0:
            block = self._fetch(block, last)

    def _fetch(self, first: int, last: int) -> int:
        """Fetch some blocks from `first` on: those up to `last`, and more where somebody reads on; return the next."""
        self._step = min(self._step * _GROWTH, _MOST_BLOCKS) if first == self._next and first else 1
        end = min(first + max(self._step, min(last - first, _MOST_BLOCKS)), len(self._there))
        known = self._there.find(1, first, end)
        end = end if known < 0 else known
        start, stop = first * _BLOCK_BYTES, min(end * _BLOCK_BYTES, self.size)
        try:
            _write(self.descriptor, fetched(self._path, start, stop), start)
        except OSError as error:
            raise TensorFileError(
                f"{self._path}: cannot be read at byte {start}: {error.strerror}; {_hint(self._path, error)}"
            ) from error
        self._there[first:end] = b"\1" * (end - first)
        self._next = end
        return end


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _hint(path: RemotePath, error: OSError) -> str:
    # What the storage says is told with the file's name, what the local disk says without.
    if error.filename != str(path):
        return f"there must be room for whole tensor files in {tempfile.gettempdir()}, or where TMPDIR says"
    return "check the network and your permissions, and that the file is still there"
