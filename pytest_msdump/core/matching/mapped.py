"""Pairing by the entries of ``[[msdump.map]]``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.matching.coordinates import (
    Place,
    PlaceIndex,
    Wanted,
    compatible,
    wanted_by_entry,
    without_occurrence,
)
from pytest_msdump.core.matching.explain import elsewhere, listed, place_text, slots_listed, typed_name
from pytest_msdump.core.matching.leaving import Leaving, Modules, modules_of
from pytest_msdump.core.matching.maps import expanded_entries, renamed_in_vain
from pytest_msdump.core.matching.pairing_state import (
    FoundPair,
    OperatorPair,
    PairingRequest,
    PairingState,
    resolve_ambiguity,
)
from pytest_msdump.core.matching.pieces import pieces_between
from pytest_msdump.core.matching.selection import Address, Joined, Lost, MapEntry, parse_address
from pytest_msdump.core.matching.sides import NameIndex, Port, Side, SideOperator
from pytest_msdump.core.matching.transforms import transform_between
from pytest_msdump.core.model.tensor import TensorPiece, Transform
from pytest_msdump.core.text import Message, Parameter, in_clauses


@dataclass(slots=True)
class _EntryWork:
    """One entry while it is applied."""

    entry: MapEntry
    label: str
    left: Address
    right: Address
    wanted: Wanted
    left_ops: list[int] = field(default_factory=list)
    right_ops: list[int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    lost: dict[tuple[Message, tuple[str, ...]], None] = field(default_factory=dict)
    leaving: dict[tuple[str, int], Leaving] = field(default_factory=dict)

    def lose(self, reason: Message, *absent: str) -> None:
        """Note once that something could not be paired, and on which sides a similar name may help."""
        self.lost.setdefault((reason, absent))

    def of_side(self, side: Side) -> tuple[Address, list[int]]:
        """Return the entry's address on a side and the operators it names there."""
        return (self.left, self.left_ops) if side.name == "left" else (self.right, self.right_ops)

    def tensors(self, side: Side, number: int) -> dict[Port, int]:
        """Return the tensors of an operator that the entry names; its slot counts whatever directions are selected."""
        address, _ = self.of_side(side)
        tensors = self.all_tensors(side, number)
        if address.port is None:
            return {port: ref for port, ref in tensors.items() if port[0] in side.directions}
        return {address.port: tensors[address.port]} if address.port in tensors else {}

    def all_tensors(self, side: Side, number: int) -> dict[Port, int]:
        """Return all tensors of an operator, or of a module that it is the last of."""
        leaving = self.leaving.get((side.name, number))
        return side.ops[number].tensors if leaving is None else {("output", n): r for n, r in leaving.tensors.items()}


def pair_by_map(state: PairingState, request: PairingRequest) -> list[Lost]:
    """Pair what the map entries name, in their order; ConfigError where two of them name one left tensor."""
    if not request.entries:
        return []
    modules = {side: modules_of(side, dump) for side, dump in zip(("left", "right"), request.dumps, strict=True)}
    entries = expanded_entries(request.entries, state.left, state.right, modules)
    works = [
        _EntryWork(
            entry,
            entry.label or f"map entry {number}",
            parse_address(entry.left),
            parse_address(entry.right),
            wanted_by_entry(entry),
        )
        for number, entry in enumerate(entries, start=1)
    ]
    # By address or tensor: the entries that name it. An error of the suite file is one whatever was dumped.
    claims: dict[object, list[_EntryWork]] = {}
    for work in works:
        _claim(claims, work.left, work, work.entry.left)
    # An entry for places outside the selection asks for nothing.
    works = [work for work in works if _overlap(work.wanted, request.wanted)]
    left = state.left
    for work in works:
        work.left_ops = _find_operators(left, work, request.coordinates.wants_left, modules["left"])
        work.right_ops = _find_operators(state.right, work, request.coordinates.wants_right, modules["right"])
        _find_pairs(state, work)
        named = [ref for number in work.left_ops for ref in work.tensors(left, number).values()]
        for ref in dict.fromkeys([ref for ref, _ in work.pairs] or named):
            # A tensor may leave several modules, each with a partner of its own.
            if ("left", left.op_of[ref]) not in work.leaving:
                _claim(claims, ref, work, left.refs[ref].key.address)
        if work.entry.joined is None:
            _add_pairs(state, work, request)
    _add_joined(state, [work for work in works if work.entry.joined is not None], request)
    lost = [Lost(work.entry, reason, absent) for work in works for reason, absent in work.lost]
    # Only now: what one entry names in vain, another may still pair.
    for work in works:
        _withhold(state, work)
    for entry, name, other in renamed_in_vain(request.entries, left, state.right, modules["right"]):
        why = Message("no_operator_named", {"name": other, "side": "right"})
        reason = Message("rule_pairs_but", {"rule": entry.label, "name": other, "why": why})
        for number in left.resolve(parse_address(name)):
            for ref in left.ops[number].tensors.values():
                state.withheld.setdefault(("left", ref), reason)
    return lost


