"""Writes ``msdump.json``, and the journal that stands beside it until a recording has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from pytest_msdump.errors import MsdumpError
from pytest_msdump.model.manifest import JOURNAL_FILE, MANIFEST_FILE, Manifest, TensorEntry

__all__ = ["add_to_journal", "marked_incomplete", "put", "write_manifest"]

# What an entry need not say: what it means when it is left out.
_SILENT: dict[str, Any] = {"io": "output", "slot": 0, "dtype": None, "op_type": None, "line": None}


def write_manifest(directory: Path, manifest: Manifest) -> Path:
    """Write `manifest` into `directory`, whole or not at all.

    Raises
    ------
    OSError
        It cannot be written.
    """
    values = asdict(manifest)
    values["tensors"] = {name: _short(entry) for name, entry in values["tensors"].items()}
    text = json.dumps(values, indent=1, sort_keys=False, ensure_ascii=False)
    return put(directory / MANIFEST_FILE, text.encode("utf-8", "backslashreplace"))


def add_to_journal(directory: Path, file: str, entry: TensorEntry) -> None:
    """Append one file to the journal of a recording; what it costs does not depend on how many there are.

    Raises
    ------
    OSError
        It cannot be written.
    """
    line = json.dumps({"file": file, **_short(asdict(entry))}) + "\n"
    with (directory / JOURNAL_FILE).open("ab") as stream:
        stream.write(line.encode("ascii"))


@contextmanager
def marked_incomplete(directory: Path) -> Iterator[None]:
    """Mark a folder that a program dumps to, until the block ends well: an empty journal has no manifest.

    Raises
    ------
    MsdumpError
        It cannot be written to.
    """
    journal = directory / JOURNAL_FILE
    try:
        journal.touch()
    except OSError as error:
        raise MsdumpError(f"{directory}: cannot be written to: {error.strerror or error}") from error
    yield
    try:
        journal.unlink()
    except (FileNotFoundError, NotADirectoryError):
        # The program has made its folder anew, or none.
        return
    except OSError as error:
        raise MsdumpError(f"{journal}: cannot be removed: {error.strerror or error}") from error


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without what need not be said."""
    return {name: value for name, value in entry.items() if name not in _SILENT or value != _SILENT[name]}


def put(path: Path, content: bytes) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a half."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
