"""Which operator of a graph a file's operator is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.model.graph import Operator, OperatorGraph
from pytest_msdump.model.tensor import OpKey, mangle

__all__ = ["Known", "by_family", "by_text", "exact"]

_COUNTED = re.compile(r"(?P<family>.*)-op(?P<count>[0-9]{1,18})")


class Known(NamedTuple):
    """An operator and its place in its graph."""

    operator: Operator
    place: int


def exact(keys: Iterable[OpKey], graphs: Sequence[OperatorGraph]) -> dict[tuple[str, str | None], Known]:
    """Find operators by their names, or by what follows the scope where that tells one; keys are names and types."""
    full: defaultdict[str, list[Known]] = defaultdict(list)
    short: defaultdict[str, list[Known]] = defaultdict(list)
    for graph in graphs:
        for place, operator in enumerate(graph.operators):
            full[mangle(operator.name)].append(Known(operator, place))
            # Releases before 2.1 write a file's operator without its scope.
            short[mangle(operator.name.rpartition("/")[2])].append(Known(operator, place))
    found: dict[tuple[str, str | None], Known] = {}
    for key in keys:
        candidates = full.get(key.name) or short.get(key.name, [])
        known = _chosen(key, candidates)
        if known is not None:
            found[key.name, key.op_type] = known
    return found


def _chosen(key: OpKey, candidates: Sequence[Known]) -> Known | None:
    """Return the one that is meant; the first of several that are one operator in several graphs."""
    for meant in (
        candidates,
        [known for known in candidates if known.operator.name == key.true_name],
        [known for known in candidates if known.operator.op_type == key.op_type],
    ):
        if len({known.operator.name for known in meant}) == 1:
            return meant[0]
    return None


def by_family(
    keys: Iterable[OpKey], found: Mapping[tuple[str, str | None], Known], graphs: Sequence[OperatorGraph]
) -> Iterator[tuple[tuple[str, str | None], Known]]:
    """Match what is left over by scope and type, in the order of their numbers."""
    taken = {known.operator.name for known in found.values()}
    free: defaultdict[str, dict[int, Known]] = defaultdict(dict)
    for graph in graphs:
        for place, operator in enumerate(graph.operators):
            match = _COUNTED.fullmatch(mangle(operator.name))
            if match and operator.name not in taken:
                free[match["family"]].setdefault(int(match["count"]), Known(operator, place))
    left: defaultdict[str, dict[int, tuple[str, str | None]]] = defaultdict(dict)
    for key in keys:
        match = _COUNTED.fullmatch(key.name)
        if match and (key.name, key.op_type) not in found:
            left[match["family"]][int(match["count"])] = (key.name, key.op_type)
    for family, of_dump in left.items():
        if len(of_dump) == len(free[family]):
            yield from zip(
                (of_dump[count] for count in sorted(of_dump)),
                (free[family][count] for count in sorted(free[family])),
                strict=True,
            )


def by_text(keys: Iterable[OpKey], graphs: Sequence[OperatorGraph]) -> Iterator[tuple[tuple[str, str | None], Known]]:
    """Match operators of one scope and type by their place in the graph's text, whatever the graph numbers them.

    MindSpore 2.10 numbers the files so, from 0. A family whose numbers are other ones is matched in their order where
    it is complete, and left out where it is not.
    """
    told: defaultdict[str, list[Known]] = defaultdict(list)
    for graph in graphs:
        for place, operator in enumerate(graph.operators):
            match = _COUNTED.fullmatch(mangle(operator.name))
            if match:
                told[match["family"]].append(Known(operator, place))
    files: defaultdict[str, dict[int, tuple[str, str | None]]] = defaultdict(dict)
    for key in keys:
        match = _COUNTED.fullmatch(key.name)
        if match:
            files[match["family"]][int(match["count"])] = (key.name, key.op_type)
    for family, of_dump in files.items():
        if max(of_dump) < len(told[family]):
            yield from ((file, told[family][count]) for count, file in of_dump.items())
        elif len(of_dump) == len(told[family]):
            yield from zip((of_dump[count] for count in sorted(of_dump)), told[family], strict=True)
