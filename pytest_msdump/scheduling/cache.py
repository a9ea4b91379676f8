"""Comparisons of earlier runs by all that they depend on: the same files, limits and program, the same record."""

from __future__ import annotations

import datetime
import hashlib
import os
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Record
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.pipeline.conditions import Conditions, conditions_of
from pytest_msdump.pipeline.planning import Plan
from pytest_msdump.scheduling.cache_file import CacheFile
from pytest_msdump.scheduling.files import FileState, files_of, state_of
from pytest_msdump.scheduling.stamp import stamp
from pytest_msdump.storage.regular import open_regular

__all__ = ["Cache", "cache_folder", "open_cache"]

# A file may change again within the step of its times, and two seconds is the coarsest step there is: what is younger
# than this, with a second for clocks that tick unevenly, is known by its content.
_RACY_SECONDS = 3
_READ_BYTES = 1 << 20


def open_cache(plan: Plan, folder: Path) -> Cache | None:
    """Return the cache that a plan's suite asks for; ``None`` when it asks for none."""
    if plan.suite.cache == "off":
        return None
    return Cache(folder, conditions_of(plan), by_content=plan.suite.cache == "content")


def cache_folder(directory: Path) -> Path:
    """Return where the cache is where pytest has none: below the current folder."""
    return directory / ".msdump-cache"


class Cache:
    """Records of earlier runs.

    Parameters
    ----------
    folder : Path
        Where they are kept.
    conditions : Conditions
        What pairs are compared under.
    by_content : bool
        Tell files apart by a digest of their content rather than by what the file system says of them.

    Notes
    -----
    A verdict `error` is never kept: the next run may be able to read the file.
    """

    def __init__(self, folder: Path, conditions: Conditions, *, by_content: bool) -> None:
        self._by_content = by_content
        self._lag = _clock_lag(folder)
        self._file = CacheFile(folder, _digest_of(conditions, by_content))

    @property
    def note(self) -> str:
        """What is wrong with the cache; empty when nothing is."""
        return self._file.note

    def key(self, pair: Pair) -> str | None:
        """Return the key of a pair as its files are now; ``None`` where a file has no version that could be told."""
        digest = hashlib.sha256(repr(_as_measured(pair)).encode(errors="surrogateescape"))
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
        """Whether a file may change again without new times; one from the future may, too."""
        age = time.time_ns() - self._lag - max(state.modified, state.changed)
        return age < _RACY_SECONDS * 1_000_000_000

    def get(self, key: str | None, pair: Pair) -> Record | None:
        """Return the record of a pair, placed where the pair is now; ``None`` where it has to be measured."""
        found = None if key is None else self._file.get(key)
        return None if found is None else replace(found, order=pair.order)

    def told(self, reused: int, total: int) -> str:
        """Say how much came from earlier runs."""
        return f"cache: {reused} of {total} pair{'' if total == 1 else 's'} from earlier runs"

    def keep(self, records: Mapping[int, Record], keys: Mapping[int, str], reused: Collection[int]) -> str:
        """Keep records, but for errors; return what went wrong, in a sentence, or nothing.

        Parameters
        ----------
        records : mapping
            By numbers of their pairs.
        keys : mapping
            The key of each pair that may be kept.
        reused : collection of int
            Those that came from here. What has a line and was measured nevertheless, in any process, has a damaged one.
        """
        known = {number: key for number, key in keys.items() if number in records}
        worth = {
            # What only this run's graphs know is added to each record anew.
            key: replace(records[number], kernel_args={}, differing_arguments=())
            for number, key in known.items()
            if records[number].verdict.outcome not in ("error", "not_run")
        }
        try:
            self._file.keep(worth, [key for number, key in known.items() if number not in reused])
        except OSError as error:
            # Of a disk that is full, nothing says which file it was.
            where = error.filename or self._file.folder
            return f"cache: {where}: cannot be written ({error.strerror or error}); the next run measures again"
        return ""


def _as_measured(pair: Pair) -> Pair:
    """The pair without what no comparison looks at: where its operator stands among the others."""
    left, right = (_without_place(ref) for ref in (pair.left, pair.right))
    return replace(pair, left=left, right=right, order=0)


def _without_place(ref: TensorRef) -> TensorRef:
    return replace(ref, place=None)


def _clock_lag(folder: Path) -> int:
    """Return by how many nanoseconds the clock of the file system of `folder` is behind this machine's."""
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


def _digest_of(conditions: Conditions, by_content: bool) -> str:
    """A digest of all that a record depends on beside the pair. Code of a user counts by its content."""
    extras = conditions.extras
    code = [(os.fspath(path), _content(path)) for path in extras.files]
    told = (
        stamp(),
        by_content,
        conditions.policy,
        # Whether a known drift still holds depends on the day.
        datetime.datetime.now(datetime.timezone.utc).date() if conditions.policy.known_drift else None,
        code,
        sorted(map(str, extras.converters)),
        sorted(extras.algorithms),
        extras.arguments,
        extras.first,
        extras.spread,
        os.fspath(conditions.left_root),
        os.fspath(conditions.right_root),
    )
    return hashlib.sha256(repr(told).encode(errors="surrogateescape")).hexdigest()[:32]
