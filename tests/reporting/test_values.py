"""Forms are filled with numbers as JSON has them, by compiled code and by Python: both write the same, to the byte."""

from __future__ import annotations

import json
import math
import os
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_msdump.compiled import VARIABLE
from pytest_msdump.reporting import values as module
from pytest_msdump.reporting.values import filled, form_text, number_json

# Where it is asked for it has to be there: all that is compiled is optional, and would be skipped everywhere unseen.
_NOT_BUILT = pytest.mark.skipif(
    module._COMPILED is None and os.environ.get(VARIABLE) != "compiled", reason="it was not built here, or not wanted"
)


def needs_compiled(test):
    return _NOT_BUILT(pytest.mark.usefixtures("_compiled")(test))


integers = st.integers(-(2**70), 2**70)
numbers = st.one_of(st.floats(), st.floats(width=32), integers, st.booleans(), st.none(), st.complex_numbers())
values = numbers | st.lists(st.floats() | integers, max_size=5).map(tuple)


def printed(*numbers):
    """What compiled code makes of them, one by one."""
    return filled("%s\n" * len(numbers), numbers).splitlines()


@pytest.fixture
def _compiled():
    assert module._COMPILED is not None


@pytest.fixture(params=[pytest.param("compiled", marks=_NOT_BUILT), "Python"])
def _either(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(module, "_COMPILED", None)
    else:
        request.getfixturevalue("_compiled")


@pytest.mark.usefixtures("_either")
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(st.tuples(st.text(st.characters(max_codepoint=126)), values)))
def test_each_writes_what_numbers_are_in_json(given):
    form, numbers = "".join(form_text(text) + "%s" for text, _ in given), tuple(value for _, value in given)
    text = "".join(text + number_json(value) for text, value in given)
    assert filled(form, numbers) == text


@needs_compiled
@given(bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=200))
def test_floats_of_any_bits_are_written_as_they_print(bits):
    floats = struct.unpack(f"{len(bits)}d", struct.pack(f"{len(bits)}Q", *bits))
    assert printed(*floats) == [number_json(one) for one in floats]


@needs_compiled
@pytest.mark.parametrize("sign", [1, -1])
def test_powers_and_their_neighbours_are_written_as_they_print(sign):
    """Below a power of two floats are twice as close as above; at a power of ten the number of digits changes."""
    powers = [sign * math.ldexp(1.0, exponent) for exponent in range(-1074, 1024)]
    powers += [sign * float(f"1e{exponent}") for exponent in range(-323, 309)]
    floats = [near for one in powers for near in (np.nextafter(one, 0).item(), one, np.nextafter(one, one * 2).item())]
    assert printed(*floats) == [number_json(one) for one in floats]


@pytest.mark.usefixtures("_either")
def test_numbers_are_written_as_json_has_them():
    given = (0, 0.0, -0.0, 1e16, 1e-5, -0.0001, 1e22, 2**80, -(2**63), 2**64 - 1, True, None, (), (1, (2.5,), None))
    text = "0 0.0 -0.0 1e+16 1e-05 -0.0001 1e+22 1208925819614629174706176 -9223372036854775808 18446744073709551615"
    assert printed(*given) == [*text.split(), "true", "null", "[]", "[1, [2.5], null]"]
    given = (math.nan, math.inf, -math.inf, complex(1, math.nan), np.float32(0.1), np.int16(-3), (-math.inf, 5e-324))
    assert [json.loads(one) for one in printed(*given)] == [
        "NaN", "Infinity", "-Infinity", [1.0, "NaN"], float(np.float32(0.1)), -3, ["-Infinity", 5e-324],
    ]  # fmt: skip


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize(("form", "given"), [("%s", ()), ("%s %s", (1,)), ("%%s", (1,)), ("", (1,))])
def test_a_form_that_does_not_fit_is_refused(form, given):
    with pytest.raises(TypeError):
        filled(form, given)


@needs_compiled
@pytest.mark.parametrize("form", ["%d", "%", "100 %", "\N{EM DASH}%s"])
def test_another_form_is_refused(form):
    with pytest.raises(TypeError):
        filled(form, (1,))


@pytest.mark.usefixtures("_either")
def test_what_cannot_be_written_is_said():
    with pytest.raises(TypeError):
        filled("%s", (object(),))


@needs_compiled
def test_what_others_write_has_to_be_ascii(monkeypatch):
    monkeypatch.setattr(module, "number_json", lambda _: "\N{EM DASH}")
    with pytest.raises(TypeError, match="ASCII"):
        filled("%s", (object(),))


@needs_compiled
def test_a_form_may_be_long_and_its_numbers_many():
    numbers = tuple(number / 7 for number in range(20_000))
    assert filled("%s," * len(numbers), numbers) == "".join(f"{number!r}," for number in numbers)


def test_a_power_of_ten_is_known_to_128_bits_and_rounded_up():
    for exponent in range(-292, 325):
        power = Fraction(10) ** exponent
        places = power.numerator.bit_length() - power.denominator.bit_length()
        places -= Fraction(2) ** places > power
        high, low = module._power_of_10(exponent)
        assert (high << 64) + low == math.ceil(power * Fraction(2) ** (127 - places))
