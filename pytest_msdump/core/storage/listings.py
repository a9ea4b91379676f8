"""Names in directories. Many modules look for their own files beside a dump, among very many others."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from pytest_msdump.core.storage.locations import RemoteEntry, RemotePath

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
