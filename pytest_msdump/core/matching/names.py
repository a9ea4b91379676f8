"""Pairing by name: the true one, then the one that dump files write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from pytest_msdump.core import ports
from pytest_msdump.core.matching.explain import listed, typed_name
from pytest_msdump.core.matching.pairing_state import (
    FoundPair,
    OperatorPair,
    PairingRequest,
    PairingState,
    resolve_ambiguity,
)
from pytest_msdump.core.matching.sides import Side, SideOperator, mangled_names
from pytest_msdump.core.model.tensor import mangle
from pytest_msdump.core.text import Message, Parameter, say

# Running numbers are not trusted if more than one of so many means something else on the other side.
_MOST_DOUBTFUL = 10


def pair_by_name(state: PairingState, request: PairingRequest) -> None:
    """Pair operators of one true name, or of one name as the files have it where a true one is unknown."""
    for pair_by_meaning in ports.bound("named"):
        pair_by_meaning(state, request)
    right = state.right

    def namesakes(op: SideOperator) -> Sequence[int]:
        if state.trusts_files and (same_file := right.files.find(op.key.name, op.common)):
            return same_file
        found = right.labels.find(op.key.label, op.common)
        return found + right.files.find(op.key.name, op.common) if op.key.true_name is None else found

    by = say(Message("same_name"))
    _pair(state, request, "name", namesakes, lambda _: by)


def pair_by_mangled_name(state: PairingState, request: PairingRequest) -> None:
    """Pair operators whose names are the same once they are written as dump files write them."""
    right = state.right

    def namesakes(op: SideOperator) -> Sequence[int]:
        # A graph may give a file's number to another operator; where one side has no graph, the file's name decides.
        if state.trusts_files and (same_file := right.mangled.find(mangle(op.key.name), op.common)):
            return same_file
        return [number for spelling in mangled_names(op.key) for number in right.mangled.find(spelling, op.common)]

    def rule(op: SideOperator) -> str:
        return say(Message("same_name_as", {"name": mangle(op.key.label)}))

    _pair(state, request, "mangled", namesakes, rule)


def _pair(
    state: PairingState,
    request: PairingRequest,
    how: str,
    namesakes: Callable[[SideOperator], Sequence[int]],
    rule: Callable[[SideOperator], str],
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
    certain = _without_shifted_numbers(state, certain)
    for one, other in certain:
        state.join_operators(one, other)
        ours, theirs = left.ops[one], right.ops[other]
        by, partners = rule(ours), right.selected(theirs)
        if len(ours.tensors) > 1 or len(theirs.tensors) > 1:
            _withhold_outputs_alike(state, request, (one, other))
        for port, ref in left.selected(ours).items():
            partner = partners.get(port)
            if (
                partner is not None
                and state.is_free("left", ref, theirs.at)
                and state.is_free("right", partner, ours.at)
            ):
                state.add(FoundPair(ref, partner, how, by, request.formats))
    _mark_ambiguous(state, certain, doubtful)


def _withhold_outputs_alike(state: PairingState, request: PairingRequest, pair: OperatorPair) -> None:
    """Keep apart what leaves two modules where one gives out more, of one size: a sum, or its terms one by one."""
    sides = list(zip((state.left, state.right), pair, strict=True))
    if any(side.kind(number) != "container" for side, number in sides):
        return
    outputs = [{port: ref for port, ref in side.ops[op].tensors.items() if port[0] == "output"} for side, op in sides]
    more = 0 if len(outputs[0]) > len(outputs[1]) else 1
    first = [own["output", 0] for own in outputs if ("output", 0) in own]
    if len(outputs[0]) == len(outputs[1]) or len(first) < len(outputs):
        return
    side, number = sides[more]
    shapes = {port: request.shape_of(side.refs[ref]) for port, ref in outputs[more].items()}
    further = [port for port, shape in shapes.items() if shape is not None and shape == shapes["output", 0]]
    beyond = [port for port in further if port not in outputs[1 - more]]
    if beyond:
        said: dict[str, Parameter] = {"name": side.ops[number].key.label, "side": side.name, "n": len(further)}
        why = Message("outputs_alike", {**said, "m": len(outputs[1 - more])})
        for (one, _), ref in zip(sides, first, strict=True):
            state.withheld.setdefault((one.name, ref), why)


def _without_shifted_numbers(state: PairingState, pairs: Sequence[OperatorPair]) -> list[OperatorPair]:
    """Leave out pairs whose names are running numbers that mean something else on the other side (``features.3``)."""
    children: defaultdict[str, list[OperatorPair]] = defaultdict(list)
    for one, other in pairs:
        container, _, number = state.left.ops[one].key.label.rpartition(".")
        if container and number.isdecimal():
            children[container].append((one, other))
    shifted: dict[str, Message] = {}
    for container, numbered in children.items():
        kinds = [(state.left.kind(one), state.right.kind(other)) for one, other in numbered]
        differing = [(one, other) for one, other in kinds if one and other and one != other]
        if len(differing) > 1 and len(differing) * _MOST_DOUBTFUL > len(numbered):
            said: dict[str, Parameter] = {"scope": container, "n": len(differing)}
            shifted[f"{container}."] = Message("numbers_differ", said)
    if not shifted:
        return list(pairs)
    kept: list[OperatorPair] = []
    for one, other in pairs:
        label = state.left.ops[one].key.label
        why = next((why for prefix, why in shifted.items() if label.startswith(prefix)), None)
        if why is None:
            kept.append((one, other))
        else:
            state.ambiguous["left", one] = (why, (other,))
            state.ambiguous["right", other] = (why, (one,))
    return kept


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
