"""Operators of a side are told apart by name, type and place, whether or not two have the same name."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from matching.made import dump, tensor

from pytest_msdump.core.matching import pair_dumps
from pytest_msdump.core.matching.coordinates import place_of
from pytest_msdump.core.matching.sides import index_side
from pytest_msdump.core.model.tensor import TensorRef

TENSOR = st.builds(
    tensor,
    st.sampled_from("abcdefgh"),
    st.sampled_from(["output:0", "output:1"]),
    op_type=st.sampled_from([None, "Add"]),
    iteration=st.integers(0, 1),
)
TENSORS = st.lists(TENSOR, max_size=6)


def who(ref: TensorRef) -> tuple[object, ...]:
    op = ref.key.op
    return (op.name, op.op_type, op.true_name, place_of(op.at))


@settings(deadline=None, max_examples=300)
@given(TENSORS)
def test_each_operator_is_there_once_in_the_order_of_its_first_tensor(refs: list[TensorRef]) -> None:
    side = index_side("left", refs, directions=frozenset({"output"}), common=lambda at: at, keeps=lambda _: True)
    expected = list(dict.fromkeys(map(who, refs)))
    assert [(op.key.name, op.key.op_type, op.key.true_name, op.at) for op in side.ops] == expected
    assert list(side.op_of) == [expected.index(who(ref)) for ref in refs]
    for number, op in enumerate(side.ops):
        own = {
            (ref.key.io, ref.key.slot): place for place, ref in reversed([*enumerate(refs)]) if who(ref) == who_is(op)
        }
        assert op.tensors == own, number


def who_is(op):
    return (op.key.name, op.key.op_type, op.key.true_name, op.at)


@settings(deadline=None, max_examples=300)
@given(TENSORS)
def test_a_dump_counts_its_operators_as_they_are_told_apart_by_their_keys(refs: list[TensorRef]) -> None:
    assert dump(*refs).operators == len({ref.key.op for ref in refs})


@settings(deadline=None, max_examples=300)
@given(TENSORS, TENSORS)
def test_pairs_come_by_operator_then_slot_however_many_tensors_it_has(
    left: list[TensorRef], right: list[TensorRef]
) -> None:
    pairs = pair_dumps(dump(*left), dump(*right)).pairs
    ranks = [(pair.order, pair.left.key.io, pair.left.key.slot) for pair in pairs]
    assert ranks == sorted(ranks)
