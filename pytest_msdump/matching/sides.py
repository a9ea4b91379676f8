"""One side, ready to be looked up: its operators by every spelling of their names and by their places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

from pytest_msdump.matching.coordinates import Key, known, raw_key, without_occurrence
from pytest_msdump.model.tensor import OpKey, TensorRef, mangle

if TYPE_CHECKING:
    from pytest_msdump.matching.addresses import Address

__all__ = ["NameIndex", "Operator", "Port", "Side", "index_side", "mangled_names"]

# (io, slot) of a tensor within its operator.
Port = tuple[str, int]

# For each coordinate whether a place has it.
_Known = tuple[bool, ...]


class Operator(NamedTuple):
    """An operator at one place of a run.

    Parameters
    ----------
    key : OpKey
        Who it is.
    at : tuple
        Its coordinates.
    meeting : tuple
        Its coordinates as they are compared with the other side's.
    kept : bool
        Whether its coordinates are selected.
    tensors : dict
        (io, slot) to the position in `Side.refs`, inputs first.
    """

    key: OpKey
    at: Key
    meeting: Key
    kept: bool
    tensors: dict[Port, int]


class NameIndex:
    """Operators by a spelling of their name, then by place.

    Parameters
    ----------
    spelled : iterable of (str, tuple, int)
        A spelling, a place, and the operator there, which has each of its spellings once.
    """

    def __init__(self, spelled: Iterable[tuple[str, Key, int]]) -> None:
        # Most spellings are one operator's at one place: lists of their own would take ten times as much.
        self._first: dict[Key, dict[str, int]] = {}
        self._more: dict[tuple[Key, str], list[int]] = {}
        for spelling, place, op in spelled:
            at_place = self._first.get(place)
            if at_place is None:
                at_place = self._first[place] = {}
            if at_place.setdefault(spelling, op) != op:
                self._more.setdefault((place, spelling), []).append(op)
        self._patterns = dict.fromkeys(map(known, self._first))
        self._agreeing: dict[tuple[_Known, _Known], Mapping[Key, Sequence[Key]]] = {}
        self._meeting: dict[Key, Sequence[Key]] = {}

    def __bool__(self) -> bool:
        """Whether there is any operator."""
        return bool(self._first)

    def named(self, spelling: str) -> list[int]:
        """Return the operators of that spelling, wherever they are."""
        return [op for place in self._places_of.get(spelling, ()) for op in self._at(place, spelling)]

    def meeting(self, spelling: str, place: Key) -> Sequence[int]:
        """Return the operators of that spelling whose place meets this one."""
        places = self._meeting.get(place)
        if places is None:
            places = self._meeting[place] = self._places(place)
        if len(places) == 1:
            return self._at(places[0], spelling)
        return [op for other in places for op in self._at(other, spelling)]

    @cached_property
    def _places_of(self) -> Mapping[str, Sequence[Key]]:
        found: defaultdict[str, list[Key]] = defaultdict(list)
        for place, ops in self._first.items():
            for spelling in ops:
                found[spelling].append(place)
        return found

    def _at(self, place: Key, spelling: str) -> Sequence[int]:
        first = self._first[place].get(spelling)
        if first is None:
            return ()
        others = self._more.get((place, spelling)) if self._more else None
        return (first, *others) if others else (first,)

    def _places(self, place: Key) -> Sequence[Key]:
        """Return the places that meet one: those that agree in all that both have."""
        mine = known(place)
        if len(self._patterns) == 1 and mine in self._patterns:
            return (place,) if place in self._first else ()
        found: list[Key] = []
        for theirs in self._patterns:
            both = tuple(map(and_, mine, theirs))
            found += self._by(theirs, both).get(_part(place, both), ())
        return found

    def _by(self, pattern: _Known, both: _Known) -> Mapping[Key, Sequence[Key]]:
        """Return the places of one pattern by the coordinates that others have as well."""
        if (pattern, both) not in self._agreeing:
            places: defaultdict[Key, list[Key]] = defaultdict(list)
            for place in self._first:
                if known(place) == pattern:
                    places[_part(place, both)].append(place)
            self._agreeing[pattern, both] = places
        return self._agreeing[pattern, both]


def _part(place: Key, kept: _Known) -> Key:
    return tuple([value if is_kept else None for value, is_kept in zip(place, kept, strict=True)])


@dataclass(frozen=True)
class Side:
    """One dump's tensors and operators.

    Parameters
    ----------
    name : str
        ``"left"`` or ``"right"``.
    refs : tuple of TensorRef
        All tensors of the dump.
    ops : tuple of Operator
        In the order in which the tensors name them.
    op_of : tuple of int
        For each tensor its operator.
    directions : frozenset of str
        The selected ones of ``"input"`` and ``"output"``.
    places : frozenset of tuple
        Where anything was dumped at kept places, as compared with the other side, occurrences left out.
    """

    name: str
    refs: tuple[TensorRef, ...]
    ops: tuple[Operator, ...]
    op_of: tuple[int, ...]
    directions: frozenset[str]
    places: frozenset[Key]

    # Operators by their names are made when somebody asks, which nobody does where rules pair all.

    @cached_property
    def labels(self) -> NameIndex:
        """Operators by true name, or by the file's where there is no other."""
        return NameIndex((op.key.label, op.meeting, number) for number, op in enumerate(self.ops))

    @cached_property
    def files(self) -> NameIndex:
        """Operators by the file's name, where a true one is known."""
        truly_named = ((number, op) for number, op in enumerate(self.ops) if op.key.true_name is not None)
        return NameIndex((op.key.name, op.meeting, number) for number, op in truly_named)

    @cached_property
    def mangled(self) -> NameIndex:
        """Operators by the mangled form of both."""
        return NameIndex(
            (spelling, op.meeting, number) for number, op in enumerate(self.ops) for spelling in mangled_names(op.key)
        )

    @cached_property
    def operators_at(self) -> frozenset[Key]:
        """The places of all operators."""
        return frozenset([op.at for op in self.ops])

    def selected(self, op: Operator) -> dict[Port, int]:
        """Return an operator's selected tensors; not to be changed."""
        if self._is_selected:
            return op.tensors
        return {port: ref for port, ref in op.tensors.items() if port[0] in self.directions}

    @cached_property
    def _is_selected(self) -> bool:
        """Whether no tensor is left out for being an input, or an output."""
        return {ref.key.io for ref in self.refs} <= self.directions

    def is_double(self, ref: int) -> bool:
        """Whether another tensor of this side has the same key."""
        key = self.refs[ref].key
        return self.ops[self.op_of[ref]].tensors[key.io, key.slot] != ref

    def namesakes(self, key: OpKey) -> list[int]:
        """Return this side's operators that an operator of the other side could mean, wherever they are."""
        return sorted({number for spelling in mangled_names(key) for number in self.mangled.named(spelling)})

    def resolve(self, address: Address) -> list[int]:
        """Return the operators an address names, in order; at each place the best reading only."""
        best: dict[Key, list[int]] = {}
        for reading in _readings(self, address):
            fresh: dict[Key, list[int]] = {}
            for number in reading:
                place = self.ops[number].at
                if place not in best and number not in fresh.setdefault(place, []):
                    fresh[place].append(number)
            best.update(fresh)
        return sorted(op for ops in best.values() for op in ops)


