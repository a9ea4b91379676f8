"""The model's own outputs: of the graph, or of the outermost module. They pair by position, after all other ways.

Both sides must have equally many, of equal logical shapes, and either all shapes differ or names do not contradict.
What was not compared of the right's is told, and fails (INTERFACE 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_msdump.capabilities.structure.addresses import runs_of
from pytest_msdump.capabilities.structure.scopes import ScopeRun, spelling_of
from pytest_msdump.core.matching.coordinates import compatible
from pytest_msdump.core.matching.pairing_state import FoundPair, Outputs, PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.matching.transforms import transform_between
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import STRUCTURE, Transform
from pytest_msdump.core.text import Message, say

_MAPPED = "mapped"


class _Output(NamedTuple):
    """One output: its name, empty where it has none, and its tensors by occurrence, as positions in `Side.refs`."""

    name: str
    refs: tuple[int, ...]


class _Outputs(NamedTuple):
    """All outputs of a model. Without `in_order` their order is not known, without `is_all` there may be more."""

    each: tuple[_Output, ...]
    in_order: bool = True
    is_all: bool = True


class _Match(NamedTuple):
    """A left and a right output that belong together, and how the right one is brought to the left one's shape."""

    left: _Output
    right: _Output
    transform: Transform


def pair_outputs(state: PairingState, request: PairingRequest, *, pairs: bool) -> Outputs:
    """Pair the model's own outputs that are not compared yet; return those of the right that stay so."""
    if any("output" not in side.directions for side in (state.left, state.right)):
        return Outputs()
    lost: Sequence[tuple[str, int]] = ()
    are_known = all(map(_may_say, request.dumps))
    if are_known and next(state.unpaired(state.right), None) is not None:
        lost = _pair_known(state, request, pairs=pairs)
    goes_on = pairs and not _may_say(request.dumps[1]) and request.dumps[0].compiled_graphs
    return Outputs(lost, tuple(_going_on(state, request)) if goes_on else ())


def _pair_known(state: PairingState, request: PairingRequest, *, pairs: bool) -> Sequence[tuple[str, int]]:
    lost: dict[int, str] = {}
    left_dump, right_dump = request.dumps
    lefts, rights = runs_of(state.left, left_dump), runs_of(state.right, right_dump)
    for at, theirs in rights.items():
        right = _outputs_of(state.right, right_dump, theirs)
        if right is None:
            continue
        for other, ours in lefts.items():
            left = _outputs_of(state.left, left_dump, ours) if compatible(at, other) else None
            if left is None:
                continue
            matches = _matches(state, request, left, right)
            if pairs and not isinstance(matches, Message):
                _pair(state, matches)
            if right.in_order and left.is_all:
                lost |= _lost(state, right, matches)
    return [(name, ref) for ref, name in lost.items() if not state.is_paired("right", ref)]


def _going_on(state: PairingState, request: PairingRequest) -> Iterator[str]:
    """Yield what to say where the left's model computes more from the last that a right without a graph has."""
    partners = {pair.left: state.right.refs[pair.right].key.op.label for pair in state.pairs}
    for run in runs_of(state.left, request.dumps[0]).values():
        for name, refs, sources in run.ends():
            compared = [partners[ref] for ref in sources if ref in partners]
            if compared and not any(ref in partners for ref in refs):
                yield say(Message("goes_on", {"name": name, "after": compared[0]}))


def _may_say(dump: Dump) -> bool:
    manifests = filter(None, (dump.manifest, *dump.ranks.values()))
    return bool(dump.graphs) or any(one.outputs for one in manifests)


def _outputs_of(side: Side, dump: Dump, run: ScopeRun) -> _Outputs | None:
    """Return the outputs of a model: as its recorder says, of its outermost module, or else what nothing takes."""
    manifest = dump.manifest_of(side.ops[run.numbers[0]].key.at.rank)
    if manifest is not None and manifest.outputs:
        by_port: dict[tuple[str, int], list[int]] = {}
        for number in run.numbers:
            for (io, slot), ref in side.ops[number].tensors.items():
                if io == "output":
                    by_port.setdefault((side.ops[number].key.label, slot), []).append(ref)
        return _Outputs(tuple(_Output(one.name, tuple(by_port.get(one[1:], ()))) for one in manifest.outputs))
    if run.graph is None:
        return None
    if run.graph.is_recorded and run.style == "modules":
        return _of_root(side, run)
    found = tuple(_Output("", refs) for refs in run.untaken())
    return _Outputs(found, in_order=False, is_all=run.graph.is_recorded) if found else None


