"""Pairing by structure: modules of one path, of which the tensor that leaves them is compared (`matching.scopes`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import NamedTuple

from pytest_msdump.capabilities.structure.scopes import Leaving, Path, ScopeRun, Shape, dotted, spelling_of
from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.matching.coordinates import compatible
from pytest_msdump.core.matching.kinds import kind_of
from pytest_msdump.core.matching.leaving import runs_of
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.model.tensor import Transform, refines
from pytest_msdump.core.text import Message, Parameter, say

Axes = tuple[int, ...]


class ModuleCandidate(NamedTuple):
    """A left and a right tensor that leave modules of one path, and their shapes as far as they are known."""

    left: int
    right: int
    path: Path
    left_shape: Shape | None
    right_shape: Shape | None
    is_viewed: bool


def pair_by_scope(state: PairingState, request: PairingRequest) -> None:
    """Pair what leaves modules of one path, where calls, slots and shapes agree and nothing else may be meant."""
    sides = (state.left, state.right)
    if any("output" not in side.directions or next(state.unpaired(side), None) is None for side in sides):
        return
    found = _Found(state, request, "scope")
    left_dump, right_dump = request.dumps
    lefts, rights = runs_of(state.left, left_dump), runs_of(state.right, right_dump)
    for at, ours in lefts.items():
        for other, theirs in rights.items():
            if compatible(at, other):
                found.meet_all(ours.read_with(theirs), theirs.read_with(ours))
    found.add()


def _meetings(
    left: ScopeRun, right: ScopeRun, lefts: frozenset[Path], rights: frozenset[Path]
) -> Iterator[tuple[Path, Path]]:
    """Yield paths of one module among these: the same ones, then one name in two spellings that is no other's."""
    same = lefts & rights
    yield from ((path, path) for path in sorted(same))
    for path in sorted(lefts - same):
        ours, theirs = left.by_key[spelling_of(path)], right.by_key.get(spelling_of(path), [])
        if len(ours) == len(theirs) == 1 and theirs[0] in rights:
            yield path, theirs[0]


class _Folded(NamedTuple):
    """A recorded normalisation that the other side's convolution, at the path `inner`, has as a part."""

    norm: Path
    convolution: Path
    inner: Path


def _folded_norms(modules: ScopeRun, nodes: ScopeRun) -> Iterator[_Folded]:
    """Yield the recorded normalisations that the other side has as a part of the convolution before."""
    if nodes.style != "nodes" or not nodes.members:
        return
    digests = frozenset(nodes.weights.values())
    has_norms = any(kind_of(step.op_type) == "batch norm" for step in nodes.steps)
    for path in list(modules.modules):
        fed = modules.before(path) if modules.kind(path) == "batch norm" else None
        if fed is None or modules.kind(fed) not in ("convolution", "linear") or nodes.by_key.get(spelling_of(path)):
            continue
        weight = modules.weights.get(".".join((*fed, "weight")))
        is_unchanged = weight in digests if weight is not None and digests else has_norms
        if len(convolutions := nodes.by_key.get(spelling_of(fed), [])) == 1 and not is_unchanged:
            yield _Folded(path, fed, convolutions[0])


