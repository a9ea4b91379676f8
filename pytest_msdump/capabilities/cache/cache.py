"""Records of earlier runs: the same files, limits and program give the same record.

On disk there is one file for each set of conditions, with one line for each pair: its key, a digest of the record, and
the record as JSON. A file is replaced as a whole. A damaged line is ignored, and its pair is compared again.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pytest_msdump
from pytest_msdump.core import ports
from pytest_msdump.core.compare.comparing import Comparer, comparer_of
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Pair, TensorRef
from pytest_msdump.core.report.record_json import checked_record, to_text
from pytest_msdump.core.storage.files import open_regular, replacing
from pytest_msdump.core.storage.locations import RemotePath, storage
from pytest_msdump.core.text import ENGLISH


@dataclass(frozen=True, slots=True)
class Stamp:
    """Release, digest of the program's own files and compiled parts, release of NumPy, what computes the metrics."""

    version: str
    code: str
    numpy: str
    kernel: str


@cache
def stamp() -> Stamp:
    """Return the stamp of this process."""
    return Stamp(_version(), _code(), np.__version__, choose_kernel().name)


def differences(one: Stamp, other: Stamp) -> str:
    """Say how `one` differs from `other`; empty if it does not. The digest is named only if nothing else differs."""
    named = {"version": "pytest-msdump", "code": "files of pytest-msdump", "numpy": "NumPy", "kernel": "kernel"}
    ours, theirs = asdict(one), asdict(other)
    differing = [name for name in named if ours[name] != theirs[name]]
    shown = [name for name in differing if name != "code"] or differing
    return ", ".join(f"{named[name]} {ours[name]}, not {theirs[name]}" for name in shown)


def _version() -> str:
    try:
        return importlib.metadata.version("pytest-msdump")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _code() -> str:
    """Return a digest of the source files, of other packages' capabilities too: a working copy has no new release."""
    root = Path(pytest_msdump.__path__[0])
    digest = hashlib.sha256()
    own = [(path.relative_to(root).as_posix(), path) for path in sorted(root.rglob("*.py"))]
    for name, path in (*own, *ports.sources_elsewhere()):
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    # The kernel's source, not the built file: two compilers build different files from one source.
    digest.update(f"{choose_kernel().source}\0".encode())
    return digest.hexdigest()[:16]


class FileState(NamedTuple):
    """What the file system says of a file; times in nanoseconds, `changed` is that of the inode."""

    size: int
    modified: int
    changed: int
    device: int
    inode: int


def files_of(pair: Pair) -> tuple[Path, ...]:
    """Return every file that comparing a pair reads, the left side's first."""
    refs = (pair.left, pair.right, *pair.terms[0], *pair.terms[1], *filter(None, (pair.golden, pair.third)))
    return tuple(path for ref in refs for path in _files(ref))


def _files(ref: TensorRef) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((ref.source.path, *ref.source.pieces)))


def state_of(path: Path) -> FileState | None:
    """Return the state of a file, following links; ``None`` if there is none, and for object storage."""
    if isinstance(path, RemotePath):
        return None
    try:
        found = os.stat(path)  # noqa: PTH116 - no new path for each of a hundred thousand files
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)


def bytes_to_read(pair: Pair) -> int:
    """Return the size of a pair's tensors on disk; 0 if unknown, or if only statistics were saved."""
    refs = [pair.left, pair.right, *filter(None, (pair.golden, pair.third))]
    if any(ref.is_unseen for ref in refs):
        return 0
    paths = [path for ref in refs for path in _files(ref)]
    found = [storage().version(path) if isinstance(path, RemotePath) else state_of(path) for path in paths]
    return sum(one.size for one in found if one is not None)


# A file may change again within one step of its times. The coarsest step is two seconds, and one more is for clocks
# that tick unevenly: a younger file is identified by its content.
_RACY_SECONDS = 3
_READ_BYTES = 1 << 20
_TITLE = b"msdump comparisons 1\n"
_SUFFIX = ".comparisons"
_KEY, _DIGEST = 32, 32
_LONGEST_LINE = 16 * 1024 * 1024
# A temporary file this old was left by a run that was killed.
_ABANDONED_SECONDS = 24 * 3600


def open_cache(plan: Plan, folder: Path, *, explains: bool = False) -> Cache | None:
    """Return the cache that a plan's suite asks for; ``None`` if it asks for none."""
    if plan.suite.options["cache"] == "off":
        return None
    return Cache(folder, comparer_of(plan, explains=explains), by_content=plan.suite.options["cache"] == "content")


def cache_folder(directory: Path) -> Path:
    """Return the cache folder to use without pytest's own cache."""
    return directory / ".msdump-cache"


