"""The few questions that are asked of object storage, through fsspec, and what its many errors come to."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from pytest_msdump.errors import ConfigError, DumpNotFoundError
from pytest_msdump.storage.paths import RemotePath

__all__ = ["Entry", "entries", "fetched", "size_of"]

_EXTRA = "pip install 'pytest-msdump[remote]'"
_IN_EXTRA = ("s3", "s3a", "memory")
_LONGEST_TEXT = 300

# What storages put into their messages and nobody should read in a log.
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


class Entry(NamedTuple):
    """A file below a folder: its name from there on, as the storage has it, and its bytes."""

    name: str
    size: int


def entries(root: RemotePath) -> Iterator[Entry] | int:
    """List a folder at every depth.

    Returns
    -------
    iterator of Entry, or int
        The files; a single file's size, where `root` is one.

    Raises
    ------
    ConfigError
        What reading from such a storage needs is not installed.
    DumpNotFoundError
        There is nothing at `root`, or the storage does not say what is.
    """
    system, path = _reached(root)
    try:
        # Whoever asks again means to see what has changed.
        system.invalidate_cache()
        about = system.info(path)
        if about["type"] == "file":
            return int(about["size"])
        found = system.find(path, detail=True)
        listed = [Entry(*_entry(system, path, name, found.pop(name))) for name in sorted(found)]
        system.invalidate_cache()
    except Exception as error:  # every storage has its own, and few of them are OSErrors
        raise _not_listed(root, error) from error
    return iter(listed)


def size_of(path: RemotePath) -> int:
    """Return a file's size in bytes.

    Raises
    ------
    OSError
        It is not there, or the storage does not say.
    """
    system, name = _reached(path)
    try:
        return int(system.info(name)["size"])
    except Exception as error:
        raise _os_error(path, error) from error


def fetched(path: RemotePath, start: int, stop: int) -> bytes:
    """Return bytes `start` to `stop` of a file.

    Raises
    ------
    OSError
        The storage does not give them, all of them and no more.
    """
    system, name = _reached(path)
    try:
        data: bytes = system.cat_file(name, start=start, end=stop)
    except Exception as error:
        raise _os_error(path, error) from error
    if len(data) != stop - start:
        what = "the file has changed since it was listed, or the storage cannot serve parts of files"
        raise OSError(errno.EIO, f"gave {len(data)} bytes for bytes {start} to {stop}; {what}", str(path))
    return data


def _entry(system: Any, root: str, name: str, about: Any) -> tuple[str, int]:
    size = about.get("size")
    if size is None:
        size = system.info(name)["size"]
    prefix = root.rstrip("/") + "/"
    if not name.startswith(prefix):
        raise ValueError(f"it lists {name[:100]!r}, which is not below the folder")
    return name[len(prefix) :], int(size)


def _reached(path: RemotePath) -> tuple[Any, str]:
    """Return the file system of fsspec, and how it calls the file."""
    system = _system("//".join(path.parts[1:3]))
    return system, system._strip_protocol(str(path))


@lru_cache(maxsize=16)
def _system(anchor: str) -> Any:
    """Return the file system of a scheme and host; nothing that came after them could be read for something else."""
    scheme = anchor.partition(":")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ConfigError(f"{anchor}: reading from a URL needs more packages; {_EXTRA}") from None
    try:
        system, _ = url_to_fs(anchor)
    except ImportError as error:
        how = _EXTRA if scheme in _IN_EXTRA else f"{_told(error)}, beside {_EXTRA}"
        raise ConfigError(f"{anchor}: reading from {scheme} needs more packages; {how}") from None
    except ValueError as error:
        raise ConfigError(f"{anchor}: {_told(error)}; known are the storages of fsspec, such as s3://bucket") from None
    except Exception as error:
        raise ConfigError(f"{anchor}: cannot be reached: {_told(error)}") from error
    return system


def _not_listed(root: RemotePath, error: Exception) -> DumpNotFoundError:
    problem = _os_error(root, error)
    if isinstance(problem, FileNotFoundError):
        return DumpNotFoundError(f"{root}: {problem.strerror}; give the URL of the folder a dump was written to")
    return DumpNotFoundError(
        f"{root}: cannot be listed: {problem.strerror}; check the network, the name and your permissions"
    )


def _os_error(path: RemotePath, error: Exception) -> OSError:
    number = next((number for kind, number in _NUMBERS if isinstance(error, kind)), errno.EIO)
    told = _told(error)
    if number == errno.ENOENT:
        # The bare name, which is all that many say, is told already.
        told = "there is nothing of that name" + (f" ({told})" if " " in told else "")
    return OSError(number, told, str(path))


def _told(error: BaseException) -> str:
    """What an error says, in one line without secrets; its kind, where it says nothing."""
    text = " ".join(str(error).split()) or type(error).__name__
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_VARIABLE.search(name):
            text = text.replace(value, "***")
    text = _SECRETS.sub(lambda match: f"{match['kept']}***", text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
