"""Dumps that are put on a storage in memory, and taken off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import fsspec
import pytest
from storage.shelf import TroubledFileSystem

BUCKETS = count()


@pytest.fixture
def troubled() -> Iterator[type[TroubledFileSystem]]:
    """The storage that can go wrong, empty and well."""
    TroubledFileSystem.settled()
    yield TroubledFileSystem
    TroubledFileSystem.settled()


@pytest.fixture
def put() -> Iterator[Callable[..., str]]:
    """Copy a folder, or a file, to a storage and return its URL."""
    made: list[str] = []

    def copy(local: Path, scheme: str = "memory", name: str | None = None) -> str:
        system = fsspec.filesystem(scheme)
        # What stands for a file outlives a test, so no two tests share a bucket.
        target = name or f"bucket{next(BUCKETS)}/{local.name}"
        made.append(target.split("/")[0])
        for file in [local] if local.is_file() else sorted(local.rglob("*")):
            if file.is_file():
                below = file.relative_to(local).as_posix()
                system.pipe_file(f"/{target}" if below == "." else f"/{target}/{below}", file.read_bytes())
        return f"{scheme}://{target}"

    yield copy
    memory = fsspec.filesystem("memory")
    for bucket in set(made):
        if memory.exists(f"/{bucket}"):
            memory.rm(f"/{bucket}", recursive=True)
