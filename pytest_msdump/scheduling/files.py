"""The files of a pair, and what tells one version of a file from the next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.storage.remote import RemotePath

__all__ = ["FileState", "bytes_to_read", "files_of", "state_of"]


class FileState(NamedTuple):
    """What the file system says of a file: times in nanoseconds; `changed` is that of the entry, `inode` its place."""

    size: int
    modified: int
    changed: int
    device: int
    inode: int


def files_of(pair: Pair) -> tuple[Path, ...]:
    """Return every file that comparing a pair reads, the left side's first."""
    return tuple(path for ref in (pair.left, pair.right) for path in _files(ref))


def _files(ref: TensorRef) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((ref.source.path, *ref.source.pieces)))


def state_of(path: Path) -> FileState | None:
    """Return the state of a file, links followed; ``None`` where there is none.

    Of a file on object storage nothing is known that would tell one version from the next: also ``None``.
    """
    if isinstance(path, RemotePath):
        return None
    try:
        found = os.stat(path)  # noqa: PTH116 - no new path for each of a hundred thousand files
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)


def bytes_to_read(pair: Pair) -> int:
    """Return how large the tensors of a pair are on disk; 0 where nothing is known, or only statistics were saved."""
    refs = [ref for ref in (pair.left, pair.right) if not ref.is_unseen]
    states = [state_of(path) for ref in refs for path in _files(ref)]
    return sum(state.size for state in states if state is not None) if len(refs) == 2 else 0
