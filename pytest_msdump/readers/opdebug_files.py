"""The overflow files of a dump: found by name, read one by one; a bad one is told and stops no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.overflow import OverflowEntry
from pytest_msdump.readers.ascend_file import open_dump_file
from pytest_msdump.readers.listing import walk
from pytest_msdump.readers.opdebug import OpdebugName, entries_of_json, parse_opdebug, record_as_json
from pytest_msdump.storage.regular import read_regular

__all__ = ["OverflowFile", "overflow_files", "read_overflow_file"]

# A record has at most 2048 bytes; the JSON of one some 2000.
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class OverflowFile:
    """One overflow file.

    Parameters
    ----------
    path : Path
        Where it is.
    name : OpdebugName
        What its name says.
    entries : tuple of OverflowEntry
        What each unit reported; empty when it cannot be read.
    documents : mapping of int to dict
        The record of each output with the keys of the vendor's JSON.
    problem : str
        Why it cannot be read; empty when it can.
    """

    path: Path
    name: OpdebugName
    entries: tuple[OverflowEntry, ...] = ()
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""


def overflow_files(root: Path) -> tuple[OverflowFile, ...]:
    """Return every overflow file at or below `root`, in order of time.

    Raises
    ------
    DumpNotFoundError
        `root` cannot be listed.
    """
    return tuple(sorted(_found(root), key=lambda file: (file.name.timestamp, file.path.as_posix())))


def _found(root: Path) -> Iterator[OverflowFile]:
    if not root.is_dir():
        if parsed := parse_opdebug(root.name):
            yield read_overflow_file(root, parsed)
        return
    for folder in walk(root):
        for name in folder.files:
            parsed = parse_opdebug(name)
            if parsed:
                yield read_overflow_file(folder.below(root) / name, parsed)


def read_overflow_file(path: Path, name: OpdebugName) -> OverflowFile:
    """Read one overflow file, binary or JSON; what is wrong with it becomes its `problem`."""
    try:
        documents = {0: _json_of(path)} if name.is_json else _records_of(path)
        entries = tuple(
            entry for document in documents.values() for entry in entries_of_json(document, where=str(path))
        )
    except TensorFileError as error:
        return OverflowFile(path, name, problem=str(error))
    return OverflowFile(path, name, entries, documents)


def _json_of(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, _MOST_BYTES))
    except OSError as error:
        raise TensorFileError(f"{path}: cannot be read: {error.strerror}; is it an overflow record?") from error
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"{path}: no JSON: {error}") from error


def _records_of(path: Path) -> dict[int, dict[str, Any]]:
    """Return the record of each output of a binary dump, by its slot."""
    opened = open_dump_file(path)
    try:
        outputs = [tensor for tensor in opened.header.tensors if tensor.io == "output"]
        if not outputs:
            raise TensorFileError(f"{path}: an overflow dump without an output")
        found = {}
        for tensor in outputs:
            if tensor.size > _MOST_BYTES or tensor.start + tensor.size > opened.file.size:
                raise TensorFileError(
                    f"{path}: its record would have {tensor.size} bytes, of which the file does not have all"
                )
            found[tensor.slot] = record_as_json(opened.source.peek(tensor.start, tensor.size), where=str(path))
    finally:
        opened.file.close()
    return found
