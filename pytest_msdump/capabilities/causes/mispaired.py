"""Pairs that look wrong: where a pair is far off, whether another tensor of either side fits far better."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import Any, TypeAlias

from pytest_msdump.capabilities.suggest.fingerprint import (
    USUAL_AXES,
    Alignment,
    Sample,
    best_alignment,
    fingerprint,
    fit_text,
    sample,
    sampled_distance,
    shape_word,
)
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.facts.operators import OPTIMIZERS
from pytest_msdump.core.matching.kinds import is_weight, weight_name
from pytest_msdump.core.matching.leaving import modules_of
from pytest_msdump.core.metrics.definitions import LEFT_OUT
from pytest_msdump.core.model.record import BetterFit, Record
from pytest_msdump.core.model.tensor import Coordinates, Pair, TensorKey, TensorRef, Transform
from pytest_msdump.core.text import Message, Parameter

# The state of a tensor: its pairs are far off, it has none, or a pair of it is near or was not run.
FAR, FREE, TAKEN = "far", "free", "taken"

_MOST_LISTED = 3
_ERROR = "relative_euclidean_distance"
# A pair is far off from here, and another tensor fits far better when it is so many times nearer.
_FAR_OFF = 0.1
_FAR_BETTER = 20.0
# Samples further apart than this are of tensors that no drift makes alike.
_ALIKE = 0.1

# Bounds of the search: pairs in a run, other tensors sampled for each, those read whole, and samples kept.
_MOST_PAIRS = 64
_MOST_OPENED = 128
_MOST_READ = 4
_MOST_KEPT = 4000

# A tensor that fits, how it is brought to the other one, and its state.
_Found: TypeAlias = tuple[TensorRef, Alignment, str]

_ROLES = {"cause": 0, "unknown": 1}
_SHAPES = ("same", "transposed", "reshaped")


@dataclass(frozen=True)
class Rival:
    """Another tensor that fits; `effort` brings it to the other shape: 0 nothing, 1 to transpose, 2 to reshape."""

    number: int
    apart: float
    state: str
    effort: int = 0


@dataclass(frozen=True)
class Better:
    """The tensor that fits better than the partner, or those of which it may be one."""

    rivals: tuple[Rival, ...] = ()
    doubt: str = ""


def better_fits(rivals: Sequence[Rival], *, is_distinctive: bool, is_mapped: bool) -> Better:
    """Choose what a tensor of a pair that is far off should have been paired with."""
    least = min((rival.effort for rival in rivals), default=0)
    nearest = [rival for rival in rivals if rival.effort == least]
    loose = sorted((one for one in nearest if one.state != TAKEN), key=lambda one: (one.apart, one.number))
    if not loose:
        return Better()
    doubts = {
        "several": len(nearest) > 1,
        "values": not is_distinctive,
        "names": loose[0].state == FREE and not is_mapped,
    }
    return Better(tuple(loose[:_MOST_LISTED]), next((doubt for doubt, holds in doubts.items() if holds), ""))


def mispaired(plan: Plan, records: Mapping[int, Record]) -> dict[int, tuple[BetterFit, ...]]:
    """Return by number of the pair the tensors that fit failing ones far better; causes are looked at first."""
    far = [number for number, record in records.items() if _error(record) >= _FAR_OFF]
    if plan.left.root.is_file() or plan.extras.first is not None or not far:
        return {}
    far.sort(key=lambda number: (_ROLES.get(records[number].role or "", 2), number))
    search = _MispairSearch(plan, frozenset(far))
    found = {number: search.better(plan.pairing.pairs[number], records[number]) for number in far[:_MOST_PAIRS]}
    return {number: fits for number, fits in sorted(found.items()) if fits}


def _error(record: Record) -> float:
    """Return how far off a failing pair is; infinite if it could not be measured, 0 if it does not fail."""
    if not record.fails or record.statistics is not None or record.left.shape is None or record.right.shape is None:
        return 0.0
    undefined = record.comparison.undefined.get(_ERROR) if record.comparison is not None else None
    if undefined is None or undefined.code != LEFT_OUT:
        value = record.judged_value(_ERROR)
        return float(value) if isinstance(value, (int, float)) else inf
    # The least that the distance may be, by the cosine; 0 if that was left out as well.
    cosine = record.metrics.get("cosine_similarity", 1.0)
    if not isinstance(cosine, (int, float)):
        return 0.0
    return sqrt(max(0.0, 1.0 - cosine * cosine)) if cosine > 0 else 1.0


def _paired_with(pair: Pair, side: str, other: TensorRef) -> tuple[TensorRef, TensorRef]:
    """Return left and right of the pair with another tensor on one side."""
    return (pair.left, other) if side == "right" else (other, pair.right)


class _MispairSearch:
    """The search for a better partner, on either side."""

    def __init__(self, plan: Plan, far: frozenset[int]) -> None:
        pairing = plan.pairing
        left = _ValueSide(plan.left.refs, {one.ref.key for one in pairing.unmatched_left})
        right = _ValueSide(plan.right.refs, {one.ref.key for one in pairing.unmatched_right})
        for number, pair in enumerate(pairing.pairs):
            left.add_pair(pair.left.key, pair.left.key.op.at, is_far=number in far)
            right.add_pair(pair.right.key, pair.left.key.op.at, is_far=number in far)
        self._sides = {"left": left, "right": right}
        self._modules = modules_of("left", plan.left)
        self._samples = {"left": _Samples(), "right": _Samples()}
        self._formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
        self._runs = Counter(pair.left.key.address for pair in pairing.pairs)

    def better(self, pair: Pair, record: Record) -> tuple[BetterFit, ...]:
        """Return what fits better than the partner on the right; if nothing does, than the one on the left."""
        if pair.left.is_unseen or pair.right.is_unseen or pair.transform.piece is not None:
            return ()
        enough = _error(record) / _FAR_BETTER
        for side in ("right", "left"):
            found, is_cut = self._fitting(pair, side, enough)
            better = self._choose(pair, side, found, is_cut)
            if better.rivals:
                return tuple(self._better_fit(pair, side, found[one.number], better.doubt) for one in better.rivals)
        return ()

    def _choose(self, pair: Pair, side: str, found: Sequence[_Found], is_cut: bool) -> Better:
        kept = pair.left if side == "right" else pair.right
        is_distinctive = bool(found) and _is_distinctive(kept) and _is_distinctive(found[0][0])
        rivals = [
            Rival(number, how.apart, state, _SHAPES.index(shape_word(how.transform)))
            for number, (_, how, state) in enumerate(found)
        ]
        better = better_fits(rivals, is_distinctive=is_distinctive, is_mapped=pair.how == "mapped")
        if not better.rivals or better.doubt:
            return better
        if not is_cut:
            # Another tensor of the side that is kept may fit the rival as well.
            turned = Pair(*_paired_with(pair, side, found[better.rivals[0].number][0]), "")
            others, is_cut = self._fitting(turned, "left" if side == "right" else "right", inf)
            is_cut = is_cut or bool(others)
        return Better(better.rivals, "several") if is_cut else better

    def _fitting(self, pair: Pair, side: str, enough: float) -> tuple[list[_Found], bool]:
        """Return the tensors of a side that fit the pair's other one, and whether more are alike than were read."""
        own, at = self._sides[side], pair.left.key.op.at
        alike: list[tuple[float, int, TensorRef]] = []
        for place, other in enumerate(own.others(getattr(pair, side), at)):
            distance = self._distance(*_paired_with(pair, side, other))
            if distance <= _ALIKE:
                alike.append((distance, place, other))
        alike.sort(key=lambda one: one[:2])
        found = []
        for _, _, other in alike[:_MOST_READ]:
            alignment = best_alignment(*_paired_with(pair, side, other), self._formats)
            if alignment is not None and alignment.is_close and alignment.apart <= enough:
                found.append((other, alignment, own.state(other.key, at)))
        return found, len(alike) > _MOST_READ

    def _distance(self, left: TensorRef, right: TensorRef) -> float:
        """Return how far apart samples of the two are, in the order of axes in which they are nearest."""
        ours, theirs = self._samples["left"].of(left), self._samples["right"].of(right)
        if ours is None or theirs is None or prod(ours[0]) != prod(theirs[0]):
            return inf
        distances = [sampled_distance(ours[1], theirs[1])]
        for axes in USUAL_AXES:
            if len(axes) == len(theirs[0]) and tuple(theirs[0][axis] for axis in axes) == ours[0]:
                turned = self._samples["right"].of(right, axes)
                distances += [] if turned is None else [sampled_distance(ours[1], turned[1])]
        return min(distances)

    def _better_fit(self, pair: Pair, side: str, found: _Found, doubt: str) -> BetterFit:
        ref, alignment, _ = found
        apart, shape = alignment.apart, shape_word(alignment.transform)
        return BetterFit(
            side=side,
            address=ref.key.address,
            confidence="ambiguous" if doubt else "clear",
            why=fit_text(apart, shape),
            apart=apart,
            shape=shape,
            doubt=doubt,
            map=None if doubt else self._map_entry(*_paired_with(pair, side, ref), alignment.transform),
        )

    def _map_entry(self, left: TensorRef, right: TensorRef, transform: Transform) -> dict[str, Any]:
        """Return the entry of ``[[msdump.map]]`` that pairs these two, of one part of the run if there are several."""
        entry: dict[str, Any] = {
            side: self._sides[side].map_name(ref) for side, ref in (("left", left), ("right", right))
        }
        if (module := self._modules.in_entry(left, right)) is not None:
            entry = {"left": module, "right": entry["right"].removesuffix(":output:0")}
        if self._runs[left.key.address] > 1:
            at = left.key.op.at
            parts = {"rank": at.rank, "net": at.net, "graph": at.graph, "iteration": at.iteration}
            entry |= {name: value for name, value in parts.items() if value is not None}
        if transform.transpose is not None:
            entry["transpose"] = list(transform.transpose)
        return {**entry, "reshape": True} if transform.reshape else entry


