"""Which program it is that compares: two with one stamp give the same record of a pair, to the last bit."""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import pytest_msdump
from pytest_msdump.compiled import chosen

__all__ = ["Stamp", "differences", "stamp"]


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

    return Stamp(_version(), _code(), np.__version__, chosen().name)


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
    digest.update(f"{chosen().source}\0".encode())
    return digest.hexdigest()[:16]
