"""Pairing by name: the true one, then the one that dump files write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_msdump.matching.pairing_state import Edge, Ledger, Made, settle
from pytest_msdump.matching.sides import Operator, Side, mangled_names
from pytest_msdump.model.tensor import mangle
from pytest_msdump.text import Message, say

if TYPE_CHECKING:
    from pytest_msdump.model.pairing import Transform

__all__ = ["pair_by_mangled_name", "pair_by_name"]


def pair_by_name(ledger: Ledger, transform: Transform) -> None:
    """Pair operators of one true name, or of one name as the files have it where a true one is unknown.

    Parameters
    ----------
    ledger : Ledger
        Gets the pairs, and the operators whose name is ambiguous.
    transform : Transform
        What each pair carries.
    """
    right = ledger.right

    def partners(op: Operator) -> Sequence[int]:
        same_file = right.files.meeting(op.key.name, op.meeting) if ledger.trusts_files else []
        if same_file:
            return same_file
        found = right.labels.meeting(op.key.label, op.meeting)
        if op.key.true_name is None and right.files:
            return [*found, *right.files.meeting(op.key.name, op.meeting)]
        return found

    _pair(ledger, partners, how="name", by=lambda _: say(Message("same_name")), transform=transform)


def pair_by_mangled_name(ledger: Ledger, transform: Transform) -> None:
    """Pair operators whose names are the same once they are written as dump files write them.

    Parameters
    ----------
    ledger : Ledger
        Gets the pairs, and the operators whose name is ambiguous.
    transform : Transform
        What each pair carries.
    """
    right = ledger.right

    def partners(op: Operator) -> Sequence[int]:
        # A graph may give a file's number to another operator; where the other side has no graph, files alone tell.
        own = [] if not ledger.trusts_files else right.mangled.meeting(mangle(op.key.name), op.meeting)
        if own:
            return own
        return [number for spelling in mangled_names(op.key) for number in right.mangled.meeting(spelling, op.meeting)]

    _pair(ledger, partners, how="mangled", by=_same_name_as, transform=transform)


def _same_name_as(op: Operator) -> str:
    return say(Message("same_name_as", {"name": mangle(op.key.label)}))


def _pair(
    ledger: Ledger,
    partners: Callable[[Operator], Sequence[int]],
    *,
    how: str,
    by: Callable[[Operator], str],
    transform: Transform,
) -> None:
    left, right = ledger.left, ledger.right
    edges: list[Edge] = []
    is_blank = ledger.is_blank
    for number in ledger.open_ops(left):
        op = left.ops[number]
        if _is_offered(left, number, ledger) and (is_blank or not _is_done(left, op, ledger)):
            found = dict.fromkeys(partners(op))
            edges += [(number, other) for other in found if _may_meet(ledger, number, other, is_blank=is_blank)]
    certain, doubtful = settle(left, right, edges)
    for one, other in certain:
        ledger.join_operators(one, other)
        ours, theirs = left.ops[one], right.ops[other]
        partners_of = right.selected(theirs)
        for port, ref in left.selected(ours).items():
            partner = partners_of.get(port)
            if partner is not None and ledger.are_free(ref, partner, ours, theirs):
                ledger.record(Made(ref, partner, how, by(ours), transform))
    _bar(ledger, certain, doubtful)


def _is_offered(side: Side, number: int, ledger: Ledger) -> bool:
    op = side.ops[number]
    is_barred = ledger.ambiguous and (side.name, number) in ledger.ambiguous
    return op.kept and not is_barred and bool(side.selected(op))


def _is_done(side: Side, op: Operator, ledger: Ledger) -> bool:
    for ref in side.selected(op).values():  # noqa: SIM110 - a generator for each operator takes most of the time
        if not ledger.is_done(side.name, ref):
            return False
    return True


def _may_meet(ledger: Ledger, one: int, other: int, *, is_blank: bool) -> bool:
    if not _is_offered(ledger.right, other, ledger):
        return False
    if is_blank:
        return True
    if not ledger.operators_free(one, other):
        return False
    left, right = ledger.left.ops[one], ledger.right.ops[other]
    return any(ledger.left_free(ref, right) for ref in ledger.left.selected(left).values()) and any(
        ledger.right_free(ref, left) for ref in ledger.right.selected(right).values()
    )


def _bar(ledger: Ledger, certain: Sequence[Edge], doubtful: Sequence[Edge]) -> None:
    """Keep operators of a doubtful name from later ways: one that leaves fewer rivals would guess."""
    if not doubtful:
        return
    of_left: dict[int, set[int]] = defaultdict(set)
    of_right: dict[int, set[int]] = defaultdict(set)
    for one, other in doubtful:
        of_left[one].add(other)
        of_right[other].add(one)
    lefts, rights = {one for one, _ in certain}, {other for _, other in certain}
    for one, others in of_left.items():
        if one not in lefts:
            ours = set().union(*(of_right[other] for other in others))
            ledger.ambiguous["left", one] = (_share_a_name(ledger, ours, others), tuple(sorted(others)))
    for other, ones in of_right.items():
        if other not in rights:
            theirs = set().union(*(of_left[one] for one in ones))
            ledger.ambiguous["right", other] = (_share_a_name(ledger, ones, theirs), tuple(sorted(ones)))


def _share_a_name(ledger: Ledger, lefts: set[int], rights: set[int]) -> Message:
    from pytest_msdump.matching.explain import listed, typed_name

    ours = listed(typed_name(ledger.left.ops[number].key) for number in sorted(lefts))
    theirs = listed(typed_name(ledger.right.ops[number].key) for number in sorted(rights))
    return Message("share_a_name", {"ours": ours, "theirs": theirs})
