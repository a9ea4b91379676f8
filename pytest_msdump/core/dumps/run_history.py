"""The history that a run itself wrote: which iterations of each graph were dumped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dumps.sidefiles import read_text
from pytest_msdump.core.storage.files import names_in
from pytest_msdump.core.storage.locations import absolute_path

_MAX_BYTES = 2**24
_RANK = re.compile(r"rank_([0-9]{1,9})")
_FILE = re.compile(r"ms_global_execution_order_graph_([0-9]{1,18})\.csv")
_FOLDER = "execution_order"
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class RunHistory(NamedTuple):
    """The iterations that a graph of a rank was dumped in, and those noted more than once; `source` names the file."""

    source: str
    rank: int
    graph: int
    iterations: frozenset[int]
    repeated: frozenset[int] = frozenset()


def rank_of(folder: Path) -> int | None:
    """Return the rank whose directory this is, if any."""
    match = _RANK.fullmatch(absolute_path(folder).name)
    return int(match[1]) if match else None


def ranks_in(root: Path) -> Iterator[tuple[int, Path]]:
    """Yield the ranks in a dump's root, and their directories."""
    for name in names_in(root, "rank_"):
        if match := _RANK.fullmatch(name):
            yield int(match[1]), root / name


def parse_history(text: str) -> tuple[int, ...]:
    """Return the numbers of an execution history, line by line; ValueError where a line is none."""
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, start=1):
        if line and not _NUMBER.fullmatch(line):
            raise ValueError(f"line {number} is not an iteration")
    return tuple(int(line) for line in lines if line)


def read_histories(root: Path) -> tuple[Sequence[RunHistory], tuple[str, ...]]:
    """Read the histories of a dump tree or of one rank, not of a part of it, and say which could not be read."""
    found: list[RunHistory] = []
    notes: list[str] = []
    own = rank_of(root)
    for rank, folder in (*([] if own is None else [(own, root)]), *ranks_in(root)):
        for name in names_in(folder / _FOLDER):
            match = _FILE.fullmatch(name)
            if match is None:
                continue
            path = folder / _FOLDER / name
            source = path.relative_to(root).as_posix()
            text, failure = read_text(path, _MAX_BYTES)
            try:
                if not failure:
                    counts = Counter(parse_history(text))
                    repeated = frozenset(number for number, count in counts.items() if count > 1)
                    found.append(RunHistory(source, rank, int(match[1]), frozenset(counts), repeated))
            except ValueError as error:
                failure = f"is not an execution history: {error}"
            if failure:
                notes.append(f"{source} {failure}")
    return found, tuple(notes)


def run_once(histories: Iterable[RunHistory]) -> frozenset[tuple[int, int]]:
    """Return the ranks and iterations that histories note, and only once: each run adds its own lines."""
    histories = list(histories)
    again = {(history.rank, number) for history in histories for number in history.repeated}
    return frozenset((history.rank, number) for history in histories for number in history.iterations) - again
