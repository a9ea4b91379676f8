"""Where a dump is: a folder of this machine, or a URL, which a capability lists and fetches the bytes of.

A `RemotePath` lists, joins and names as any `pathlib.Path` does, so that readers need not know where a dump is. Only
what opens files asks: `storage.files.open_regular` and `dumps.stored_file.StoredFile`.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path, PosixPath
from typing import IO, Any, NamedTuple, Protocol
from urllib.parse import unquote

from pytest_msdump.core import ports
from pytest_msdump.core.errors import ConfigError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SECRETS = "set them in the environment, or where the storage's own tools look for them"


class StoredObject(NamedTuple):
    """The size of an object in bytes, and what differs once it was written anew: ``""`` where that is not known."""

    size: int
    etag: str = ""
    time: str = ""

    def is_same(self, other: StoredObject) -> bool:
        """Whether both are of one version of an object, as far as the storage can say."""
        if self.size != other.size:
            return False
        if self.etag and other.etag:
            return self.etag == other.etag
        return not (self.time and other.time) or self.time == other.time


class RemoteStream(Protocol):
    """The bytes of a file that is elsewhere, also as a raw stream."""

    size: int

    def read_into(self, target: memoryview, offset: int, /) -> None:
        """Fill `target` from byte `offset` on, or raise OSError."""


class Storage(Protocol):
    """What fetches from elsewhere, and keeps what it has listed for the whole process; a row of ``STORAGES``."""

    def find(self, path: RemotePath, /) -> StoredObject | Mapping[str, bool] | None:
        """Return an object; of a folder its names, and which of them are folders; or None where there is nothing."""

    def list_below(self, root: RemotePath, /) -> tuple[Path, ...]:
        """List all at and below a root anew; return the names that cannot be a file's. Raises as `index` does."""

    def refuse_changed(self) -> None:
        """Raise `ConfigError` when a file read since then was not the one listed."""

    def stream(self, path: RemotePath, /) -> Any:
        """Open a file: a `RemoteStream` that is an `io.RawIOBase`. OSError where it is not there."""

    def version(self, path: RemotePath, /) -> StoredObject:
        """Return the version of a file, as it was listed."""

    def expect(self, path: RemotePath, version: StoredObject, /) -> None:
        """Have a file read in a version that another process has listed, and in no other."""


def storage() -> Storage:
    """Return what fetches from URLs."""
    made: Storage = ports.load(ports.rows("STORAGES")["url"])()
    return made


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
    """A file or folder on object storage; made by `parse_location`."""

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
        found = storage().find(self)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "nothing has that name", str(self))
        mode, size = stat.S_IFDIR | 0o555, 0
        if isinstance(found, StoredObject):
            mode, size = stat.S_IFREG | 0o444, found.size
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as above
        """Whether anything of that name is there."""
        return storage().find(self) is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as above
        """Whether it is an object."""
        return isinstance(storage().find(self), StoredObject)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as above
        """Whether there are objects below it."""
        return isinstance(storage().find(self), dict)

    def is_symlink(self) -> bool:
        """Return False: object storage has no links."""
        return False

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002 - as Path.resolve takes it
        """Return itself: there are no links to follow."""
        return self

    def entries(self) -> Iterator[RemoteEntry]:
        """Yield what is in this folder, as `os.scandir`."""
        found = storage().find(self)
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
        buffered = io.BufferedReader(storage().stream(self), buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


def absolute_path(path: Path) -> Path:
    """Return the absolute path by its spelling alone: a link that is called rank_0 is that rank, wherever it leads."""
    return path if isinstance(path, RemotePath) else Path(os.path.abspath(path))  # noqa: PTH100


def is_url(text: str) -> bool:
    """Whether this is a URL and no path of this machine."""
    return _URL.match(text) is not None


def shown_path(path: Path | str) -> str:
    """Return a path, or a URL, as a person would type it from here."""
    text = str(path)
    if is_url(text):
        return text
    try:
        relative = os.path.relpath(text)
    except ValueError:
        return text
    return relative if len(relative) < len(text) else text


def parse_location(text: str, base: Path, *, where: str = "") -> Path:
    """Return the path that a text names: of this machine, or a `RemotePath` for a URL such as ``s3://bucket/dump``."""
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
    if "url" not in ports.rows("STORAGES"):
        raise ConfigError(f"{place}{scheme}://{body} is not of this machine, and nothing installed reads URLs")
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
