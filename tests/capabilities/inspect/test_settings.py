"""Which checks run: MindInsight's defaults, what a user sets, and what is refused."""

import pytest

from pytest_msdump.capabilities.inspect.check_facts import ACTIVATIONS, CHECKS, QUANTITIES
from pytest_msdump.capabilities.inspect.checks import parse_settings
from pytest_msdump.core.errors import ConfigError, UnknownNameError


def test_every_threshold_is_of_a_quantity_that_is_measured():
    words = {"rtol", "atol", "equal_nan", "epsilon", "range_start_inclusive", "range_end_inclusive"}
    named = {name for fact in CHECKS.values() for name in fact.parameters} | {
        n for a in ACTIVATIONS.values() for n in a
    }
    for name in named - words:
        quantity, _, suffix = name.rpartition("_")
        assert quantity in QUANTITIES
        assert suffix in ("gt", "ge", "lt")


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
