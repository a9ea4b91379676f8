"""Records of earlier runs on disk: one file for each set of conditions, one line for each pair. Never trusted blindly.

A line holds the key, a digest of the record, and the record as JSON. A file is replaced as a whole, so that it is read
whole or not at all; a line that is damaged is a record that is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pytest_msdump.errors import ConfigError
from pytest_msdump.model.record import Record
from pytest_msdump.reporting.entries import check_record
from pytest_msdump.reporting.record_json import from_json, to_text
from pytest_msdump.storage.regular import open_regular

__all__ = ["CacheFile"]

_TITLE = b"msdump comparisons 1\n"
_SUFFIX = ".comparisons"
_KEY, _DIGEST = 32, 32
_LONGEST_LINE = 16 * 1024 * 1024
# Nobody writes a file for so long: it is of a run that was killed.
_ABANDONED_SECONDS = 24 * 3600


class CacheFile:
    """The records that one set of conditions gave.

    Parameters
    ----------
    folder : Path
        Where such files are; made, with a ``.gitignore`` of its own, when something is kept.
    name : str
        Digest of the conditions.
    most_bytes : int
        How much all files of the folder may take together. What was not used for longest goes first.

    Attributes
    ----------
    note : str
        What is wrong with the file; empty when nothing is.
    """

    def __init__(self, folder: Path, name: str, *, most_bytes: int = 256 * 1024 * 1024) -> None:
        self.folder = folder
        self._path = folder / f"{name}{_SUFFIX}"
        self._most = most_bytes
        self._places: dict[str, tuple[int, int]] = {}
        self._damaged = 0
        self.note = ""
        self._index()

    def get(self, key: str) -> Record | None:
        """Return a record; ``None`` where there is none, or a damaged one."""
        line = self._line(key)
        if line is None:
            self._places.pop(key, None)
            return None
        digest, _, text = line[_KEY + 1 :].rstrip(b"\n").partition(b" ")
        with suppress(ValueError, RecursionError, ConfigError):
            if digest == _digest(text):
                entry = json.loads(text)
                check_record(entry, place=f"{self._path}")
                return from_json(entry)
        self._places.pop(key, None)
        self._damage(1)
        return None

    def keep(self, records: Mapping[str, Record], measured: Iterable[str] = ()) -> None:
        """Write `records` beside what is there; those of `records` are the last to go.

        Parameters
        ----------
        records : mapping
            Records by their keys.
        measured : iterable of str
            Keys of what had to be measured. Where this object knows of a line, another process has found it damaged.

        Raises
        ------
        OSError
            It cannot be written.
        """
        for key in measured:
            self.get(key)
        if all(key in self._places for key in records) and not self._damaged:
            with suppress(OSError):
                os.utime(self._path)
            return
        lines = [line for key in self._places if key not in records and (line := self._line(key)) is not None]
        lines += [_as_line(key, record) for key, record in records.items()]
        size, first = len(_TITLE), len(lines)
        while first and size + len(lines[first - 1]) <= self._most:
            first -= 1
            size += len(lines[first])
        self._write(lines[first:])
        self._drop_oldest(self._most - size)
        self._index()

    def _index(self) -> None:
        """Find where each line is; what is no line of ours is damage."""
        self._places, self._damaged = {}, 0
        try:
            with open_regular(self._path) as file:
                if file.readline(_LONGEST_LINE) != _TITLE:
                    self._damage(1)
                    return
                for start, line in _lines(file):
                    key = line[:_KEY]
                    if line.endswith(b"\n") and line[_KEY : _KEY + 1] == b" " and key.isalnum():
                        self._places[key.decode("ascii", errors="replace")] = (start, len(line))
                    else:
                        self._damage(1)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.note = f"cache: {self._path} cannot be read ({error.strerror}) and is left alone"

    def _damage(self, count: int) -> None:
        self._damaged += count
        self.note = f"cache: {self._path} is damaged; what cannot be read of it is measured again"

    def _line(self, key: str) -> bytes | None:
        if key not in self._places:
            return None
        start, length = self._places[key]
        try:
            with open_regular(self._path) as file:
                line = os.pread(file.fileno(), length, start)
        except OSError:
            return None
        # Another process may have replaced the file since it was indexed.
        return line if line.startswith(key.encode("ascii") + b" ") and line.endswith(b"\n") else None

    def _write(self, lines: list[bytes]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        temporary = self.folder / f".{uuid4().hex}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(_TITLE)
                file.writelines(lines)
            temporary.replace(self._path)
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _drop_oldest(self, left: int) -> None:
        """Delete files of other conditions until all fit, those that were written last stay; and what was abandoned."""
        for path in self.folder.glob(".*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink()
        others = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(OSError):
                found = path.stat()
                others.append((found.st_mtime_ns, found.st_size, path))
        for _, size, path in sorted(others, reverse=True):
            if path == self._path:
                continue
            left -= size
            if left < 0:
                with suppress(OSError):
                    path.unlink()


def _lines(file: Any) -> Iterator[tuple[int, bytes]]:
    start = len(_TITLE)
    while line := file.readline(_LONGEST_LINE):
        yield start, line
        start += len(line)


def _as_line(key: str, record: Record) -> bytes:
    text = to_text(record).encode("ascii")
    return key.encode("ascii") + b" " + _digest(text) + b" " + text + b"\n"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:_DIGEST].encode("ascii")
