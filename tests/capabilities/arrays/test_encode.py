"""Encoding is decoding the other way round, for every code of every type, and never rounds."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.capabilities.arrays.encode import encode
from pytest_msdump.core.dtypes.decode import can_decode, stored_as
from pytest_msdump.core.dtypes.low_precision import BYTE_TABLES
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES

EVERY_BYTE = np.arange(256, dtype=np.uint8)
NATIVE = [name for name in DTYPES if can_decode(name) and name not in BYTE_TABLES and name != "bool"]


@pytest.mark.parametrize("name", BYTE_TABLES)
def test_every_byte_comes_back(name: str) -> None:
    assert encode(stored_as(name).decode(EVERY_BYTE), name).tolist() == EVERY_BYTE.tolist()


@pytest.mark.parametrize("name", NATIVE)
def test_bytes_of_wide_types_come_back_bit_by_bit(name: str) -> None:
    raw = np.random.default_rng(6).integers(0, 256, 1600, dtype=np.uint8)
    form = stored_as(name)
    back = encode(form.decode(raw.view(form.stored)), name)
    if name == "complex32":
        # Halves that are NaN may change their payload on the way through float32.
        halves, returned = raw.view("<f2"), back.view("<f2")
        np.testing.assert_array_equal(returned, halves)
    else:
        assert back.tobytes() == raw.tobytes()


@pytest.mark.parametrize(
    ("name", "bits", "code"),
    [
        ("float8_e5m2", 0x7FC00001, 0x7E),
        ("float8_e5m2", 0xFFFFFFFF, 0xFE),
        ("float8_e4m3fn", 0xFFC12345, 0xFF),
        ("float8_e4m3fnuz", 0xFFC00000, 0x80),
        ("hifloat8", 0x7F800001, 0x80),
    ],
)
def test_a_nan_of_bits_that_a_type_lacks_is_its_usual_one(name: str, bits: int, code: int) -> None:
    assert encode(np.array([bits], np.uint32).view(np.float32), name).tolist() == [code]


def test_a_nan_never_becomes_infinite_in_bfloat16() -> None:
    values = np.array([0x7F800001, 0xFF80FFFF, 0x7FC00000], np.uint32).view(np.float32)
    assert encode(values, "bfloat16").view("<u2").tolist() == [0x7FC0, 0xFFC0, 0x7FC0]


def test_an_imaginary_part_is_never_dropped() -> None:
    with pytest.raises(MsdumpError, match="float32 has no complex values"):
        encode(np.array([1 + 0j]), "float32")


def test_elements_that_do_not_fill_the_last_byte_are_padded_with_zeros() -> None:
    assert encode(np.array([1, 0, 1]), "uint1").tolist() == [0b1010_0000]
    assert encode(np.array([-1, 3, 7], np.int8), "int4").tolist() == [0x3F, 0x07]


def test_bools_are_bytes_of_one_and_zero() -> None:
    assert encode(np.array([True, False]), "bool").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bfloat16", 1.0009765625),
        ("float8_e4m3fn", 1.01),
        ("float8_e4m3fn", 480.0),
        ("float8_e8m0", 0.0),
        ("int4", 8),
        ("uint2", -1),
        ("float16", 1e6),
        ("int8", 128),
        ("int32", 0.5),
    ],
)
def test_a_value_that_the_type_has_not_is_refused(name: str, value: float) -> None:
    with pytest.raises(MsdumpError, match=f"none that {name} has"):
        encode(np.array([value]), name)
