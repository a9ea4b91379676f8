"""Which checks run: MindInsight's defaults, what a user sets, and what is refused."""

from __future__ import annotations

import math

import pytest

from pytest_msdump.capabilities.inspect.hits import CheckSettings, parse_settings
from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.facts.checks import ACTIVATIONS, CHECKS, QUANTITIES

DEFAULTS = CheckSettings()

# Facts section 6: what runs by itself, and with what.
RUNNING = {
    "operator_overflow": {},
    "weight_overflow": {},
    "gradient_exploding": {},
    "tensor_overflow": {},
    "weight_initialization": {"zero_percentage_ge": 100},
    "tensor_all_zero": {"zero_percentage_ge": 100},
    "gradient_vanishing": {"abs_mean_lt": 1e-9},
    "weight_not_changed": {"rtol": 1e-5, "atol": 1e-8, "equal_nan": 0},
    "weight_change_too_large": {"abs_mean_update_ratio_gt": 0.1, "epsilon": 1e-9},
    "weight_change_too_small": {"abs_mean_update_ratio_lt": 1e-4, "epsilon": 1e-9},
}


def test_the_defaults_are_mindinsights():
    found = {check: DEFAULTS.parameters(check) for check in CHECKS}
    assert {check: values for check, values in found.items() if values is not None} == RUNNING


def test_activations_have_ranges_of_their_own():
    tanh, sigmoid, relu = (DEFAULTS.parameters("activation_range", name) for name in ("Tanh", "Sigmoid", "ReLU"))
    assert tanh["range_end_inclusive"] == pytest.approx(math.tanh(8.8), abs=1e-16)
    assert tanh["range_start_inclusive"] == -tanh["range_end_inclusive"]
    assert sigmoid["range_end_inclusive"] == pytest.approx(1 / (1 + math.exp(-16.2)), abs=1e-16)
    assert sigmoid["range_start_inclusive"] == pytest.approx(1 / (1 + math.exp(16.2)), abs=1e-16)
    assert tanh["range_percentage_lt"] == sigmoid["range_percentage_lt"] == 0.1
    assert relu == {"range_start_inclusive": -1, "range_end_inclusive": 0, "range_percentage_gt": 99.9}
    assert DEFAULTS.parameters("activation_range", "Conv2D") is None


def test_every_threshold_is_of_a_quantity_that_is_measured():
    words = {"rtol", "atol", "equal_nan", "epsilon", "range_start_inclusive", "range_end_inclusive"}
    named = {name for fact in CHECKS.values() for name in fact.parameters} | {
        n for a in ACTIVATIONS.values() for n in a
    }
    for name in named - words:
        quantity, _, suffix = name.rpartition("_")
        assert quantity in QUANTITIES
        assert suffix in ("gt", "ge", "lt")


def test_what_is_set_joins_the_defaults():
    chosen = parse_settings(
        ["weight_not_changed.rtol = 1e-4", "tensor_too_large.max_gt=inf", "tensor_too_large.max_gt=5"]
    )
    assert chosen.parameters("weight_not_changed") == {"rtol": 1e-4, "atol": 1e-8, "equal_nan": 0}
    assert chosen.parameters("tensor_too_large") == {"max_gt": 5}
    assert chosen.is_asked_for("tensor_too_large")
    assert not chosen.is_asked_for("tensor_too_small")


def test_a_check_is_turned_off_and_on():
    chosen = parse_settings(["tensor_overflow=off", "weight_not_changed=on", "weight_not_changed.equal_nan=true"])
    assert chosen.parameters("tensor_overflow") is None
    assert chosen.is_asked_for("weight_not_changed")
    assert chosen.parameters("weight_not_changed")["equal_nan"] == 1
    assert parse_settings(["tensor_overflow=off", "tensor_overflow=on"]).parameters("tensor_overflow") == {}


def test_turned_on_without_a_threshold_does_nothing():
    assert parse_settings(["tensor_too_large=on"]).parameters("tensor_too_large") is None


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("tensor_overflw=off", UnknownNameError, "did you mean 'tensor_overflow'"),
        ("weight_not_changed.rto=1", UnknownNameError, "did you mean 'rtol'"),
        ("tensor_overflow.max_gt=1", UnknownNameError, "tensor_overflow=off"),
        ("weight_not_changed.rtol=small", ConfigError, "'small' is not a number"),
        ("weight_not_changed.rtol=nan", ConfigError, "is not a number"),
        ("weight_not_changed.rtol", ConfigError, "CHECK.PARAMETER=NUMBER"),
        ("weight_not_changed.rtol=", ConfigError, "CHECK.PARAMETER=NUMBER"),
        ("weight_not_changed=1e-4", ConfigError, "weight_not_changed.PARAMETER=1e-4"),
        ("", ConfigError, "CHECK.PARAMETER=NUMBER"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, error, says):
    with pytest.raises(error) as caught:
        parse_settings([text])
    assert says in str(caught.value)
    assert f"'{text}'" in str(caught.value)
