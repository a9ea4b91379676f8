"""In which order files without times in their names were written, as far as the file system can be believed.

Files that hooks wrote are as old as the layers' calls. Files that were copied or unpacked are as old as the copy: in
the order of their names, or in none. What ran tells itself: modules end after their parts, and numbers of layers rise.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.structure.evidence import pattern_of
from pytest_msdump.core.model.tensor import TensorSource

# Fewer signs than this, or as many that hold as chance may give (half of them and three deviations), are no run.
_FEWEST_SIGNS, _DEVIATIONS = 5, 1.5
_NUMBERS = re.compile(r"([0-9]+)")


def written_order(sources: Sequence[TensorSource], names: Sequence[tuple[str, ...]]) -> Sequence[int] | None:
    """Return the place of each tensor in the order in which they were written; ``None`` where that is not known.

    `names` are the parts of the modules' names.
    """
    ages: dict[str, tuple[int, int]] = {}
    keys = []
    for source in sources:
        if source.text not in ages:
            try:
                status = Path(source.location).stat()
            except (OSError, ValueError, TypeError):
                return None
            # Of files that were written in one tick of the clock the later one has the higher number.
            ages[source.text] = status.st_mtime_ns, status.st_ino
        keys.append((*ages[source.text], source.part or 0))
    if len({*keys}) < len(keys):
        return None
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ran = [names[number] for number in order]
    if len(ages) > 1 and _are_sorted([sources[number] for number in order]):
        return None
    signs = [*_signs(ran)]
    least = min(len(signs), len(signs) / 2 + _DEVIATIONS * sqrt(len(signs)))
    if len(signs) < _FEWEST_SIGNS or sum(signs) < least:
        return None
    places = dict(zip(order, range(len(order)), strict=True))
    return [places[number] for number in range(len(order))]


def _are_sorted(sources: Sequence[TensorSource]) -> bool:
    """Whether the files of each folder are in the order of their names, as any program sorts them."""
    inside: defaultdict[Path, list[str]] = defaultdict(list)
    for source in sources:
        inside[source.folder].append(source.name)
    ways: Sequence[Callable[[str], Any]] = (
        str,
        str.lower,
        lambda name: _NUMBERS.sub(lambda one: f"{one[0]:0>9}", name.lower()),
    )
    return any(
        all(turned([*map(way, own)]) for own in inside.values())
        for way in ways
        for turned in (_rise, lambda keys: _rise(keys[::-1]))
    )


def _rise(keys: Sequence[str]) -> bool:
    return all(one <= other for one, other in pairwise(keys))


def _signs(names: Sequence[tuple[str, ...]]) -> Iterator[bool]:
    """Yield whether numbers rise among names that differ in nothing else, and whether modules end after their parts."""
    known = {*names}
    last: dict[Hashable, list[int]] = {}
    inside: Counter[tuple[str, ...]] = Counter()
    late: Counter[tuple[str, ...]] = Counter()
    seen: set[tuple[str, ...]] = set()
    for name in names:
        words = tuple(int(part) if part.isdecimal() else part for part in name)
        numbers = [word for word in words if isinstance(word, int)]
        # ``act_1`` beside ``act`` is its second call.
        pattern: Hashable = (
            name[:-1] if name[-1:] and name[-1].isdecimal() and name[:-1] in known else pattern_of(words)
        )
        if numbers and pattern in last:
            yield last[pattern] < numbers
        last[pattern] = numbers
        for end in range(1, len(name)):
            if not name[end].isdecimal():
                (late if name[:end] in seen else inside)[name[:end]] += 1
        seen.add(name)
    yield from (late[name] == 0 for name in seen if inside[name] + late[name] > 1)
