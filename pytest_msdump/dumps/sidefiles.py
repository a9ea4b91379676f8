"""Small text files beside dumped tensors. They are no more trusted than the dump: bounded, and never an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.storage.files import read_regular

if TYPE_CHECKING:
    from pytest_msdump.dumps.listing import Folder

__all__ = ["MAPPING", "STATISTICS_FILE", "originals_in", "read_mapping", "read_run_labels", "read_text"]

MAPPING = "mapping.csv"
STATISTICS_FILE = "statistic.csv"

_MAX_MAPPING_BYTES = 2**26
_MAX_CONFIG_BYTES = 2**20
_MAX_LABEL = 100
_LABELS = ("ms_version", "device_target")


def read_mapping(path: Path) -> tuple[Mapping[str, str], str | None]:
    """Read which names were too long for the file system.

    Parameters
    ----------
    path : Path
        A ``mapping.csv``: one ``new name,original name`` a line, no header. Only the first comma separates.

    Returns
    -------
    mapping of str to str
        Original name by new name. A new name that stands for two different names is left out.
    str or None
        The end of a sentence about what could not be read.
    """
    text, note = read_text(path, _MAX_MAPPING_BYTES)
    originals: dict[str, str] = {}
    ambiguous: set[str] = set()
    for line in text.splitlines():
        new, comma, original = line.strip().partition(",")
        if not comma:
            continue
        if originals.setdefault(new, original) != original:
            ambiguous.add(new)
    for new in ambiguous:
        del originals[new]
    if ambiguous:
        note = f"gives several names to {min(ambiguous)}"
    return originals, note


def originals_in(root: Path, folder: Folder) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the names that were too long for the file system, by the names that they have in this directory.

    Returns
    -------
    mapping of str to str
        As `read_mapping`; empty where the directory has no such table.
    sequence of str
        A sentence about what could not be read.
    """
    if MAPPING not in folder.files:
        return {}, ()
    relative = folder.relative(MAPPING)
    originals, note = read_mapping(root / relative)
    return originals, (f"{relative.as_posix()} {note}",) if note else ()


def read_run_labels(path: Path) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Read what a rank's ``config.json`` says of the run: version of MindSpore and device.

    Parameters
    ----------
    path : Path
        ``.dump_metadata/config.json``.

    Returns
    -------
    tuple of (str, str)
        What was found.
    str or None
        The end of a sentence about what could not be read.
    """
    text, note = read_text(path, _MAX_CONFIG_BYTES)
    if note:
        return (), note
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return (), "is not JSON, so the version of MindSpore is unknown"
    if not isinstance(values, dict):
        return (), "is not a JSON object, so the version of MindSpore is unknown"
    return tuple((name, str(values[name])[:_MAX_LABEL]) for name in _LABELS if name in values), None


def read_text(path: Path, most_bytes: int) -> tuple[str, str | None]:
    """Return a file's text, or an empty one and the end of a sentence about why."""
    try:
        return read_regular(path, most_bytes).decode("utf-8-sig"), None
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "", "is left out: it is not text"
