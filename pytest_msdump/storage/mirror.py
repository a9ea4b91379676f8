"""List a remote dump once, and put a stand-in for each of its files where the readers look."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_msdump.errors import ConfigError, UnknownDumpFormatError
from pytest_msdump.storage.access import Entry, entries, size_of
from pytest_msdump.storage.paths import RemotePath
from pytest_msdump.storage.standins import standins

__all__ = ["mirror"]

# What no folder of this machine can hold: a name too long, or a file that is a folder, too.
_UNFIT = frozenset({errno.ENAMETOOLONG, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EILSEQ, errno.EINVAL})

# Where a run keeps what it tells of itself, above an iteration's folder: as far up as readers look, and no farther.
_LEVELS_ABOVE = 4
# The root, the scheme and the bucket, in which nothing is looked for that was not asked for.
_HOST_PARTS = 2
_OWNER = re.compile(r"(?:rank_|device_)?[0-9]{1,9}", re.ASCII)
_SIDE_FOLDERS = ("graphs", "execution_order", ".dump_metadata", ".metadata")


def mirror(root: RemotePath, *, beside: str) -> tuple[Path, ...]:
    """List `root` and make a stand-in for each file, in place of those that an earlier call made.

    Parameters
    ----------
    root : RemotePath
        A dump, or one file.
    beside : str
        The name of a file that may lie beside a single file, or beside the folder of its iteration, and tell of it.

    Returns
    -------
    tuple of Path
        Names below `root` that cannot be a file's, such as ``../x``; nothing was made of them.

    Raises
    ------
    ConfigError
        What is needed is not installed, or there is no room.
    DumpNotFoundError
        There is nothing at `root`, or the storage does not say what is.
    UnknownDumpFormatError
        There are files, but each has such a name.
    """
    found = entries(root)
    unfit: list[Path] = []
    count = 1
    try:
        _clear(root)
        if isinstance(found, int):
            _put(os.fspath(root), found)
            _beside(root, beside)
        else:
            Path(os.fspath(root)).mkdir(parents=True, exist_ok=True)
            unfit, count = _put_all(root, found)
        _above(root)
    except OSError as error:
        folder = standins().folder
        raise ConfigError(f"{root}: its list cannot be kept in {folder}: {error.strerror}; set TMPDIR") from error
    if unfit and not count:
        raise UnknownDumpFormatError(f"{root}: holds no name that can be a file's (found e.g. {str(unfit[0])!r})")
    return tuple(unfit)


def _clear(root: RemotePath) -> None:
    """Forget what was at or below `root`."""
    local = os.fspath(root)
    sizes, below = standins().sizes, f"{local}/"
    for known in [one for one in sizes if one == local or one.startswith(below)]:
        del sizes[known]
    shutil.rmtree(local, ignore_errors=True)
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(local)  # noqa: PTH108 - the stand-in is meant, not the file


def _put_all(root: RemotePath, found: Iterable[Entry]) -> tuple[list[Path], int]:
    """Make all stand-ins; return the names that none can be made of, and how many were made."""
    # As texts, since there may be very many of them.
    local, count = os.fspath(root), 0
    unfit: list[Path] = []
    for name, size in found:
        # An empty object called like a folder is how some storages keep a folder.
        parts = name.rstrip("/").split("/") if not size else name.split("/")
        if parts == [""]:
            continue
        if not {"", ".", ".."}.isdisjoint(parts) or "\0" in name:
            unfit.append(Path(name))
            continue
        try:
            if name.endswith("/"):
                os.makedirs(f"{local}/{name}", 0o700, exist_ok=True)  # noqa: PTH103 - as below
            else:
                _put(f"{local}/{name}", size)
                count += 1
        except OSError as error:
            if error.errno not in _UNFIT:
                raise
            unfit.append(Path(name))
    return unfit, count


def _put(local: str, size: int) -> None:
    """Make one stand-in, by its own path."""
    try:
        descriptor = os.open(local, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(local), 0o700, exist_ok=True)  # noqa: PTH103, PTH120 - many thousands of them
        descriptor = os.open(local, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    standins().sizes[local] = size


def _above(root: RemotePath) -> None:
    """List the side files of the rank that a folder further down is of."""
    above = [folder for folder in root.parents if len(folder.parts) > _HOST_PARTS][:_LEVELS_ABOVE]
    if not any(_OWNER.fullmatch(folder.name) for folder in (root, *above)):
        return
    for place in (folder / name for folder in above for name in _SIDE_FOLDERS):
        # What is not there is the rule, and readers say what they miss.
        with suppress(ConfigError):
            found = entries(place)
            _clear(place)
            _put_all(place, () if isinstance(found, int) else found)


def _beside(file: RemotePath, name: str) -> None:
    """Look for the file that may tell of a single one."""
    for folder in file.parents[:2]:
        with suppress(OSError):
            size = size_of(folder / name)
            _clear(folder / name)
            _put(os.fspath(folder / name), size)
