"""One side of a comparison as an index: its operators by every spelling of their names and by their places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pytest_msdump.core.matching.coordinates import Place, PlaceIndex, place_of, without_occurrence
from pytest_msdump.core.matching.kinds import is_weight, kind_of
from pytest_msdump.core.matching.selection import Address
from pytest_msdump.core.model.dump import Dump, OperatorGraph
from pytest_msdump.core.model.spellings import as_filed
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, OpKey, TensorRef, mangle

# (io, slot) of a tensor within its operator.
Port = tuple[str, int]


class SideOperator(NamedTuple):
    """An operator at one place of a run."""

    key: OpKey
    at: Place
    common: Place
    kept: bool
    tensors: dict[Port, int]


class NameIndex:
    """Operators by a spelling of their name and by place, from (spelling, place, operator), each given once."""

    def __init__(self, spelled: Iterable[tuple[str, Place, int]]) -> None:
        # Nearly all spellings are one operator's at one place: a list for each would take more memory than all else.
        self._first: defaultdict[Place, dict[str, int]] = defaultdict(dict)
        self._further: defaultdict[tuple[Place, str], list[int]] = defaultdict(list)
        for spelling, place, op in spelled:
            if self._first[place].setdefault(spelling, op) != op:
                self._further[place, spelling].append(op)
        self._places = PlaceIndex(self._first)

    def find(self, spelling: str, place: Place) -> list[int]:
        """Return the operators of that spelling at places compatible with this one."""
        return [op for other in self._places.compatible(place) for op in self._at(other, spelling)]

    def find_everywhere(self, spelling: str) -> list[int]:
        """Return the operators of that spelling."""
        return [op for place in self._places_of.get(spelling, ()) for op in self._at(place, spelling)]

    def _at(self, place: Place, spelling: str) -> Sequence[int]:
        first = self._first[place].get(spelling)
        return () if first is None else (first, *self._further.get((place, spelling), ()))

    @cached_property
    def _places_of(self) -> Mapping[str, Sequence[Place]]:
        found: defaultdict[str, list[Place]] = defaultdict(list)
        for place, ops in self._first.items():
            for spelling in ops:
                found[spelling].append(place)
        return found


@dataclass(frozen=True)
class Side:
    """One dump's tensors and operators."""

    name: str
    refs: tuple[TensorRef, ...]
    ops: tuple[SideOperator, ...]
    op_of: tuple[int, ...]
    directions: frozenset[str]
    places: frozenset[Place]

    @cached_property
    def _containers(self) -> frozenset[str]:
        """Names of modules that others are inside of, by their names."""
        labels = {op.key.label for op in self.ops if not is_weight(op.key)}
        return frozenset(label[:at] for label in labels for at, sign in enumerate(label) if sign == ".")

    def kind(self, number: int) -> str:
        """Return its kind of operator (`matching.kinds`), ``"container"``, or nothing where that is not known."""
        key = self.ops[number].key
        return "container" if key.label in self._containers else kind_of(key.op_type)

    @cached_property
    def labels(self) -> NameIndex:
        """Operators by true name, or by the file's where there is no other."""
        return NameIndex((op.key.label, op.common, number) for number, op in enumerate(self.ops))

    @cached_property
    def files(self) -> NameIndex:
        """Operators by the file's name, where a true one is known."""
        return NameIndex(
            (op.key.name, op.common, number) for number, op in enumerate(self.ops) if op.key.true_name is not None
        )

    @cached_property
    def mangled(self) -> NameIndex:
        """Operators by the mangled form of both."""
        return NameIndex(
            (spelling, op.common, number) for number, op in enumerate(self.ops) for spelling in mangled_names(op.key)
        )

    @cached_property
    def _place_index(self) -> PlaceIndex:
        return PlaceIndex(self.places)

    @cached_property
    def is_at_one_place(self) -> bool:
        """Whether all operators have the same coordinates, so that no tensor of the other side has two partners."""
        return len({op.at for op in self.ops}) == 1

    def op_with(self, ref: int) -> SideOperator:
        """Return the operator of a tensor."""
        return self.ops[self.op_of[ref]]

    def selected(self, op: SideOperator) -> dict[Port, int]:
        """Return an operator's tensors in the selected directions; not to be changed."""
        if self._is_all_selected:
            return op.tensors
        return {port: ref for port, ref in op.tensors.items() if port[0] in self.directions}

    def outputs(self, op: int) -> dict[int, int]:
        """Return the outputs of an operator, by slot."""
        return {slot: ref for (io, slot), ref in sorted(self.ops[op].tensors.items()) if io == "output"}

    @cached_property
    def _is_all_selected(self) -> bool:
        return {ref.key.io for ref in self.refs} <= self.directions

    def dumped_at(self, place: Place) -> bool:
        """Whether anything was dumped, and kept, at a place in common coordinates, in any occurrence."""
        return bool(self._place_index.compatible(without_occurrence(place)))

    def is_double(self, ref: int) -> bool:
        """Whether another tensor of this side has the same key."""
        key = self.refs[ref].key
        return self.op_with(ref).tensors[key.io, key.slot] != ref

    def namesakes(self, key: OpKey) -> list[int]:
        """Return this side's operators that an operator of the other side could mean, at any place."""
        return sorted({op for spelling in mangled_names(key) for op in self.mangled.find_everywhere(spelling)})

    def resolve(self, address: Address) -> list[int]:
        """Return the operators that an address names, in order; at each place those of the best reading only."""
        best: dict[Place, set[int]] = {}
        for reading in self._readings(address):
            fresh: defaultdict[Place, set[int]] = defaultdict(set)
            for number in reading:
                if self.ops[number].at not in best:
                    fresh[self.ops[number].at].add(number)
            best.update(fresh)
        return sorted(op for ops in best.values() for op in ops)

    def _readings(self, address: Address) -> Iterator[list[int]]:
        """Yield what an address may mean, best first: true names, file names, mangled ones (people write `.`)."""
        for reading in (address, *([] if address.numbered is None else [address.numbered])):
            for index, spelling in ((self.labels, str), (self.files, str), (self.mangled, as_filed)):
                yield self._calls(reading, self._named(index, spelling(reading.op)))
                if (typed := reading.typed) is not None:
                    named = self._calls(reading, self._named(index, spelling(typed.op)))
                    yield [number for number in named if self.ops[number].key.op_type == typed.op_type]

    def _calls(self, address: Address, numbers: list[int]) -> list[int]:
        """Return the operators of the occurrence that an address names, if it names one."""
        wanted = address.occurrence
        return [number for number in numbers if wanted is None or (self.ops[number].key.at.occurrence or 0) == wanted]

    def _named(self, index: NameIndex, name: str) -> list[int]:
        """Return the operators of this name, without those that only the mangled form of another file's name leads to.

        Where the graph numbers operators differently, the mangled name that one has in the graph is the name of
        another one's file, which may be lost.
        """
        found = index.find_everywhere(name)
        if index is not self.mangled:
            return found
        keys = ((number, self.ops[number].key) for number in found)
        return [number for number, key in keys if not _is_renumbered(key) or mangle(key.name) == name]


