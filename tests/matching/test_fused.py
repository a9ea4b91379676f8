"""Each left tensor meets what it was in the original model, or a reason says why not."""

from __future__ import annotations

from typing import Any

import pytest
from matching.made import addresses, dump, reasons, tensor
from matching.rulemade import ascend, attribute, device, model, op, output, paired, was

from pytest_msdump.core.facts.operators import UNDUMPED_TYPES
from pytest_msdump.core.matching import FusionRules, MapEntry, Selection, pair_dumps
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Pair, Pairing


def pairs(pairing: Pairing) -> dict[str, str]:
    assert {pair.how for pair in pairing.pairs} <= {"fused"}
    return {pair.left.key.address: pair.right.key.address for pair in pairing.pairs}


def missing(pairing: Pairing) -> list[tuple[str, str]]:
    return [(one.left, one.right) for one in pairing.missing]


def only(pairing: Pairing) -> Pair:
    (pair,) = pairing.pairs
    return pair


FUSED = op("conv_bn_relu", "Conv2D", (), (output("relu", 0),), originals=("conv", "conv/bn", "relu"))


def test_a_fused_operator_meets_its_last_original_and_names_them_all() -> None:
    right = dump(tensor("conv"), tensor("conv_bn"), tensor("relu"))
    pairing = paired(ascend(device("conv_bn_relu")), right, FUSED)
    pair = only(pairing)
    assert (pair.right.key.address, pair.how, pair.by) == (
        "relu:output:0",
        "fused",
        "fusion.json: conv + conv/bn + relu",
    )
    assert reasons(pairing, "right") == {
        "conv:output:0": "fused into conv_bn_relu: its own output no longer exists in the compiled model",
        "conv_bn:output:0": "fused into conv_bn_relu: its own output no longer exists in the compiled model",
    }
    assert pairing.missing == ()


def test_what_was_fused_away_is_not_paired_by_name_with_something_else() -> None:
    fused = op("conv", "Conv2D", (), (output("relu", 0),), originals=("conv", "relu"))
    pairing = paired(ascend(device("conv"), device("other")), dump(tensor("conv"), tensor("other")), fused)
    assert addresses(pairing) == [("other:output:0", "other:output:0", "name")]
    assert missing(pairing) == [("conv:output:0", "relu:output:0")]


def test_an_output_beyond_the_files_list_is_not_compared_with_the_first() -> None:
    pairing = paired(ascend(device("x", "output:0", "output:1")), dump(tensor("x")), was("x"))
    assert pairs(pairing) == {"x:output:0": "x:output:0"}
    assert reasons(pairing) == {"x:output:1": "fusion.json lists no output 1 of x"}


def test_one_original_cut_into_several_operators_is_met_where_it_ends() -> None:
    parts = (
        op("sm_a", outputs=(output(""),), originals=("softmax",), multi=True),
        op("sm_b", inputs=("sm_a:0",), outputs=(output("softmax", 0),), originals=("softmax",), multi=True),
    )
    left = ascend(device("sm_a"), device("sm_b", "input:0", "output:0"))
    pairing = paired(left, dump(tensor("softmax")), *parts, io="all")
    assert pairs(pairing) == {"sm_b:output:0": "softmax:output:0"}
    assert reasons(pairing) == {
        "sm_a:output:0": "inner node of a many-to-many fusion",
        "sm_b:input:0": "fed by sm_a: inner node of a many-to-many fusion",
    }


def test_two_operators_of_one_original_are_not_renamed() -> None:
    ops = [op(name, outputs=(output(),), originals=("old",)) for name in ("a", "b")]
    pairing = paired(ascend(device("a"), device("b")), dump(tensor("old")), *ops)
    assert pairs(pairing) == {}
    assert reasons(pairing)["a:output:0"] == "fusion.json names no tensor of the original model for this output of a"


def test_an_inserted_operator_is_unmatched_only_even_where_a_name_is_the_same() -> None:
    pairing = paired(ascend(device("pad")), dump(tensor("pad")), op("pad", outputs=(output(),), originals=()))
    assert addresses(pairing) == []
    assert reasons(pairing) == {"pad:output:0": "inserted by the compiler: no counterpart in the original model"}
    assert pairing.missing == ()


