"""What a rule file says of the right tensors that it left without a partner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_msdump.facts.operators import REASONS
from pytest_msdump.matching.entries import Lost, MapEntry
from pytest_msdump.matching.explain import elsewhere, listed, place_text
from pytest_msdump.matching.ledger import Ledger
from pytest_msdump.matching.meeting import meets, without_occurrence
from pytest_msdump.matching.origins import Rulebook
from pytest_msdump.matching.sides import Operator, Side
from pytest_msdump.matching.spellings import Identified, doubt_text
from pytest_msdump.model import graph

__all__ = ["dumps_beside", "explain_right", "repeats_beside", "where_text"]


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
    lost: dict[tuple[str, str, str], Lost] = {}
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
                ledger.held["right", ref] = doubt_text(op, names, book.label)
                continue
            remain = _Remain(ledger, book, lefts, op, names[0])
            reason = remain.reason(io, slot)
            if reason and ref not in fed:
                ledger.held["right", ref] = reason
            if remain.lost_as:
                entry = MapEntry(remain.lost_as, right.refs[ref].key.address)
                lost.setdefault((entry.left, entry.right, reason), Lost(entry, reason, ("left",)))
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

    def reason(self, io: str, slot: int) -> str:
        """Say why a tensor has no partner; empty when the rules do not know it. May set `lost_as`."""
        if io != "output":
            return REASONS["right_input"]
        makers = self._book.makers(self._name, slot)
        if not makers:
            return self._without_maker(slot)
        if doubts := [doubt for maker, _ in makers for doubt in self._lefts.doubts_of(maker.name)]:
            left = self._ledger.left.ops[doubts[0]]
            return doubt_text(left, self._lefts.doubtful[doubts[0]], self._book.label)
        dumped = [(number, k) for maker, k in makers for number in self._lefts.ops_of(maker.name)]
        here = [(n, k) for n, k in dumped if meets(self._ledger.left.ops[n].meeting, self._op.meeting)]
        if told := next(self._told(here), ""):
            return told
        barred = [self._book.output_barred(maker, k) or self._book.undumped(maker) or "" for maker, k in makers]
        if all(barred):
            return f"{makers[0][0].name} on the left side: {barred[0]}"
        bound = [maker for maker, why in zip(makers, barred, strict=True) if not why]
        return self._not_dumped(bound[0], [number for number, _ in dumped], bool(here))

    def _without_maker(self, slot: int) -> str:
        hosts = [host.name for host in self._book.hosts(self._name)]
        if self._book.is_origin(self._name):
            return f"{self._book.label} does not know output {slot} of {self._name}"
        return REASONS["fused"].format(op=listed(hosts))

    def _told(self, here: Sequence[tuple[int, int]]) -> Iterator[str]:
        """Yield what is said of left tensors that could have been the partner."""
        left = self._ledger.left
        for number, k in here:
            op = left.ops[number]
            if not op.kept:
                yield f"the selection leaves out {op.key.label} on the left side"
            ref = op.tensors.get(("output", k))
            if ref is None:
                continue
            address = left.refs[ref].key.address
            if held := self._ledger.held.get(("left", ref)):
                yield f"{address} on the left side: {held}"
            elif self._ledger.is_paired("left", ref):
                yield f"{address} on the left side is paired otherwise"
            else:
                yield f"{address} on the left side is not selected"

    def _not_dumped(self, maker: tuple[graph.Operator, int], dumped: Sequence[int], is_here: bool) -> str:
        left, (operator, k) = self._ledger.left, maker
        address = f"{operator.name}:output:{k}"
        says = f"{self._book.label} pairs it with {address}"
        if is_here:
            reason = f"{says}, but the left side has no such output of it"
        elif dumped:
            reason = f"{says}: {elsewhere(self._op, [left.ops[number] for number in dumped], side='left')}"
        else:
            reason = f"{says}, which the left side did not dump"
        repeats = not is_here and repeats_beside(self._op, [left.ops[number] for number in dumped])
        if repeats or not dumps_beside(left, self._op):
            return reason
        self.lost_as = address
        return reason + where_text(self._ledger.right, self._op)


def dumps_beside(side: Side, op: Operator) -> bool:
    """Whether a side dumped anything where this operator of the other side is; a loop may run more often there."""
    place = without_occurrence(op.meeting)
    return place in side.places or any(meets(place, other) for other in side.places)


def repeats_beside(op: Operator, others: Sequence[Operator]) -> bool:
    """Whether the other side has an operator here, only not as often: the surplus of a loop is not lost."""
    here = without_occurrence(op.meeting)
    return any(meets(without_occurrence(other.meeting), here) for other in others)


def where_text(side: Side, op: Operator) -> str:
    """Return the place of a side's operator in brackets, where the side has more than one."""
    where = place_text((*op.at[:-1], None))
    return f" (at {where})" if where and len(side.places) > 1 else ""
