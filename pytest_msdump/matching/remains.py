"""What a rule file says of the right tensors that it left without a partner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_msdump.matching.entries import Lost, MapEntry
from pytest_msdump.matching.explain import elsewhere, listed, place_text
from pytest_msdump.matching.ledger import Ledger
from pytest_msdump.matching.meeting import meets, without_occurrence
from pytest_msdump.matching.origins import Rulebook
from pytest_msdump.matching.sides import Operator, Side
from pytest_msdump.matching.spellings import Identified, name_doubt
from pytest_msdump.model import graph
from pytest_msdump.text import Message, Parameter

__all__ = ["at_place", "dumps_beside", "explain_right", "repeats_beside"]


def explain_right(ledger: Ledger, book: Rulebook, lefts: Identified, rights: Identified) -> list[Lost]:
    """Hold back the right tensors that the rules know and that have no partner, each with its reason.

    A right tensor that only inputs of the left side met may have lost the output that it is to be compared with.

    Parameters
    ----------
    ledger : Ledger
        After all left tensors were tried.
    book : Rulebook
        The rules.
    lefts, rights : Identified
        Which operators of the sides the rules name.

    Returns
    -------
    list of Lost
        Tensors whose left partner is bound to be there, and was not dumped.
    """
    lost: dict[tuple[str, str, Message], Lost] = {}
    right, fed = ledger.right, _met_by_inputs_alone(ledger)
    for number in sorted({*ledger.unpaired_ops(right), *(right.op_of[ref] for ref in fed)}):
        op = right.ops[number]
        names = rights.doubtful.get(number) or [name for name in [rights.name_of.get(number)] if name]
        if not op.kept or not names:
            continue
        for (io, slot), ref in right.selected(op).items():
            if ledger.is_settled("right", ref) and ref not in fed:
                continue
            if len(names) > 1:
                ledger.held["right", ref] = name_doubt(op, names, book.label)
                continue
            remain = _Remain(ledger, book, lefts, op, names[0])
            why = remain.reason(io, slot)
            if ref not in fed:
                ledger.held["right", ref] = why
            if remain.lost_as:
                entry = MapEntry(remain.lost_as, right.refs[ref].key.address)
                lost.setdefault((entry.left, entry.right, why), Lost(entry, why, ("left",)))
    return list(lost.values())


def _met_by_inputs_alone(ledger: Ledger) -> set[int]:
    """Return the right tensors that inputs of the left side met and no output, where outputs are compared."""
    left = ledger.left
    if "output" not in left.directions:
        return set()
    met: dict[str, set[int]] = {"input": set(), "output": set()}
    for made in ledger.made:
        met[left.refs[made.left].key.io].add(made.right)
    return met["input"] - met["output"] if met["output"] else set()


class _Remain:
    """One right operator that the rules know as `name`, while one of its tensors is looked at."""

    def __init__(self, ledger: Ledger, book: Rulebook, lefts: Identified, op: Operator, name: str) -> None:
        self._ledger = ledger
        self._book = book
        self._lefts = lefts
        self._op = op
        self._name = name
        self.lost_as = ""

    def reason(self, io: str, slot: int) -> Message:
        """Return why a tensor has no partner. May set `lost_as`."""
        if io != "output":
            return Message("right_input")
        makers = self._book.makers(self._name, slot)
        if not makers:
            return self._without_maker(slot)
        if doubts := [doubt for maker, _ in makers for doubt in self._lefts.doubts_of(maker.name)]:
            left = self._ledger.left.ops[doubts[0]]
            return name_doubt(left, self._lefts.doubtful[doubts[0]], self._book.label)
        dumped = [(number, k) for maker, k in makers for number in self._lefts.ops_of(maker.name)]
        here = [(n, k) for n, k in dumped if meets(self._ledger.left.ops[n].meeting, self._op.meeting)]
        if why := next(self._of_partners(here), None):
            return why
        barred = [self._book.output_barred(maker, k) or self._book.undumped(maker) for maker, k in makers]
        if all(barred):
            return Message("of_left", {"name": makers[0][0].name, "why": barred[0]})
        bound = [maker for maker, why in zip(makers, barred, strict=True) if not why]
        return self._not_dumped(bound[0], [number for number, _ in dumped], bool(here))

    def _without_maker(self, slot: int) -> Message:
        hosts = [host.name for host in self._book.hosts(self._name)]
        if self._book.is_origin(self._name):
            return Message("unknown_output", {"rule": self._book.label, "slot": slot, "name": self._name})
        return Message("fused", {"op": listed(hosts)})

    def _of_partners(self, here: Sequence[tuple[int, int]]) -> Iterator[Message]:
        """Yield what became of left tensors that could have been the partner."""
        left = self._ledger.left
        for number, k in here:
            op = left.ops[number]
            if not op.kept:
                yield Message("left_out_by_selection", {"name": op.key.label, "side": "left"})
            ref = op.tensors.get(("output", k))
            if ref is None:
                continue
            said: dict[str, Parameter] = {"name": left.refs[ref].key.address, "side": "left"}
            if held := self._ledger.held.get(("left", ref)):
                yield Message("of_left", {"name": said["name"], "why": held})
            elif self._ledger.is_paired("left", ref):
                yield Message("paired_otherwise", said)
            else:
                yield Message("not_selected", said)

    def _not_dumped(self, maker: tuple[graph.Operator, int], dumped: Sequence[int], is_here: bool) -> Message:
        left, (operator, k) = self._ledger.left, maker
        address = f"{operator.name}:output:{k}"
        said: dict[str, Parameter] = {"rule": self._book.label, "name": address, "side": "left"}
        if is_here:
            reason = Message("rule_pairs_no_output", said)
        elif dumped:
            there = elsewhere(self._op, [left.ops[number] for number in dumped], side="left")
            reason = Message("rule_pairs_but", {**said, "why": there})
        else:
            reason = Message("rule_pairs_undumped", said)
        repeats = not is_here and repeats_beside(self._op, [left.ops[number] for number in dumped])
        if repeats or not dumps_beside(left, self._op):
            return reason
        self.lost_as = address
        return at_place(reason, self._ledger.right, self._op)


def dumps_beside(side: Side, op: Operator) -> bool:
    """Whether a side dumped anything where this operator of the other side is; a loop may run more often there."""
    place = without_occurrence(op.meeting)
    return place in side.places or any(meets(place, other) for other in side.places)


def repeats_beside(op: Operator, others: Sequence[Operator]) -> bool:
    """Whether the other side has an operator here, only not as often: the surplus of a loop is not lost."""
    here = without_occurrence(op.meeting)
    return any(meets(without_occurrence(other.meeting), here) for other in others)


def at_place(why: Message, side: Side, op: Operator) -> Message:
    """Add the place of a side's operator, where the side has more than one."""
    where = place_text((*op.at[:-1], None))
    return Message("at_place", {"why": why, "place": where}) if where and len(side.places) > 1 else why