CHAIN = (
    was("a"),
    op("trans", "TransData", ("a:0",), (output(),), originals=()),
    op("cast", "Cast", ("trans:0",), (output(),), originals=()),
    was("b", inputs=("cast:0",)),
)


def test_cast_and_transdata_are_walked_through_for_inputs_and_for_their_own_outputs() -> None:
    left = ascend(device("cast", op_type="Cast"), device("b", "input:0", "output:0"))
    pairing = paired(left, dump(tensor("a"), tensor("b")), *CHAIN, io="all")
    assert pairs(pairing) == {
        "cast:output:0": "a:output:0",
        "b:input:0": "a:output:0",
        "b:output:0": "b:output:0",
    }
    assert [pair.by for pair in pairing.pairs] == ["fusion.json: fed by a", "fusion.json: fed by a", "fusion.json: b"]
    assert (pairing.right_paired, pairing.right_total) == (2, 2)


def test_a_cast_of_the_original_model_is_compared_as_itself_and_what_follows_with_it() -> None:
    ops = (was("a"), was("cast", op_type="Cast", inputs=("a:0",)), was("b", inputs=("cast:0",)))
    left = ascend(device("cast", op_type="Cast"), device("b", "input:0"))
    assert pairs(paired(left, dump(tensor("a"), tensor("cast")), *ops, io="all")) == {
        "cast:output:0": "cast:output:0",
        "b:input:0": "cast:output:0",
    }
    # Where the original's Cast was not dumped, what it carried on is as good.
    assert pairs(paired(left, dump(tensor("a")), *ops, io="all")) == {
        "cast:output:0": "a:output:0",
        "b:input:0": "a:output:0",
    }


def test_inputs_say_what_feeds_them_when_it_has_no_counterpart() -> None:
    ops = (
        op("w", "Const", (), (output(),), originals=()),
        was("x", inputs=("w:0", "subgraph:0")),
    )
    pairing = paired(ascend(device("x", "input:0", "input:1", "input:2")), dump(tensor("z")), *ops, io="input")
    assert reasons(pairing) == {
        "x:input:0": "fed by w: inserted by the compiler: no counterpart in the original model",
        "x:input:1": "fusion.json has no operator subgraph, which should feed this input",
        "x:input:2": "fusion.json lists no input 2 of x",
    }
    assert pairing.missing == ()


def l1(*originals: str) -> list[dict[str, Any]]:
    return [op(f"s{k}", outputs=(output(name, 0),), originals=(name,), l1="7") for k, name in enumerate(originals)]


def test_of_an_l1_group_the_newest_is_compared_and_the_oldest_of_other_originals() -> None:
    left = ascend(device("s0", time=4), device("s1", time=2), device("s2", time=3), device("s3", time=1))
    right = dump(tensor("a"), tensor("b"))
    pairing = paired(left, right, *l1("b", "a", "a", "a"))
    assert pairs(pairing) == {"s0:output:0": "b:output:0", "s3:output:0": "a:output:0"}
    told = "L1 fusion group 7 works on slices of tensors: only its first and last operator are compared"
    assert reasons(pairing) == {"s1:output:0": told, "s2:output:0": told}
    same = paired(left, right, *l1("a", "a", "a", "a"))
    assert pairs(same) == {"s0:output:0": "a:output:0"}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"op_type": "StridedSliceD"}, "the compiler changed the graph around this strided slice"),
        ({"attr": [attribute("_l2_fusion_group_id", i=4)]}, "L2 fusion group 4 changed the structure of the graph"),
        ({"l1": "9"}, "L1 fusion group 9 works on slices of tensors"),
    ],
)
def test_changes_of_the_graphs_structure_are_named(how: dict[str, Any], says: str) -> None:
    entry = op("x", **{"op_type": "Add", **how}, outputs=(output(""),), originals=("a", "b"))
    told = reasons(paired(ascend(device("x", op_type=entry["type"])), dump(tensor("z")), entry))
    assert told["x:output:0"].startswith(says)


@pytest.mark.parametrize("op_type", sorted(UNDUMPED_TYPES))
def test_operators_that_never_dump_are_unmatched_only(op_type: str) -> None:
    pairing = paired(ascend(device("x")), dump(tensor("in"), tensor("x")), was("in", op_type=op_type), was("x"))
    assert pairs(pairing) == {"x:output:0": "x:output:0"}
    assert "they are not dumped" in reasons(pairing, "right")["in:output:0"]
    assert pairing.missing == ()


