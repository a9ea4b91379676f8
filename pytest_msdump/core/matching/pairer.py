"""Pairing two dumps: each way in turn, then the selection, then the reasons for what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_msdump.core import ports
from pytest_msdump.core.errors import UnknownNameError, nearest
from pytest_msdump.core.facts.operators import PASSING_TYPES, WRITTEN_INPUTS
from pytest_msdump.core.matching.coordinates import Align, common_coordinates, place_of, wanted_by_selection
from pytest_msdump.core.matching.pairing_state import FoundPair, Outputs, PairingRequest, PairingState
from pytest_msdump.core.matching.rules import FusionRules
from pytest_msdump.core.matching.selection import Lost, MapEntry, PairFilter, Selection
from pytest_msdump.core.matching.sides import Side, index_side
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import (
    BY_STRUCTURE,
    STRUCTURE,
    UNCOUNTED,
    Pair,
    Pairing,
    TensorRef,
    Transform,
    Unmatched,
)
from pytest_msdump.core.text import Message, Parameter, in_clauses

if TYPE_CHECKING:
    from pytest_msdump.core.matching.explain import Explainer

# What most comparisons of two files do without, and loads much.
_EXPLAINER = "pytest_msdump.core.matching.explain:explainer_of"
_NAMES = "pytest_msdump.core.matching.leaving:Names"

_SINGLE_FILE = "npy-file"
_MINDSPORE = "mindspore"


def pair_two_files(state: PairingState, request: PairingRequest) -> None:
    """Pair two single files, whatever they are called."""
    if not request.are_files or any(len(side.refs) != 1 or not side.ops[0].kept for side in (state.left, state.right)):
        return
    if not state.pairs and not state.withheld:
        state.add(FoundPair(0, 0, "file", "two files", request.formats))


# Two single files are paired whatever is said.
_ALWAYS = "file"


def ways_named(names: Iterable[str], *, where: str) -> tuple[str, ...]:
    """Return ways of pairing in their order; UnknownNameError, beginning with `where`, for one that there is not."""
    wanted = {STRUCTURE if name in BY_STRUCTURE else name for name in names}
    allowed = [name for name in ports.rows("WAYS") if name != _ALWAYS]
    for name in sorted(wanted):
        if name not in allowed:
            raise UnknownNameError(f"{where}: '{name}' is not a way of pairing; {nearest(name, allowed)}")
    return tuple(name for name in allowed if name in wanted)


def pair_dumps(
    left: Dump,
    right: Dump,
    *,
    entries: Sequence[MapEntry] = (),
    rules: FusionRules | None = None,
    align: Align | None = None,
    selection: Selection | None = None,
    left_format: str | None = None,
    right_format: str | None = None,
    ways: Sequence[str] | None = None,
    exclude_types: Iterable[str] = (),
    shape_of: Callable[[TensorRef], tuple[int, ...] | None] = lambda ref: ref.spec.logical_shape or ref.spec.shape,
) -> Pairing:
    """Pair the tensors of the run under test with those of the reference; the same input gives the same pairs."""
    selection = selection or Selection()
    coordinates = common_coordinates(left, right, align or Align())
    wanted = wanted_by_selection(selection)
    ours, theirs = (
        index_side(name, dump.refs, directions=selection.directions, common=common, keeps=partial(wants, wanted=wanted))
        for name, dump, common, wants in (
            ("left", left, coordinates.of_left, coordinates.wants_left),
            ("right", right, coordinates.of_right, coordinates.wants_right),
        )
    )
    state = PairingState(ours, theirs, trusts_files=bool(left.compiled_graphs) != bool(right.compiled_graphs))
    request = PairingRequest(
        coordinates=coordinates,
        wanted=wanted,
        entries=entries,
        rules=rules,
        formats=Transform(left_format, right_format),
        are_files=left.reader == right.reader == _SINGLE_FILE,
        dumps=(left, right),
        shape_of=shape_of,
    )
    asked_for, known = ways, ports.rows("WAYS")
    if ways is None:
        # A suite with map entries compares what it compared before, unless it asks for more.
        ways = [name for name in known if name != STRUCTURE or not entries]
    lost: list[Lost] = []
    idle = {"map" if not entries else "", "fusion" if rules is None else ""}
    for name, row in known.items():
        # Two files that are paired leave nothing to look for.
        is_done = name in idle or (request.are_files and state.pairs)
        if name == _ALWAYS or (name in ways and not is_done):
            lost += ports.load(row if isinstance(row, str) else row["pairs"])(state, request) or ()
    by_structure = STRUCTURE in ways
    outputs = Outputs()
    for pair_outputs in () if request.are_files else ports.bound("own_outputs"):
        outputs = pair_outputs(state, request, pairs=asked_for is None or by_structure)
    explainer: Explainer | None = None
    if lost or any(next(state.unpaired(side), None) is not None for side in (ours, theirs)):
        # Elsewhere what counts in coverage stays as it was.
        passing = (PASSING_TYPES if by_structure else frozenset()).union(exclude_types)
        explainer = ports.load(_EXPLAINER)(state, request, lost, passing, by_scope=by_structure)
    is_narrowed = bool(selection.select or selection.deselect)
    pair_filter = PairFilter(selection, ports.load(_NAMES)(left, right) if is_narrowed else None)
    pairing = _selected(state, request, explainer, selection, pair_filter)
    if request.are_files:
        return pairing
    lost_refs = ((name, theirs.refs[ref]) for name, ref in outputs.lost)
    return replace(
        pairing,
        notes=(*pairing.notes, *outputs.notes),
        lost_outputs=tuple(one for one in lost_refs if pair_filter.takes_ref(one[1])),
    )


def _selected(
    state: PairingState,
    request: PairingRequest,
    explainer: Explainer | None,
    selection: Selection,
    pair_filter: PairFilter,
) -> Pairing:
    """Return what of the result is selected, with the reasons for what has no partner."""
    coordinates = request.coordinates
    pairs = pair_filter.selected(_pairs(state))
    alone: list[list[Unmatched]] = [[], []]
    if explainer is not None:
        alone = [list(explainer.unmatched(side, pair_filter.takes_ref)) for side in (state.left, state.right)]
    left, right = request.dumps

    def older(side: str, dump: Dump) -> Iterator[Unmatched]:
        wants = coordinates.wants_left if side == "left" else coordinates.wants_right
        for ref in dump.older:
            is_wanted = ref.key.io in selection.directions and wants(place_of(ref.key.op.at), request.wanted)
            if is_wanted and pair_filter.takes_ref(ref):
                yield Unmatched(side, ref, Message("older_run"))

    # By identity: two right tensors may share their key, and each is one to be covered.
    paired = len({id(pair.right) for pair in pairs})
    return Pairing(
        pairs=tuple(pairs),
        unmatched_left=(*alone[0], *older("left", left)),
        unmatched_right=(*alone[1], *older("right", right)),
        missing=tuple(filter(pair_filter.takes_missing, explainer.missing() if explainer else ())),
        right_total=paired + sum(one.why.code not in UNCOUNTED for one in alone[1]),
        right_paired=paired,
        notes=coordinates.notes,
    )


def _pairs(state: PairingState) -> list[Pair]:
    """Return the pairs in order, each with its note and the number of further occurrences that have no partner."""
    lefts = _Repeats(state.left, [found.left for found in state.pairs], state.unpaired(state.left))
    rights = _Repeats(state.right, [found.right for found in state.pairs], state.unpaired(state.right))
    pairs = [
        Pair(
            left=(left := state.left.refs[found.left]),
            right=(right := state.right.refs[found.right]),
            how=found.how,
            by=found.by,
            transform=found.transform,
            order=state.left.op_of[found.left],
            note=_note((left, right), (lefts.times(found.left), rights.times(found.right))),
            uncompared=(lefts.uncompared(found.left), rights.uncompared(found.right)),
        )
        for found in state.pairs
    ]
    # Only pairs that share their left tensor need the rank of the right one.
    if len({found.left for found in state.pairs}) < len(pairs):
        pairs.sort(key=_right_rank)
    # "input" sorts before "output" by its first letter.
    return sorted(pairs, key=lambda pair: (pair.order, pair.left.key.io, pair.left.key.slot))


class _Repeats:
    """How often one side has each tensor: a tensor and its further occurrences count as one."""

    def __init__(self, side: Side, paired: Iterable[int], unpaired: Iterable[int]) -> None:
        self._side = side
        one_occurrence = len({op.at[-1] for op in side.ops}) <= 1
        self._may_repeat = not one_occurrence or sum(len(op.tensors) for op in side.ops) < len(side.refs)
        if not self._may_repeat:
            return
        self._tensors = [_without_occurrence(ref) for ref in side.refs]
        self._times = Counter(self._tensors)
        self._unpaired = Counter(self._tensors[number] for number in unpaired)
        self._last: dict[tuple[object, ...], int] = {}
        for number in paired:
            tensor = self._tensors[number]
            self._last[tensor] = max(self._occurrence(number), self._last.get(tensor, 0))

    def _occurrence(self, number: int) -> int:
        return self._side.refs[number].key.op.at.occurrence or 0

    def times(self, number: int) -> int:
        """Return how often the side has this tensor."""
        return self._times[self._tensors[number]] if self._may_repeat else 1

    def uncompared(self, number: int) -> int:
        """Return how many of its occurrences have no partner; 0 but for the last one that has."""
        if not self._may_repeat:
            return 0
        tensor = self._tensors[number]
        return self._unpaired[tensor] if self._last[tensor] == self._occurrence(number) else 0


def _without_occurrence(ref: TensorRef) -> tuple[object, ...]:
    op, at = ref.key.op, ref.key.op.at
    return (op.name, op.op_type, op.true_name, ref.key.io, ref.key.slot, at.rank, at.net, at.graph, at.iteration)


def _note(refs: Sequence[TensorRef], times: Sequence[int]) -> Message | None:
    """Return what is said with a pair's verdict, whatever it is; `times` count its tensors' occurrences."""
    notes: list[Message] = []
    if times[0] != times[1]:
        # One of several may be stale.
        for side, ref, n in zip(("left", "right"), refs, times, strict=True):
            said: dict[str, Parameter] = {"side": side, "n": n, "occurrence": ref.key.op.at.occurrence or 0}
            notes += [Message("repeated_tensor", said)] if n > 1 else []
    for side, ref in zip(("left", "right"), refs, strict=True):
        # MindSpore dumps the inputs of an operator after it ran, so also those that it writes to.
        op_type, slot = ref.key.op.op_type or "", ref.key.slot
        if ref.reader == _MINDSPORE and ref.key.io == "input" and slot in WRITTEN_INPUTS.get(op_type, ()):
            notes.append(Message("written_input", {"type": op_type, "slot": slot, "side": side}))
    return in_clauses(*notes) if notes else None


def _right_rank(pair: Pair) -> tuple[Any, ...]:
    key = pair.right.key
    return (*((value is not None, value or 0) for value in place_of(key.op.at)), key.io, key.slot)
