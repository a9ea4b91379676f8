"""Pairing by the entries of ``[[msdump.map]]``."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pytest_msdump.errors import ConfigError
from pytest_msdump.matching.addresses import Address, parse_address
from pytest_msdump.matching.entries import MapEntry
from pytest_msdump.matching.explain import elsewhere, listed, place_text, slots_text, typed_name
from pytest_msdump.matching.ledger import Ledger, Made
from pytest_msdump.matching.meeting import Key, Meeting, Wanted, meets, wanted_by_entry, without_occurrence
from pytest_msdump.matching.settle import Edge, settle
from pytest_msdump.matching.sides import NameIndex, Operator, Port, Side
from pytest_msdump.model.pairing import Transform

__all__ = ["Lost", "pair_by_map"]


@dataclass(frozen=True, slots=True)
class Lost:
    """An entry's pair that could not be made: why, and on which side a similar name may help ("" = neither)."""

    entry: MapEntry
    reason: str
    absent: str = ""


@dataclass(slots=True)
class _Work:
    """One entry while it is applied: whom it names, and what became of it."""

    entry: MapEntry
    label: str
    left: Address
    right: Address
    wanted: Wanted
    left_ops: list[int] = field(default_factory=list)
    right_ops: list[int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    lost: dict[tuple[str, str], None] = field(default_factory=dict)

    def lose(self, reason: str, absent: str = "") -> None:
        self.lost.setdefault((reason, absent))


def pair_by_map(ledger: Ledger, entries: Sequence[MapEntry], meeting: Meeting, formats: Transform) -> list[Lost]:
    """Pair what the entries name, in their order.

    Parameters
    ----------
    ledger : Ledger
        Gets the pairs, and holds back the tensors that an entry names in vain.
    entries : sequence of MapEntry
        In the order written.
    meeting : Meeting
        Which places meet.
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
    """
    works = [_work(entry, number) for number, entry in enumerate(entries, start=1)]
    claims = _Claims()
    claims.of_texts(works)
    lost = []
    for work in works:
        work.left_ops = _ops_of(ledger.left, work.left, work.wanted, meeting)
        work.right_ops = _ops_of(ledger.right, work.right, work.wanted, meeting)
        _find_pairs(ledger, work)
        claims.of_tensors(work, ledger.left)
        _record(ledger, work, formats)
        lost += [Lost(work.entry, reason, absent) for reason, absent in work.lost]
    # Only now: what one entry names in vain, another may still pair.
    for work in works:
        _hold(ledger, work)
    return lost


def _work(entry: MapEntry, number: int) -> _Work:
    label = entry.label or f"map entry {number}"
    return _Work(entry, label, parse_address(entry.left), parse_address(entry.right), wanted_by_entry(entry))


def _ops_of(side: Side, address: Address, wanted: Wanted, meeting: Meeting) -> list[int]:
    wants = meeting.wants_left if side.name == "left" else meeting.wants_right
    found = side.resolve(address)
    return [number for number in found if side.ops[number].kept and wants(side.ops[number].at, wanted)]


class _Claims:
    """Which entry names which left tensor; two for one is an error of the suite file, whatever was dumped."""

    def __init__(self) -> None:
        self._claims: dict[object, list[tuple[str, Wanted]]] = {}

    def of_texts(self, works: Sequence[_Work]) -> None:
        """Refuse two entries that spell the same left address."""
        for work in works:
            self._claim(work.left, work, work.entry.left)

    def of_tensors(self, work: _Work, left: Side) -> None:
        """Refuse an entry whose left tensors another entry has, however it spells them."""
        named = [left.ops[number] for number in work.left_ops]
        refs = [ref for ref, _ in work.pairs] or [ref for op in named for ref in _named(left, op, work.left).values()]
        for ref in dict.fromkeys(refs):
            self._claim(ref, work, left.refs[ref].key.address)

    def _claim(self, what: object, work: _Work, name: str) -> None:
        claims = self._claims.setdefault(what, [])
        for label, wanted in claims:
            if _overlap(wanted, work.wanted):
                raise ConfigError(f"{label} and {work.label} both name the left tensor {name}; keep one of them")
        claims.append((work.label, work.wanted))


def _overlap(one: Wanted, other: Wanted) -> bool:
    return all(a is None or b is None or a & b for a, b in zip(one, other, strict=True))


def _named(side: Side, op: Operator, address: Address) -> dict[Port, int]:
    """Return the tensors of an operator that an address names, whatever inputs or outputs are selected if it says."""
    if address.port is None:
        return side.selected(op)
    return {address.port: op.tensors[address.port]} if address.port in op.tensors else {}


def _find_pairs(ledger: Ledger, work: _Work) -> None:
    left, right = ledger.left, ledger.right
    for side, address, found in ((left, work.left, work.left_ops), (right, work.right, work.right_ops)):
        if not found:
            work.lose(_absent(side, address, work), side.name)
    certain, doubtful = settle(left, right, _edges(ledger, work))
    if doubtful:
        ours = listed(typed_name(left.ops[a].key) for a, _ in doubtful)
        theirs = listed(typed_name(right.ops[b].key) for _, b in doubtful)
        work.lose(f"ambiguous: the entry names {ours} on the left and {theirs} on the right; TYPE.OP picks one")
    for edge in certain:
        _pair_slots(ledger, work, edge)
    if work.left_ops and work.right_ops:
        _find_gaps(left, work.left_ops, right, work.right_ops, work)
        _find_gaps(right, work.right_ops, left, work.left_ops, work)
    if not work.pairs and not work.lost:
        work.lose(_never_meet(ledger, work))


def _edges(ledger: Ledger, work: _Work) -> list[Edge]:
    theirs = NameIndex()
    for number in work.right_ops:
        theirs.add(work.right.op, ledger.right.ops[number].meeting, number)
    return [(a, b) for a in work.left_ops for b in theirs.meeting(work.right.op, ledger.left.ops[a].meeting)]


def _absent(side: Side, address: Address, work: _Work) -> str:
    """Say that no operator of that address is there, or that it is there at places which are not asked for."""
    if not side.refs:
        return f"the {side.name} side is empty"
    places = listed(f"({place_text(side.ops[number].at)})" for number in side.resolve(address))
    if places:
        return (
            f"{address.op} on the {side.name} side is only at {places}, which {work.label} or the selection leaves out"
        )
    return f"no operator {address.op} on the {side.name} side"


def _pair_slots(ledger: Ledger, work: _Work, edge: Edge) -> None:
    left, right = ledger.left.ops[edge[0]], ledger.right.ops[edge[1]]
    ours, theirs = _named(ledger.left, left, work.left), _named(ledger.right, right, work.right)
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


def _no_slot(ledger: Ledger, work: _Work, edge: Edge) -> str:
    parts = []
    for side, number, address in (
        (ledger.left, edge[0], work.left),
        (ledger.right, edge[1], work.right),
    ):
        op = side.ops[number]
        asked = f" (asked for: {address.io}:{address.slot})" if address.port else ""
        parts.append(f"{op.key.label} on the {side.name} side has {slots_text(op.tensors)}{asked}")
    return f"no slots to pair at ({place_text(ledger.left.ops[edge[0]].at)}): " + "; ".join(parts)


def _find_gaps(side: Side, ops: Sequence[int], other: Side, others: Sequence[int], work: _Work) -> None:
    """Find places that both sides dumped, where only one of them has the operator.

    Occurrences are left out: a loop may run more often on one side, and the surplus is unmatched, not missing.
    """
    present = {without_occurrence(other.ops[number].meeting) for number in others}
    address = work.right if other.name == "right" else work.left
    for number in ops:
        op = side.ops[number]
        place = without_occurrence(op.meeting)
        if not _any_meets(place, present) and _any_meets(place, other.places):
            where = place_text((*op.at[:-1], None))
            work.lose(f"no operator {address.op} on the {other.name} side at ({where})", other.name)


def _any_meets(place: Key, places: AbstractSet[Key]) -> bool:
    return place in places or any(meets(place, other) for other in places)


def _never_meet(ledger: Ledger, work: _Work) -> str:
    left, right = ledger.left, ledger.right
    ours = [left.ops[number] for number in work.left_ops]
    theirs = [right.ops[number] for number in work.right_ops]
    if any(meets(one.meeting, other.meeting) for one in ours for other in theirs):
        return f"neither side has a tensor that {work.label} names"
    return f"{work.right.op}: " + elsewhere(ours[0], theirs, side="right")


def _record(ledger: Ledger, work: _Work, formats: Transform) -> None:
    entry = work.entry
    used = formats if entry.transpose is None else Transform()
    transform = Transform(used.left_format, used.right_format, entry.transpose, entry.reshape)
    left, right = ledger.left, ledger.right
    found, work.pairs = work.pairs, []
    for one, other in found:
        ours, theirs = left.ops[left.op_of[one]], right.ops[right.op_of[other]]
        if ledger.left_free(one, theirs) and ledger.right_free(other, ours):
            ledger.record(Made(one, other, "mapped", work.label, transform))
            work.pairs.append((one, other))
        else:
            work.lose(_taken(ledger, other))


def _taken(ledger: Ledger, right: int) -> str:
    # A left tensor cannot be taken: two entries that name one are an error.
    first = next(made for made in ledger.made if made.right == right)
    address, partner = ledger.right.refs[right].key.address, ledger.left.refs[first.left].key.address
    return f"{address} on the right side is already paired with {partner} by {first.by}"


def _hold(ledger: Ledger, work: _Work) -> None:
    """Keep what the entry names in vain from the ways that follow: it says whose partner a tensor is not."""
    left, right = ledger.left, ledger.right
    for side, address, numbers, other, others in (
        (left, work.left, work.left_ops, right, work.right_ops),
        (right, work.right, work.right_ops, left, work.left_ops),
    ):
        for number in numbers:
            named = _named(side, side.ops[number], address)
            alone = [ref for ref in named.values() if not ledger.is_paired(side.name, ref)]
            partners = [other.ops[other_number] for other_number in others]
            reason = _in_vain(work, side.ops[number], partners, other.name) if alone else ""
            for ref in alone:
                ledger.held.setdefault((side.name, ref), reason)


def _in_vain(work: _Work, op: Operator, partners: Sequence[Operator], side: str) -> str:
    partner = work.right.op if side == "right" else work.left.op
    says = f"{work.label} pairs it with {partner}"
    if partners and not any(meets(op.meeting, other.meeting) for other in partners):
        return f"{says}: {elsewhere(op, partners, side=side)}"
    if work.lost and not work.pairs:
        return f"{says}: {next(iter(work.lost))[0]}"
    return f"{says}, which has no tensor left for this slot"
