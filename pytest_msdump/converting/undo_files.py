"""Files that say what was renamed, so that it can be taken back. They are read as what anybody may have written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.storage.regular import read_given

__all__ = ["Move", "new_undo_file", "read_undo", "write_undo"]

_VERSION = 1
_LARGEST_BYTES = 2**28
# A name in the folder or in one of its numbered sub-folders: nothing that leads out of it.
_NAME = re.compile(r"(?:[0-9]+/)?[^/\\\0]+\.npy", re.DOTALL)


class Move(NamedTuple):
    """One file: its `old` and its `new` name, below the folder."""

    old: str
    new: str


def new_undo_file(folder: Path) -> Path:
    """Return a path beside a folder, in which no reader looks for tensors, that does not exist."""
    whole = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow a link away from where it is
    number = 1
    while os.path.lexists(path := whole.with_name(f"{whole.name}.undo{'' if number == 1 else f'_{number}'}.json")):
        number += 1
    return path


def write_undo(file: Path, folder: Path, moves: Sequence[Move]) -> None:
    """Write what will be renamed, whole or not at all.

    Raises
    ------
    ConfigError
        The file is there already.
    MsdumpError
        It cannot be written.
    """
    if os.path.lexists(file):
        raise ConfigError(f"{file}: is there already, and may be needed; name another undo file")
    document = {"schema_version": _VERSION, "folder": str(folder), "renamed": [list(move) for move in moves]}
    temporary = file.with_name(f".{uuid4().hex}.tmp")
    try:
        temporary.write_text(json.dumps(document, indent=1) + "\n", "ascii")
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MsdumpError(f"{file}: cannot be written: {error.strerror or error}; nothing was renamed") from error


def read_undo(file: Path) -> list[Move]:
    """Read what was renamed.

    Raises
    ------
    DumpNotFoundError
        No such file.
    ConfigError
        It is no undo file, or names something outside of the folder.
    """
    try:
        document = json.loads(read_given(file, _LARGEST_BYTES, want="give what 'msdump rename' wrote"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: is no JSON: {error}") from error
    return _moves(document, file)


def _moves(document: Any, file: Path) -> list[Move]:
    rows = document.get("renamed") if isinstance(document, dict) else None
    if not isinstance(rows, list) or document.get("schema_version") != _VERSION:
        raise ConfigError(f"{file}: is no undo file of version {_VERSION}; give what 'msdump rename' wrote")
    moves = []
    for row in rows:
        if not (isinstance(row, list) and len(row) == 2 and all(_is_name(name) for name in row)):
            raise ConfigError(f"{file}: 'renamed' holds {str(row)[:80]}, which is no pair of names of a folder")
        moves.append(Move(*row))
    for names in zip(*moves, strict=True):
        if len(set(names)) != len(names):
            raise ConfigError(f"{file}: 'renamed' names a file twice")
    return moves


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
