"""Which program it is that compares: two with one stamp give the same record of a pair, to the last bit."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest_msdump
from pytest_msdump.metrics.kernel import choose_kernel
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.storage.remote import RemotePath

__all__ = ["FileState", "Stamp", "bytes_to_read", "differences", "files_of", "stamp", "state_of"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Release, digest of the program's own files and compiled parts, release of NumPy, what computes the metrics."""

    version: str
    code: str
    numpy: str
    kernel: str


@cache
def stamp() -> Stamp:
    """Return the stamp of this process."""
    import numpy as np

    return Stamp(_version(), _code(), np.__version__, choose_kernel().name)


def differences(one: Stamp, other: Stamp) -> str:
    """Say in what `one` differs from `other`; empty when in nothing. The digest is only told when nothing else is."""
    named = {"version": "pytest-msdump", "code": "files of pytest-msdump", "numpy": "NumPy", "kernel": "kernel"}
    ours, theirs = asdict(one), asdict(other)
    differing = [name for name in named if ours[name] != theirs[name]]
    told = [name for name in differing if name != "code"] or differing
    return ", ".join(f"{named[name]} {ours[name]}, not {theirs[name]}" for name in told)


def _version() -> str:
    try:
        return importlib.metadata.version("pytest-msdump")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _code() -> str:
    """A digest of what is there, since a working copy changes without a release."""
    root = Path(pytest_msdump.__path__[0])
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    # Of the kernel's source, not of what was built of it: two compilers make two files of one.
    digest.update(f"{choose_kernel().source}\0".encode())
    return digest.hexdigest()[:16]


# -- The files of a pair, and what tells one version of a file from the next -----------------------------------------


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