def mangled_names(key: OpKey) -> Sequence[str]:
    """Return an operator's names as files write them, sorted, each once."""
    return sorted({mangle(key.name), mangle(key.label)})


def _is_renumbered(key: OpKey) -> bool:
    """Whether the names in the file and in the graph differ in nothing but the operator's number."""
    file, graph = mangle(key.name), mangle(key.label)
    return file != graph and file.rstrip("0123456789") == graph.rstrip("0123456789")


def index_side(
    name: str,
    refs: Sequence[TensorRef],
    *,
    directions: frozenset[str],
    common: Callable[[Place], Place],
    keeps: Callable[[Place], bool],
) -> Side:
    """Index the tensors of one dump, in execution order; of two tensors with one key the first is the operator's."""
    numbers: dict[OpKey, int] = {}
    placed: dict[Coordinates, tuple[Place, Place, bool]] = {}
    ops: list[SideOperator] = []
    op_of = []
    for position, ref in enumerate(refs):
        op, port = ref.key.op, (ref.key.io, ref.key.slot)
        number = numbers.setdefault(op, len(ops))
        if number == len(ops):
            if op.at not in placed:
                at = place_of(op.at)
                placed[op.at] = (at, common(at), keeps(at))
            ops.append(SideOperator(op, *placed[op.at], {}))
        ops[number].tensors.setdefault(port, position)
        op_of.append(number)
    places = frozenset(without_occurrence(place) for _, place, kept in placed.values() if kept)
    return Side(name, tuple(refs), tuple(ops), tuple(op_of), directions, places)


def graph_at(dump: Dump, at: Coordinates) -> OperatorGraph | None:
    """Return the one graph of the run at a place; ``None`` where there are several or none."""
    fitting = [
        graph
        for where, graph in dump.graphs
        if graph.is_final
        and all(
            getattr(where, name) in (None, getattr(at, name)) or getattr(at, name) is None
            for name in COORDINATES
            if name != "occurrence"
        )
    ]
    return fitting[0] if len(fitting) == 1 else None
