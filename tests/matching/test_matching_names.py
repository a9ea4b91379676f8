from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from matching.made import addresses, dump, reasons, run_tensor, tensor

from pytest_msdump.core import ports
from pytest_msdump.core.matching import Align, MapEntry, Selection, pair_dumps, pairer
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.model.dump import Dump


@pytest.mark.parametrize("types", [{}, {"op_type": None}, {"op_type": "ReLU"}])
def test_names_that_collide_once_mangled_are_told_apart_by_their_true_names(types: dict[str, str | None]) -> None:
    side = dump(run_tensor("a/b_c", **types), run_tensor("a_b/c", **types))
    assert addresses(pair_dumps(side, side)) == [
        ("a/b_c:output:0", "a/b_c:output:0", "name"),
        ("a_b/c:output:0", "a_b/c:output:0", "name"),
    ]


def test_a_name_that_two_left_operators_could_have_is_ambiguous_and_lists_both() -> None:
    left = dump(run_tensor("a/b_c", op_type="X"), run_tensor("a_b/c", op_type="Y"))
    pairing = pair_dumps(left, dump(tensor("a_b_c")))
    assert not pairing.pairs
    for address in ("a/b_c:output:0", "a_b/c:output:0"):
        assert reasons(pairing)[address].startswith("ambiguous: X.a/b_c, Y.a_b/c on the left and a_b_c on the right")
    assert reasons(pairing, "right")["a_b_c:output:0"].startswith("ambiguous:")
    assert pairing.unmatched_right[0].candidates == ("X.a/b_c:output:0", "Y.a_b/c:output:0")


def test_a_file_name_that_two_right_operators_have_is_ambiguous() -> None:
    right = dump(run_tensor("a/b_c", op_type=None), run_tensor("a_b_c", op_type=None))
    pairing = pair_dumps(dump(run_tensor("a/b_c", known=False)), right)
    assert not pairing.pairs
    assert pairing.unmatched_left[0].candidates == ("a/b_c:output:0", "a_b_c:output:0")


def test_the_op_type_decides_between_operators_of_one_name() -> None:
    left = dump(run_tensor("x", op_type="Parameter"), run_tensor("x", op_type="MatMul"))
    right = dump(run_tensor("x", op_type="MatMul"), run_tensor("x", op_type="Parameter"))
    pairing = pair_dumps(left, right)
    types = [(pair.left.key.op.op_type, pair.right.key.op.op_type) for pair in pairing.pairs]
    assert types == [("Parameter", "Parameter"), ("MatMul", "MatMul")]


@pytest.mark.parametrize("swapped", [False, True])
def test_slots_left_over_by_one_name_are_not_given_to_another(swapped: bool) -> None:
    one = dump(run_tensor("a/b_c"), run_tensor("a/b_c", "output:1"))
    other = dump(run_tensor("a/b_c"), run_tensor("a_b/c", "output:1"))
    pairing = pair_dumps(other, one) if swapped else pair_dumps(one, other)
    assert addresses(pairing) == [("a/b_c:output:0", "a/b_c:output:0", "name")]
    assert len(pairing.unmatched_left) == len(pairing.unmatched_right) == 1


def test_what_the_op_types_leave_over_is_not_paired_with_each_other() -> None:
    left = dump(run_tensor("x", op_type="BiasAdd"), run_tensor("x", op_type="MatMul"))
    right = dump(run_tensor("x", op_type="MatMul"), run_tensor("x", op_type="ReLU"))
    pairing = pair_dumps(left, right)
    assert [pair.left.key.op.op_type for pair in pairing.pairs] == ["MatMul"]
    assert [one.ref.key.op.op_type for one in pairing.unmatched_left] == ["BiasAdd"]
    assert [one.ref.key.op.op_type for one in pairing.unmatched_right] == ["ReLU"]
    assert pairing.unmatched_left[0].reason.startswith("ambiguous: ")


@pytest.mark.parametrize("turned", [False, True])
def test_an_operator_that_the_map_paired_is_no_rival_of_its_namesake(turned: bool) -> None:
    twins = dump(run_tensor("x", op_type="A"), run_tensor("x", op_type="B"))
    others = dump(tensor("x"), tensor("other"))
    entry = MapEntry("other", "A.x") if turned else MapEntry("A.x", "other")
    pairing = pair_dumps(others, twins, entries=[entry]) if turned else pair_dumps(twins, others, entries=[entry])
    met = [(pair.left.key.typed_address, pair.right.key.typed_address, pair.how) for pair in pairing.pairs]
    wanted = [("A.x:output:0", "other:output:0", "mapped"), ("B.x:output:0", "x:output:0", "name")]
    assert sorted(met) == sorted((right, left, how) if turned else (left, right, how) for left, right, how in wanted)


