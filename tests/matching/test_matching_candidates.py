from __future__ import annotations

import pytest
from matching.made import dump, run_tensor, tensor

from pytest_msdump.core.matching import pair_dumps
from pytest_msdump.core.matching.explain import NearestNames

NAMES = ["conv1", "conv2", "relu1", "pool1", "flatten", "fc1", "fc2"]


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("Default/conv1-Conv2d/BiasAdd-op0", "conv1"),
        ("Default/conv2-Conv2d/BiasAdd-op0", "conv2"),
        ("Default/fc2-Dense/BiasAdd-op0", "fc2"),
        ("conv_1", "conv1"),
        ("CONV1", "conv1"),
        ("flaten", "flatten"),
        ("cnov1", "conv1"),
    ],
)
def test_the_nearest_name_comes_first(asked: str, first: str) -> None:
    assert NearestNames(NAMES).nearest(asked)[0] == first


def test_a_renamed_operator_finds_its_old_self_with_the_same_slot() -> None:
    left = dump(*(run_tensor("encoder/fc_1", f"output:{n}") for n in (0, 1)), run_tensor("decoder/fc9"))
    right = dump(*(tensor("encoder.fc1", f"output:{n}") for n in (0, 1)))
    pairing = pair_dumps(left, right, ways=("name",))
    assert [one.candidates for one in pairing.unmatched_left[:2]] == [
        ("encoder.fc1:output:0",),
        ("encoder.fc1:output:1",),
    ]
    assert pairing.unmatched_right[1].candidates[0] == "encoder/fc_1:output:1"


def test_an_operator_is_a_better_candidate_than_the_weights_called_after_it() -> None:
    weights = [run_tensor(f"conv1.{name}", op_type="Parameter") for name in ("bias", "weight")]
    left = dump(*weights, run_tensor("Default/conv1-Conv2d/Conv2D-op0"), run_tensor("Default/conv1-Conv2d/BiasAdd-op0"))
    (alone,) = pair_dumps(left, dump(tensor("conv1")), ways=("name",)).unmatched_right
    assert {name.partition("/")[0] for name in alone.candidates[:2]} == {"Default"}


def test_a_candidate_without_that_slot_is_offered_with_one_it_has() -> None:
    pairing = pair_dumps(dump(run_tensor("fc1_x", "output:3")), dump(tensor("fc1")))
    assert pairing.unmatched_left[0].candidates == ("fc1:output:0",)


def test_only_a_bounded_number_of_names_is_searched_for() -> None:
    left = dump(*(run_tensor(f"a{n}/fc") for n in range(1500)))
    pairing = pair_dumps(left, dump(tensor("fc")))
    assert [bool(one.candidates) for one in pairing.unmatched_left] == [True] * 1000 + [False] * 500
