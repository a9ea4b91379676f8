"""Dumps on object storage: what was listed there, and files whose bytes are fetched when they are read."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from pytest_msdump.capabilities.remote.object_storage import list_folder, list_tree, look_at, read_range
from pytest_msdump.core.errors import ConfigError, UnknownDumpFormatError
from pytest_msdump.core.storage.files import Seekable
from pytest_msdump.core.storage.locations import RemotePath, StoredObject

# The root, the scheme and the host or bucket.
_HOST_PARTS = 3

# A header is fetched by itself; each read that goes on from there fetches eight times as much, up to 8 MiB.
FIRST_BYTES = 2**15
MOST_BYTES = 2**23
_GROWTH = 8
# Fetching this much that is not wanted costs about as much as another request.
_GAP_BYTES = 2**21


class RemoteFile(Seekable):
    """The bytes of a file on object storage, in the version that was listed. Not for several threads at a time."""

    def __init__(self, path: RemotePath) -> None:
        self._url = str(path)
        self._version = listings().version(path)
        self.size = self._version.size
        self._kept, self._start, self._step = b"", 0, FIRST_BYTES

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from byte `offset` on."""
        done = 0
        while done < len(target):
            piece = self._piece(offset + done, len(target) - done)
            target[done : done + len(piece)] = piece
            done += len(piece)

    def _piece(self, start: int, count: int) -> memoryview:
        """Return at least one and at most `count` bytes from `start` on."""
        skip = start - self._start
        if not 0 <= skip < len(self._kept):
            if not 0 <= start < self.size:
                raise OSError(errno.EIO, f"ends at byte {self.size}", self._url)
            goes_on = self._kept and 0 <= skip - len(self._kept) <= _GAP_BYTES
            self._step = min(self._step * _GROWTH, MOST_BYTES) if goes_on else FIRST_BYTES
            # Never two pieces in memory.
            self._kept = b""
            stop = min(start + max(self._step, min(count, MOST_BYTES)), self.size)
            try:
                self._kept = read_range(self._url, start, stop, self._version)
            except OSError as error:
                if error.errno == errno.ESTALE:
                    listings().changed.append(f"{self._url}: {error.strerror}")
                raise
            self._start, skip = start, 0
        return memoryview(self._kept)[skip : skip + count]

    def readinto(self, target: Any) -> int:
        """Read on, as any stream does; raises as `read_into`."""
        view = memoryview(target).cast("B")
        count = max(0, min(len(view), self.size - self._at))
        self.read_into(view[:count], self._at)
        self._at += count
        return count


# An object; a folder's names, and which of them are folders; or nothing.
_Node: TypeAlias = "StoredObject | dict[str, bool] | None"


@dataclass(frozen=True)
class Listings:
    """What this process knows of object storage, by URL."""

    roots: set[str] = field(default_factory=set)
    nodes: dict[str, _Node] = field(default_factory=dict)
    asked: dict[str, _Node] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)

    def find(self, path: RemotePath) -> _Node:
        """Return what is at a path, asking the storage at most once."""
        url = str(path)
        if url in self.nodes:
            return self.nodes[url]
        if any(url.startswith(f"{root}/") for root in self.roots) or not self._may_ask(path):
            return None
        if url not in self.asked:
            # Mostly it is not there, and readers say what they miss.
            with suppress(OSError, ConfigError):
                self._ask(url)
            self.asked.setdefault(url, None)
        return self.asked[url]

    def version(self, path: RemotePath) -> StoredObject:
        """Return the version of a file: as it was listed, or in a process that listed nothing as it is now."""
        found = self.find(path)
        if not isinstance(found, StoredObject):
            found = self.asked[str(path)] = look_at(str(path))
        return found

    def _may_ask(self, path: RemotePath) -> bool:
        """Whether a path is in the bucket of a tree that was listed: others are not ours to ask for."""
        host = f"{RemotePath(*path.parts[:_HOST_PARTS])}/"
        return len(path.parts) > _HOST_PARTS and any(root.startswith(host) for root in self.roots)

    def _ask(self, url: str) -> None:
        found = list_folder(url)
        if isinstance(found, StoredObject):
            self.asked[url] = found
            return
        self.asked[url] = {name: one is None for name, one in found.items()}
        self.asked.update({f"{url}/{name}": one for name, one in found.items() if one is not None})

    def forget(self, root: str) -> None:
        """Forget what was at and below a root, and all that was asked for and found since."""
        self.asked.clear()
        self.changed.clear()
        below = f"{root}/"
        self.roots.difference_update([url for url in self.roots if url == root or url.startswith(below)])
        for url in [url for url in self.nodes if url == root or url.startswith(below)]:
            del self.nodes[url]

    def add(self, root: str, name: str, stored: StoredObject | None) -> bool:
        """Add an object below a root, or with ``None`` a folder; return whether a directory could hold it."""
        parts = name.split("/")
        if not {"", ".", ".."}.isdisjoint(parts) or "\0" in name:
            return False
        url = root
        for own in parts if stored is None else parts[:-1]:
            names = self.nodes[url]
            if not isinstance(names, dict):
                return False
            url = f"{url}/{own}"
            self.nodes.setdefault(url, {})
            names.setdefault(own, True)
        names = self.nodes[url]
        if stored is not None and isinstance(names, dict) and parts[-1] not in names:
            names[parts[-1]] = False
            self.nodes[f"{url}/{parts[-1]}"] = stored
            return True
        return stored is None and isinstance(names, dict)

    def list_below(self, root: RemotePath) -> tuple[Path, ...]:
        """List all that is at and below `root`, a dump or one file, in place of what an earlier call listed there."""
        url = str(root)
        self.forget(url)
        found = list_tree(url)
        self.roots.add(url)
        if isinstance(found, StoredObject):
            self.nodes[url] = found
            return ()
        self.nodes[url] = {}
        unfit, count = [], 0
        for name, stored in found.items():
            # An empty object with a folder's name is how some storages keep a folder.
            is_folder = not stored.size and (not name or name.endswith("/"))
            if is_folder and not name.strip("/"):
                continue
            if not self.add(url, name.rstrip("/") if is_folder else name, None if is_folder else stored):
                unfit.append(Path(name))
            elif not is_folder:
                count += 1
        if unfit and not count:
            raise UnknownDumpFormatError(f"{root}: holds no name that can be a file's (found e.g. {str(unfit[0])!r})")
        return tuple(unfit)

    def expect(self, path: RemotePath, version: StoredObject) -> None:
        """Have a file read in a version that another process has listed, and in no other."""
        self.nodes[str(path)] = version

    def stream(self, path: RemotePath) -> RemoteFile:
        """Open a file; raises as `RemoteFile`."""
        return RemoteFile(path)

    def refuse_changed(self) -> None:
        """Raise `ConfigError` when a file read since `list_below` was not the one listed: a dump is of one moment."""
        for sentence in self.changed:
            raise ConfigError(f"{sentence}; run again when nothing writes to it")


@lru_cache(maxsize=1)
def listings() -> Listings:
    """Return this process's listings. A path cannot carry them: pathlib makes new ones from parts alone."""
    return Listings()
