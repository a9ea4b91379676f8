"""Pairing by structure: layers of any names that can only be each other's.

Blocks of equal structure are met first, then what is inside of one, once for all (`blocks`); within a region words,
kinds, numbers of elements and order decide (`alike`). No values are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

from pytest_msdump.capabilities.structure.addresses import runs_of
from pytest_msdump.capabilities.structure.by_graph import pair_by_graph
from pytest_msdump.capabilities.structure.by_path import pair_by_path
from pytest_msdump.capabilities.structure.candidates import Candidates
from pytest_msdump.capabilities.structure.evidence import Layer
from pytest_msdump.capabilities.structure.joined import joined_pairs
from pytest_msdump.capabilities.structure.meeting import Meeting, meetings
from pytest_msdump.capabilities.structure.nodes import is_of_nodes, modules_of_nodes, without_rounding
from pytest_msdump.capabilities.structure.scopes import Path, ScopeRun, dotted
from pytest_msdump.capabilities.structure.words import read_names, shown, words_in_names
from pytest_msdump.capabilities.structure.written import written_order
from pytest_msdump.core.matching.coordinates import Place, compatible
from pytest_msdump.core.matching.kinds import WeightName, is_weight, spelling_of_name, weight_name
from pytest_msdump.core.matching.leaving import Leaving
from pytest_msdump.core.matching.pairing_state import PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.matching.transforms import Shape
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.text import Message, say

# What may stand behind all names.
_OUTPUT = "_output"
# What stands between the parts of a name.
_LINKS = re.compile(r"[./]")


def pair_by_structure(state: PairingState, request: PairingRequest) -> None:
    """Pair what leaves layers that nothing else can be meant by: of one path, of one place in graphs, then others."""
    sides = (state.left, state.right)
    if request.are_files:
        return
    if any("output" not in side.directions or next(state.unpaired(side), None) is None for side in sides):
        return
    lefts, rights = (runs_of(side, dump) for side, dump in zip(sides, request.dumps, strict=True))
    met = [(at, other) for at in lefts for other in rights if compatible(at, other)]
    runs = [(lefts[at], rights[other]) for at, other in met]
    pair_by_path(state, request, runs)
    pair_by_graph(state, request, runs)
    for at, other in met:
        _Meeting(state, request).meet(lefts[at], rights[other], at, other)


class _Meeting:
    """Two runs that meet."""

    def __init__(self, state: PairingState, request: PairingRequest) -> None:
        self._state, self._request = state, request
        # A tensor inside of a module of one name may be all that is known of it on the other side.
        self._candidates = Candidates(state, request, reopened="inside_scope")
        # Of tensors behind views, as far as graphs say it.
        self._shapes: dict[tuple[str, int], Shape] = {}
        # What modules are called, by the tensor that leaves them.
        self._names: dict[tuple[str, int], str] = {}

    def meet(self, left: ScopeRun, right: ScopeRun, at: Place, other: Place) -> None:
        """Add the pairs of two runs."""
        (ours, is_left_ordered), (theirs, is_right_ordered) = (
            self._layers(side, run, other)
            for side, run, other in ((self._state.left, left, right), (self._state.right, right, left))
        )
        ours, theirs = _of_step(ours, theirs, other), _of_step(theirs, ours, at)
        met = meetings(ours, theirs, are_ordered=(is_left_ordered, is_right_ordered))
        for found in met:
            self._take(found)
        self._candidates.add()
        for found in met:
            self._take_weights(found)
        self._candidates.add()
        for pair in list(joined_pairs(self._state, self._request, ours, theirs)):
            self._state.add(pair)
            for side, ref in (("left", pair.left), ("right", pair.right)):
                self._state.withheld.pop((side, ref), None)

    def _layers(self, side: Side, run: ScopeRun, other: ScopeRun) -> tuple[list[Layer], bool]:
        """Return what leaves each module of a run, and whether it is known in which order they ran."""
        written = {path: dotted(path) for path in dict.fromkeys((*run.modules, *run.members))}
        if all(name.endswith(_OUTPUT) for name in written.values()):
            written = {path: name.removesuffix(_OUTPUT) for path, name in written.items()}
        names = without_rounding(written)
        paths = [*names]
        # Beside what was dequantised there are weights.
        dequantised = [name for path, name in names.items() if name != written[path]]
        if is_of_nodes(dequantised or [*names.values()]):
            others = words_in_names([*map(dotted, (*other.modules, *other.members))])
            left = modules_of_nodes(
                {names[path]: self._time(side, run, path) for path in paths},
                has_norms=any("norm" in words for words in others),
            )
            names = {path: left[name] for path, name in names.items() if name in left}
            paths = [*names]
        naming = read_names([*names.values()])
        paths = paths if naming.names else []
        has_times = all(
            side.refs[ref].source.timestamp is not None for op in run.numbers for ref in side.outputs(op).values()
        )
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
                self._names[side.name, leaving.tensors[first]] = names[path]
                if leaving.shape is not None:
                    self._shapes[side.name, leaving.tensors[first]] = leaving.shape
                found.append(Layer(named.words, named.role, dict(leaving.tensors), sizes, order, named.parts, step))
        refs = [side.refs[ref] for layer in found for ref in layer.tensors.values()]
        is_ordered = bool(naming.order) or has_times or all(ref.place is not None for ref in refs)
        if not is_ordered:
            firsts = [side.refs[layer.tensors[min(layer.tensors)]].source for layer in found]
            places = written_order(firsts, [() if layer.role else layer.parts for layer in found])
            if places is not None:
                return [replace(layer, order=place) for layer, place in zip(found, places, strict=True)], True
        return found, is_ordered

    def _time(self, side: Side, run: ScopeRun, path: Path) -> int | None:
        """Return when a path gave out its first tensor."""
        calls = run.calls(path, run.count(path) or 1)
        refs = [ref for one in (() if isinstance(calls, Message) else calls) for ref in one.tensors.values()]
        times = [time for ref in refs if (time := side.refs[ref].source.timestamp) is not None]
        return min(times, default=None)

    def _size(self, side: Side, leaving: Leaving, ref: int) -> int | None:
        shape = leaving.shape or self._request.shape_of(side.refs[ref])
        return None if shape is None else prod(shape)

    def _take(self, found: Meeting) -> None:
        by = say(Message(found.why, {"left": shown(found.left.words), "right": shown(found.right.words)}))
        for slot in _slots(found.left, found.right):
            left, right = (
                Leaving({slot: layer.tensors[slot]}, self._shapes.get((name, layer.tensors[slot])))
                for name, layer in (("left", found.left), ("right", found.right))
            )
            self._candidates.take(left, right, by)

    def _take_weights(self, found: Meeting) -> None:
        """Take the weights of two modules that meet, by what they are called behind the modules' names."""
        names = [self._names.get((side, layer.tensors[0])) if 0 in layer.tensors else None
                 for side, layer in (("left", found.left), ("right", found.right))]  # fmt: skip
        if None in names or "" in names:
            return
        ours, theirs = (spelling_of_name(_LINKS.sub("_", name or "")) for name in names)
        for weight, refs in self._weights[0].items():
            partner = weight._replace(weight=theirs + weight.weight.removeprefix(ours))
            if weight.weight.startswith(ours) and weight.weight != ours and len(refs) == 1:
                others = self._weights[1].get(partner, [])
                if len(others) == 1:
                    by = say(Message("structure_module", {"left": names[0] or "", "right": names[1] or ""}))
                    self._candidates.take(Leaving({0: refs[0]}, None), Leaving({0: others[0]}, None), by)

    @cached_property
    def _weights(self) -> Sequence[Mapping[WeightName, list[int]]]:
        found: list[dict[WeightName, list[int]]] = []
        for side in (self._state.left, self._state.right):
            known: dict[WeightName, list[int]] = {}
            for number, op in enumerate(side.ops):
                name = weight_name(op.key.label)
                if name is not None and is_weight(op.key):
                    known.setdefault(name, []).extend(side.outputs(number).values())
            found.append(known)
        return found


def _of_step(layers: list[Layer], others: list[Layer], place: Place) -> list[Layer]:
    """Return the layers of one step, where names count steps and the other side has one step at a place."""
    iteration = place[COORDINATES.index("iteration")]
    if len({one.step for one in layers}) < 2 or len({one.step for one in others}) > 1 or iteration is None:
        return layers
    return [replace(one, step=0) for one in layers if one.step == iteration]


def _slots(ours: Layer, theirs: Layer) -> Iterator[int]:
    """Yield the outputs of two layers that meet: of several against one the first, if the others have other sizes."""
    if ours.tensors.keys() == theirs.tensors.keys():
        yield from (slot for slot in ours.tensors if _same(ours.sizes[slot], theirs.sizes[slot]))
    elif 0 in ours.tensors and 0 in theirs.tensors and not (_is_repeated(ours.sizes) or _is_repeated(theirs.sizes)):
        yield 0


def _same(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _is_repeated(sizes: Mapping[int, int | None]) -> bool:
    return any(size == sizes[0] for slot, size in sizes.items() if slot)