def _claim(claims: dict[object, list[_EntryWork]], what: object, work: _EntryWork, name: str) -> None:
    for other in claims.setdefault(what, []):
        if _overlap(other.wanted, work.wanted) and not _are_parts(other.entry, work.entry):
            raise ConfigError(f"{other.label} and {work.label} both name the left tensor {name}; keep one of them")
    claims[what].append(work)


def _are_parts(one: MapEntry, other: MapEntry) -> bool:
    """Whether two entries are about different parts of one left tensor."""
    ours, theirs = one.joined, other.joined
    if ours is None or theirs is None or ours.whole != "left":
        return False
    return ours.place != theirs.place or (one.label == other.label and ours.number != theirs.number)


def _overlap(one: Wanted, other: Wanted) -> bool:
    """Whether some place is asked for by both."""
    return all(a is None or b is None or a & b for a, b in zip(one, other, strict=True))


def _find_operators(
    side: Side, work: _EntryWork, wants: Callable[[Place, Wanted], bool], modules: Modules
) -> list[int]:
    """Return the operators that an entry names on a side, or else those that end the module of that path."""
    address, _ = work.of_side(side)
    numbers = side.resolve(address)
    for module in () if numbers else modules.named(address):
        if not wants(side.ops[module.first].at, work.wanted):
            continue
        if not isinstance(module.calls, Message):
            work.leaving |= {(side.name, side.op_of[ref]): one for one in module.calls for ref in one.tensors.values()}
        elif side.ops[module.first].kept:
            work.lose(module.calls)
    numbers = numbers or sorted(number for name, number in work.leaving if name == side.name)
    return [number for number in numbers if wants(side.ops[number].at, work.wanted)]


def _kept(side: Side, numbers: Sequence[int]) -> list[int]:
    return [number for number in numbers if side.ops[number].kept]


def _find_pairs(state: PairingState, work: _EntryWork) -> None:
    left, right = state.left, state.right
    absent = {side.name: _absent(side, work) for side in (left, right) if not work.of_side(side)[1]}
    if absent:
        # Why it is not known what leaves a module says more than that no operator has its name.
        if not work.lost:
            work.lose(in_clauses(*absent.values()), *absent)
        return
    ours, theirs = _kept(left, work.left_ops), _kept(right, work.right_ops)
    # A call that is named has its partner among the calls of the other side, whatever their numbers.
    place = without_occurrence if _names_a_call(work, ours, theirs, state) else tuple
    index = NameIndex((work.right.op, place(right.ops[number].common), number) for number in theirs)
    candidates = [(one, other) for one in ours for other in index.find(work.right.op, place(left.ops[one].common))]
    certain, doubtful = resolve_ambiguity(left, right, candidates)
    if doubtful:
        names = {
            "ours": listed(typed_name(left.ops[one].key) for one, _ in doubtful),
            "theirs": listed(typed_name(right.ops[other].key) for _, other in doubtful),
        }
        work.lose(Message("entry_ambiguous", names))
    for pair in certain:
        _pair_slots(state, work, pair)
    _find_gaps(left, right, work)
    _find_gaps(right, left, work)
    if ours and theirs and not work.pairs and not work.lost:
        work.lose(_nothing_in_common(work, [left.ops[n] for n in ours], [right.ops[n] for n in theirs]))


def _names_a_call(work: _EntryWork, ours: Sequence[int], theirs: Sequence[int], state: PairingState) -> bool:
    """Whether an address of the entry says which call of the operator it means, as ``relu@1``."""
    sides = ((work.left, ours, state.left), (work.right, theirs, state.right))
    return any(
        address.numbered is not None and bool(numbers) and side.ops[numbers[0]].key.label != address.op
        for address, numbers, side in sides
    )


def _absent(side: Side, work: _EntryWork) -> Message:
    """Return that no operator of that address is there, or that it is there at places the entry leaves out."""
    if not side.refs:
        return Message("side_is_empty", {"side": side.name})
    address, _ = work.of_side(side)
    places = listed(f"({place_text(side.ops[number].at)})" for number in side.resolve(address))
    said: dict[str, Parameter] = {"name": address.op, "side": side.name}
    if places:
        return Message("operator_left_out_by_entry", {**said, "places": places, "rule": work.label})
    return Message("no_operator_named", said)