class _ValueSide:
    """The tensors of a side, and their states."""

    def __init__(self, refs: Sequence[TensorRef], free: set[TensorKey]) -> None:
        self._refs = refs
        self._free = free
        self._states: dict[tuple[TensorKey, Coordinates], str] = {}
        self._places: dict[TensorKey, int] = {}
        self._alike: dict[tuple[str, Coordinates], list[int]] = {}
        self._listed: dict[tuple[str, Coordinates, Coordinates], tuple[list[int], list[int]]] = {}
        self._types: dict[str, set[str | None]] = {}
        for place, ref in enumerate(refs):
            if ref.key not in self._places and not ref.is_unseen:
                self._alike.setdefault((ref.key.io, ref.key.op.at), []).append(place)
            self._places.setdefault(ref.key, place)
            self._types.setdefault(ref.key.op.label, set()).add(ref.key.op.op_type)

    def add_pair(self, key: TensorKey, at: Coordinates, *, is_far: bool) -> None:
        """Note the pair of a tensor in a part of the run; a near one counts more. A reference of one run is in all."""
        is_taken = not is_far or self._states.get((key, at)) == TAKEN
        self._states[key, at] = TAKEN if is_taken else FAR

    def state(self, key: TensorKey, at: Coordinates) -> str:
        """Return the state of a tensor; one that was not selected counts as taken."""
        return FREE if key in self._free else self._states.get((key, at), TAKEN)

    def others(self, ref: TensorRef, at: Coordinates) -> Iterator[TensorRef]:
        """Yield tensors of the same part of the run: first those that are not taken, each time the nearest first."""
        place, wanted = self._places[ref.key], _MOST_OPENED
        for places in self._by_state(ref.key.io, ref.key.op.at, at):
            # They are sorted, so the nearest are around this one's place.
            middle = bisect_left(places, place)
            around = places[max(0, middle - wanted - 1) : middle + wanted + 1]
            near = [there for there in sorted(around, key=lambda there: abs(there - place)) if there != place][:wanted]
            yield from map(self._refs.__getitem__, near)
            wanted -= len(near)

    def _by_state(self, io: str, own: Coordinates, at: Coordinates) -> tuple[list[int], list[int]]:
        """Return the places of tensors that are not taken, and of those that are."""
        key = (io, own, at)
        if key not in self._listed:
            self._listed[key] = ([], [])
            for place in self._alike[io, own]:
                self._listed[key][self.state(self._refs[place].key, at) == TAKEN].append(place)
        return self._listed[key]

    def map_name(self, ref: TensorRef) -> str:
        """Return how a map entry names a tensor: with its type if several operators have the name."""
        several = len(self._types[ref.key.op.label] - {None}) > 1
        return ref.key.typed_address if several else ref.key.address