def mangled_names(key: OpKey) -> Sequence[str]:
    """Return an operator's names as files write them, sorted, each once."""
    if key.true_name is None:
        return (mangle(key.name),)
    return sorted({mangle(key.name), mangle(key.label)})


def _readings(side: Side, address: Address) -> Iterator[list[int]]:
    # A file's own name before the mangled ones. These hold the file's own as well: a person may write `.` where the
    # file has `_`.
    for index, spelling in ((side.labels, str), (side.files, str), (side.mangled, mangle)):
        yield _meant(side, index, spelling(address.op))
        if (typed := address.typed) is not None:
            named = _meant(side, index, spelling(typed.op))
            yield [number for number in named if side.ops[number].key.op_type == typed.op_type]


def _meant(side: Side, index: NameIndex, name: str) -> list[int]:
    """Return the operators of this name, without those that only the mangled form of another file's name leads to.

    Where the graph numbers operators differently, the mangled name that one has in the graph is the name of another
    one's file, which may be lost.
    """
    found = index.named(name)
    if index is not side.mangled:
        return found
    return [number for number in found if not _is_renumbered(key := side.ops[number].key) or mangle(key.name) == name]


def _is_renumbered(key: OpKey) -> bool:
    """Whether the names in the file and in the graph differ in nothing but the operator's number."""
    if key.true_name is None:
        return False
    file, graph = mangle(key.name), mangle(key.true_name)
    return file != graph and file.rstrip("0123456789") == graph.rstrip("0123456789")


def index_side(
    name: str,
    refs: Sequence[TensorRef],
    *,
    directions: frozenset[str],
    meeting: Callable[[Key], Key],
    keeps: Callable[[Key], bool],
) -> Side:
    """Index one side by name.

    Parameters
    ----------
    name : str
        ``"left"`` or ``"right"``.
    refs : sequence of TensorRef
        All tensors of the dump, in execution order.
    directions : frozenset of str
        The selected ones of ``"input"`` and ``"output"``.
    meeting : callable
        Turns a place into the form that is compared with the other side's.
    keeps : callable
        Tells whether a place is selected.

    Returns
    -------
    Side
        Of two tensors with one key the first belongs to the operator.
    """
    numbers: dict[tuple[object, ...], int] = {}
    # Where no name is there twice, each tensor is another operator's.
    is_alone = len({ref.key.op.name for ref in refs}) == len(refs)
    ops: list[Operator] = []
    op_of = []
    places: dict[Key, tuple[Key, Key, bool]] = {}
    # Tensors of one directory share their coordinates, which are looked at once.
    placed: dict[int, tuple[Key, Key, bool]] = {}
    for position, ref in enumerate(refs):
        key = ref.key
        op = key.op
        here = placed.get(id(op.at))
        if here is None:
            place = raw_key(op.at)
            if place not in places:
                places[place] = (place, meeting(place), keeps(place))
            here = placed[id(op.at)] = places[place]
        # The fields of an `OpKey`, whose own hash is made in Python; of equal places there is but one.
        count = len(ops)
        number = count if is_alone else numbers.setdefault((op.name, op.op_type, op.true_name, id(here)), count)
        if number == count:
            ops.append(Operator(op, *here, {(key.io, key.slot): position}))
        else:
            ops[number].tensors.setdefault((key.io, key.slot), position)
        op_of.append(number)
    dumped = frozenset(without_occurrence(place) for _, place, kept in places.values() if kept)
    return Side(name, tuple(refs), tuple(ops), tuple(op_of), directions, dumped)
