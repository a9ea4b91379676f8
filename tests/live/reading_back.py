"""Arrays of each type, and whether a recording of one is read back as it was, by the reader of dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pytest_msdump import open_dump
from pytest_msdump.capabilities.arrays.encode import encode

PLAIN = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
PLAIN += ("complex64", "complex128")
FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz")
# Elements of less than a byte are recorded one a byte, so only their values can be the same.
NARROW = ("int2", "int4", "uint2", "uint4", "float4_e2m1fn")
# All that TensorFlow has with numbers in it, but quantized ones.
TYPES = (*PLAIN, *FLOATS, *NARROW)

# What they are called in dumps, where that is not as ml_dtypes has it.
CALLED = {"float4_e2m1fn": "float4_e2m1", "float8_e8m0fnu": "float8_e8m0"}


def of_type(name: str) -> Any:
    """An array of any bits that elements of a type can have; types of ml_dtypes where numpy has none."""
    if name in PLAIN:
        kind = np.dtype(name)
    else:
        import ml_dtypes

        kind = np.dtype(getattr(ml_dtypes, name))
    if name in NARROW:
        import ml_dtypes

        bits = ml_dtypes.finfo(kind).bits if "float" in name else ml_dtypes.iinfo(kind).bits
        return np.arange(2**bits, dtype=np.uint8).view(kind)
    raw = np.random.default_rng(3).integers(0, 256, 256 * kind.itemsize, np.uint8)
    return (raw % 2).astype(bool) if name == "bool" else raw.view(kind)


def check_read_back(directory: Path, address: str, expected: Any) -> None:
    """Assert that a recorded tensor has the type, the shape and every bit of an array."""
    view = open_dump(directory).open(address)
    values = view.read(0, view.size)
    assert view.dtype == CALLED.get(expected.dtype.name, expected.dtype.name)
    assert view.shape == expected.shape
    if expected.dtype.name in NARROW:
        np.testing.assert_array_equal(values, expected.reshape(-1).astype(np.float32))
        assert np.signbit(values).tolist() == np.signbit(expected.reshape(-1).astype(np.float32)).tolist()
        return
    assert bits_of(view.dtype, values) == expected.tobytes()


def bits_of(dtype: str, values: Any) -> bytes:
    """The bytes that values of a type have in a dump."""
    return encode(np.ascontiguousarray(values).reshape(-1), dtype).tobytes()
