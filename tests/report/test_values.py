"""Numbers are written as JSON has them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.forms.values import ELEMENT, dumps
from pytest_msdump.core.text import encode

integers = st.integers(-(2**70), 2**70)
numbers = st.one_of(st.floats(), st.floats(width=32), integers, st.booleans(), st.complex_numbers())


def printed(*numbers):
    return [dumps(encode(one)) for one in numbers]


@settings(max_examples=300)
@given(number=numbers)
def test_each_number_is_strict_json_and_comes_back(number):
    text = dumps(encode(number))
    assert repr(ELEMENT.read(json.loads(text, parse_constant=pytest.fail), "")) == repr(number)


def test_numbers_are_written_as_json_has_them():
    given = (0, 0.0, -0.0, 1e16, 1e-5, -0.0001, 1e22, 2**80, -(2**63), 2**64 - 1, True, None, (), (1, (2.5,), None))
    text = "0 0.0 -0.0 1e+16 1e-05 -0.0001 1e+22 1208925819614629174706176 -9223372036854775808 18446744073709551615"
    assert printed(*given) == [*text.split(), "true", "null", "[]", "[1, [2.5], null]"]
    given = (math.nan, math.inf, -math.inf, complex(1, math.nan), np.float32(0.1), np.int16(-3), (-math.inf, 5e-324))
    assert [json.loads(one) for one in printed(*given)] == [
        "NaN", "Infinity", "-Infinity", [1.0, "NaN"], float(np.float32(0.1)), -3, ["-Infinity", 5e-324],
    ]  # fmt: skip


def test_what_cannot_be_written_is_said():
    with pytest.raises(TypeError):
        dumps(encode(object()))
