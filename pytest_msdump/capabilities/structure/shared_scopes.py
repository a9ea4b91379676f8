"""MindSpore compiles ``construct`` of a class once, and names its operators after the first cell that calls it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Path = tuple[str, ...]
# The path of an operator below a cell, and its type.
_Kind = tuple[Path, str]


def paths_of_callers(names: Sequence[str], types: Sequence[str], paths: Sequence[Path | None]) -> dict[int, Path]:
    """Return, by number, the paths of operators that belong to another cell of a class than their names say.

    All are in execution order. An operator that runs among those of another cell is that one's, provided that every
    cell of the class then has equally many of its kind.

    >>> names = ["0-B/fc-Dense/MatMul-op0", "0-B/Add-op0", "1-B/fc-Dense/MatMul-op0", "0-B/Add-op1"]
    >>> names = [f"Default/blocks-CellList/{name}" for name in names]
    >>> paths = [("blocks", "0", "fc"), ("blocks", "0"), ("blocks", "1", "fc"), ("blocks", "0")]
    >>> paths_of_callers(names, ["MatMul", "Add"] * 2, paths)
    {3: ('blocks', '1')}
    """
    moved: dict[int, Path] = {}
    current = list(paths)
    for starts in _cells(names, paths):
        first = [start for start, _ in starts]
        groups: defaultdict[_Kind, list[int]] = defaultdict(list)
        own: defaultdict[_Kind, Counter[Path]] = defaultdict(Counter)
        new: defaultdict[_Kind, Counter[Path]] = defaultdict(Counter)
        around: dict[int, tuple[Path, Path]] = {}
        cells = {path for _, path in starts}
        for number, path in enumerate(current):
            cell = next((path[:end] for end in range(1, len(path) + 1) if path[:end] in cells), None) if path else None
            if path is not None and cell is not None:
                caller = starts[bisect_right(first, number) - 1][1]
                kind = path[len(cell) :], types[number]
                around[number] = cell, caller
                groups[kind].append(number)
                own[kind][cell] += 1
                new[kind][caller] += 1
        for kind, numbers in groups.items():
            if own[kind] != new[kind] and len(set(new[kind].values())) == 1:
                for number in numbers:
                    cell, caller = around[number]
                    if cell != caller:
                        moved[number] = current[number] = (*caller, *kind[0])
    return moved


def _cells(names: Sequence[str], paths: Sequence[Path | None]) -> Iterator[Sequence[tuple[int, Path]]]:
    """Yield the cells of each class of which several hold others, as (first operator, path) in execution order."""
    found: defaultdict[str, dict[Path, int]] = defaultdict(dict)
    holding: dict[str, int] = {}
    for number, (name, path) in enumerate(zip(names, paths, strict=True)):
        if path:
            classes = [part.rpartition("-")[2] for part in name.split("/")[:-1]][-len(path) :]
            for depth, title in enumerate(classes, start=1):
                found[title].setdefault(path[:depth], number)
                if depth < len(path):
                    holding[title] = min(holding.get(title, depth), depth)
    # Those around others first.
    for title in sorted(holding, key=lambda title: holding[title]):
        if len(found[title]) > 1 and not _are_nested(found[title]):
            yield sorted((start, path) for path, start in found[title].items())


def _are_nested(cells: Mapping[Path, int]) -> bool:
    return any(other[: len(one)] == one for one, other in pairwise(sorted(cells)))


def strays(paths: Sequence[Path | None], types: Sequence[str], feeds: Sequence[Sequence[int]]) -> set[int]:
    """Return the numbers of operators that have the name of a module to which they do not belong.

    MindSpore names ``x.transpose()`` and ``x + y`` of any cell after the first one that did so. Of the connected parts
    of a module, one that does only some of what another does is no call of it.

    >>> names = [("embed", "proj"), ("embed",), ("attn", "q"), ("embed",)]
    >>> strays(names, ["Conv2D", "Transpose", "MatMul", "Transpose"], [[], [0], [1], [2]])
    {3}
    """
    members: defaultdict[Path, list[int]] = defaultdict(list)
    beside: list[list[int]] = [list(feeders) for feeders in feeds]
    for number, path in enumerate(paths):
        for depth in range(1, len(path or ()) + 1):
            members[(path or ())[:depth]].append(number)
        for feeder in feeds[number]:
            beside[feeder].append(number)
    found: set[int] = set()
    for path in {path for path in paths if path}:
        parts = list(_connected(path, members[path], paths, beside))
        does = [{(paths[number], types[number]) for number in part} for part in parts]
        for part, own in zip(parts, does, strict=True):
            if all(paths[number] == path for number in part) and any(own < other for other in does):
                found.update(part)
    return found


def _connected(
    path: Path, members: Sequence[int], paths: Sequence[Path | None], beside: Sequence[Sequence[int]]
) -> Iterator[list[int]]:
    """Yield the parts of a module that are connected: directly, or by what has no scope or that of a module around."""
    inside, seen = set(members), set[int]()
    for start in members:
        part, waiting = [], [start]
        while waiting:
            number = waiting.pop()
            around = paths[number]
            if number in seen or not (number in inside or around is None or path[: len(around)] == around):
                continue
            seen.add(number)
            waiting += beside[number]
            if number in inside:
                part.append(number)
        if part:
            yield part


def most_repeats(kinds: Sequence[object]) -> int:
    """Return how often a sequence repeats its shortest period; 1 where it has none."""
    length = len(kinds)
    # The lengths of the longest borders, as in the algorithm of Knuth, Morris and Pratt.
    borders = [0] * length
    for place in range(1, length):
        border = borders[place - 1]
        while border and kinds[place] != kinds[border]:
            border = borders[border - 1]
        borders[place] = border + (kinds[place] == kinds[border])
    period = length - borders[-1] if length else 1
    return length // period if length and length % period == 0 else 1
