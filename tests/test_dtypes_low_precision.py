"""Every code of every type of 8 bits and fewer, against a decoder that goes bit by bit in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.decode import bytes_needed, can_decode, stored_as
from pytest_msdump.core.errors import TensorFileError, UnknownNameError
from pytest_msdump.core.facts.dtypes import DTYPES


def two_to(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def ieee_like(code: int, exponent_bits: int, mantissa_bits: int) -> Fraction:
    """Sign, exponent, mantissa, subnormals; nothing special at the top."""
    bits = f"{code:08b}"
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(bits[1 + exponent_bits :], 2)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent:
        value = (1 + Fraction(fraction, 2**mantissa_bits)) * two_to(exponent - bias)
    else:
        value = Fraction(fraction, 2**mantissa_bits) * two_to(1 - bias)
    return -value if bits[0] == "1" else value


def e4m3fn(code: int) -> Fraction | float:
    return math.nan if code & 0x7F == 0x7F else ieee_like(code, 4, 3)


def e5m2(code: int) -> Fraction | float:
    if code & 0x7C == 0x7C:
        return math.nan if code & 3 else math.copysign(math.inf, -1 if code & 0x80 else 1)
    return ieee_like(code, 5, 2)


def fnuz(code: int, exponent_bits: int, mantissa_bits: int, extra_bias: int) -> Fraction | float:
    """As IEEE's with a larger bias; -0 is NaN, and nothing else is special."""
    return math.nan if code == 0x80 else ieee_like(code, exponent_bits, mantissa_bits) / 2**extra_bias


def e8m0(code: int) -> Fraction | float:
    return math.nan if code == 0xFF else two_to(code - 127)


def hifloat8(code: int) -> Fraction | float:
    special = {0x00: Fraction(0), 0x80: math.nan, 0x6F: math.inf, 0xEF: -math.inf}
    if code in special:
        return special[code]
    bits = f"{code:08b}"
    sign, rest = -1 if bits[0] == "1" else 1, bits[1:]
    for prefix, width in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)):
        if rest.startswith(prefix):
            field = rest[len(prefix) : len(prefix) + width]
            mantissa = rest[len(prefix) + width :]
            exponent = 0
            if width:
                exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1)
            return sign * (1 + Fraction(int(mantissa, 2), 2 ** len(mantissa))) * two_to(exponent)
    return sign * two_to(int(rest[4:], 2) - 23)


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("float8_e4m3fn", e4m3fn),
        ("float8_e5m2", e5m2),
        ("float8_e8m0", e8m0),
        ("hifloat8", hifloat8),
        ("float8_e4m3fnuz", lambda code: fnuz(code, 4, 3, 1)),
        ("float8_e4m3b11fnuz", lambda code: fnuz(code, 4, 3, 4)),
        ("float8_e5m2fnuz", lambda code: fnuz(code, 5, 2, 1)),
    ],
)
def test_every_code_is_exact(name, decoder):
    """Fault 9 of the vendor's tool: it takes NaN for 480, -Inf for Inf, and halves or doubles HiFloat8 near 1."""
    found = stored_as(name).decode(np.arange(256, dtype=np.uint8))
    assert found.dtype == np.float32
    for code, value in enumerate(found.tolist()):
        expected = decoder(code)
        if isinstance(expected, Fraction):
            assert Fraction(value) == expected, hex(code)
        else:
            assert repr(value) == repr(float(expected)), hex(code)
    assert math.copysign(1, found[0x80]) == -1 or math.isnan(found[0x80]) or name == "float8_e8m0"


@pytest.mark.parametrize("name", [name for name in DTYPES if name.startswith("float8") or name == "hifloat8"])
def test_the_maximum_in_the_table_is_the_largest_finite_code(name):
    values = stored_as(name).decode(np.arange(256, dtype=np.uint8))
    assert float(values[np.isfinite(values)].max()) == DTYPES[name].maximum


@pytest.mark.parametrize(
    ("name", "bits", "signed"), [("int4", 4, True), ("int2", 2, True), ("uint2", 2, False), ("uint4", 4, False)]
)
def test_small_integers_come_lowest_bits_first(name, bits, signed):
    found = stored_as(name).decode(np.arange(256, dtype=np.uint8)).reshape(256, -1)
    for code in range(256):
        fields = [code >> place & (2**bits - 1) for place in range(0, 8, bits)]
        expected = [field - 2**bits if signed and field >= 2 ** (bits - 1) else field for field in fields]
        assert found[code].tolist() == expected


def test_complex32_is_two_halves():
    raw = np.array([1.5, -2.0, np.inf, 65504], "<f2")
    assert stored_as("complex32").decode(raw).tolist() == [1.5 - 2j, complex(math.inf, 65504)]


@pytest.mark.parametrize("name", [name for name, fact in DTYPES.items() if fact.native])
def test_what_is_stored_takes_the_bytes_of_its_bits(name):
    form = stored_as(name)
    assert form.bits == DTYPES[name].bits
    assert can_decode(name)
    for count in (0, 1, 7, 8, 9):
        assert bytes_needed(name, count) == -(-count * form.bits // 8)
    assert form.decode(np.zeros(8, form.stored)).dtype == np.dtype(DTYPES[name].native)


@pytest.mark.parametrize(
    ("name", "why"),
    [("string", "holds no numbers"), ("resource", "holds no numbers"), ("float6_e2m3", "no numeric decoding")],
)
def test_types_without_numbers_say_so(name, why):
    assert not can_decode(name)
    with pytest.raises(TensorFileError, match=why):
        stored_as(name)


@given(st.text(max_size=20))
def test_any_other_name_is_refused_with_the_nearest(name):
    if canonical(name) is None:
        assert not can_decode(name)
        with pytest.raises(UnknownNameError):
            stored_as(name)
