"""Storages of fsspec for tests: one in memory that can go wrong, and one that several processes see."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

SHELF = "MSDUMP_TEST_SHELF"


class TroubledFileSystem(MemoryFileSystem):
    """Keeps what it was asked for, and, as others do, what it has listed.

    `trouble` may raise for a file, `listed` may say more than there is.
    """

    protocol = "troubled"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    asked: ClassVar[list[tuple[str, int, int]]] = []
    trouble: ClassVar[Callable[[str], None] | None] = None
    listed: ClassVar[dict[str, int]] = {}
    known: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.replace("troubled://", "memory://"))

    @classmethod
    def settled(cls) -> None:
        """Forget everything."""
        cls.store.clear()
        cls.asked.clear()
        cls.listed.clear()
        cls.known.clear()
        cls.pseudo_dirs[:] = [""]
        cls.trouble = None

    def _check(self, path: str) -> None:
        if type(self).trouble is not None:
            type(self).trouble(path)

    def info(self, path, **kwargs):
        self._check(path)
        return super().info(path, **kwargs)

    def find(self, path, **kwargs):
        self._check(path)
        found = self.known.setdefault(f"{path} {kwargs}", super().find(path, **kwargs))
        if not self.listed:
            return found
        return found | {f"{path}/{name}": {"size": size, "type": "file"} for name, size in self.listed.items()}

    def invalidate_cache(self, _path=None):
        self.known.clear()

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._check(path)
        self.asked.append((path, start, end))
        return super().cat_file(path, start=start, end=end, **kwargs)


class ShelfFileSystem(LocalFileSystem):
    """``shelf://a/b`` is ``a/b`` in a folder that the environment names: the same in every process."""

    protocol = "shelf"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        rest = str(path).removeprefix("shelf://")
        return rest if rest.startswith("/") else str(Path(os.environ[SHELF]) / rest)


for kind in (TroubledFileSystem, ShelfFileSystem):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
