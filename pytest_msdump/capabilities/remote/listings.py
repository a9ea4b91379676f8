"""Dumps on object storage: what was listed there, and files whose bytes are fetched when they are read."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any, TypeAlias

from pytest_msdump.core.errors import ConfigError, DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.core.storage.files import Seekable
from pytest_msdump.core.storage.locations import RemotePath, StoredObject

# Object storage through fsspec: list a folder, look at one object, read a range of bytes; and what its errors mean.
#
# Objects are named by URL. Nothing is kept here but the connections.

_EXTRA = "pip install 'pytest-msdump[remote]'"
_IN_EXTRA = ("s3", "s3a", "memory")
_LONGEST_TEXT = 300

# What storages put into their messages and must not be in a log.
_SECRET_VARIABLE = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|SIGNATURE|(ACCESS|ACCOUNT|API)_?KEY|SAS", re.I)
_SECRETS = re.compile(
    r"""(?ix)
    (?P<kept>(?: x-amz-[a-z-]+ | signature | sig | token | password | secret[a-z_]* | (?:access|account)_?key[a-z_]*
        | awsaccesskeyid | authorization | credential[a-z_]* ) ["']? \s* [=:] \s* ["']? (?:bearer\s+)? | :// )
    (?P<secret> (?<=://) [^\s/@]+ (?=@) | (?<!://) [^\s&"',;}]+ )
    """
)
_SHORTEST_SECRET = 6

_NUMBERS: tuple[tuple[type[BaseException], int], ...] = (
    (FileNotFoundError, errno.ENOENT),
    (PermissionError, errno.EACCES),
    (TimeoutError, errno.ETIMEDOUT),
)

# By these names storages give a digest of the content, and the time when it was written.
_ETAGS = ("ETag", "etag", "md5Hash", "content_md5")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


def list_tree(url: str) -> StoredObject | dict[str, StoredObject]:
    """List a folder at every depth: objects by their names below it, in order, or the object at the URL itself."""
    system, path = _connect(url)
    try:
        # Listing again means to see what has changed.
        system.invalidate_cache()
        about = system.info(path)
        if about["type"] == "file":
            return _object(about)
        found = system.find(path, detail=True)
        listed = {_below(path, name): _sized(system, name, found[name]) for name in sorted(found)}
        system.invalidate_cache()
    except Exception as error:  # every storage has its own, and few of them are OSErrors
        raise _not_listed(url, error) from error
    return listed


def list_folder(url: str) -> StoredObject | dict[str, StoredObject | None]:
    """List one folder alone: objects by name, ``None`` for a folder; of the URL of an object that one."""
    system, path = _connect(url)
    try:
        about = system.info(path)
        if about["type"] == "file":
            return _object(about)
        found = {str(one["name"]).rstrip("/"): one for one in system.ls(path, detail=True)}
        found.pop(path.rstrip("/"), None)
        return {
            _below(path, name): _sized(system, name, one) if one["type"] == "file" else None
            for name, one in sorted(found.items())
        }
    except Exception as error:
        raise _os_error(url, error) from error


def look_at(url: str) -> StoredObject:
    """Return what the storage says of an object now; `OSError` when it says nothing."""
    system, path = _connect(url)
    try:
        return _object(system.info(path))
    except Exception as error:
        raise _os_error(url, error) from error


def read_range(url: str, start: int, stop: int, version: StoredObject) -> bytes:
    """Return bytes `start` to `stop` of a version of an object; ``ESTALE`` where the object is another one by now."""
    system, path = _connect(url)
    try:
        data: bytes = system.cat_file(path, start=start, end=stop)
        # After the bytes were read: so they are of this version.
        now = _object(system.info(path))
    except FileNotFoundError as error:
        raise OSError(errno.ESTALE, "no longer exists", url) from error
    except Exception as error:
        raise _os_error(url, error) from error
    if not now.is_same(version):
        raise OSError(errno.ESTALE, "has changed since its name was listed", url)
    if len(data) != stop - start:
        what = f"gave {len(data)} bytes for bytes {start} to {stop}"
        raise OSError(errno.EIO, f"{what}; the storage cannot serve parts of files", url)
    return data


def _object(about: Mapping[str, Any]) -> StoredObject:
    etag = next((str(about[name]) for name in _ETAGS if about.get(name)), "")
    time = next((about[name] for name in _TIMES if about.get(name)), "")
    return StoredObject(int(about["size"]), etag, str(time.timestamp() if isinstance(time, datetime) else time))


def _sized(system: Any, name: str, about: Mapping[str, Any]) -> StoredObject:
    """Return an object of a listing; some storages list names without sizes."""
    return _object(about if about.get("size") is not None else system.info(name))


def _below(folder: str, name: str) -> str:
    prefix = folder.rstrip("/") + "/"
    if not name.startswith(prefix):
        raise ValueError(f"it lists {name[:100]!r}, which is not below the folder")
    return name[len(prefix) :]


def _connect(url: str) -> tuple[Any, str]:
    """Return the file system of fsspec, and its name for the object."""
    scheme, _, rest = url.partition("://")
    system = _system(f"{scheme}://{rest.partition('/')[0]}", get_ident())
    return system, system._strip_protocol(url)


@lru_cache(maxsize=64)
def _system(anchor: str, _thread: int) -> Any:
    """Return the file system of a scheme and host; without the rest of the URL, which fsspec could take for options."""
    scheme = anchor.partition(":")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ConfigError(f"{anchor}: reading from a URL needs more packages; {_EXTRA}") from None
    try:
        system, _ = url_to_fs(anchor)
    except ImportError as error:
        how = _EXTRA if scheme in _IN_EXTRA else f"{_text_of(error)}, beside {_EXTRA}"
        raise ConfigError(f"{anchor}: reading from {scheme} needs more packages; {how}") from None
    except ValueError as error:
        known = "known are the storages of fsspec, such as s3://bucket"
        raise ConfigError(f"{anchor}: {_text_of(error)}; {known}") from None
    except Exception as error:
        raise ConfigError(f"{anchor}: cannot be reached: {_text_of(error)}") from error
    return system


def _not_listed(url: str, error: Exception) -> DumpNotFoundError:
    problem = _os_error(url, error)
    if isinstance(problem, FileNotFoundError):
        return DumpNotFoundError(f"{url}: {problem.strerror}; give the URL of the folder a dump was written to")
    return DumpNotFoundError(
        f"{url}: cannot be listed: {problem.strerror}; check the network, the name and your permissions"
    )


def _os_error(url: str, error: Exception) -> OSError:
    number = next((number for kind, number in _NUMBERS if isinstance(error, kind)), errno.EIO)
    text = _text_of(error)
    if number == errno.ENOENT:
        # Many storages say the bare name and no more, which the message has already.
        text = "nothing has that name" + (f" ({text})" if " " in text else "")
    return OSError(number, text, url)


def _text_of(error: BaseException) -> str:
    """Return an error's text in one line without secrets; its class where it has none."""
    text = " ".join(str(error).split()) or type(error).__name__
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_VARIABLE.search(name):
            text = text.replace(value, "***")
    text = _SECRETS.sub(lambda match: f"{match['kept']}***", text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


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