class Candidates:
    """Pairs that `how` has found, until all are known; and why other tensors are in none."""

    def __init__(self, state: PairingState, request: PairingRequest, how: str) -> None:
        self._state = state
        self._request = request
        self._how = how
        self._candidates: dict[tuple[int, int], ModuleCandidate] = {}
        self._reasons: dict[tuple[str, int], Message] = {}

    def take(self, path: Path, ours: Leaving, theirs: Leaving) -> None:
        """Take what leaves two modules as candidates, slot by slot."""
        state, shape_of = self._state, self._request.shape_of
        for slot, left in ours.tensors.items():
            right = theirs.tensors.get(slot)
            if right is not None and self._is_open(state.left, left) and self._is_open(state.right, right):
                shapes = (
                    ours.shape or shape_of(state.left.refs[left]),
                    theirs.shape or shape_of(state.right.refs[right]),
                )
                # MindSpore on CPU writes what views put out with the shape of their input.
                types = (state.left.op_with(left).key.op_type, state.right.op_with(right).key.op_type)
                is_viewed = bool(ours.shape or theirs.shape or VIEW_TYPES.intersection(types))
                self._candidates.setdefault((left, right), ModuleCandidate(left, right, path, *shapes, is_viewed))

    def _is_open(self, side: Side, ref: int) -> bool:
        # A graph distinguishes namesakes.
        is_ambiguous = self._how == "scope" and (side.name, side.op_of[ref]) in self._state.ambiguous
        return not is_ambiguous and not self._state.is_decided(side.name, ref)

    def add(self) -> None:
        """Add the candidates whose shapes agree up to layout and axes of length 1, and reasons for the rest."""
        state, moved = self._state, self._moved
        for one in self._candidates.values():
            transform = transform_between(one, self._request.formats, moved)
            if isinstance(transform, Message):
                for side, ref in (("left", one.left), ("right", one.right)):
                    self._reasons.setdefault((side, ref), transform)
                continue
            by = dotted(one.path) if self._how == "scope" else say(Message("same_graph"))
            state.add(FoundPair(one.left, one.right, self._how, by, transform))
        for (name, ref), why in self._reasons.items():
            if self._is_open(state.left if name == "left" else state.right, ref):
                state.withheld[name, ref] = why

    @cached_property
    def _moved(self) -> Mapping[int, set[Axes | None]]:
        """By number of axes, the orders that are the only ones to fit some pair."""
        moved: defaultdict[int, set[Axes | None]] = defaultdict(set)
        for one in self._candidates.values():
            if one.left_shape is not None and one.right_shape is not None:
                fitting = _orders(one.left_shape, one.right_shape)
                if len(fitting) == 1:
                    moved[len(one.left_shape)].add(fitting[0])
        return moved


class _Found(Candidates):
    """What is found while modules meet."""

    def meet_all(self, left: ScopeRun, right: ScopeRun) -> None:
        """Let every module of two runs meet the one of its path, normalisations those that they were folded into."""
        taken: dict[str, set[Path]] = {"left": set(), "right": set()}
        for one in _folded_norms(right, left):
            self.meet(left, one.inner, right, one.norm)
            self._leave_out("right", right, one)
            taken["left"].add(one.inner)
            taken["right"].update((one.norm, one.convolution))
        for one in _folded_norms(left, right):
            self.meet(left, one.norm, right, one.inner)
            self._leave_out("left", left, one)
            taken["left"].update((one.norm, one.convolution))
            taken["right"].add(one.inner)
        self.meet_weights(left, right)
        for ours, theirs in _meetings(left, right, left.clear - taken["left"], right.clear - taken["right"]):
            self.meet(left, ours, right, theirs)

    def _leave_out(self, side: str, modules: ScopeRun, one: _Folded) -> None:
        """Say that a convolution's own output does not exist on the other side."""
        why = Message("norm_folded", {"side": "left" if side == "right" else "right"})
        self._reasons |= {(side, ref): why for op in modules.modules[one.convolution] for ref in modules.outputs(op)}

    def meet_weights(self, left: ScopeRun, right: ScopeRun) -> None:
        """Take weights, gradients and an optimizer's state as candidates, of the names that both sides' mean."""
        for name in left.states.keys() & right.states.keys():
            called = (self._state.right.op_with(right.states[name]).key.label,)
            self.take(called, Leaving({0: left.states[name]}), Leaving({0: right.states[name]}))

    def meet(self, left: ScopeRun, left_path: Path, right: ScopeRun, right_path: Path) -> None:
        """Take what leaves one module as candidates, or say why it cannot be paired."""
        both = (left, left_path), (right, right_path)
        count = left.count(left_path) or right.count(right_path) or 1
        found = [run.calls(path, count) for run, path in both]
        why = next((one for one in found if isinstance(one, Message)), None)
        calls = [one if not isinstance(one, Message) else [] for one in found]
        if why is None and all(calls):
            why = self._difference(both, *calls)
        for side, run, path, leaving in zip(
            ("left", "right"), (left, right), (left_path, right_path), calls, strict=True
        ):
            own = {ref for call in leaving for ref in call.tensors.values()}
            if why is not None:
                self._reasons |= {(side, ref): why for ref in own if (side, ref) not in self._reasons}
            elif path and all(calls):
                inside = Message("inside_scope")
                self._reasons |= {(side, ref): inside for ref in run.inner(path) if ref not in own}
        if why is None and all(calls):
            for one, other in zip(*calls, strict=True):
                self.take(left_path, one, other)

    @staticmethod
    def _difference(
        both: Iterable[tuple[ScopeRun, Path]], ours: Sequence[Leaving], theirs: Sequence[Leaving]
    ) -> Message | None:
        (left, path), (right, right_path) = both
        kinds = left.kind(path), right.kind(right_path)
        kinds = kinds if path == right_path or spelling_of(path) == spelling_of(right_path) else ("", "")
        scope: dict[str, Parameter] = {"scope": dotted(path)}
        if kinds[0] != kinds[1] and all(kinds) and "passing" not in kinds:
            return Message("scope_kinds_differ", {**scope, "ours": kinds[0], "theirs": kinds[1]})
        if len(ours) != len(theirs):
            return Message("scope_calls_differ", {**scope, "ours": len(ours), "theirs": len(theirs)})
        if any(one.tensors.keys() != other.tensors.keys() for one, other in zip(ours, theirs, strict=True)):
            return Message("scope_slots_differ", scope)
        return None


