"""Numbers of 8 bits and fewer, decoded by tables of all 256 bytes.

Notes
-----
float8_e4m3fn has no infinity; its two codes 0x7F and 0xFF are NaN. In float8_e8m0 only 0xFF is NaN and there is neither
zero nor sign. HiFloat8 writes how long its exponent is into a prefix of 2 to 4 bits, so that numbers near 1 have more
significant bits than very large and very small ones; its one zero is 0x00, its one NaN 0x80, its infinities 0x6F, 0xEF.
Each code that means NaN becomes a NaN with bits of its own, so that `arrays.encode` finds the code again.

Elements of 1 bit come most significant bit first, as the vendor's own tools unpack them. For elements of 2 and 4 bits
nothing public says the order in dumps; what is assumed is the lowest bits first, the order that Ascend's host tools
and other frameworks pack int4 weights in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_CODES = np.arange(256)
_SIGNS = np.where(_CODES < 128, 1.0, -1.0)
# Quiet ones only: arithmetic would turn others into them.
_E5M2_NANS = np.array([0x7FD00000, 0x7FC00000, 0x7FE00000], np.uint32)


# Groups of HiFloat8 codes: the bits that say so, how many they are, bits of exponent and of mantissa.
_HIFLOAT8 = ((0b11, 2, 4, 1), (0b10, 2, 3, 2), (0b01, 2, 2, 3), (0b001, 3, 1, 3), (0b0001, 4, 0, 3))


@cache
def byte_table(name: str) -> Array:
    """Return the values of each byte, of one of `BYTE_TABLES`: read-only, of shape (256, elements in a byte)."""
    values: Array = BYTE_TABLES[name]()
    table = values.reshape(256, -1)
    table.flags.writeable = False
    return table


@cache
def float4_e2m1_codes() -> Array:
    """Return what the 16 codes of float4_e2m1 mean, as float32. It has neither NaN nor infinity."""
    positive = _minifloat(2, 1)[:8].astype(np.float32)
    codes = np.concatenate([positive, -positive])
    codes.flags.writeable = False
    return codes


def _minifloat(exponent_bits: int, mantissa_bits: int, bias: int | None = None) -> Array:
    """Decode all bytes as sign, exponent, mantissa as in IEEE 754, without a meaning for the largest exponent."""
    bias = 2 ** (exponent_bits - 1) - 1 if bias is None else bias
    exponent = _CODES >> mantissa_bits & (2**exponent_bits - 1)
    fraction = _CODES & (2**mantissa_bits - 1)
    significand = np.where(exponent > 0, fraction + 2**mantissa_bits, fraction)
    values: Array = _SIGNS * np.ldexp(significand.astype(float), np.maximum(exponent, 1) - bias - mantissa_bits)
    return values


def _float8_e4m3fn() -> Array:
    values = _minifloat(4, 3)
    values[[0x7F, 0xFF]] = np.nan, -np.nan
    return values.astype(np.float32)


def _float8_e5m2() -> Array:
    values = _minifloat(5, 2)
    values[[0x7C, 0xFC]] = np.inf, -np.inf
    table = values.astype(np.float32)
    # Three codes of each sign are NaN; a float32 for each, so that values can be turned back into their bytes.
    table[0x7D:0x80] = _E5M2_NANS.view(np.float32)
    table[0xFD:] = (_E5M2_NANS | np.uint32(2**31)).view(np.float32)
    return table


def _fnuz(exponent_bits: int, mantissa_bits: int, bias: int) -> Array:
    """Decode a type without infinity whose code of -0 is its only NaN."""
    values = _minifloat(exponent_bits, mantissa_bits, bias)
    values[0x80] = np.nan
    return values.astype(np.float32)


def _float8_e8m0() -> Array:
    values = np.ldexp(1.0, _CODES - 127)
    values[0xFF] = np.nan
    return values.astype(np.float32)


def _hifloat8() -> Array:
    magnitude = _CODES & 0x7F
    # Codes without a prefix: zero, and powers of two below those that have an exponent.
    values: Array = np.ldexp(1.0, (magnitude & 7) - 23)
    for prefix, length, exponent_bits, mantissa_bits in _HIFLOAT8:
        inside = magnitude >> (7 - length) == prefix
        exponent = _hifloat8_exponent(magnitude >> mantissa_bits, exponent_bits)
        fraction = magnitude & (2**mantissa_bits - 1)
        significand = (fraction + 2**mantissa_bits).astype(float)
        values[inside] = np.ldexp(significand, exponent - mantissa_bits)[inside]
    values *= _SIGNS
    values[[0x00, 0x80, 0x6F, 0xEF]] = 0.0, np.nan, np.inf, -np.inf
    return values.astype(np.float32)


def _hifloat8_exponent(field: Array, bits: int) -> Array:
    """Decode sign and magnitude, whose first bit is 1 and not written."""
    if bits == 0:
        return np.zeros_like(field)
    top = 2 ** (bits - 1)
    magnitude: Array = field & (top - 1) | top
    return np.where(field & top, -magnitude, magnitude)


def _lowest_first(bits: int) -> Array:
    shifts = np.arange(0, 8, bits)
    fields: Array = _CODES[:, np.newaxis] >> shifts & (2**bits - 1)
    return fields.astype(np.uint8)


def _signed(bits: int) -> Array:
    fields: Array = _lowest_first(bits).astype(np.int8)
    half = 2 ** (bits - 1)
    values: Array = np.where(fields < half, fields, fields - 2 * half)
    return values.astype(np.int8)


BYTE_TABLES: dict[str, Callable[[], Array]] = {
    "float8_e4m3fn": _float8_e4m3fn,
    "float8_e5m2": _float8_e5m2,
    "float8_e4m3fnuz": lambda: _fnuz(4, 3, 8),
    "float8_e4m3b11fnuz": lambda: _fnuz(4, 3, 11),
    "float8_e5m2fnuz": lambda: _fnuz(5, 2, 16),
    "float8_e8m0": _float8_e8m0,
    "hifloat8": _hifloat8,
    "int2": lambda: _signed(2),
    "int4": lambda: _signed(4),
    "uint1": lambda: np.ascontiguousarray(_lowest_first(1)[:, ::-1]),
    "uint2": lambda: _lowest_first(2),
    "uint4": lambda: _lowest_first(4),
}
