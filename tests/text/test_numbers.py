"""Numbers in sentences: short, and never contradicting the comparison they tell of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.text import bound_text, number
from pytest_msdump.core.text.phrases import apart

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.98761234, "0.987612"),
        (0.00023, "2.3e-04"),
        (0.001, "0.001"),
        (1.0, "1"),
        (1e-7, "1e-07"),
        (-1.23456e-9, "-1.23e-09"),
        (123456.7, "123457"),
        (1234567.0, "1.23e+06"),
        (0.0, "0"),
        (2**63 + 1, "9223372036854775809"),
        (math.inf, "Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_a_number_is_short(value: float | int, text: str) -> None:
    assert number(value) == text


@settings(deadline=None, max_examples=200)
@given(value=FINITE)
def test_a_limit_typed_back_is_the_same_limit(value: float) -> None:
    assert float(bound_text(value)) == value


@settings(deadline=None, max_examples=300)
@given(bound=FINITE, steps=st.integers(min_value=-3, max_value=3), other=FINITE, near=st.booleans())
def test_the_texts_of_value_and_limit_compare_as_the_numbers_do(
    bound: float, steps: int, other: float, near: bool
) -> None:
    value = bound if near else other
    for _ in range(abs(steps) if near else 0):
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf)
    shown, told = apart(value, bound)
    if math.isfinite(value):
        assert (float(shown) < float(told), float(shown) > float(told)) == (value < bound, value > bound)


def test_a_value_close_to_its_limit_gets_the_digits_it_needs() -> None:
    assert apart(math.nextafter(0.999, 0), 0.999) == ("0.9989999999999999", "0.999")
    assert apart(0.998999999512345, 0.999) == ("0.9989999995", "0.999")
    assert apart(2**53 + 1, 2.0**53) == ("9007199254740993", "9007199254740992")
    assert apart(math.nan, 0.5) == ("NaN", "0.5")