def test_inputs_meet_inputs_and_slots_meet_equal_slots_only() -> None:
    left = dump(run_tensor("a", "input:0"), run_tensor("a", "input:2"), run_tensor("a", "output:0"))
    right = dump(tensor("a", "output:0"), tensor("a", "input:2"), tensor("a", "output:1"))
    pairing = pair_dumps(left, right, selection=Selection(io="all"))
    assert [(p.left.key.address, p.right.key.address) for p in pairing.pairs] == [
        ("a:input:2", "a:input:2"),
        ("a:output:0", "a:output:0"),
    ]
    assert reasons(pairing) == {"a:input:0": "a on the right side has no input:0; it has output:0, input:2, output:1"}
    assert reasons(pairing, "right")["a:output:1"].startswith("a on the left side has no output:1; it has input:0")
    assert pairing.unmatched_left[0].candidates == ("a:output:0", "a:input:2", "a:output:1")


@pytest.mark.parametrize(("io", "count"), [("output", 1), ("input", 2), ("all", 3)])
def test_only_the_selected_direction_is_compared_or_listed(io: str, count: int) -> None:
    side = dump(run_tensor("a", "input:0"), run_tensor("a", "input:1"), run_tensor("a"), run_tensor("b", "input:0"))
    other = dump(*side.refs[:3])
    pairing = pair_dumps(side, other, selection=Selection(io=io))
    assert len(pairing.pairs) == pairing.right_total == count
    assert len(pairing.unmatched_left) == (0 if io == "output" else 1)


def test_older_runs_are_those_of_the_coordinates_that_are_asked_for_on_their_own_side() -> None:
    # Iteration 4 of the left meets iteration 0 of the right: the same numbers mean other things on the two sides.
    older = tuple(run_tensor("a", iteration=iteration) for iteration in (0, 4))
    pairing = pair_dumps(
        dump(run_tensor("a", iteration=4), older=older),
        dump(run_tensor("a", iteration=0), older=older),
        align=Align(iteration=((4, 0),)),
        selection=Selection(iteration=frozenset({4})),
    )
    assert len(pairing.pairs) == 1
    assert [(one.ref.key.op.at.iteration, one.reason) for one in pairing.unmatched_left] == [(4, "older run")]
    assert [(one.ref.key.op.at.iteration, one.reason) for one in pairing.unmatched_right] == [(0, "older run")]


def test_two_files_are_a_pair_whatever_their_names() -> None:
    left, right = dump(tensor("mine"), reader="npy-file"), dump(tensor("theirs"), reader="npy-file")
    pairing = pair_dumps(left, right, right_format="NHWC")
    assert addresses(pairing) == [("mine:output:0", "theirs:output:0", "file")]
    assert pairing.pairs[0].transform.right_format == "NHWC"
    assert pairing.coverage == 1.0


def test_a_way_of_pairing_is_a_row_of_the_table_and_gets_what_earlier_ways_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pair_what_is_left(state: PairingState, request: PairingRequest) -> None:
        for ours, theirs in zip(state.unpaired(state.left), list(state.unpaired(state.right)), strict=True):
            state.add(FoundPair(ours, theirs, "left over", "test", request.formats))

    rows = {**ports.rows("WAYS"), "left over": "another:pair_what_is_left"}
    monkeypatch.setattr(ports, "rows", lambda _: rows)
    monkeypatch.setitem(sys.modules, "another", SimpleNamespace(pair_what_is_left=pair_what_is_left))
    left, right = dump(tensor("same"), tensor("mine")), dump(tensor("theirs"), tensor("same"))
    assert addresses(pairer.pair_dumps(left, right)) == [
        ("same:output:0", "same:output:0", "name"),
        ("mine:output:0", "theirs:output:0", "left over"),
    ]


# -- running numbers -------------------------------------------------------------------------------------------------


def layers(**types: str) -> Dump:
    """A dump of layers, `f_3="ReLU"` being one called f.3."""
    return dump(*(tensor(name.replace("_", "."), op_type=kind) for name, kind in types.items()))


def test_numbers_that_mean_other_kinds_on_the_other_side_pair_nothing() -> None:
    left = layers(f_0="Conv2d", f_1="BatchNorm2d", f_2="ReLU6", f_3="Block", f_3_0="Conv2d", head="Dense")
    right = layers(f_0="Group", f_0_0="Conv2d", f_1="Block", f_1_0="Conv2d", f_2="Block", f_3="Block", head="Linear")
    pairing = pair_dumps(left, right)
    assert addresses(pairing) == [("head:output:0", "head:output:0", "name")]
    why = {one.ref.key.op.label: one.why for one in pairing.unmatched_right}
    assert why["f.3"].code == "numbers_differ"
    assert why["f.3"].parameters == {"scope": "f", "n": 2}


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({"f_1": "MaxPool2d"}, id="one operator is another one"),
        pytest.param({"f_1": "Custom", "f_2": "Other", "f_3": "Third"}, id="kinds that nothing tells"),
    ],
)
def test_a_mistake_of_one_operator_stays_paired_by_its_number(left: dict[str, str]) -> None:
    right = {"f_0": "Conv2d", "f_1": "ReLU", "f_2": "Conv2d", "f_3": "ReLU"}
    assert len(pair_dumps(layers(**{**right, **left}), layers(**right)).pairs) == len(right)


def test_few_differences_among_many_numbers_are_mistakes_of_the_port() -> None:
    right = {f"f_{number}": "Conv2d" for number in range(20)}
    left = {**right, "f_3": "ReLU", "f_4": "ReLU"}
    assert len(pair_dumps(layers(**left), layers(**right)).pairs) == len(right)
