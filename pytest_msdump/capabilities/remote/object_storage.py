"""Object storage through fsspec: list a folder, look at one object, read a range of bytes; and what its errors mean.

Objects are named by URL. Nothing is kept here but the connections.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from threading import get_ident
from typing import Any

from pytest_msdump.core.errors import ConfigError, DumpNotFoundError
from pytest_msdump.core.storage.locations import StoredObject

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
