"""List what is below a directory: names only, in the same order on every machine, and never without an end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.errors import DumpNotFoundError
from pytest_msdump.core.storage.files import once, scan
from pytest_msdump.core.storage.locations import RemoteEntry

# A MindSpore tree is five levels deep. Anything below this is listed by its directory's name.
_DEEPEST = 32
# What desktops, archivers, editors and notebooks leave beside files: some have the name of a tensor, and hold none, or
# hold an earlier one.
_LEFTOVER = re.compile(
    r"\._.*|.*~|#.*#|\.#.*|.*\.sw[a-p]|\.DS_Store|Thumbs\.db|desktop\.ini|\.ipynb_checkpoints|__MACOSX",
    re.IGNORECASE | re.DOTALL,
)


class Folder(NamedTuple):
    """One directory: its `parts` below the root, its regular `files`, and what was seen but not looked into.

    `closed` holds names of directories that cannot be listed or are too deep, links that lead nowhere or in a circle,
    things that are neither file nor directory, and leftovers of editors and desktops, such as macOS's ``._NAME``.
    """

    parts: tuple[str, ...]
    files: tuple[str, ...]
    closed: tuple[str, ...]

    def below(self, root: Path) -> Path:
        """Return this directory's path."""
        return root.joinpath(*self.parts) if self.parts else root

    def relative(self, name: str) -> Path:
        """Return the path of a file in this directory, relative to the root."""
        return Path(*self.parts, name)

    def text(self, name: str) -> str:
        """Return the same with ``/``."""
        return "/".join((*self.parts, name))


class _Visit(NamedTuple):
    parts: tuple[str, ...]
    linked: bool


def walk(root: Path) -> Iterator[Folder]:
    """Yield `root` and every directory below it, parents first, siblings by name, names sorted.

    Links to files count as files when they lead to one. Links to directories are followed, but not those met inside of
    what such a link leads to, nor those that lead to a directory they are in: so every walk ends. DumpNotFoundError
    where `root` itself cannot be listed.
    """
    yield from once(("walk", os.fspath(root)), lambda: _walk(root))


def _walk(root: Path) -> Iterator[Folder]:
    waiting = [_Visit((), False)]
    while waiting:
        visit = waiting.pop()
        try:
            files, folders, closed = _sort_entries(root, visit)
        except OSError as error:
            if not visit.parts:
                raise DumpNotFoundError(f"{root}: cannot be listed: {error.strerror}; check its permissions") from error
            yield Folder(visit.parts[:-1], (), visit.parts[-1:])
            continue
        yield Folder(visit.parts, tuple(sorted(files)), tuple(sorted(closed)))
        waiting += sorted(folders, reverse=True)


def _sort_entries(root: Path, visit: _Visit) -> tuple[list[str], list[_Visit], list[str]]:
    """Sort the names of one directory into files, directories to visit, and the rest."""
    files: list[str] = []
    folders: list[_Visit] = []
    closed: list[str] = []
    with scan(root.joinpath(*visit.parts)) as entries:
        for entry in entries:
            is_file, is_folder = _kind(entry)
            if (is_file or is_folder) and _LEFTOVER.fullmatch(entry.name):
                closed.append(entry.name)
            elif is_file:
                files.append(entry.name)
            elif is_folder and _may_enter(entry, visit):
                folders.append(_Visit((*visit.parts, entry.name), visit.linked or entry.is_symlink()))
            else:
                closed.append(entry.name)
    return files, folders, closed


def _kind(entry: os.DirEntry[str] | RemoteEntry) -> tuple[bool, bool]:
    """Return whether this is, or leads to, a file or a directory; links in a circle are neither."""
    try:
        return entry.is_file(), entry.is_dir()
    except OSError:
        return False, False


def _may_enter(entry: os.DirEntry[str] | RemoteEntry, visit: _Visit) -> bool:
    if len(visit.parts) >= _DEEPEST:
        return False
    if not entry.is_symlink():
        return True
    here, there = Path(entry.path).parent.resolve(), Path(entry.path).resolve()
    return not visit.linked and there != here and there not in here.parents