class Cache:
    """Records of earlier runs, in a folder; `comparer` is what they depend on beside their pairs."""

    def __init__(self, folder: Path, comparer: Comparer, *, by_content: bool) -> None:
        self._by_content = by_content
        self._lag = _clock_lag(folder)
        self._file = CacheFile(folder, _digest_of(comparer, by_content))

    def key(self, pair: Pair) -> str | None:
        """Return the key of a pair as its files are now; ``None`` if the version of a file is not known."""
        # No comparison looks at the pair's place among the others.
        left, right = (replace(ref, place=None) for ref in (pair.left, pair.right))
        plain = replace(pair, left=left, right=right, order=0)
        digest = hashlib.sha256(repr(plain).encode(errors="surrogateescape"))
        try:
            for path in files_of(pair):
                state = state_of(path)
                if state is None:
                    return None
                digest.update(_content(path) if self._by_content or self._is_young(state) else repr(state).encode())
        except OSError:
            return None
        return digest.hexdigest()[:32]

    def _is_young(self, state: FileState) -> bool:
        """Whether a file may change again without new times, as one from the future may."""
        age = time.time_ns() - self._lag - max(state.modified, state.changed)
        return age < _RACY_SECONDS * 1_000_000_000

    def get(self, key: str | None, pair: Pair) -> Record | None:
        """Return the record of a pair, with the order that the pair has now; ``None`` if there is none."""
        found = None if key is None else self._file.get(key)
        return None if found is None else replace(found, order=pair.order)

    def keep(self, records: Mapping[int, Record], keys: Mapping[int, str], reused: Collection[int]) -> tuple[str, ...]:
        """Keep all records but errors, and return what to note in the report."""
        known = {number: key for number, key in keys.items() if number in records}
        worth = {
            # What only this run's graphs know is added to each record again.
            key: replace(records[number], kernel_args={}, differing_arguments=())
            for number, key in known.items()
            if records[number].verdict.outcome not in ("error", "not_run")
        }
        problem = ""
        try:
            self._file.keep(worth, [key for number, key in known.items() if number not in reused])
        except OSError as error:
            # The error of a full disk names no file.
            where = error.filename or self._file.folder
            problem = ENGLISH("note_cache_unwritten", where=str(where), why=str(error.strerror or error))
        sentence = ENGLISH("note_cache_reused", reused=len(reused), n=len(records))
        return tuple(filter(None, (sentence, self._file.note, problem)))


def _clock_lag(folder: Path) -> int:
    """Return how many nanoseconds the clock of the file system of `folder` is behind this machine's."""
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), folder)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            return max(0, time.time_ns() - os.fstat(file.fileno()).st_mtime_ns)
    except OSError:
        return 0


def _content(path: Path) -> bytes:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()


def _digest_of(comparer: Comparer, by_content: bool) -> str:
    """Return a digest of all that a record depends on, but for the pair; user code counts by its content."""
    extras = comparer.extras
    code = [(os.fspath(path), _content(path)) for path in extras.files]
    conditions_and_program = (
        stamp(),
        by_content,
        comparer.policy,
        # Whether a known drift still holds depends on the day.
        datetime.datetime.now(datetime.timezone.utc).date() if comparer.policy.known_drift else None,
        code,
        sorted(map(str, extras.converters)),
        sorted(extras.algorithms),
        extras.arguments,
        extras.first,
        extras.spread,
        bool(comparer.stages.explained),
        tuple(map(os.fspath, comparer.roots)),
    )
    return hashlib.sha256(repr(conditions_and_program).encode(errors="surrogateescape")).hexdigest()[:32]


class CacheFile:
    """The records that one set of conditions gave; `name` is the digest of these."""

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
                return checked_record(json.loads(text), place=f"{self._path}")
        self._places.pop(key, None)
        self._damage()
        return None

    def keep(self, records: Mapping[str, Record], measured: Iterable[str] = ()) -> None:
        """Write `records` beside what is there; those of `records` are the last to go."""
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
                    self._damage()
                    return
                for start, line in _lines(file):
                    key = line[:_KEY]
                    if line.endswith(b"\n") and line[_KEY : _KEY + 1] == b" " and key.isalnum():
                        self._places[key.decode("ascii", errors="replace")] = (start, len(line))
                    else:
                        self._damage()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.note = ENGLISH("note_cache_unread", file=str(self._path), why=str(error.strerror))

    def _damage(self) -> None:
        self._damaged += 1
        self.note = ENGLISH("note_cache_damaged", file=str(self._path))

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
        with replacing(self._path) as file:
            file.write(_TITLE)
            file.writelines(lines)

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
