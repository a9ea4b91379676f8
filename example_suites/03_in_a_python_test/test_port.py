"""The gate's parts inside ordinary tests: fixtures, markers and assertion helpers."""

from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import assert_close, assert_dumps_close, assert_no_overflow, compare, open_dump

LENET = Path(__file__).parent.parent / "01_lenet_port"

# Left: the operator of the run under test. Right: the layer of the reference.
CONVOLUTIONS = {
    "Default/conv1-Conv2d/BiasAdd-op0": "conv1",
    "Default/conv2-Conv2d/BiasAdd-op0": "conv2",
}


# -- fixtures: the two dumps that [tool.msdump] or --msdump-left and --msdump-right name ------------------------------


def test_the_port_predicts_what_the_original_predicts(msdump_left, msdump_right):
    left = msdump_left.read("Default/fc2-Dense/BiasAdd-op0")
    right = msdump_right.read("fc2")
    assert left.argmax(axis=1).tolist() == right.argmax(axis=1).tolist()


@pytest.mark.msdump(profile="strict", cosine=0.9999999)
def test_the_scores_are_close(msdump, msdump_left, msdump_right):
    msdump.assert_close(msdump_left["Default/fc2-Dense/BiasAdd-op0"], msdump_right["fc2"])


def test_no_error_grows_beyond_ten_times_that_of_the_first_operator(msdump, msdump_pairs):
    errors = [
        msdump.compare(pair).comparison.measurements["relative_euclidean_distance"].value for pair in msdump_pairs
    ]
    assert max(errors) < 10 * errors[0]


# -- a test for each pair, with dumps of its own --------------------------------------------------------------------


@pytest.mark.msdump_pairs(left="../01_lenet_port/run", right="../01_lenet_port/reference", map=CONVOLUTIONS)
def test_every_convolution_is_close(msdump_pair):
    assert_close(msdump_pair, profile="torch")


# -- helpers, with no fixture and no configuration ------------------------------------------------------------------


def test_the_convolutions_are_close_as_a_whole():
    assert_dumps_close(LENET / "run", LENET / "reference", map=CONVOLUTIONS, profile="strict", min_coverage=0.2)


def test_nothing_overflows():
    assert_no_overflow(LENET / "run")


def test_arrays_are_compared_like_dumps():
    exact = open_dump(LENET / "reference").read("fc2")
    assert_close(exact.astype(np.float16), exact)
    record = compare(exact + 1, exact)
    assert record.verdict.outcome == "fail"
    assert record.comparison.measurements["max_absolute_error"].value == pytest.approx(1, rel=1e-6)
