"""Why a tensor has no partner, and which names are like its own."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property
from types import MappingProxyType

from pytest_msdump.core import ports
from pytest_msdump.core.matching.coordinates import Place, compatible
from pytest_msdump.core.matching.not_dumped import NOT_DUMPED, Absence
from pytest_msdump.core.matching.pairing_state import PairingRequest, PairingState
from pytest_msdump.core.matching.selection import Lost, parse_address
from pytest_msdump.core.matching.sides import Port, Side, SideOperator
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import COORDINATES, Missing, OpKey, TensorRef, Unmatched
from pytest_msdump.core.text import Message, Parameter, in_clauses

# Lists in sentences and the search for similar names are bounded: a wrong directory leaves every tensor alone.
_MOST_LISTED = 3
_MOST_SEARCHED = 1000

# The reason of an output that is another operator's: it does not count in coverage.
_PASSED_ON, _RETURNS_INNER = "passed_on", "returns_inner"
# Coordinates before this one say which graph of which rank it is.
_ITERATION = COORDINATES.index("iteration")


def listed(words: Iterable[Parameter]) -> Parameter:
    """Return a list for a message, each word once, at most three of them."""
    distinct = tuple(dict.fromkeys(words))
    more = len(distinct) - _MOST_LISTED
    if more <= 0:
        return distinct
    return Message("names_and_more", {"names": distinct[:_MOST_LISTED], "n": more})


def typed_name(key: OpKey) -> str:
    """Return ``TYPE.OP``, or the operator's name when its type is unknown."""
    return f"{key.op_type}.{key.label}" if key.op_type else key.label


def place_text(at: Place) -> str:
    """Return a place in words, e.g. ``"rank 1, iteration 0"``; empty when nothing is known."""
    return ", ".join(f"{name} {value}" for name, value in zip(COORDINATES, at, strict=True) if value is not None)


def slots_listed(ports: Iterable[Port]) -> Parameter:
    """Return ``"output:0", "output:1"`` for a message, or that there are no tensors."""
    return listed(f"{io}:{slot}" for io, slot in ports) or Message("no_tensors")


def elsewhere(op: SideOperator, others: Sequence[SideOperator], *, side: str) -> Message:
    """Say in which coordinates an operator's namesakes on the other `side` differ, when none is at its place."""
    differing = [
        position
        for position, wanted in enumerate(op.common)
        if wanted is not None and all(other.common[position] not in (None, wanted) for other in others)
    ]
    if not differing:
        places = listed(f"({place_text(other.at)})" for other in others)
        return Message("only_at", {"side": side, "places": places, "place": place_text(op.at)})
    theirs = tuple(_coordinate(p, listed(_value(other, p) for other in others)) for p in differing)
    ours = tuple(_coordinate(p, _value(op, p)) for p in differing)
    # Occurrences cannot be aligned, so that hint would lead nowhere.
    code = "other_occurrence" if [COORDINATES[p] for p in differing] == ["occurrence"] else "elsewhere"
    return Message(code, {"side": side, "theirs": theirs, "ours": ours})


def _coordinate(position: int, value: Parameter) -> Message:
    return Message("coordinate", {"name": COORDINATES[position], "value": value})


def _value(op: SideOperator, position: int) -> Parameter:
    at, common = op.at[position], op.common[position]
    return at if at == common else Message("aligned_with", {"value": at, "other": common})


