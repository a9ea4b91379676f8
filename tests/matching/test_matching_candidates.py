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


def test_only_a_bounded_number_of_names_is_searched_for() -> None:
    left = dump(*(run_tensor(f"a{n}/fc") for n in range(1500)))
    pairing = pair_dumps(left, dump(tensor("fc")))
    assert [bool(one.candidates) for one in pairing.unmatched_left] == [True] * 1000 + [False] * 500
