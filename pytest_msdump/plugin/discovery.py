"""Suite files below given paths."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SUITE_FILE = "msdump.toml"


def is_suite_file(path: Path) -> bool:
    """Whether this is a suite file by its name: ``msdump.toml`` or ``*.msdump.toml``."""
    return _is_named_so(path.name)


def _is_named_so(name: str) -> bool:
    return name == SUITE_FILE or name.endswith(f".{SUITE_FILE}")


def suite_files(
    paths: Iterable[Path], *, norecurse: Iterable[str] = (), stay_out: Callable[[Path], bool] = lambda _: False
) -> list[Path]:
    """Return every suite file in or below `paths`, sorted, as pytest's own collection would meet them."""
    found: set[Path] = set()
    folders: list[Path] = []
    for path in paths:
        if path.is_dir():
            folders += [] if stay_out(path) else [path]
        elif path.is_file() and is_suite_file(path):
            found.add(path)
    patterns = tuple(norecurse)
    seen: set[tuple[int, int]] = set()
    while folders:
        links: list[Path] = []
        for folder in folders:
            found.update(_walk(folder, lambda path: _is_skipped(path, patterns) or stay_out(path), seen, links))
        folders = sorted(links)
    return sorted(found)


def _walk(
    top: Path, is_skipped: Callable[[Path], bool], seen: set[tuple[int, int]], links: list[Path]
) -> Iterable[Path]:
    """Yield the suite files below `top`, real directories only; links to directories are put aside."""
    waiting = [top]
    while waiting:
        for entry in _entries(waiting.pop(), seen):
            # A dump may lie below: its files are asked for no more than their names and kinds.
            if not entry.is_dir():
                if _is_named_so(entry.name) and entry.is_file():
                    yield Path(entry.path)
            elif not is_skipped(path := Path(entry.path)):
                (links if entry.is_symlink() else waiting).append(path)


def _entries(folder: Path, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    """Return what is in a directory that was not seen before."""
    try:
        status = folder.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in seen:
            return []
        seen.add(identity)
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        # It has gone, or may not be read: then it holds nothing to collect, and pytest itself reports it.
        return []


def _is_skipped(folder: Path, patterns: tuple[str, ...]) -> bool:
    if folder.name.startswith("."):
        return True
    return any(
        fnmatch(str(folder), f"*{os.sep}{pattern.lstrip(os.sep)}")
        if os.sep in pattern
        else fnmatch(folder.name, pattern)
        for pattern in patterns
    )