class _Samples:
    """Samples of a side's tensors, each read once for every order of axes."""

    def __init__(self) -> None:
        # By identity, since hashing a key costs more than comparing two samples; the dump holds the references.
        self._known: dict[tuple[int, tuple[int, ...]], tuple[tuple[int, ...], Sample] | None] = {}

    def of(self, ref: TensorRef, axes: tuple[int, ...] = ()) -> tuple[tuple[int, ...], Sample] | None:
        """Return shape and sample; ``None`` if a tensor cannot be read, or its sample is one value."""
        key = (id(ref), axes)
        if key not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = _read(ref, axes)
        return self._known[key]


def _read(ref: TensorRef, axes: tuple[int, ...]) -> tuple[tuple[int, ...], Sample] | None:
    try:
        with closing(open_logical(ref)) as view:
            shape, found = view.shape, sample(view.permuted(axes) if axes else view)
    except (MsdumpError, OSError):
        return None
    return None if found.is_one_value else (shape, found)


def _is_distinctive(ref: TensorRef) -> bool:
    try:
        with closing(open_logical(ref)) as view:
            return fingerprint(view).is_distinctive
    except (MsdumpError, OSError):
        return False


# Sides that count the steps of a training differently, or save weights on different sides of a step.
#
# MindSpore writes Parameters after the optimizer has written them. A loop of one's own may save them before its step:
# then the left's iteration 0 has what the right has in iteration 1. That is said; no verdict changes.

