"""Pairing by structure: layers of any names that can only be each other's.

Blocks of equal structure are met first, then what is inside of one, once for all (`blocks`); within a region words,
kinds, numbers of elements and order decide (`alike`). No values are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from pytest_msdump.capabilities.structure.evidence import Layer
from pytest_msdump.capabilities.structure.meeting import Meeting, meetings
from pytest_msdump.capabilities.structure.modules import ModuleCandidate, transform_between
from pytest_msdump.capabilities.structure.scopes import Leaving, ScopeRun, dotted
from pytest_msdump.capabilities.structure.words import read_names, shown
from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.matching.coordinates import Place, compatible
from pytest_msdump.core.matching.leaving import runs_of
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.text import Message, say


def pair_by_structure(state: PairingState, request: PairingRequest) -> None:
    """Pair what leaves layers that nothing else can be meant by."""
    sides = (state.left, state.right)
    if request.are_files:
        return
    if any("output" not in side.directions or next(state.unpaired(side), None) is None for side in sides):
        return
    lefts, rights = (runs_of(side, dump) for side, dump in zip(sides, request.dumps, strict=True))
    for at, ours in lefts.items():
        for other, theirs in rights.items():
            if compatible(at, other):
                _Meeting(state, request).meet(ours, theirs, at, other)


class _Meeting:
    """Two runs that meet."""

    def __init__(self, state: PairingState, request: PairingRequest) -> None:
        self._state, self._request = state, request
        self._views: dict[tuple[str, int], Leaving] = {}
        self._found: dict[tuple[int, int], FoundPair] = {}

    def meet(self, left: ScopeRun, right: ScopeRun, at: Place, other: Place) -> None:
        """Add the pairs of two runs."""
        (ours, is_left_ordered), (theirs, is_right_ordered) = (
            self._layers(side, run) for side, run in ((self._state.left, left), (self._state.right, right))
        )
        ours, theirs = _of_step(ours, theirs, other), _of_step(theirs, ours, at)
        for found in meetings(ours, theirs, are_ordered=(is_left_ordered, is_right_ordered)):
            for slot, its in _slots(found.left, found.right):
                self._pair(found.left.tensors[slot], found.right.tensors[its], found)
        for pair in self._found.values():
            self._state.add(pair)
            for side, ref in (("left", pair.left), ("right", pair.right)):
                self._state.withheld.pop((side, ref), None)

    def _layers(self, side: Side, run: ScopeRun) -> tuple[list[Layer], bool]:
        """Return what leaves each module of a run, and whether it is known in which order they ran."""
        paths = list(dict.fromkeys((*run.modules, *run.members)))
        naming = read_names([dotted(path) for path in paths])
        paths = paths if naming.names else []
        has_times = all(side.refs[ref].source.timestamp is not None for op in run.numbers for ref in run.outputs(op))
        found = []
        for number, (path, named, step) in enumerate(zip(paths, naming.names, naming.steps, strict=True)):
            calls = run.calls(path, run.count(path) or 1)
            for leaving in () if isinstance(calls, Message) else calls:
                if not leaving.tensors:
                    continue
                first = min(leaving.tensors)
                sizes = {slot: self._size(side, leaving, ref) for slot, ref in leaving.tensors.items()}
                time = side.refs[leaving.tensors[first]].source.timestamp
                order = (
                    naming.order[number] if naming.order else (time if has_times else None) or leaving.tensors[first]
                )
                self._views[side.name, leaving.tensors[first]] = leaving
                found.append(Layer(named.words, named.role, dict(leaving.tensors), sizes, order, named.parts, step))
        refs = (side.refs[ref] for layer in found for ref in layer.tensors.values())
        is_ordered = bool(naming.order) or has_times or all(ref.place is not None for ref in refs)
        return found, is_ordered

    def _size(self, side: Side, leaving: Leaving, ref: int) -> int | None:
        shape = leaving.shape or self._request.shape_of(side.refs[ref])
        return None if shape is None else prod(shape)

    def _pair(self, left: int, right: int, found: Meeting) -> None:
        state = self._state
        for side, ref in ((state.left, left), (state.right, right)):
            is_ambiguous = (side.name, side.op_of[ref]) in state.ambiguous
            why = state.withheld.get((side.name, ref))
            if is_ambiguous or state.is_paired(side.name, ref) or (why is not None and why.code != "inside_scope"):
                return
        shapes = [
            (view.shape if view else None) or self._request.shape_of(side.refs[ref])
            for side, ref in ((state.left, left), (state.right, right))
            for view in (self._views.get((side.name, ref)),)
        ]
        types = (state.left.op_with(left).key.op_type, state.right.op_with(right).key.op_type)
        is_viewed = bool(VIEW_TYPES.intersection(types))
        candidate = ModuleCandidate(left, right, tuple(map(str, found.left.words)), shapes[0], shapes[1], is_viewed)
        names = {"left": shown(found.left.words), "right": shown(found.right.words)}
        by = say(Message(found.why, {**names}))
        transform = transform_between(candidate, self._request.formats, {})
        if isinstance(transform, Message):
            return
        self._found.setdefault((left, right), FoundPair(left, right, "structure", by, transform))


def _of_step(layers: list[Layer], others: list[Layer], place: Place) -> list[Layer]:
    """Return the layers of one step, where names count steps and the other side has one step at a place."""
    iteration = place[COORDINATES.index("iteration")]
    if len({one.step for one in layers}) < 2 or len({one.step for one in others}) > 1 or iteration is None:
        return layers
    return [replace(one, step=0) for one in layers if one.step == iteration]


def _slots(ours: Layer, theirs: Layer) -> Iterator[tuple[int, int]]:
    """Yield the outputs of two layers that meet: of several against one the first, if the others have other sizes."""
    if ours.tensors.keys() == theirs.tensors.keys():
        yield from ((slot, slot) for slot in ours.tensors if _same(ours.sizes[slot], theirs.sizes[slot]))
    elif 0 in ours.tensors and 0 in theirs.tensors and not (_is_repeated(ours.sizes) or _is_repeated(theirs.sizes)):
        yield 0, 0


def _same(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _is_repeated(sizes: Mapping[int, int | None]) -> bool:
    return any(size == sizes[0] for slot, size in sizes.items() if slot)