def _pair_slots(state: PairingState, work: _EntryWork, pair: OperatorPair) -> None:
    ours, theirs = work.tensors(state.left, pair[0]), work.tensors(state.right, pair[1])
    if work.left.port is None and work.right.port is None:
        pairs = [(ours[port], theirs[port]) for port in ours if port in theirs]
        outputs = [[port for port in side if port[0] == "output"] for side in (ours, theirs)]
        # One output on each side, in different slots.
        if len(outputs[0]) == len(outputs[1]) == 1 and outputs[0] != outputs[1]:
            pairs.append((ours[outputs[0][0]], theirs[outputs[1][0]]))
    else:
        if work.right.port is None:
            theirs = _same_or_only(work.all_tensors(state.right, pair[1]), theirs, work.left.port)
        if work.left.port is None:
            ours = _same_or_only(work.all_tensors(state.left, pair[0]), ours, work.right.port)
        pairs = list(zip(ours.values(), theirs.values(), strict=False))
    if not pairs and (ours or theirs):
        work.lose(_no_slot(state, work, pair))
    work.pairs += pairs


def _same_or_only(tensors: dict[Port, int], selected: dict[Port, int], port: Port | None) -> dict[Port, int]:
    """Return the tensor that an address without a slot means beside one with a slot: the same slot, or the only one."""
    if port is not None and port in tensors:
        return {port: tensors[port]}
    return selected if len(selected) == 1 else {}


def _no_slot(state: PairingState, work: _EntryWork, pair: OperatorPair) -> Message:
    parts: list[Message] = []
    for side, number in zip((state.left, state.right), pair, strict=True):
        op, (address, _) = side.ops[number], work.of_side(side)
        said: dict[str, Parameter] = {
            "name": op.key.label,
            "side": side.name,
            "slots": slots_listed(work.all_tensors(side, number)),
        }
        if address.port:
            parts.append(Message("has_slots_asked", {**said, "slot": f"{address.io}:{address.slot}"}))
        else:
            parts.append(Message("has_slots", said))
    place = place_text(state.left.ops[pair[0]].at)
    return Message("entry_without_slots", {"place": place, "parts": tuple(parts)})


def _find_gaps(side: Side, other: Side, work: _EntryWork) -> None:
    """Find places that both sides dumped, where only this one has the operator."""
    address, others = work.of_side(other)
    present = PlaceIndex(without_occurrence(other.ops[number].common) for number in others)
    for number in _kept(side, work.of_side(side)[1]):
        op = side.ops[number]
        if not present.compatible(without_occurrence(op.common)) and other.dumped_at(op.common):
            where = place_text(without_occurrence(op.at))
            said = {"name": address.op, "side": other.name, "place": where}
            work.lose(Message("no_operator_named_at", said), other.name)


def _nothing_in_common(work: _EntryWork, ours: Sequence[SideOperator], theirs: Sequence[SideOperator]) -> Message:
    if any(compatible(one.common, other.common) for one in ours for other in theirs):
        return Message("entry_names_nothing", {"rule": work.label})
    return Message("of_operator", {"name": work.right.op, "why": elsewhere(ours[0], theirs, side="right")})


def _add_pairs(state: PairingState, work: _EntryWork, request: PairingRequest) -> None:
    """Add the entry's pairs; keep in `work` those that could be added."""
    entry = work.entry
    transform = _transform(entry, request)
    found, work.pairs = work.pairs, []
    for one, other in found:
        # Only the left tensor must be free: the right one may be what one operator gives and another takes.
        is_module = ("left", state.left.op_of[one]) in work.leaving
        if is_module or state.is_free("left", one, state.right.op_with(other).at):
            viewed = _as_viewed(state, work, request, (one, other)) if transform == request.formats else None
            state.add(FoundPair(one, other, "mapped", work.label, viewed or transform))
            work.pairs.append((one, other))
        else:
            work.lose(_taken(state, one))


def _transform(entry: MapEntry, request: PairingRequest) -> Transform:
    used = request.formats if entry.transpose is None else Transform()
    return Transform(used.left_format, used.right_format, entry.transpose, entry.reshape, crop=entry.crop)


def _taken(state: PairingState, one: int) -> Message:
    """Return with what a left tensor is paired by an entry for another rank or iteration, which it has not itself."""
    first = next(pair for pair in state.pairs if pair.left == one)
    address, partner = state.left.refs[one].key.address, state.right.refs[first.right].key.address
    return Message("already_paired", {"name": address, "side": "left", "partner": partner, "rule": first.by})


