"""What has been decided so far: the pairs, and the tensors and operators that no later way of pairing may use."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_msdump.core.matching.coordinates import CommonCoordinates, Place, PlaceIndex, Wanted, without_occurrence
from pytest_msdump.core.matching.rules import FusionRules
from pytest_msdump.core.matching.selection import MapEntry
from pytest_msdump.core.matching.sides import Side, SideOperator
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import TensorRef, Transform
from pytest_msdump.core.text import Message

# A left and a right operator, by number.
OperatorPair = tuple[int, int]


class PairingRequest(NamedTuple):
    """What every way of pairing gets besides the state."""

    coordinates: CommonCoordinates
    wanted: Wanted
    entries: Sequence[MapEntry]
    rules: FusionRules | None
    formats: Transform
    are_files: bool
    dumps: tuple[Dump, Dump]
    shape_of: Callable[[TensorRef], tuple[int, ...] | None]


class FoundPair(NamedTuple):
    """A pair of tensors, as positions in the sides' `refs`, with the way it was found and the rule that says so."""

    left: int
    right: int
    how: str
    by: str
    transform: Transform


class Outputs(NamedTuple):
    """What stage ``own_outputs`` says: the right's that are not compared, by name and number, and notes."""

    lost: Sequence[tuple[str, int]] = ()
    notes: tuple[str, ...] = ()


class _PartnerPlaces:
    """At which places of the other side the tensors (or operators) of one side have partners."""

    def __init__(self, others: Side) -> None:
        self._index = PlaceIndex(op.at for op in others.ops)
        self._paired_at: defaultdict[Place, set[int]] = defaultdict(set)
        self.paired: set[int] = set()

    def add(self, number: int, place: Place) -> None:
        self._paired_at[place].add(number)
        self.paired.add(number)

    def has_compatible(self, number: int, place: Place) -> bool:
        """Whether a partner is at a compatible place, so that one at this place would be a second."""
        return number in self.paired and any(
            number in self._paired_at.get(other, ()) or number in self._paired_at.get(without_occurrence(other), ())
            for other in self._index.compatible(place)
        )


@dataclass(slots=True)
class PairingState:
    """The pairs found so far, in order, and what is kept from later ways of pairing."""

    left: Side
    right: Side
    trusts_files: bool = False
    pairs: list[FoundPair] = field(default_factory=list)
    withheld: dict[tuple[str, int], Message] = field(default_factory=dict)
    ambiguous: dict[tuple[str, int], tuple[Message, tuple[int, ...]]] = field(default_factory=dict)
    _partners: dict[str, _PartnerPlaces] = field(init=False)
    _namesakes: dict[str, _PartnerPlaces] = field(init=False)

    def __post_init__(self) -> None:
        self._partners = {"left": _PartnerPlaces(self.right), "right": _PartnerPlaces(self.left)}
        self._namesakes = {"left": _PartnerPlaces(self.right), "right": _PartnerPlaces(self.left)}

    def add(self, pair: FoundPair) -> None:
        """Add a pair; both tensors are free for each other. A call that an entry names is no other call's partner."""
        self.pairs.append(pair)
        ours, theirs = self.left.op_with(pair.left).at, self.right.op_with(pair.right).at
        if pair.how == "mapped":
            ours, theirs = without_occurrence(ours), without_occurrence(theirs)
        self._partners["left"].add(pair.left, theirs)
        self._partners["right"].add(pair.right, ours)

    def is_free(self, side: str, ref: int, place: Place) -> bool:
        """Whether a tensor may still be paired with one at this place of the other side."""
        partners = self._partners[side]
        is_paired = ref in partners.paired and partners.has_compatible(ref, place)
        return not is_paired and (side, ref) not in self.withheld

    def join_operators(self, left: int, right: int) -> None:
        """Note that two operators belong together by name, whether or not they have a slot in common."""
        self._namesakes["left"].add(left, self.right.ops[right].at)
        self._namesakes["right"].add(right, self.left.ops[left].at)

    def may_join(self, left: int, right: int) -> bool:
        """Whether two operators are not joined otherwise at these places, and both have a free tensor."""
        ours, theirs = self.left.ops[left], self.right.ops[right]
        return (
            not self._namesakes["left"].has_compatible(left, theirs.at)
            and not self._namesakes["right"].has_compatible(right, ours.at)
            and self._has_free(self.left, ours, theirs.at)
            and self._has_free(self.right, theirs, ours.at)
        )

    def _has_free(self, side: Side, op: SideOperator, place: Place) -> bool:
        return bool([ref for ref in side.selected(op).values() if self.is_free(side.name, ref, place)])

    def is_paired(self, side: str, ref: int) -> bool:
        """Whether a tensor has any partner."""
        return ref in self._partners[side].paired

    def is_decided(self, side: str, ref: int) -> bool:
        """Whether a tensor has a partner, or a reason why it gets none."""
        return self.is_paired(side, ref) or (side, ref) in self.withheld

    def open_operators(self, side: Side) -> Sequence[int]:
        """Number the operators of a side of which a tensor may still get a partner: few, once rules have paired."""
        others = self.right if side.name == "left" else self.left
        if others.is_at_one_place:
            return sorted({op for ref, op in enumerate(side.op_of) if not self.is_paired(side.name, ref)})
        return range(len(side.ops))

    def unpaired(self, side: Side) -> Iterator[int]:
        """Yield the tensors of a side that were to be compared and have no partner."""
        for number, ref in enumerate(side.refs):
            is_wanted = side.op_with(number).kept and ref.key.io in side.directions
            if is_wanted and not self.is_paired(side.name, number):
                yield number


def resolve_ambiguity(
    left: Side, right: Side, candidates: Sequence[OperatorPair]
) -> tuple[list[OperatorPair], list[OperatorPair]]:
    """Divide possible pairs of operators into certain and doubtful ones, both in the order of the left side."""
    certain, contested = _divided(left, right, candidates)
    agreeing = [
        (one, other)
        for one, other in contested
        if left.ops[one].key.op_type is not None and left.ops[one].key.op_type == right.ops[other].key.op_type
    ]
    decided, _ = _divided(left, right, agreeing)
    return sorted([*certain, *decided]), sorted(set(contested) - set(decided))


def competing(side: Side, numbers: Sequence[int]) -> list[int]:
    """Return those operators whose place is compatible with another's, so that only one of them can be the partner."""
    if len(numbers) < 2:
        return []
    counts = Counter(side.ops[number].at for number in numbers)
    index = PlaceIndex(counts)
    return [number for number in numbers if sum(counts[place] for place in index.compatible(side.ops[number].at)) > 1]


def _divided(
    left: Side, right: Side, candidates: Sequence[OperatorPair]
) -> tuple[list[OperatorPair], list[OperatorPair]]:
    of_left: defaultdict[int, list[int]] = defaultdict(list)
    of_right: defaultdict[int, list[int]] = defaultdict(list)
    for one, other in candidates:
        of_left[one].append(other)
        of_right[other].append(one)
    contested = {(one, other) for one, others in of_left.items() for other in competing(right, others)}
    contested |= {(one, other) for other, ones in of_right.items() for one in competing(left, ones)}
    return [pair for pair in candidates if pair not in contested], [pair for pair in candidates if pair in contested]