def _of_root(side: Side, run: ScopeRun) -> _Outputs | None:
    """Return what the outermost recorded module gave back; ``None`` where none is around the others."""
    calls = run.graph.operators if run.graph else ()
    inner = {call.inside for call in calls}
    roots = {call.name for call in calls if not call.inside and (call.name in inner or len(calls) == 1)}
    if len(roots) != 1:
        return None
    (root,) = roots
    slots: dict[int, list[int]] = {}
    for number in run.numbers:
        if side.ops[number].key.label == root:
            for (io, slot), ref in sorted(side.ops[number].tensors.items()):
                if io == "output":
                    slots.setdefault(slot, []).append(ref)
    return _Outputs(tuple(_Output("", tuple(refs)) for _, refs in sorted(slots.items()))) if slots else None


def _matches(state: PairingState, request: PairingRequest, left: _Outputs, right: _Outputs) -> list[_Match] | Message:
    """Return which outputs belong together, or why that is not known."""
    ours, theirs = left.each, right.each
    if len(ours) != len(theirs):
        return Message("outputs_of_other_number", {"ours": len(ours), "theirs": len(theirs)})
    shapes = [
        [request.shape_of(side.refs[one.refs[0]]) if one.refs else None for one in of]
        for side, of in ((state.left, ours), (state.right, theirs))
    ]
    are_apart = all(None not in of and len({*of}) == len(of) for of in shapes)
    if not (left.in_order and right.in_order):
        # Of two sides that are not sure what their outputs are, shapes prove nothing.
        if not are_apart or {*shapes[0]} != {*shapes[1]} or not (left.in_order or right.in_order):
            return Message("outputs_without_order")
        theirs = tuple(theirs[shapes[1].index(shape)] for shape in shapes[0])
        shapes[1] = shapes[0]
    elif not are_apart and (names := _contradiction(state, ours, theirs)):
        return Message("outputs_of_other_names", {"ours": names[0], "theirs": names[1]})
    found: list[_Match] = []
    for one, other, own, its in zip(ours, theirs, *shapes, strict=True):
        transform = transform_between((own, its), request.formats)
        if isinstance(transform, Message):
            return Message("outputs_of_other_shapes", {"left": own or (), "right": its or ()})
        found.append(_Match(one, other, transform))
    return found


def _contradiction(state: PairingState, ours: Sequence[_Output], theirs: Sequence[_Output]) -> tuple[str, str] | None:
    """Return two names at one position of which one is at another position of the other side, too."""
    names = [[spelling_of((one.name,)) for one in of] for of in (ours, theirs)]
    for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        left, right = names[0][place], names[1][place]
        if left != right and ((one.name and left in names[1]) or (other.name and right in names[0])):
            return one.name or "?", other.name or "?"
    # An output that was paired otherwise with another one of the right's says the same.
    ours_at, theirs_at = ({ref: place for place, one in enumerate(of) for ref in one.refs} for of in (ours, theirs))
    for pair in state.pairs:
        if pair.left in ours_at and pair.right in theirs_at and ours_at[pair.left] != theirs_at[pair.right]:
            return state.left.refs[pair.left].key.address, state.right.refs[pair.right].key.address
    return None


def _pair(state: PairingState, matches: Sequence[_Match]) -> None:
    """Add the pairs of outputs that are not compared yet. A left output may have met a module inside, too."""
    mapped = {pair.left for pair in state.pairs if pair.how == _MAPPED}
    for one, other, transform in matches:
        for ours, theirs in zip(one.refs, other.refs, strict=False):
            if not state.is_paired("right", theirs) and ours not in mapped:
                state.add(FoundPair(ours, theirs, STRUCTURE, say(Message("own_outputs")), transform))


def _lost(state: PairingState, right: _Outputs, matches: list[_Match] | Message) -> Iterator[tuple[int, str]]:
    """Yield outputs of the right that are not compared; not those whose partner a map entry pairs otherwise."""
    mapped = {pair.left for pair in state.pairs if pair.how == _MAPPED}
    chosen = (
        () if isinstance(matches, Message) else [one.right for one in matches if mapped.intersection(one.left.refs)]
    )
    for one in right.each:
        if one in chosen or any(state.is_paired("right", ref) for ref in one.refs):
            continue
        for ref in one.refs:
            if isinstance(matches, Message):
                state.withheld["right", ref] = matches
            yield ref, one.name
