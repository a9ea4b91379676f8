"""Laws of every pairing, on small random dumps full of collisions, holes and repeats."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from matching.made import dump, run_tensor, tensor

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching import Align, MapEntry, Selection, pair_dumps
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, Pair, Pairing, TensorRef

NAMES = st.sampled_from(["a/b", "a_b", "a.b", "c", "d"])
PORTS = st.sampled_from(["output:0", "output:1", "input:0"])
TYPES = st.sampled_from([None, "A", "B"])
SMALL = st.integers(0, 1)

RUN_TENSORS = st.builds(
    run_tensor, NAMES, PORTS, known=st.booleans(), op_type=TYPES, rank=SMALL, graph=SMALL, iteration=SMALL
)
FLAT_TENSORS = st.builds(tensor, NAMES, PORTS, op_type=TYPES, iteration=SMALL)
TENSORS = st.one_of(RUN_TENSORS, FLAT_TENSORS)
DUMPS = st.lists(TENSORS, max_size=14).map(lambda refs: dump(*refs))
ENTRIES = st.lists(
    st.builds(MapEntry, NAMES, NAMES, rank=st.none() | SMALL, reshape=st.booleans())
    | st.builds(lambda a, p, b: MapEntry(f"{a}:{p}", b), NAMES, PORTS, NAMES),
    max_size=2,
)
SELECTIONS = st.builds(
    Selection,
    io=st.sampled_from(["output", "input", "all"]),
    rank=st.none() | st.frozensets(SMALL),
    iteration=st.none() | st.frozensets(SMALL),
)
ALIGNS = st.sampled_from([Align(), Align(iteration=((1, 0),)), Align(rank=((0, 1), (1, 0)))])


def pairing_of(left: Dump, right: Dump, **more: Any) -> Pairing | None:
    try:
        return pair_dumps(left, right, **more)
    except ConfigError:
        # Two entries for one left tensor; that has its own tests.
        return None


def compatible(one: Coordinates, other: Coordinates) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in COORDINATES)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def clashes(pairs: list[Pair], side: str) -> bool:
    """Whether two pairs of one tensor meet the same place of the other side; entries may share a right tensor."""
    other = "right" if side == "left" else "left"
    return any(
        compatible(getattr(one, other).key.op.at, getattr(two, other).key.op.at)
        and not (side == "right" and one.how == two.how == "mapped" and one.by != two.by)
        for one, two in itertools.combinations(pairs, 2)
    )


@settings(deadline=None, max_examples=300)
@given(DUMPS, DUMPS, ENTRIES, SELECTIONS, ALIGNS)
def test_every_tensor_has_a_partner_or_a_reason_and_never_two_at_one_place(
    left: Dump, right: Dump, entries: list[MapEntry], selection: Selection, align: Align
) -> None:
    pairing = pairing_of(left, right, entries=entries, selection=selection, align=align)
    if pairing is None:
        return
    for refs, alone, side in (
        (left.refs, pairing.unmatched_left, "left"),
        (right.refs, pairing.unmatched_right, "right"),
    ):
        partners: dict[int, list[Pair]] = {}
        for pair in pairing.pairs:
            partners.setdefault(id(getattr(pair, side)), []).append(pair)
        told = Counter(id(one.ref) for one in alone)
        assert all(count == 1 for count in told.values())
        assert not told.keys() & partners.keys()
        assert all(one.reason for one in alone)
        assert not any(clashes(pairs, side) for pairs in partners.values())
        if selection.rank is None and selection.iteration is None:
            wanted = {id(ref) for ref in refs if ref.key.io in ("input", "output") and takes(selection, ref)}
            assert wanted <= told.keys() | partners.keys()
            assert told.keys() <= wanted
    assert pairing.right_paired == len({id(pair.right) for pair in pairing.pairs})
    assert pairing.right_total == pairing.right_paired + len(pairing.unmatched_right)


def takes(selection: Selection, ref: TensorRef) -> bool:
    return selection.io in ("all", ref.key.io)


@settings(deadline=None, max_examples=200)
@given(DUMPS, DUMPS, SELECTIONS)
def test_pairs_by_name_meet_in_every_coordinate_direction_and_slot(
    left: Dump, right: Dump, selection: Selection
) -> None:
    can_label = ("rank", "net", "graph", "iteration")
    labels = {name for name in can_label if len(values(left, name)) == len(values(right, name)) == 1}
    for pair in pair_dumps(left, right, selection=selection).pairs:
        ours, theirs = pair.left.key, pair.right.key
        assert (ours.io, ours.slot) == (theirs.io, theirs.slot)
        for name in set(COORDINATES) - labels:
            assert None in (both := (getattr(ours.op.at, name), getattr(theirs.op.at, name))) or both[0] == both[1]


def values(side: Dump, name: str) -> set[Any]:
    return {getattr(ref.key.op.at, name) for ref in side.refs} - {None}


@settings(deadline=None, max_examples=150)
@given(DUMPS, ENTRIES, SELECTIONS)
def test_order_is_the_place_of_the_left_operator_and_pairs_are_sorted_by_it(
    left: Dump, entries: list[MapEntry], selection: Selection
) -> None:
    pairing = pairing_of(left, left, entries=entries, selection=selection)
    if pairing is None:
        return
    operators = list(dict.fromkeys(ref.key.op for ref in left.refs))
    places = [(operators.index(p.left.key.op), p.left.key.io == "output", p.left.key.slot) for p in pairing.pairs]
    assert [pair.order for pair in pairing.pairs] == [place[0] for place in places]
    assert places == sorted(places)


@settings(deadline=None, max_examples=150)
@given(DUMPS, DUMPS, ENTRIES, st.randoms(use_true_random=False))
def test_the_order_of_the_right_side_does_not_decide_who_is_paired(
    left: Dump, right: Dump, entries: list[MapEntry], rng: random.Random
) -> None:
    unique = {ref.key: ref for ref in right.refs}
    shuffled = list(unique.values())
    rng.shuffle(shuffled)
    first = pairing_of(left, dump(*unique.values()), entries=entries)
    second = pairing_of(left, dump(*shuffled), entries=entries)
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert {(id(p.left), id(p.right), p.how) for p in first.pairs} == {
            (id(p.left), id(p.right), p.how) for p in second.pairs
        }
        assert first.right_total == second.right_total
