"""Pairing by name: the true one, then the one that dump files write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from pytest_msdump.matching.explain import listed, typed_name
from pytest_msdump.matching.pairing_state import (
    FoundPair,
    OperatorPair,
    PairingRequest,
    PairingState,
    resolve_ambiguity,
)
from pytest_msdump.matching.sides import Operator, Side, mangled_names
from pytest_msdump.model.tensor import mangle
from pytest_msdump.text import Message, say

__all__ = ["pair_by_mangled_name", "pair_by_name"]


def pair_by_name(state: PairingState, request: PairingRequest) -> None:
    """Pair operators of one true name, or of one name as the files have it where a true one is unknown."""
    right = state.right

    def namesakes(op: Operator) -> Sequence[int]:
        if state.trusts_files and (same_file := right.files.find(op.key.name, op.common)):
            return same_file
        found = right.labels.find(op.key.label, op.common)
        return found + right.files.find(op.key.name, op.common) if op.key.true_name is None else found

    _pair(state, request, "name", namesakes, lambda _: Message("same_name"))


def pair_by_mangled_name(state: PairingState, request: PairingRequest) -> None:
    """Pair operators whose names are the same once they are written as dump files write them."""
    right = state.right

    def namesakes(op: Operator) -> Sequence[int]:
        # A graph may give a file's number to another operator; where one side has no graph, the file's name decides.
        if state.trusts_files and (same_file := right.mangled.find(mangle(op.key.name), op.common)):
            return same_file
        return [number for spelling in mangled_names(op.key) for number in right.mangled.find(spelling, op.common)]

    _pair(state, request, "mangled", namesakes, lambda op: Message("same_name_as", {"name": mangle(op.key.label)}))


def _pair(
    state: PairingState,
    request: PairingRequest,
    how: str,
    namesakes: Callable[[Operator], Sequence[int]],
    rule: Callable[[Operator], Message],
) -> None:
    left, right = state.left, state.right
    candidates = [
        (number, other)
        for number in state.open_operators(left)
        if _is_offered(state, left, number)
        for other in dict.fromkeys(namesakes(left.ops[number]))
        if _is_offered(state, right, other) and state.may_join(number, other)
    ]
    certain, doubtful = resolve_ambiguity(left, right, candidates)
    for one, other in certain:
        state.join_operators(one, other)
        ours, theirs = left.ops[one], right.ops[other]
        by, partners = say(rule(ours)), right.selected(theirs)
        for port, ref in left.selected(ours).items():
            partner = partners.get(port)
            if (
                partner is not None
                and state.is_free("left", ref, theirs.at)
                and state.is_free("right", partner, ours.at)
            ):
                state.add(FoundPair(ref, partner, how, by, request.formats))
    _mark_ambiguous(state, certain, doubtful)


def _is_offered(state: PairingState, side: Side, number: int) -> bool:
    op = side.ops[number]
    return op.kept and (side.name, number) not in state.ambiguous and bool(side.selected(op))


def _mark_ambiguous(state: PairingState, certain: Sequence[OperatorPair], doubtful: Sequence[OperatorPair]) -> None:
    """Keep operators of a doubtful name from later ways: one that leaves fewer rivals would guess."""
    of_left: defaultdict[int, set[int]] = defaultdict(set)
    of_right: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in doubtful:
        of_left[one].add(other)
        of_right[other].add(one)
    for one in of_left.keys() - {one for one, _ in certain}:
        lefts = set().union(*(of_right[other] for other in of_left[one]))
        state.ambiguous["left", one] = (_shared_name(state, lefts, of_left[one]), tuple(sorted(of_left[one])))
    for other in of_right.keys() - {other for _, other in certain}:
        rights = set().union(*(of_left[one] for one in of_right[other]))
        state.ambiguous["right", other] = (_shared_name(state, of_right[other], rights), tuple(sorted(of_right[other])))


def _shared_name(state: PairingState, lefts: set[int], rights: set[int]) -> Message:
    ours = listed(typed_name(state.left.ops[number].key) for number in sorted(lefts))
    theirs = listed(typed_name(state.right.ops[number].key) for number in sorted(rights))
    return Message("share_a_name", {"ours": ours, "theirs": theirs})
