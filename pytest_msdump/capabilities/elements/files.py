"""The files of details: names that every file system takes, and files that appear whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from uuid import uuid4

from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.storage.files import in_utf8, read_regular

MAPPING = "simple_op_mapping.csv"
_MOST_MAPPING_BYTES = 2**26

_LONGEST_NAME = 255
_LONGEST_TAIL = len("_absolute_error_topn.csv")
_UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]')


def file_stem(operator: str, io_word: str, slot: int, *, coordinates: str = "") -> str:
    """Return the beginning of the names of one tensor's files; a digest stands for an operator's too long name."""
    tail = f"{coordinates}_{io_word}_{slot}"
    name = _UNSAFE.sub("_", operator)
    if len(os.fsencode(name + tail)) + _LONGEST_TAIL <= _LONGEST_NAME:
        return name + tail
    return _digest(operator) + tail


class Batch:
    """Files of one folder, made if needed, that get their names together at the end, or never where one fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[tuple[Path, Path]] = []
        self._open: list[BinaryIO] = []

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for stream in self._open:
            with suppress(OSError):
                stream.close()
        for temporary, _ in self._pending:
            with suppress(OSError):
                temporary.unlink()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise MsdumpError(
                f"details cannot be written into {self._folder}: {reason}; name another folder"
            ) from error

    def path(self, name: str) -> Path:
        """Return the path to write a file to that will be called `name`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{uuid4().hex}.tmp"
        self._pending.append((temporary, self._folder / name))
        return temporary

    def open(self, name: str) -> BinaryIO:
        """Open a file that will be called `name`."""
        stream = self.path(name).open("wb")
        self._open.append(stream)
        return stream

    def finish(self) -> tuple[Path, ...]:
        """Give all files their names; return them in the order in which they were opened."""
        for stream in self._open:
            stream.close()
        for temporary, target in self._pending:
            temporary.replace(target)
        files = tuple(target for _, target in self._pending)
        self._pending.clear()
        return files


def note_stem(folder: Path, stem: str, operator: str) -> None:
    """Record in ``simple_op_mapping.csv`` which operator's name a digest stands for, if `stem` has one."""
    digest = _digest(operator)
    if not stem.startswith(digest):
        return
    path = folder / MAPPING
    try:
        known = read_regular(path, _MOST_MAPPING_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        known = ""
    except OSError as error:
        raise MsdumpError(f"{path} cannot be read: {error.strerror or error}; name another folder") from error
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(known, newline="")) if len(row) == 2}
    rows[digest] = operator
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows.items())
    with Batch(folder) as batch:
        batch.path(MAPPING).write_bytes(in_utf8(text.getvalue()))
        batch.finish()


def _digest(operator: str) -> str:
    return hashlib.sha256(os.fsencode(operator)).hexdigest()[:32]