def _add_joined(state: PairingState, works: Sequence[_EntryWork], request: PairingRequest) -> None:
    """Add the pairs of entries that join tensors: each with its part of the whole, where all parts are there."""
    groups: defaultdict[tuple[object, ...], dict[int, tuple[_EntryWork, tuple[int, int]]]] = defaultdict(dict)
    for work in works:
        joined = cast("Joined", work.entry.joined)
        found, work.pairs = work.pairs, []
        for pair in found:
            side, (part, whole) = (state.right, pair[::-1]) if joined.whole == "left" else (state.left, pair)
            place = side.op_with(part).at
            groups[work.entry.label, joined.names, joined.place, whole, place][joined.number] = work, pair
    # Before any is added: a tensor may have parts in several groups.
    found_pieces = [_pieces(state, parts, request) for parts in groups.values()]
    for parts, made in zip(groups.values(), found_pieces, strict=True):
        for number, (work, pair) in sorted(parts.items()):
            if isinstance(made, Message):
                work.lose(made)
            else:
                transform = replace(_transform(work.entry, request), piece=made[number])
                state.add(FoundPair(*pair, "mapped", work.label, transform))
                work.pairs.append(pair)


def _pieces(
    state: PairingState, parts: Mapping[int, tuple[_EntryWork, tuple[int, int]]], request: PairingRequest
) -> list[TensorPiece] | Message:
    """Return which piece of the whole each part is, or why that cannot be said."""
    entry = next(iter(parts.values()))[0].entry
    joined = cast("Joined", entry.joined)
    if absent := [name for number, name in enumerate(joined.names) if number not in parts]:
        return Message("part_absent", {"n": len(joined.names), "name": absent[0]})
    shapes: dict[str, list[tuple[int, ...]]] = {"left": [], "right": []}
    for _, (work, pair) in sorted(parts.items()):
        at = state.right.op_with(pair[1]).at
        if not state.is_free("left", pair[0], at):
            return _taken(state, pair[0])
        for side, ref in zip((state.left, state.right), pair, strict=True):
            leaving = work.leaving.get((side.name, side.op_of[ref]))
            shape = (leaving.shape if leaving else None) or request.shape_of(side.refs[ref])
            if shape is None:
                return Message("part_of_unknown_shape", {"name": side.refs[ref].key.address})
            shapes[side.name].append(shape)
    whole, sides = shapes[joined.whole][0], shapes["right" if joined.whole == "left" else "left"]
    axis, order = joined.axis, entry.transpose
    if order is not None and all(len(shape) == len(order) for shape in sides):
        # `transpose` brings the right side's axes to the left's order; parts are measured in that of the whole.
        if joined.whole == "right":
            order = tuple(order.index(place) for place in range(len(order)))
        axis = order.index(axis % len(order))
        sides = [tuple(shape[place] for place in order) for shape in sides]
    return pieces_between(joined.whole, whole, sides, axis=axis, reshape=entry.reshape, index=joined.place)


def _as_viewed(
    state: PairingState, work: _EntryWork, request: PairingRequest, pair: tuple[int, int]
) -> Transform | None:
    """Return the reshape by which what leaves a module meets its partner, as where modules pair by their paths."""
    sides = list(zip((state.left, state.right), pair, strict=True))
    leaving = [work.leaving.get((side.name, side.op_of[ref])) for side, ref in sides]
    if leaving == [None, None]:
        return None
    shapes = [
        (one.shape if one else None) or request.shape_of(side.refs[ref])
        for one, (side, ref) in zip(leaving, sides, strict=True)
    ]
    is_view = any(side.op_with(ref).key.op_type in VIEW_TYPES for side, ref in sides)
    is_viewed = is_view or any(one.shape for one in leaving if one)
    made = transform_between(shapes, request.formats, is_viewed=is_viewed)
    # Other axes are a matter of the entry's own `transpose`.
    return None if isinstance(made, Message) or made.transpose else made


def _withhold(state: PairingState, work: _EntryWork) -> None:
    """Keep what the entry names in vain from later ways: the entry says that its partner is none they would find."""
    for side, other in ((state.left, state.right), (state.right, state.left)):
        _, numbers = work.of_side(side)
        partners = [other.ops[number] for number in work.of_side(other)[1]]
        for number in _kept(side, numbers):
            alone = [ref for ref in work.tensors(side, number).values() if not state.is_paired(side.name, ref)]
            if alone:
                reason = _in_vain(work, side.ops[number], partners, other)
                for ref in alone:
                    state.withheld.setdefault((side.name, ref), reason)


def _in_vain(work: _EntryWork, op: SideOperator, partners: Sequence[SideOperator], other: Side) -> Message:
    said: dict[str, Parameter] = {"rule": work.label, "name": work.of_side(other)[0].op}
    here = [partner for partner in partners if compatible(op.common, partner.common)]
    if partners and not here:
        return Message("rule_pairs_but", {**said, "why": elsewhere(op, partners, side=other.name)})
    if here and not any(partner.kept for partner in here):
        return Message("rule_pairs_unselected", said)
    if work.lost and not work.pairs:
        return Message("rule_pairs_but", {**said, "why": next(iter(work.lost))[0]})
    return Message("rule_pairs_taken", said)