def test_the_map_wins_and_what_it_paired_is_not_offered_to_the_rules() -> None:
    ops = (was("a"), was("b"), was("c"))
    entry = MapEntry("a", "b", label="entry")
    pairing = paired(
        ascend(device("a"), device("b"), device("c")), dump(tensor("b"), tensor("c")), *ops, entries=[entry]
    )
    assert addresses(pairing) == [("a:output:0", "b:output:0", "mapped"), ("c:output:0", "c:output:0", "fused")]
    assert reasons(pairing) == {"b:output:0": "b:output:0 on the right side is paired by a map entry"}
    assert pairing.missing == ()


@pytest.mark.parametrize("name", ["a/b", "a.b", "a b", "a\\b", "a:b"])
def test_names_are_found_as_files_have_them_on_both_sides(name: str) -> None:
    assert pairs(paired(ascend(device("a_b")), dump(tensor("a_b")), was(name))) == {"a_b:output:0": "a_b:output:0"}
    assert pairs(paired(ascend(device("a_b")), dump(tensor(name)), was(name))) == {"a_b:output:0": f"{name}:output:0"}


def test_two_operators_of_the_model_with_one_files_name_are_ambiguous_on_both_sides() -> None:
    pairing = paired(ascend(device("a_b")), dump(tensor("a_b")), was("a/b"), was("a_b"))
    told = "ambiguous: a/b, a_b of fusion.json have the same file name a_b"
    told += "; use a map entry"
    assert (pairing.pairs, pairing.missing) == ((), ())
    assert reasons(pairing) == reasons(pairing, "right") == {"a_b:output:0": told}


def test_two_right_operators_of_one_name_are_ambiguous_and_none_is_taken() -> None:
    right = dump(tensor("a", op_type="X"), tensor("a", op_type="Y"))
    pairing = paired(ascend(device("a")), right, was("a"))
    assert pairing.pairs == ()
    assert "may be X.a, Y.a on the right side" in reasons(pairing)["a:output:0"]


def chosen(left: Dump, right: Dump, *ops: dict[str, Any], **selection: Any) -> Pairing:
    return pair_dumps(left, right, rules=FusionRules(model(*ops)), selection=Selection(**selection))


def test_a_right_iteration_that_is_not_selected_is_not_met_by_a_left_side_without_iterations() -> None:
    left = ascend(device("a", iteration=None))
    right = dump(*(tensor("a", iteration=it) for it in (0, 1)))
    pairing = chosen(left, right, was("a"), iteration=frozenset({1}))
    assert [pair.right.key.op.at.iteration for pair in pairing.pairs] == [1]
    pairing = chosen(left, dump(*right.refs[:1], tensor("b", iteration=1)), was("a"), iteration=frozenset({1}))
    assert reasons(pairing)["a:output:0"].endswith("a:output:0, which the selection leaves out")
    assert pairing.missing == ()


def test_a_reference_of_which_only_the_left_out_rank_is_there_is_explained() -> None:
    left = ascend(device("a", rank=0), device("z", rank=1))
    pairing = chosen(left, dump(tensor("a")), was("a"), was("z"), rank=frozenset({1}))
    assert reasons(pairing, "right") == {"a:output:0": "the selection leaves out a on the left side"}
    assert missing(pairing) == [("z:output:0", "z:output:0")]


RENAMED = [op(new, outputs=(output(old, 0),), originals=(old,)) for new, old in (("x", "a/b"), ("y", "a_b"))]


def test_a_right_file_that_two_origins_are_written_as_is_ambiguous() -> None:
    pairing = paired(ascend(device("x"), device("y")), dump(tensor("a_b")), *RENAMED)
    told = {one.partition(";")[0] for one in (*reasons(pairing).values(), *reasons(pairing, "right").values())}
    assert told == {"ambiguous: a/b, a_b of fusion.json have the same file name a_b"}
    assert pairing.pairs == pairing.missing == ()


def test_a_carrier_whose_first_input_is_not_connected_is_walked_through_by_the_other() -> None:
    ops = (was("a"), op("cast", "Cast", ("", "a:0"), (output(""),), originals=()))
    assert pairs(paired(ascend(device("cast")), dump(tensor("a")), *ops)) == {"cast:output:0": "a:output:0"}