class Explainer:
    """Gives each tensor without a partner its reason and its candidates, when all ways of pairing are done."""

    def __init__(
        self,
        state: PairingState,
        absences: Mapping[str, Absence],
        lost: Sequence[Lost],
        passing: Collection[str] = (),
        containers: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self._state = state
        self._containers = containers
        self._passing = passing
        self._absences = absences
        self._lost = lost
        self._searches = {side.name: _ReasonSearch(side, state) for side in (state.left, state.right)}
        # A reason of what was asked for in vain, with the one that says more where the run does.
        self._better = {one.why: better for one in lost if (better := self._with_absence(one)) is not None}

    def _with_absence(self, lost: Lost) -> Message | None:
        addresses = {"left": parse_address(lost.entry.left), "right": parse_address(lost.entry.right)}
        known = [
            self._absences[side].of_name(addresses[side].op, addresses[side].io or "output") for side in lost.absent
        ]
        return in_clauses(lost.why, *known) if any(known) else None

    def missing(self) -> Iterator[Missing]:
        """Yield what was asked for in vain, with its reasons and similar names."""
        for lost in self._lost:
            candidates: list[str] = []
            for side, text in (("left", lost.entry.left), ("right", lost.entry.right)):
                if side in lost.absent:
                    candidates += self._searches[side].addresses(parse_address(text).op, ("output", 0))
            yield Missing(lost.entry.left, lost.entry.right, self._better.get(lost.why, lost.why), tuple(candidates))

    def unmatched(self, side: Side, wanted: Callable[[TensorRef], bool]) -> Iterator[Unmatched]:
        """Yield the wanted tensors of one side that have no partner, in the side's order."""
        for position in self._state.unpaired(side):
            ref = side.refs[position]
            if wanted(ref):
                yield Unmatched(side.name, ref, *self._reason(side, position))

    @cached_property
    def _partner_of(self) -> dict[tuple[str, int], tuple[str, str]]:
        """The address of the first partner of each tensor, and how they were paired."""
        found: dict[tuple[str, int], tuple[str, str]] = {}
        for pair in self._state.pairs:
            left, right = self._state.left.refs[pair.left], self._state.right.refs[pair.right]
            found.setdefault(("left", pair.left), (right.key.address, pair.how))
            found.setdefault(("right", pair.right), (left.key.address, pair.how))
        return found

    def _reason(self, side: Side, position: int) -> tuple[Message, tuple[str, ...]]:
        number = side.op_of[position]
        op, key = side.ops[number], side.refs[position].key
        other = self._state.right if side.name == "left" else self._state.left
        port = (key.io, key.slot)
        if side.is_double(position):
            return Message("same_address"), ()
        namesakes = other.namesakes(key.op)
        absence = self._not_dumped(op, side.refs[position], other, namesakes)
        if key.op.op_type in self._passing and key.io == "output" and not namesakes and absence is None:
            return Message(_PASSED_ON, {"type": key.op.op_type or ""}), ()
        if key.op.label in self._containers.get(side.name, ()) and key.io == "output" and not namesakes:
            return Message(_RETURNS_INNER), ()
        if withheld := self._state.withheld.get((side.name, position)):
            return _in_full(withheld, self._better), ()
        if doubt := self._state.ambiguous.get((side.name, number)):
            why, rivals = doubt
            return why, _addresses(map(typed_name, _keys(other, rivals)), port)
        if absence is not None and absence.code in NOT_DUMPED:
            return absence, ()
        if not namesakes:
            unknown = Message("no_operator_of_that_name" if other.refs else "side_is_empty", {"side": other.name})
            return absence or unknown, self._searches[other.name].addresses(key.op.label, port)
        return self._of_namesakes(op, port, other, namesakes)

    def _not_dumped(self, op: SideOperator, ref: TensorRef, other: Side, namesakes: Sequence[int]) -> Message | None:
        """Return why the other side's run has no such tensor; ``None`` where it has it or does not say."""
        port = (ref.key.io, ref.key.slot)
        others = [other.ops[number] for number in namesakes]
        if any(port in each.tensors and compatible(each.common, op.common) for each in others):
            return None
        graph = op.common[:_ITERATION]
        is_known = any(compatible(graph, each.common[:_ITERATION]) for each in others)
        return self._absences[other.name].of_tensor(ref, op.common, is_known=is_known)

    def _of_namesakes(
        self, op: SideOperator, port: Port, other: Side, namesakes: Sequence[int]
    ) -> tuple[Message, tuple[str, ...]]:
        here = [number for number in namesakes if compatible(other.ops[number].common, op.common)]
        kept = [number for number in here if other.ops[number].kept]
        holders = [number for number in kept if port in other.ops[number].tensors]
        numbers: Sequence[int] = holders
        if holders:
            why = self._taken(other, other.ops[holders[0]].tensors[port])
        elif kept:
            ports = [each for number in kept for each in other.ops[number].tensors]
            name = other.ops[kept[0]].key.label
            has = {"slot": f"{port[0]}:{port[1]}", "slots": slots_listed(ports)}
            candidates = tuple(f"{name}:{io}:{slot}" for io, slot in ports[:_MOST_LISTED])
            return Message("no_such_slot", {"name": name, "side": other.name, **has}), candidates
        elif here:
            places = listed(f"({place_text(other.ops[number].at)})" for number in here)
            numbers, why = here, Message("only_at_unselected", {"side": other.name, "places": places})
        else:
            numbers, why = namesakes, elsewhere(op, [other.ops[number] for number in namesakes], side=other.name)
        return why, _addresses((key.label for key in _keys(other, numbers)), port)

    def _taken(self, other: Side, ref: int) -> Message:
        said: dict[str, Parameter] = {"name": other.refs[ref].key.address, "side": other.name}
        if partner := self._partner_of.get((other.name, ref)):
            return Message("paired_with_other", {**said, "partner": partner[0], "how": partner[1]})
        if withheld := self._state.withheld.get((other.name, ref)):
            is_kept_apart = any(withheld.code in codes for codes in ports.values("WITHHELD").values())
            code = "of_side" if is_kept_apart else "kept_for_entry"
            return Message(code, {**said, "why": withheld})
        return Message("name_is_ambiguous", said)


def explainer_of(
    state: PairingState, request: PairingRequest, lost: Sequence[Lost], passing: Collection[str], *, by_scope: bool
) -> Explainer:
    """Return what explains a pairing; `passing` as in `Explainer`, with `by_scope` modules count, too."""
    left, right = request.dumps
    containers = {"left": _containers(left), "right": _containers(right)} if by_scope else {}
    absences = {"left": Absence("left", left, request.coordinates.arrows), "right": Absence("right", right)}
    return Explainer(state, absences, lost, passing, containers)


def _containers(dump: Dump) -> frozenset[str]:
    """Return the recorded modules that give back what modules inside of them gave back, in every call."""
    calls = [call for _, graph in dump.graphs if graph.is_recorded for call in graph.operators]
    return frozenset(call.name for call in calls if call.returns_inner) - {
        call.name for call in calls if not call.returns_inner
    }


def _in_full(why: Message, better: Mapping[Message, Message]) -> Message:
    """Put better reasons in place of a reason, also where another reason contains it."""
    if why in better:
        return better[why]
    inner = why.parameters.get("why")
    return Message(why.code, {**why.parameters, "why": _in_full(inner, better)}) if isinstance(inner, Message) else why


def _keys(side: Side, ops: Iterable[int]) -> Iterator[OpKey]:
    return (side.ops[number].key for number in ops)


def _addresses(names: Iterable[str], port: Port) -> tuple[str, ...]:
    return tuple(f"{name}:{port[0]}:{port[1]}" for name in list(dict.fromkeys(names))[:_MOST_LISTED])


class _ReasonSearch:
    """Similar names on one side, those without a partner first, for a bounded number of names."""

    def __init__(self, side: Side, state: PairingState) -> None:
        self._side = side
        self._state = state
        self._found: dict[str, tuple[str, ...]] = {}

    def addresses(self, name: str, port: Port) -> tuple[str, ...]:
        """Return addresses of operators with names like this one, of this slot where they have it."""
        if name not in self._found:
            if len(self._found) >= _MOST_SEARCHED:
                return ()
            self._found[name] = self._names.nearest(name)
        found = []
        for label in self._found[name]:
            ports = self._side.selected(self._ops[label])
            io, slot = port if port in ports else next(iter(ports))
            found.append(f"{label}:{io}:{slot}")
        return tuple(found)

    @cached_property
    def _ops(self) -> Mapping[str, SideOperator]:
        found: dict[str, SideOperator] = {}
        for op in self._side.ops:
            if op.kept and self._side.selected(op):
                found.setdefault(op.key.label, op)
        return found

    @cached_property
    def _names(self) -> NearestNames:
        # A weight is called after its layer, and is hardly ever what a layer's output is to be compared with.
        free = {
            op.key.label
            for op in self._side.ops
            if op.kept
            and op.key.op_type != "Parameter"
            and (refs := self._side.selected(op).values())
            and not any(self._state.is_paired(self._side.name, ref) for ref in refs)
        }
        return NearestNames(self._ops, preferred=free)


_RETURNED = 3

# The bounds of the work for one name: names looked at, names measured letter by letter, names of a side small enough
# to be looked through when no part of the name is known.
_GATHERED = 60
_MEASURED = 8
_LOOKED_THROUGH = 200

_ALIKE = 0.45


class NearestNames:
    """A search for names like a given one; those in `preferred` come first."""

    def __init__(self, names: Iterable[str], *, preferred: Collection[str] = ()) -> None:
        self._names = list(dict.fromkeys(names))
        self._preferred = preferred
        self._parts = [_parts(name) for name in self._names]
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        for number, parts in enumerate(self._parts):
            for part in parts:
                self._holders[part].append(number)
        scale = 1 + len(self._names)
        self._weights = {part: math.log(1 + scale / (1 + len(held))) for part, held in self._holders.items()}
        self._unknown_weight = math.log(1 + scale)

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return up to three names, preferred ones first, then the most similar; none when nothing is alike."""
        parts = _parts(name)
        # Names that share a part, by the rarest parts first.
        gathered: dict[int, None] = {}
        for numbers in sorted((self._holders[part] for part in parts if part in self._holders), key=len):
            gathered.update(dict.fromkeys(numbers[: _GATHERED - len(gathered)]))
        if not gathered and len(self._names) <= _LOOKED_THROUGH:
            return tuple(get_close_matches(name, self._names, n=_RETURNED))
        total = self._weigh(parts)
        shares = [(self._weigh(parts & self._parts[n]) / min(total, self._weigh(self._parts[n])), n) for n in gathered]
        shares.sort(key=lambda pair: (-pair[0], self._names[pair[1]] not in self._preferred, pair[1]))
        scored = [(self._likeness(name, number, share), number) for share, number in shares[:_MEASURED]]
        alike = [(self._names[number] not in self._preferred, -score, number) for score, number in scored]
        return tuple(self._names[number] for _, score, number in sorted(alike)[:_RETURNED] if -score >= _ALIKE)

    def _weigh(self, parts: Iterable[str]) -> float:
        return math.fsum(self._weights.get(part, self._unknown_weight) for part in parts)

    def _likeness(self, name: str, number: int, share: float) -> float:
        ratio = SequenceMatcher(None, name.lower(), self._names[number].lower()).ratio()
        return max(0.6 * share + 0.4 * ratio, ratio if ratio >= 0.6 else 0.0)


def _parts(name: str) -> frozenset[str]:
    """Split ``conv1-Conv2d`` into conv1, conv, 1, conv2d, 2 and d."""
    words = re.findall(r"[^\W_]+", name.lower())
    return frozenset(words).union(*(re.findall(r"\d+|[^\W\d_]+", word) for word in words))