# Axes of the right side that bring it to the left one's order, by number of axes: channels to the front, to the end.
_LAYOUTS: Mapping[int, tuple[Axes, ...]] = {4: ((0, 3, 1, 2), (0, 2, 3, 1)), 5: ((0, 4, 1, 2, 3), (0, 2, 3, 4, 1))}


def _orders(left: Shape, right: Shape) -> list[Axes | None]:
    """Return the orders of the right side's axes, ``None`` for its own, in which it has the left one's shape."""
    found: list[Axes | None] = [None] if left == right else []
    if len(left) == len(right):
        found += [axes for axes in _LAYOUTS.get(len(left), ()) if tuple(right[axis] for axis in axes) == left]
    return found


def transform_between(
    one: ModuleCandidate, formats: Transform, moved: Mapping[int, set[Axes | None]]
) -> Transform | Message:
    """Return how the right tensor of a candidate is brought to the left one's shape, or why it cannot be."""
    left, right = one.left_shape, one.right_shape
    if left is None or right is None:
        return replace(formats, reshape=one.is_viewed)
    shapes: dict[str, Parameter] = {"scope": dotted(one.path), "left": left, "right": right}
    if formats.left_format != formats.right_format and len(left) == len(right) == len("NCHW"):
        left, right = (
            _in_order(shape, name or "NCHW")
            for shape, name in ((left, formats.left_format), (right, formats.right_format))
        )
        fitting: list[Axes | None] = [None] if left == right else []
    elif formats.left_format or formats.right_format:
        fitting = [None] if left == right else []
    else:
        fitting = _orders(left, right)
    if len(fitting) > 1 and moved.get(len(left)):
        fitting = [axes for axes in fitting if axes in moved[len(left)]]
    elif None in fitting:
        fitting = [None]
    if len(fitting) == 1:
        axes = fitting[0]
        return replace(formats, reshape=one.is_viewed) if axes is None else replace(formats, transpose=axes)
    if not fitting and (refines(left, right) or (one.is_viewed and prod(left) == prod(right))):
        return replace(formats, reshape=True)
    return Message("scope_layout_unknown" if fitting else "scope_shapes_differ", shapes)


def _in_order(shape: Shape, letters: str) -> Shape:
    """Return a 4-D shape in the order of NCHW."""
    return tuple(shape[letters.upper().index(axis)] for axis in "NCHW")
