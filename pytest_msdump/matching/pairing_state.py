"""What has been decided so far: the pairs, and the tensors and operators that no later way may have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_msdump.matching.coordinates import Key, known, meets
from pytest_msdump.text import Message

if TYPE_CHECKING:
    from pytest_msdump.matching.sides import Operator, Side
    from pytest_msdump.model.pairing import Transform

__all__ = ["Edge", "Ledger", "Made", "settle"]


class Made(NamedTuple):
    """A pair, its tensors as positions in the sides' `refs`."""

    left: int
    right: int
    how: str
    by: str
    transform: Transform


class _Partners:
    """For each tensor of one side, where its partners on the other side are."""

    def __init__(self, others: Side) -> None:
        places = others.operators_at
        self._mixed = len({known(place) for place in places}) > 1
        self.is_one_place = len(places) == 1
        # Nearly all have one: a set of its own for each would take more memory than all else here.
        self._first: dict[int, Key] = {}
        self._several: dict[int, set[Key]] = {}

    def __contains__(self, ref: int) -> bool:
        return ref in self._first

    def __len__(self) -> int:
        return len(self._first)

    def add(self, ref: int, place: Key) -> None:
        first = self._first.setdefault(ref, place)
        if first != place:
            self._several.setdefault(ref, {first}).add(place)

    def is_done(self, ref: int) -> bool:
        """Whether a tensor has all the partners that it can have."""
        return self.is_one_place and ref in self._first

    def lacking(self, count: int) -> list[int]:
        """Return those of so many tensors that have no partner."""
        first = self._first
        return [ref for ref in range(count) if ref not in first] if len(first) < count else []

    def has_at(self, ref: int, place: Key) -> bool:
        first = self._first.get(ref)
        if first is None:
            return False
        places = self._several.get(ref) or (first,)
        return place in places or (self._mixed and any(meets(place, other) for other in places))


@dataclass(slots=True)
class Ledger:
    """The pairs made so far.

    A left tensor has several partners only because of coordinates it does not have. A right one, too: a flat reference
    meets every rank; and map entries or rule files may give it to several left tensors.

    Parameters
    ----------
    left, right : Side
        What is being paired.
    made : list of Made
        In the order made.
    held : dict
        (side, tensor) to a reason: tensors that a map entry names in vain. No later way gets them.
    ambiguous : dict
        (side, operator) to the reason and the rivals.
    trusts_files : bool
        Whether one side's true names are its graph's and the other's are not, so that names of files tell more.
    """

    left: Side
    right: Side
    made: list[Made] = field(default_factory=list)
    held: dict[tuple[str, int], Message] = field(default_factory=dict)
    ambiguous: dict[tuple[str, int], tuple[Message, tuple[int, ...]]] = field(default_factory=dict)
    trusts_files: bool = False
    _of_left: _Partners = field(init=False)
    _of_right: _Partners = field(init=False)
    _ops_of_left: _Partners = field(init=False)
    _ops_of_right: _Partners = field(init=False)

    def __post_init__(self) -> None:
        self._of_left = _Partners(self.right)
        self._of_right = _Partners(self.left)
        self._ops_of_left = _Partners(self.right)
        self._ops_of_right = _Partners(self.left)

    def record(self, made: Made) -> None:
        """Add a pair; both tensors are free for each other."""
        left, right = self.left, self.right
        self.made.append(made)
        self._of_left.add(made.left, right.ops[right.op_of[made.right]].at)
        self._of_right.add(made.right, left.ops[left.op_of[made.left]].at)

    @property
    def is_blank(self) -> bool:
        """Whether nothing was decided yet, so that everybody is free."""
        return not (self.made or self.held or self.ambiguous or self._ops_of_left)

    def left_free(self, ref: int, partner: Operator) -> bool:
        """Whether a left tensor may be paired with a tensor of this right operator."""
        return not (self.held and ("left", ref) in self.held) and not self._of_left.has_at(ref, partner.at)

    def right_free(self, ref: int, partner: Operator) -> bool:
        """Whether a right tensor may be paired with a tensor of this left operator."""
        return not (self.held and ("right", ref) in self.held) and not self._of_right.has_at(ref, partner.at)

    def are_free(self, left: int, right: int, ours: Operator, theirs: Operator) -> bool:
        """Whether a tensor of a left operator and one of a right operator may be paired."""
        # Nearly all have had no partner yet.
        if not self.held and left not in self._of_left and right not in self._of_right:
            return True
        return self.left_free(left, theirs) and self.right_free(right, ours)

    def is_done(self, side: str, ref: int) -> bool:
        """Whether a tensor is free for no tensor of the other side, as nearly all are once a way has paired them."""
        return (side, ref) in self.held or (self._of_left if side == "left" else self._of_right).is_done(ref)

    def join_operators(self, left: int, right: int) -> None:
        """Note that two operators belong together by name, whether or not all their slots meet."""
        self._ops_of_left.add(left, self.right.ops[right].at)
        self._ops_of_right.add(right, self.left.ops[left].at)

    def operators_free(self, left: int, right: int) -> bool:
        """Whether neither operator has a namesake at the other's place yet."""
        taken = self._ops_of_left.has_at(left, self.right.ops[right].at)
        return not taken and not self._ops_of_right.has_at(right, self.left.ops[left].at)

    def is_paired(self, side: str, ref: int) -> bool:
        """Whether a tensor has any partner."""
        return ref in (self._of_left if side == "left" else self._of_right)

    def is_settled(self, side: str, ref: int) -> bool:
        """Whether a tensor has a partner, or a reason why it gets none."""
        return self.is_paired(side, ref) or (side, ref) in self.held

    def alone(self, side: Side) -> Iterator[int]:
        """Yield the tensors of a side that were to be compared and have no partner."""
        for ref in self._partners(side).lacking(len(side.refs)):
            if side.ops[side.op_of[ref]].kept and side.refs[ref].key.io in side.directions:
                yield ref

    def unpaired_ops(self, side: Side) -> Sequence[int]:
        """Number the operators of a side that have a tensor without a partner."""
        return sorted({side.op_of[ref] for ref in self._partners(side).lacking(len(side.refs))})

    def open_ops(self, side: Side) -> Sequence[int]:
        """Number the operators of a side of which a tensor may get another partner: rules leave hardly any."""
        return self.unpaired_ops(side) if self._partners(side).is_one_place else range(len(side.ops))

    def _partners(self, side: Side) -> _Partners:
        return self._of_left if side.name == "left" else self._of_right


# -- When several operators answer to one name -----------------------------------------------------------------------


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
