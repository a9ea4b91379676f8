"""Versions of this program and of files, so that a change of either is noticed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pytest_msdump
from pytest_msdump.core import ports
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.model.tensor import Pair, TensorRef
from pytest_msdump.core.storage.locations import RemotePath, storage


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
    return Stamp(_version(), _code(), np.__version__, choose_kernel().name)


def differences(one: Stamp, other: Stamp) -> str:
    """Say how `one` differs from `other`; empty if it does not. The digest is named only if nothing else differs."""
    named = {"version": "pytest-msdump", "code": "files of pytest-msdump", "numpy": "NumPy", "kernel": "kernel"}
    ours, theirs = asdict(one), asdict(other)
    differing = [name for name in named if ours[name] != theirs[name]]
    shown = [name for name in differing if name != "code"] or differing
    return ", ".join(f"{named[name]} {ours[name]}, not {theirs[name]}" for name in shown)


def _version() -> str:
    try:
        return importlib.metadata.version("pytest-msdump")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _code() -> str:
    """Return a digest of the source files, of other packages' capabilities too: a working copy has no new release."""
    root = Path(pytest_msdump.__path__[0])
    digest = hashlib.sha256()
    own = [(path.relative_to(root).as_posix(), path) for path in sorted(root.rglob("*.py"))]
    for name, path in (*own, *ports.sources_elsewhere()):
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    # The kernel's source, not the built file: two compilers build different files from one source.
    digest.update(f"{choose_kernel().source}\0".encode())
    return digest.hexdigest()[:16]


class FileState(NamedTuple):
    """What the file system says of a file; times in nanoseconds, `changed` is that of the inode."""

    size: int
    modified: int
    changed: int
    device: int
    inode: int


def files_of(pair: Pair) -> tuple[Path, ...]:
    """Return every file that comparing a pair reads, the left side's first."""
    refs = (pair.left, pair.right, *pair.terms[0], *pair.terms[1], *filter(None, (pair.golden, pair.third)))
    return tuple(path for ref in refs for path in _files(ref))


def _files(ref: TensorRef) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((ref.source.path, *ref.source.pieces)))


def state_of(path: Path) -> FileState | None:
    """Return the state of a file, following links; ``None`` if there is none, and for object storage."""
    if isinstance(path, RemotePath):
        return None
    try:
        found = os.stat(path)  # noqa: PTH116 - no new path for each of a hundred thousand files
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)


def bytes_to_read(pair: Pair) -> int:
    """Return the size of a pair's tensors on disk; 0 if unknown, or if only statistics were saved."""
    refs = [pair.left, pair.right, *filter(None, (pair.golden, pair.third))]
    if any(ref.is_unseen for ref in refs):
        return 0
    paths = [path for ref in refs for path in _files(ref)]
    found = [storage().version(path) if isinstance(path, RemotePath) else state_of(path) for path in paths]
    return sum(one.size for one in found if one is not None)
