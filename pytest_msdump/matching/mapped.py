"""Pairing by the entries of ``[[msdump.map]]``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache

from pytest_msdump.errors import ConfigError
from pytest_msdump.matching.addresses import Address, Lost, MapEntry, parse_address
from pytest_msdump.matching.coordinates import Key, Meeting, Wanted, meets, wanted_by_entry, without_occurrence
from pytest_msdump.matching.explain import elsewhere, listed, place_text, slots_listed, typed_name
from pytest_msdump.matching.pairing_state import Edge, Ledger, Made, settle
from pytest_msdump.matching.sides import NameIndex, Operator, Port, Side
from pytest_msdump.model.pairing import Transform
from pytest_msdump.text import Message, Parameter, in_clauses

__all__ = ["pair_by_map"]


@dataclass(slots=True)
class Work:
    """One entry while it is applied: whom it names, and what became of it.

    Parameters
    ----------
    entry : MapEntry
        As written.
    label : str
        What messages call it.
    left, right : Address
        Its addresses, read.
    wanted : tuple
        The left places it is restricted to.
    left_ops, right_ops : list of int
        The operators it names, those outside the selection as well.
    pairs : list of (int, int)
        Tensors it pairs, as positions in the sides' `refs`.
    lost : dict
        (reason, absent sides) of what could not be paired; a dict for its order.
    """

    entry: MapEntry
    label: str
    left: Address
    right: Address
    wanted: Wanted
    left_ops: list[int] = field(default_factory=list)
    right_ops: list[int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    lost: dict[tuple[Message, tuple[str, ...]], None] = field(default_factory=dict)

    def lose(self, reason: Message, *absent: str) -> None:
        """Note once that something could not be paired, and on which sides a similar name may help."""
        self.lost.setdefault((reason, absent))


def work_of(entry: MapEntry, number: int) -> Work:
    """Read the addresses of the entry that was written as the `number`-th, counted from 1."""
    label = entry.label or f"map entry {number}"
    return Work(entry, label, parse_address(entry.left), parse_address(entry.right), wanted_by_entry(entry))


class Claims:
    """Which entry names which left tensor; two for one is an error of the suite file, whatever was dumped."""

    def __init__(self) -> None:
        self._claims: dict[object, list[tuple[str, Wanted]]] = {}

    def of_texts(self, works: Sequence[Work]) -> None:
        """Refuse two entries that spell the same left address."""
        for work in works:
            self._claim(work.left, work, work.entry.left)

    def of_tensors(self, work: Work, left: Side) -> None:
        """Refuse an entry whose left tensors another entry has, however it spells them."""
        ops = [left.ops[number] for number in work.left_ops]
        refs = [ref for ref, _ in work.pairs] or [
            ref for op in ops for ref in tensors_named(left, op, work.left).values()
        ]
        for ref in dict.fromkeys(refs):
            self._claim(ref, work, left.refs[ref].key.address)

    def _claim(self, what: object, work: Work, name: str) -> None:
        claims = self._claims.setdefault(what, [])
        for label, wanted in claims:
            if overlap(wanted, work.wanted):
                raise ConfigError(f"{label} and {work.label} both name the left tensor {name}; keep one of them")
        claims.append((work.label, work.wanted))


def overlap(one: Wanted, other: Wanted) -> bool:
    """Whether some place is asked for by both."""
    return all(a is None or b is None or a & b for a, b in zip(one, other, strict=True))


def tensors_named(side: Side, op: Operator, address: Address) -> dict[Port, int]:
    """Return the tensors of an operator that an address names, whatever inputs or outputs are selected if it says."""
    if address.port is None:
        return side.selected(op)
    return {address.port: op.tensors[address.port]} if address.port in op.tensors else {}


# -- Pairing by the entries of ``[[msdump.map]]`` --------------------------------------------------------------------


def pair_by_map(
    ledger: Ledger, entries: Sequence[MapEntry], *, meeting: Meeting, selected: Wanted, formats: Transform
) -> list[Lost]:
    """Pair what the entries name, in their order.

    Parameters
    ----------
    ledger : Ledger
        Gets the pairs, and holds back the tensors that an entry names in vain.
    entries : sequence of MapEntry
        In the order written.
    meeting : Meeting
        Which places meet.
    selected : tuple
        The selected left places; an entry for other places asks for nothing.
    formats : Transform
        The sides' axis orders, for entries without `transpose`.

    Returns
    -------
    list of Lost
        What was asked for and could not be paired.

    Raises
    ------
    ConfigError
        Two entries name one left tensor.

    Notes
    -----
    Several entries may name one right tensor; each is a pair. A gradient leaves one operator and enters the optimizer.
    """
    works = [work_of(entry, number) for number, entry in enumerate(entries, start=1)]
    claims = Claims()
    claims.of_texts(works)
    works = [work for work in works if overlap(work.wanted, selected)]
    lost = []
    for work in works:
        work.left_ops = _ops_of(ledger.left, work.left, work.wanted, meeting.wants_left)
        work.right_ops = _ops_of(ledger.right, work.right, work.wanted, meeting.wants_right)
        _find_pairs(ledger, work)
        claims.of_tensors(work, ledger.left)
        _record(ledger, work, formats)
        lost += [Lost(work.entry, reason, absent) for reason, absent in work.lost]
    # Only now: what one entry names in vain, another may still pair.
    for work in works:
        _hold(ledger, work)
    return lost


def _ops_of(side: Side, address: Address, wanted: Wanted, wants: Callable[[Key, Wanted], bool]) -> list[int]:
    return [number for number in side.resolve(address) if wants(side.ops[number].at, wanted)]


def _find_pairs(ledger: Ledger, work: Work) -> None:
    left, right = ledger.left, ledger.right
    sides = ((left, work.left, work.left_ops), (right, work.right, work.right_ops))
    absent = {side.name: _absent(side, address, work) for side, address, found in sides if not found}
    if absent:
        work.lose(in_clauses(*absent.values()), *absent)
        return
    certain, doubtful = settle(left, right, _edges(ledger, work))
    if doubtful:
        ours = listed(typed_name(left.ops[a].key) for a, _ in doubtful)
        theirs = listed(typed_name(right.ops[b].key) for _, b in doubtful)
        work.lose(Message("entry_ambiguous", {"ours": ours, "theirs": theirs}))
    for edge in certain:
        _pair_slots(ledger, work, edge)
    _find_gaps(left, work.left_ops, right, work.right_ops, work)
    _find_gaps(right, work.right_ops, left, work.left_ops, work)
    if not work.pairs and not work.lost and _kept(left, work.left_ops) and _kept(right, work.right_ops):
        work.lose(_never_meet(ledger, work))


def _kept(side: Side, numbers: Sequence[int]) -> list[int]:
    return [number for number in numbers if side.ops[number].kept]


def _edges(ledger: Ledger, work: Work) -> list[Edge]:
    kept = _kept(ledger.right, work.right_ops)
    theirs = NameIndex((work.right.op, ledger.right.ops[number].meeting, number) for number in kept)
    ours = _kept(ledger.left, work.left_ops)
    return [(a, b) for a in ours for b in theirs.meeting(work.right.op, ledger.left.ops[a].meeting)]


def _absent(side: Side, address: Address, work: Work) -> Message:
    """Return that no operator of that address is there, or that it is there at places the entry leaves out."""
    if not side.refs:
        return Message("side_is_empty", {"side": side.name})
    places = listed(f"({place_text(side.ops[number].at)})" for number in side.resolve(address))
    said: dict[str, Parameter] = {"name": address.op, "side": side.name}
    if places:
        return Message("operator_left_out_by_entry", {**said, "places": places, "rule": work.label})
    return Message("no_operator_named", said)


def _pair_slots(ledger: Ledger, work: Work, edge: Edge) -> None:
    left, right = ledger.left.ops[edge[0]], ledger.right.ops[edge[1]]
    ours, theirs = tensors_named(ledger.left, left, work.left), tensors_named(ledger.right, right, work.right)
    if work.left.port is not None and work.right.port is None:
        theirs = _answering(ledger.right, right, work.left.port)
    if work.right.port is not None and work.left.port is None:
        ours = _answering(ledger.left, left, work.right.port)
    if work.left.port is None and work.right.port is None:
        pairs = [(ours[port], theirs[port]) for port in ours if port in theirs]
        pairs += _single_outputs(ours, theirs)
    else:
        pairs = list(zip(ours.values(), theirs.values(), strict=False))
    if not pairs and (ours or theirs):
        work.lose(_no_slot(ledger, work, edge))
    work.pairs += pairs


def _answering(side: Side, op: Operator, port: Port) -> dict[Port, int]:
    """Return the tensor that an address without a slot means beside one that has a slot: the same, or the only one."""
    if port in op.tensors:
        return {port: op.tensors[port]}
    selected = side.selected(op)
    return selected if len(selected) == 1 else {}


def _single_outputs(ours: dict[Port, int], theirs: dict[Port, int]) -> list[tuple[int, int]]:
    """Return the two outputs when each side has one, if their slots differ."""
    left = [port for port in ours if port[0] == "output"]
    right = [port for port in theirs if port[0] == "output"]
    alone = len(left) == len(right) == 1 and left != right
    return [(ours[left[0]], theirs[right[0]])] if alone else []


def _no_slot(ledger: Ledger, work: Work, edge: Edge) -> Message:
    parts: list[Message] = []
    for side, number, address in (
        (ledger.left, edge[0], work.left),
        (ledger.right, edge[1], work.right),
    ):
        op = side.ops[number]
        said: dict[str, Parameter] = {"name": op.key.label, "side": side.name, "slots": slots_listed(op.tensors)}
        if address.port:
            parts.append(Message("has_slots_asked", {**said, "slot": f"{address.io}:{address.slot}"}))
        else:
            parts.append(Message("has_slots", said))
    place = place_text(ledger.left.ops[edge[0]].at)
    return Message("entry_without_slots", {"place": place, "parts": tuple(parts)})


def _find_gaps(side: Side, ops: Sequence[int], other: Side, others: Sequence[int], work: Work) -> None:
    """Find places that both sides dumped, where only one of them has the operator.

    Occurrences are left out: a loop may run more often on one side, and the surplus is unmatched, not missing.
    `others` may be outside the selection: an operator that only another rank has is not lost at this one.
    """
    present = {without_occurrence(other.ops[number].meeting) for number in others}
    address = work.right if other.name == "right" else work.left
    for number in _kept(side, ops):
        op = side.ops[number]
        place = without_occurrence(op.meeting)
        if not _any_meets(place, present) and _any_meets(place, other.places):
            where = place_text((*op.at[:-1], None))
            said = {"name": address.op, "side": other.name, "place": where}
            work.lose(Message("no_operator_named_at", said), other.name)


def _any_meets(place: Key, places: AbstractSet[Key]) -> bool:
    return place in places or any(meets(place, other) for other in places)


def _never_meet(ledger: Ledger, work: Work) -> Message:
    left, right = ledger.left, ledger.right
    ours = [left.ops[number] for number in _kept(left, work.left_ops)]
    theirs = [right.ops[number] for number in _kept(right, work.right_ops)]
    if any(meets(one.meeting, other.meeting) for one in ours for other in theirs):
        return Message("entry_names_nothing", {"rule": work.label})
    return Message("of_operator", {"name": work.right.op, "why": elsewhere(ours[0], theirs, side="right")})


def _record(ledger: Ledger, work: Work, formats: Transform) -> None:
    entry = work.entry
    used = formats if entry.transpose is None else Transform()
    transform = _transform(used.left_format, used.right_format, entry.transpose, entry.reshape)
    right = ledger.right
    found, work.pairs = work.pairs, []
    for one, other in found:
        theirs = right.ops[right.op_of[other]]
        # The right one may be several left tensors' partner: what one operator gives and another takes.
        if ledger.left_free(one, theirs):
            ledger.record(Made(one, other, "mapped", work.label, transform))
            work.pairs.append((one, other))
        else:
            work.lose(_taken(ledger, one))


# Of very many entries: whoever works something out for pairs of one kind asks whether they have the same object.
_transform = lru_cache(maxsize=256)(Transform)


def _taken(ledger: Ledger, left: int) -> Message:
    """Return which entry, for another rank or iteration, has a left tensor that is of no rank or iteration itself."""
    first = next(made for made in ledger.made if made.left == left)
    address, partner = ledger.left.refs[left].key.address, ledger.right.refs[first.right].key.address
    return Message("already_paired", {"name": address, "side": "left", "partner": partner, "rule": first.by})


def _hold(ledger: Ledger, work: Work) -> None:
    """Keep what the entry names in vain from the ways that follow: it says whose partner a tensor is not."""
    left, right = ledger.left, ledger.right
    for side, address, numbers, other, others in (
        (left, work.left, work.left_ops, right, work.right_ops),
        (right, work.right, work.right_ops, left, work.left_ops),
    ):
        for number in _kept(side, numbers):
            named = tensors_named(side, side.ops[number], address)
            alone = [ref for ref in named.values() if not ledger.is_paired(side.name, ref)]
            partners = [other.ops[other_number] for other_number in others]
            if alone:
                reason = _in_vain(work, side.ops[number], partners, other.name)
                for ref in alone:
                    ledger.held.setdefault((side.name, ref), reason)


def _in_vain(work: Work, op: Operator, partners: Sequence[Operator], side: str) -> Message:
    said: dict[str, Parameter] = {"rule": work.label, "name": work.right.op if side == "right" else work.left.op}
    here = [other for other in partners if meets(op.meeting, other.meeting)]
    if partners and not here:
        return Message("rule_pairs_but", {**said, "why": elsewhere(op, partners, side=side)})
    if here and not any(other.kept for other in here):
        return Message("rule_pairs_unselected", said)
    if work.lost and not work.pairs:
        return Message("rule_pairs_but", {**said, "why": next(iter(work.lost))[0]})
    return Message("rule_pairs_taken", said)
