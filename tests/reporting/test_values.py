"""Forms are filled with numbers as JSON has them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.reporting.values import filled, form_text, number_json

integers = st.integers(-(2**70), 2**70)
numbers = st.one_of(st.floats(), st.floats(width=32), integers, st.booleans(), st.none(), st.complex_numbers())
values = numbers | st.lists(st.floats() | integers, max_size=5).map(tuple)


def printed(*numbers):
    return filled("%s\n" * len(numbers), numbers).splitlines()


@settings(max_examples=300)
@given(given=st.lists(st.tuples(st.text(st.characters(max_codepoint=126)), values)))
def test_text_around_the_numbers_stays_as_it_is(given):
    form, numbers = "".join(form_text(text) + "%s" for text, _ in given), tuple(value for _, value in given)
    text = "".join(text + number_json(value) for text, value in given)
    assert filled(form, numbers) == text


def test_numbers_are_written_as_json_has_them():
    given = (0, 0.0, -0.0, 1e16, 1e-5, -0.0001, 1e22, 2**80, -(2**63), 2**64 - 1, True, None, (), (1, (2.5,), None))
    text = "0 0.0 -0.0 1e+16 1e-05 -0.0001 1e+22 1208925819614629174706176 -9223372036854775808 18446744073709551615"
    assert printed(*given) == [*text.split(), "true", "null", "[]", "[1, [2.5], null]"]
    given = (math.nan, math.inf, -math.inf, complex(1, math.nan), np.float32(0.1), np.int16(-3), (-math.inf, 5e-324))
    assert [json.loads(one) for one in printed(*given)] == [
        "NaN", "Infinity", "-Infinity", [1.0, "NaN"], float(np.float32(0.1)), -3, ["-Infinity", 5e-324],
    ]  # fmt: skip


@pytest.mark.parametrize(("form", "given"), [("%s", ()), ("%s %s", (1,)), ("%%s", (1,)), ("", (1,))])
def test_a_form_that_does_not_fit_is_refused(form, given):
    with pytest.raises(TypeError):
        filled(form, given)


def test_what_cannot_be_written_is_said():
    with pytest.raises(TypeError):
        filled("%s", (object(),))
