"""Files on this disk: read ones that others wrote without trust, and write ours whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

from pytest_msdump.core.errors import ConfigError, DumpNotFoundError, MsdumpError
from pytest_msdump.core.storage.locations import RemoteEntry, RemotePath

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_READ_BYTES = 2**20

_KINDS = (
    (stat.S_ISDIR, "it is a directory, not a file"),
    (stat.S_ISFIFO, "it is a pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
)


def open_descriptor(path: Path | str) -> tuple[int, os.stat_result]:
    """Open a file of this machine; return the descriptor, which the caller closes, and its status; OSError says why."""
    try:
        descriptor = os.open(path, _FLAGS)
    except ValueError as error:
        raise OSError(errno.EINVAL, f"its path is none ({error})", str(path)) from error
    except OSError as error:
        # A socket cannot be opened at all, and the reason that the system gives names another thing.
        if error.errno == errno.ENXIO:
            _refuse_irregular(os.stat(path), path)  # noqa: PTH116 - the path may be a text
        raise
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(status, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status


def open_regular(path: Path) -> IO[bytes]:
    """Open a file, here or on object storage, as a stream of bytes; raises as `open_descriptor`."""
    if isinstance(path, RemotePath):
        return path.open("rb")
    descriptor, _ = open_descriptor(path)
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return all of a file, here or on object storage; raises as `open_descriptor`, ``EFBIG`` above `most_bytes`."""
    with open_regular(path) as file:
        # What it says is not relied on: a file grows, and the kernel makes some up that claim to be empty.
        size = path.stat().st_size
        pieces, left = [], most_bytes + 1 if size <= most_bytes else 0
        while left and (piece := file.read(min(left, size + _READ_BYTES))):
            pieces.append(piece)
            left -= len(piece)
    if not left:
        raise OSError(errno.EFBIG, f"it is larger than {_shown(most_bytes)}", str(path))
    return b"".join(pieces)


def read_user_file(path: Path, most_bytes: int, *, name: str | None = None, want: str) -> bytes:
    """Return all of a file that a user named, as `read_regular`."""
    name = str(path) if name is None else name
    try:
        return read_regular(path, most_bytes)
    except FileNotFoundError as error:
        raise DumpNotFoundError(f"{name}: there is no such file; {want}") from error
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}; {want}") from error


def irregular_kind(status: os.stat_result) -> str | None:
    """Return what a file is that is not a regular one; ``None`` for a regular file."""
    if stat.S_ISREG(status.st_mode):
        return None
    return next((text for is_kind, text in _KINDS if is_kind(status.st_mode)), "it is not a regular file")


def _refuse_irregular(status: os.stat_result, path: Path | str) -> None:
    kind = irregular_kind(status)
    if kind is not None:
        raise OSError(errno.EINVAL, kind, str(path))


def _shown(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count} bytes"


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


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write that takes the place of `path` at the end, so that a reader never sees a half."""
    temporary = path.with_name(f".{os.urandom(16).hex()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_atomic(path: Path, content: bytes | Iterable[Any]) -> Path:
    """Write a file whole, as `replacing` does; also from pieces."""
    pieces: Iterable[Any] = [content] if isinstance(content, bytes) else content
    with replacing(path) as file:
        file.writelines(pieces)
    return path


def write_file(directory: Path, name: str, content: bytes | Iterable[bytes]) -> Path:
    """Write ``directory/name``, whole or piece by piece; a new directory is made with a ``.gitignore``."""
    target = directory / name
    try:
        make_directory(directory)
        write_atomic(target, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise MsdumpError(
            f"the report {target} cannot be written: {reason}; name another directory with --msdump-report-dir"
        ) from error
    return target


def in_utf8(text: str) -> bytes:
    r"""Return a text as files hold it.

    Bytes of file names that are no characters are what they were. Any other half of a character, as a name in a JSON
    file may have it, is written like JSON does.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        whole = "".join([f"\\u{ord(one):04x}" if _is_half(one) else one for one in text])
        return whole.encode("utf-8", "surrogateescape")


def _is_half(one: str) -> bool:
    """Whether it is half of a character, and not a byte of a file name."""
    return "\ud800" <= one <= "\udfff" and not "\udc80" <= one <= "\udcff"


@contextmanager
def naming(path: Path, what: str = "cannot be written", kind: type[MsdumpError] = MsdumpError) -> Iterator[None]:
    """Raise an OSError of the block as one of ours, which says what cannot be done with which path."""
    try:
        yield
    except OSError as error:
        raise kind(f"{path}: {what}: {error.strerror or error}") from error


def make_folder(folder: Path, named: str = "", kind: type[MsdumpError] = ConfigError) -> None:
    """Make a folder that a user named, unless it is there; an error of this kind that begins with what `named` it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = f"{named}: " if named else ""
        reason = error.strerror or error
        raise kind(f"{where}{folder}: cannot be made: {reason}; name another folder") from error


def make_directory(directory: Path) -> None:
    """Make the report directory; only a new one is marked as generated. OSError where it cannot be made."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        if not directory.is_dir():
            raise
        return
    (directory / ".gitignore").write_text("*\n", encoding="utf-8")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; ValueError where a key is there twice: a reader would take the first, or the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r:.60} is there twice")
    return found


# Names in directories. Many modules look for their own files beside a dump, among very many others.

Found = TypeVar("Found")

# What was found while names are kept; ``None`` elsewhere.
_KEPT: ContextVar[dict[Hashable, Any] | None] = ContextVar("names", default=None)


@contextmanager
def names_kept() -> Iterator[None]:
    """Look into every directory once, however often it is asked for inside; what changes meanwhile is not seen."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def once(key: Hashable, look: Callable[[], Iterable[Found]]) -> Iterable[Found]:
    """Return what `look` finds; where names are kept, it is called once for each key."""
    kept = _KEPT.get()
    if kept is None:
        return look()
    if key not in kept:
        kept[key] = tuple(look())
    found: tuple[Found, ...] = kept[key]
    return found


def names_in(folder: Path, prefix: str = "") -> Sequence[str]:
    """Return the names in a directory that begin with `prefix`, in order; none when it cannot be listed."""
    names, _ = _listing(folder)
    return [name for name in names if name.startswith(prefix)]


def folders_in(folder: Path) -> Sequence[str]:
    """Return the directories in a directory, and links to such, in order; none when it cannot be listed."""
    _, folders = _listing(folder)
    return folders


def scan(folder: Path) -> AbstractContextManager[Iterable[os.DirEntry[str] | RemoteEntry]]:
    """List a directory as `os.scandir`, here or on object storage."""
    return nullcontext(folder.entries()) if isinstance(folder, RemotePath) else os.scandir(folder)


def is_there(path: Path) -> bool:
    """Return whether anything has this name, a link that leads nowhere included; False where that cannot be known."""
    return path.exists() if isinstance(path, RemotePath) else os.path.lexists(path)


def _listing(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names in a directory, sorted, and those of them that are directories or lead to one."""
    (found,) = once(("names", os.fspath(folder)), lambda: (_list_names(folder),))
    return found


def _list_names(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    try:
        with scan(folder) as found:
            entries = list(found)
    except OSError:
        return (), ()
    names = sorted(entry.name for entry in entries)
    try:
        return names, sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return names, ()