# So many failing pairs are tried with the step before and the step after.
_MOST_TRIED = 64
_MOST_NAMED = 12
# This part of them must agree: another mistake may hide the rest.
_MOST = 0.75


def step_shift(
    plan: Plan, records: Mapping[int, Record], holds: Callable[[Pair, TensorRef], bool]
) -> Iterator[Message]:
    """Yield what to say where failing tensors of one iteration are within limits of another one of the right side."""
    steps: defaultdict[tuple[Any, ...], dict[int, TensorRef]] = defaultdict(dict)
    for ref in plan.right.refs:
        if ref.key.op.at.iteration is not None:
            steps[_but_iteration(ref)][ref.key.op.at.iteration] = ref
    failing = [plan.pairing.pairs[number] for number, record in records.items() if record.fails]
    if len(steps_known := {at for known in steps.values() for at in known}) == 1 and all(map(_is_weight, failing)):
        written = {ref.key.op.at.iteration for ref in plan.left.refs if _is_optimizer(ref)}
        if failing and {pair.left.key.op.at.iteration for pair in failing} <= written:
            yield Message("weights_of_one_step", {"n": len(failing)})
    for shift in (1, -1) if len(steps_known) > 1 else ():
        tried: Counter[bool] = Counter()
        agreeing: defaultdict[bool, list[Pair]] = defaultdict(list)
        for pair in failing[:_MOST_TRIED]:
            other = steps[_but_iteration(pair.right)].get((pair.right.key.op.at.iteration or 0) + shift)
            if other is not None and pair.left.key.op.at.iteration is not None:
                tried[_is_weight(pair)] += 1
                agreeing[_is_weight(pair)] += [pair] if holds(pair, other) else []
        alike = {kind for kind, pairs in agreeing.items() if pairs and len(pairs) >= _MOST * tried[kind]}
        if alike:
            kind = False not in alike
            pairs = agreeing[kind]
            said: dict[str, Parameter] = {
                "n": len(pairs),
                "tried": tried[kind],
                "arguments": _arguments(pairs, shift, is_narrow=kind),
            }
            code = "steps_shifted" if not kind else ("weights_saved_before" if shift > 0 else "weights_saved_after")
            yield Message(code, said)


def _arguments(pairs: Sequence[Pair], shift: int, *, is_narrow: bool) -> str:
    """Return the options that compare what belongs together."""
    ours = sorted({pair.left.key.op.at.iteration or 0 for pair in pairs})
    theirs = {pair.left.key.op.at.iteration or 0: (pair.right.key.op.at.iteration or 0) + shift for pair in pairs}
    arrows = ", ".join(f"{at}->{theirs[at]}" for at in ours)
    names = dict.fromkeys(pair.left.key.op.label for pair in pairs) if is_narrow else {}
    words = [f"--msdump-align=iteration={arrows}", f"--msdump-iteration={'|'.join(map(str, ours))}"]
    return shell_line([*words, *(f"--msdump-select={name}" for name in list(names)[:_MOST_NAMED])])


def _is_weight(pair: Pair) -> bool:
    """Whether it is something that a step changes: a weight, or what an optimizer keeps beside it."""
    name = weight_name(pair.right.key.op.label) if is_weight(pair.right.key.op) else None
    return name is not None and name.state != "gradient"


def _is_optimizer(ref: TensorRef) -> bool:
    return (ref.key.op.op_type or "").lower().startswith(OPTIMIZERS)


def _but_iteration(ref: TensorRef) -> tuple[Any, ...]:
    op, at = ref.key.op, ref.key.op.at
    return op.label, op.op_type, ref.key.io, ref.key.slot, at.rank, at.net, at.graph, at.occurrence
