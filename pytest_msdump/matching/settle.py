"""When several operators answer to one name: who is clear, whom the op type decides, and who stays ambiguous."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_msdump.matching.meeting import known, meets

if TYPE_CHECKING:
    from pytest_msdump.matching.sides import Operator, Side

__all__ = ["Edge", "settle"]

# A left operator and a right one that could belong together, by number.
Edge = tuple[int, int]


def settle(left: Side, right: Side, edges: Sequence[Edge]) -> tuple[list[Edge], list[Edge]]:
    """Part the possible pairs of operators into certain and doubtful ones.

    Parameters
    ----------
    left, right : Side
        Whose operators the edges number.
    edges : sequence of (int, int)
        Possible pairs.

    Returns
    -------
    certain, doubtful : list of (int, int)
        Certain: neither operator has another partner at the same place, or among those only this one's op type is
        the same on both sides. Both lists are in the order of the left side.
    """
    certain, contested = _part(left, right, edges)
    agreeing = [edge for edge in contested if _types_agree(left.ops[edge[0]], right.ops[edge[1]])]
    decided, _ = _part(left, right, agreeing)
    doubtful = sorted(set(contested) - set(decided))
    return sorted([*certain, *decided]), doubtful


def _types_agree(one: Operator, other: Operator) -> bool:
    return one.key.op_type is not None and one.key.op_type == other.key.op_type


def _part(left: Side, right: Side, edges: Sequence[Edge]) -> tuple[list[Edge], list[Edge]]:
    if len({one for one, _ in edges}) == len({other for _, other in edges}) == len(edges):
        return list(edges), []
    of_left: dict[int, list[int]] = defaultdict(list)
    of_right: dict[int, list[int]] = defaultdict(list)
    for one, other in edges:
        of_left[one].append(other)
        of_right[other].append(one)
    crowded = {(one, other) for one, others in of_left.items() for other in _clashing(others, right)}
    crowded |= {(one, other) for other, ones in of_right.items() for one in _clashing(ones, left)}
    return [edge for edge in edges if edge not in crowded], [edge for edge in edges if edge in crowded]


def _clashing(numbers: Sequence[int], side: Side) -> list[int]:
    """Return those operators whose place meets another's."""
    if len(numbers) < 2:
        return []
    places = {number: side.ops[number].at for number in numbers}
    if len({known(place) for place in places.values()}) == 1:
        crowds = Counter(places.values())
        return [number for number, place in places.items() if crowds[place] > 1]
    return [
        number
        for number, place in places.items()
        if any(meets(place, other) for rival, other in places.items() if rival != number)
    ]
