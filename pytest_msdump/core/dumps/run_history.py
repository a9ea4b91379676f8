"""The history that a run itself wrote: which iterations of each graph were dumped."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dumps.sidefiles import read_text
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.storage.files import names_in
from pytest_msdump.core.storage.locations import absolute_path

_MAX_BYTES = 2**24
_RANK = re.compile(r"rank_([0-9]{1,9})")
_FILE = re.compile(r"ms_global_execution_order_graph_([0-9]{1,18})\.csv")
_FOLDER = "execution_order"
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_MOST_LISTED = 5


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


def disagreements(
    histories: Iterable[RunHistory], refs: Iterable[TensorRef], *, ran_nothing: Callable[[int, int], bool]
) -> Iterator[str]:
    """Yield a sentence for each rank whose directories and histories have different iterations."""
    dumped: defaultdict[int, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for ref in refs:
        at = ref.key.op.at
        if at.rank is not None and at.graph is not None and at.iteration is not None:
            dumped[at.rank][at.graph].add(at.iteration)
    by_rank: defaultdict[int, list[RunHistory]] = defaultdict(list)
    for history in histories:
        by_rank[history.rank].append(history)
    for rank, own in sorted(by_rank.items()):
        yield from _absent(own, dumped[rank], ran_nothing)
        # Of all graphs together: where networks take turns, one's runs are noted for the other.
        listed = frozenset().union(*(history.iterations for history in own))
        extra = frozenset().union(*dumped[rank].values()) - listed
        if extra:
            first, more = own[0].source, len(own) - 1
            source = f"{first} and {more} more do not" if more else f"{first} does not"
            yield f"incomplete or mixed dump: there are tensors of {_shown(extra)}, which {source} list"


def _absent(
    histories: Iterable[RunHistory], dumped: Mapping[int, set[int]], ran_nothing: Callable[[int, int], bool]
) -> Iterator[str]:
    for history in histories:
        there = dumped.get(history.graph, set())
        absent = history.iterations - there
        # Every iteration of a graph runs the same operators, so what dumped nothing in one did so in all.
        if absent and (there or not ran_nothing(history.rank, history.graph)):
            yield (
                f"incomplete or mixed dump: {history.source} lists {_shown(history.iterations)}, but of "
                f"{_shown(absent)} there is no tensor of graph {history.graph}"
            )


def _shown(numbers: Iterable[int]) -> str:
    """Return ``"iteration 3"``, or ``"iterations 0-2, 5"``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges]
    word = "iteration" if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else "iterations"
    return f"{word} {listed(texts, _MOST_LISTED)}"
