"""What checks make of numbers: each check hits on one side of its threshold and not on the other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.capabilities.inspect.checks import hits_of_change, hits_of_contents, parse_settings, ranges_of
from pytest_msdump.capabilities.overflow.contents import change, contents
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.core.text import say

WEIGHT = ("Parameter", "fc1.weight")
GRADIENT = ("MatMul", "Gradients/Default/MatMul-op0")
TENSOR = ("Conv2D", "Default/Conv2D-op0")


def ref_of(op_type, name, *, iteration=1):
    op = OpKey(name, Coordinates(iteration=iteration), op_type)
    return TensorRef(TensorKey(op, "output", 0), TensorSpec(), TensorSource.of(Path("file.npy")), "npy-file")


def hits(values, who=TENSOR, *texts, is_initial=False):
    ref, chosen = ref_of(*who), parse_settings(texts)
    found = contents(ArrayView(np.asarray(values)), ranges=ranges_of(ref.key, chosen))
    return list(hits_of_contents(ref, found, chosen, is_initial=is_initial))


def names(*arguments, **options):
    return [hit.check for hit in hits(*arguments, **options)]


@pytest.mark.parametrize(
    ("who", "check"),
    [(WEIGHT, "weight_overflow"), (GRADIENT, "gradient_exploding"), (TENSOR, "tensor_overflow")],
)
def test_overflow_is_told_once_by_the_check_that_fits_best(who, check):
    (hit,) = hits([1.0, np.inf, np.nan, -np.inf], who)
    assert (hit.check, hit.value, hit.where) == (check, 3, (1,))
    assert say(hit.message) == "1 NaN and 2 Inf of 4 elements; first at [1]"


def test_a_more_general_check_takes_over_when_the_special_one_is_off():
    assert names([np.nan], WEIGHT, "weight_overflow=off") == ["tensor_overflow"]
    assert names([np.nan], WEIGHT, "weight_overflow=off", "tensor_overflow=off") == []


def test_zeros_hit_from_the_percentage_on():
    (hit,) = hits([0.0, -0.0, 0.0, 0.0])
    assert (hit.check, hit.parameter, hit.value, hit.threshold) == ("tensor_all_zero", "zero_percentage_ge", 100, 100)
    assert say(hit.message) == "zeros: 100 % (zero_percentage_ge=100)"
    assert names([0.0, 0.0, 0.0, 1.0]) == []
    assert names([0.0, 0.0, 0.0, 1.0], TENSOR, "tensor_all_zero.zero_percentage_ge=75") == ["tensor_all_zero"]
    assert names([0.0, 0.0, 0.0, 1.0], TENSOR, "tensor_all_zero.zero_percentage_ge=75.1") == []


def test_a_scalar_zero_hits_when_it_is_a_float():
    assert names(0.0) == ["tensor_all_zero"]
    assert names(0 + 0j) == ["tensor_all_zero"]
    assert names(np.int64(0)) == []
    assert names(np.zeros(2, np.int8)) == ["tensor_all_zero"]
    assert names(np.zeros(3, bool)) == []


def test_an_empty_tensor_hits_nothing():
    assert names(np.zeros((0, 3))) == []


def test_a_weight_that_begins_at_zero_hits_in_the_first_iteration():
    assert names([0.0, 0.0], WEIGHT, is_initial=True) == ["weight_initialization", "tensor_all_zero"]
    assert names([0.0, 0.0], WEIGHT) == ["tensor_all_zero"]
    texts = ("weight_initialization.max_gt=2", "weight_initialization.min_lt=-2")
    assert [hit.parameter for hit in hits([-3.0, 3.0], WEIGHT, *texts, is_initial=True)] == ["max_gt", "min_lt"]
    assert names([-2.0, 2.0], WEIGHT, *texts, is_initial=True) == []
    assert names([-3.0, 3.0], TENSOR, *texts, is_initial=True) == []


@pytest.mark.parametrize(
    ("parameter", "value"), [("abs_mean", 2.0), ("max", 3.0), ("min", -1.0), ("mean", 1.0)], ids=lambda each: str(each)
)
@pytest.mark.parametrize(("check", "suffix", "step"), [("too_large", "gt", -0.5), ("too_small", "lt", 0.5)])
def test_bounds_hit_beyond_them_and_not_at_them(parameter, value, check, suffix, step):
    name = f"tensor_{check}.{parameter}_{suffix}"
    assert names([3.0, -1.0], TENSOR, f"{name}={value}") == []
    (hit,) = hits([3.0, -1.0], TENSOR, f"{name}={value + step}")
    assert (hit.check, hit.parameter, hit.value) == (f"tensor_{check}", f"{parameter}_{suffix}", value)


def test_saturated_activations_hit():
    assert names(np.full(1000, 1.0), ("Tanh", "t")) == ["activation_range"]
    mostly = np.r_[np.full(999, -1.0), 0.0]
    assert names(mostly, ("Tanh", "t")) == []
    assert names(np.r_[mostly, -1.0], ("Tanh", "t")) == ["activation_range"]
    assert names(np.r_[np.zeros(500), np.ones(500)], ("Sigmoid", "s")) == ["activation_range"]
    assert names(np.full(1000, 1.0), ("Conv2D", "c")) == []


def test_any_tensor_has_a_range_when_it_is_set():
    texts = (
        "tensor_range.range_start_inclusive=0",
        "tensor_range.range_end_inclusive=1",
        "tensor_range.range_percentage_lt=51",
    )
    assert names([0.0, 1.0, 2.0, 3.0], TENSOR, *texts) == ["tensor_range"]
    assert names([0.0, 1.0, 2.0], TENSOR, *texts) == []
    assert names([0.0, 4.0], TENSOR, "tensor_range.max_min_gt=3") == ["tensor_range"]
    assert names([0.0, 4.0], TENSOR, "tensor_range.max_min_gt=4") == []
    assert names([0.0, 4.0], TENSOR, "tensor_range.max_min_lt=5") == ["tensor_range"]


def test_a_share_of_a_range_without_its_ends_is_refused():
    with pytest.raises(ConfigError, match="needs both ends"):
        hits([1.0], TENSOR, "tensor_range.range_percentage_lt=51", "tensor_range.range_end_inclusive=1")


def test_what_statistics_do_not_tell_hits_nothing():
    ref, chosen = ref_of("ReLU", "r"), parse_settings(["activation_range.max_min_gt=3"])
    found = replace(contents(ArrayView(np.array([0.0, 4.0]))), within=None, zero=None, abs_mean=None)
    (hit,) = hits_of_contents(ref, found, chosen, is_initial=False)
    assert hit.parameter == "max_min_gt"


def changes(current, previous, *texts):
    chosen = parse_settings(texts)
    tolerance = chosen.parameters("weight_not_changed") or {"rtol": 0, "atol": 0}
    found = change(
        ArrayView(np.asarray(current)), ArrayView(np.asarray(previous)), rtol=tolerance["rtol"], atol=tolerance["atol"]
    )
    return list(hits_of_change(ref_of(*WEIGHT, iteration=4), ref_of(*WEIGHT, iteration=3), found, chosen))


def test_a_weight_that_stands_still_hits_once():
    (hit,) = changes([1.0, 2.0], [1.0, 2.0])
    assert (hit.check, hit.value) == ("weight_not_changed", 0)
    assert hit.previous.key.op.at.iteration == 3
    assert "nothing of it changed since iteration 3" in say(hit.message)
    (hit,) = changes([1.0, 2.0], [1.000005, 2.0])
    assert "no element changed by more than 5e-06" in say(hit.message)


def test_change_checks_are_turned_off_one_by_one():
    assert [hit.check for hit in changes([1.0], [1.0], "weight_not_changed=off")] == ["weight_change_too_small"]
    assert changes([1.0], [1.0], "weight_not_changed=off", "weight_change_too_small=off") == []


def test_epsilon_is_added_to_the_mean_before():
    (hit,) = changes([1.0], [0.0], "weight_change_too_large.epsilon=4")
    assert hit.value == 0.25
    assert changes([1.0], [0.0], "weight_change_too_large.epsilon=40") == []


def test_a_nan_that_was_nan_has_moved_unless_said_otherwise():
    assert [hit.check for hit in changes([np.nan, 1.0], [np.nan, 1.0])] == ["weight_change_too_small"]
    assert changes([np.nan], [np.nan]) == []
