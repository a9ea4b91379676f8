"""Dumps on object storage: URLs, paths that answer from a listing, and files whose bytes are fetched when read.

A `RemotePath` lists, joins and names as any `pathlib.Path` does, so that readers need not know where a dump is. Only
what opens files asks: `storage.files.open_regular` and `dumps.stored_file.StoredFile`.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import IO, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from pytest_msdump.core.errors import ConfigError, UnknownDumpFormatError
from pytest_msdump.storage.object_storage import StoredObject, list_folder, list_tree, look_at, read_range

# The root, the scheme and the host or bucket.
_HOST_PARTS = 3

# A header is fetched by itself; each read that goes on from there fetches eight times as much, up to 8 MiB.
FIRST_BYTES = 2**15
MOST_BYTES = 2**23
_GROWTH = 8
# Fetching this much that is not wanted costs about as much as another request.
_GAP_BYTES = 2**21

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SECRETS = "set them in the environment, or where the storage's own tools look for them"


class RemoteEntry(NamedTuple):
    """A name in a remote folder, as `os.DirEntry`."""

    name: str
    path: str
    is_folder: bool

    def is_file(self) -> bool:
        """Whether it is an object."""
        return not self.is_folder

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self.is_folder

    def is_symlink(self) -> bool:
        """Return False: object storage has no links."""
        return False


class RemotePath(PosixPath):
    """A file or folder on object storage; made by `parse_location`.

    Its parts are ``/``, the scheme with its colon, and what follows; its text is the URL. It holds no more than that:
    listings are kept for the whole process, see `list_remote`. To functions of `os` it is a path where nothing is.
    """

    __slots__ = ()

    def __str__(self) -> str:
        parts = self.parts
        if len(parts) < 2 or parts[0] != "/":
            return super().__str__()
        return f"{parts[1]}//{'/'.join(parts[2:])}"

    def __fspath__(self) -> str:
        return super().__str__()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002 - as Path.stat takes it
        """Return the size, and whether it is a file or a folder."""
        found = _listings().find(self)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "nothing has that name", str(self))
        mode, size = stat.S_IFDIR | 0o555, 0
        if isinstance(found, StoredObject):
            mode, size = stat.S_IFREG | 0o444, found.size
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as above
        """Whether anything of that name is there."""
        return _listings().find(self) is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as above
        """Whether it is an object."""
        return isinstance(_listings().find(self), StoredObject)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as above
        """Whether there are objects below it."""
        return isinstance(_listings().find(self), dict)

    def is_symlink(self) -> bool:
        """Return False: object storage has no links."""
        return False

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002 - as Path.resolve takes it
        """Return itself: there are no links to follow."""
        return self

    def entries(self) -> Iterator[RemoteEntry]:
        """Yield what is in this folder, as `os.scandir`."""
        found = _listings().find(self)
        if not isinstance(found, dict):
            number = errno.ENOENT if found is None else errno.ENOTDIR
            raise OSError(number, os.strerror(number), str(self))
        for name, is_folder in found.items():
            yield RemoteEntry(name, f"{self}/{name}", is_folder)

    def iterdir(self) -> Generator[RemotePath, None, None]:
        """Yield the paths in this folder."""
        yield from (self / entry.name for entry in self.entries())

    def open(  # type: ignore[override]
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open for reading; the bytes are fetched piece by piece as they are asked for."""
        if set(mode) - set("rbt"):
            raise OSError(errno.EROFS, "object storage is only read here", str(self))
        buffered = io.BufferedReader(RemoteFile(self), buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class Seekable(io.RawIOBase):
    """A stream of `size` bytes that goes to any of them without reading."""

    size: int
    _at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte, as any stream does; OSError where it would be before the first."""
        place = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence] + offset
        if place < 0:
            raise OSError(errno.EINVAL, "there is nothing before the first byte")
        self._at = place
        return place

    def tell(self) -> int:
        """Return the byte that is read next."""
        return self._at


class RemoteFile(Seekable):
    """The bytes of a file on object storage, in the version that was listed. Not for several threads at a time.

    The last piece that was fetched is kept, at most 8 MiB, and nothing on disk: what is read twice is fetched twice.
    OSError where it is not there, or the storage does not say.
    """

    def __init__(self, path: RemotePath) -> None:
        self._url = str(path)
        self._version = _listings().version(path)
        self.size = self._version.size
        self._kept, self._start, self._step = b"", 0, FIRST_BYTES

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from byte `offset` on.

        OSError where the storage does not give these bytes; ``ESTALE`` where the file is another one than was listed.
        """
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
                    _listings().changed.append(f"{self._url}: {error.strerror}")
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
class _Listings:
    """What this process knows of object storage, by URL.

    `nodes` are the trees that were listed, at and below `roots`. What readers look for elsewhere, such as the graphs
    above a folder further down in a run's tree, is asked for by itself and is in `asked`, until a tree is listed again.
    `changed` are sentences about files that were found to have changed since then.
    """

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


@lru_cache(maxsize=1)
def _listings() -> _Listings:
    """Return this process's listings. A path cannot carry them: pathlib makes new ones from parts alone."""
    return _Listings()


def list_remote(root: RemotePath) -> tuple[Path, ...]:
    """List all that is at and below `root`, a dump or one file, in place of what an earlier call listed there.

    Names below `root` that cannot be a file's, such as ``../x``, are in no folder; they are returned. ConfigError where
    what is needed is not installed; DumpNotFoundError where there is nothing at `root`, or the storage does not list
    it; UnknownDumpFormatError where each file has such a name.
    """
    listings, url = _listings(), str(root)
    listings.forget(url)
    found = list_tree(url)
    listings.roots.add(url)
    if isinstance(found, StoredObject):
        listings.nodes[url] = found
        return ()
    listings.nodes[url] = {}
    unfit, count = [], 0
    for name, stored in found.items():
        # An empty object with a folder's name is how some storages keep a folder.
        is_folder = not stored.size and (not name or name.endswith("/"))
        if is_folder and not name.strip("/"):
            continue
        if not listings.add(url, name.rstrip("/") if is_folder else name, None if is_folder else stored):
            unfit.append(Path(name))
        elif not is_folder:
            count += 1
    if unfit and not count:
        raise UnknownDumpFormatError(f"{root}: holds no name that can be a file's (found e.g. {str(unfit[0])!r})")
    return tuple(unfit)


def listed_version(path: RemotePath) -> StoredObject:
    """Return the version of a file that this process has listed."""
    return _listings().version(path)


def expect_version(path: RemotePath, version: StoredObject) -> None:
    """Have a file read in a version that another process has listed, and in no other."""
    _listings().nodes[str(path)] = version


def refuse_changed() -> None:
    """Raise `ConfigError` when a file read since `list_remote` was not the one listed: a dump is of one moment."""
    for sentence in _listings().changed:
        raise ConfigError(f"{sentence}; run again when nothing writes to it")


def absolute_path(path: Path) -> Path:
    """Return the absolute path by its spelling alone: a link that is called rank_0 is that rank, wherever it leads."""
    return path if isinstance(path, RemotePath) else Path(os.path.abspath(path))  # noqa: PTH100


def is_url(text: str) -> bool:
    """Whether this is a URL and no path of this machine."""
    return _URL.match(text) is not None


def parse_location(text: str, base: Path, *, where: str = "") -> Path:
    """Return the path that a text names: of this machine, or a `RemotePath` for a URL such as ``s3://bucket/dump``.

    ``file:///path`` is that path. A relative path starts from `base`; messages begin with `where`, the option or
    file of the text. Nothing is asked of the storage yet. ConfigError where the URL holds a password or a query, which
    would show in reports, or cannot be a dump's.
    """
    match = _URL.match(text)
    if match is None:
        return base / text
    scheme, rest = match[1].lower(), match[2]
    place = f"{where}: " if where else ""
    problem = _problem(scheme, rest)
    if problem:
        raise ConfigError(f"{place}{problem}")
    if scheme == "file":
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost") or not slash:
            raise ConfigError(
                f"{place}file://{rest} names another machine; write file:///path for a folder of this one"
            )
        return Path(unquote(f"/{path}"))
    # An empty host is the rule only where there is none.
    body = (rest.lstrip("/") if scheme == "memory" else rest).rstrip("/")
    parts = body.split("/")
    if not body or not parts[0]:
        raise ConfigError(f"{place}{scheme}://… names nothing; write {scheme}://bucket/folder")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise ConfigError(f"{place}{scheme}://{body} holds an empty part, '.' or '..'; write the folder's whole name")
    return RemotePath(f"/{scheme}:/{body}")


def _problem(scheme: str, rest: str) -> str:
    """Return what is wrong with a URL; empty when nothing is. A text that may be secret is not repeated."""
    if _CONTROL.search(rest):
        return f"{scheme}://… holds a control character, which no name of a dump does"
    if "@" in rest.split("/", 1)[0]:
        return f"{scheme}://…@…: a name or password in a URL would stand in every report; {_SECRETS}"
    if "?" in rest:
        return f"{scheme}://…?…: a query, which may be a signature, would stand in every report; {_SECRETS}"
    if "::" in rest.split("/", 1)[0]:
        return f"{scheme}://…::… chains file systems, which is not known here; give the folder's own URL"
    return ""
