"""Operators by a spelling of their name: one at one place is kept apart from several, and found the same."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.matching.coordinates import compatible
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingState
from pytest_msdump.core.matching.sides import NameIndex, Side, SideOperator
from pytest_msdump.core.model.tensor import (
    OpKey,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    Transform,
)

places = st.tuples(st.sampled_from([None, 0, 1]), st.none(), st.none(), st.sampled_from([0, 1, None]), st.just(0))
OUTPUT, NONE = frozenset({"output"}), frozenset()
entries = st.lists(st.tuples(st.sampled_from("abc"), places), max_size=12)


@settings(deadline=None, max_examples=300)
@given(entries, st.sampled_from("abcd"), places)
def test_all_operators_of_a_spelling_are_found_wherever_they_are_and_where_places_meet(added, spelling, place):
    index = NameIndex((name, at, op) for op, (name, at) in enumerate(added))
    here = [(op, at) for op, (name, at) in enumerate(added) if name == spelling]
    for _ in range(2):
        assert sorted(index.find_everywhere(spelling)) == [op for op, _ in here]
        assert sorted(index.find(spelling, place)) == [op for op, at in here if compatible(place, at)]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 2), places), max_size=10), st.integers(0, 2), places)
def test_a_tensor_is_free_where_it_has_no_partner_at_a_compatible_place(added, ref, place):
    refs = (TensorRef(TensorKey(OpKey("op"), "output", 0), TensorSpec(), TensorSource(Path("dump"), "f"), "made"),) * 3
    left = Side("left", refs, (SideOperator(OpKey("op"), (None,) * 5, (None,) * 5, True, {}),), (0, 0, 0), OUTPUT, NONE)
    ops = tuple(SideOperator(OpKey("op"), at, at, True, {}) for at in [*(at for _, at in added), place])
    right = Side("right", refs[:1] * len(ops), ops, tuple(range(len(ops))), OUTPUT, NONE)
    state = PairingState(left, right)
    for number, (one, _) in enumerate(added):
        state.add(FoundPair(one, number, "made", "", Transform()))
    taken = {at for one, at in added if one == ref}
    assert state.is_paired("left", ref) == bool(taken)
    assert state.is_free("left", ref, place) == (not any(compatible(place, at) for at in taken))
    assert list(state.unpaired(left)) == [one for one in range(3) if one not in {each for each, _ in added}]
