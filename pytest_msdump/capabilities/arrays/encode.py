"""From values to the bytes of a binary dump: the inverse of `dtypes.decode.stored_as`. Nothing is rounded.

What a data type cannot hold is refused rather than rounded: a dump is to be compared with, and a rounded value would
show as a drift. NaN is NaN: where a type has no code for a NaN's bits, its usual one of that sign is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.decode import stored_as
from pytest_msdump.core.dtypes.low_precision import BYTE_TABLES, byte_table
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.facts.dtypes import DTYPES

Array = npt.NDArray[Any]

_QUIET = np.uint32(0x40)
_LOW_HALF = np.uint32(0xFFFF)


def encode(values: Array, name: str) -> Array:
    """Return the bytes of 1-D values as a binary dump stores them, the last byte filled up; raises as `stored_as`."""
    form = stored_as(name)
    known = canonical(name) or name
    exact = _cast(values, np.dtype(DTYPES[known].native), known)
    return _maker(known, form.bits)(exact).view(np.uint8)


def _maker(known: str, bits: int) -> Callable[[Array], Array]:
    if known == "bfloat16":
        return _bfloat16
    if known == "bool":
        return lambda values: values.view(np.uint8)
    if known == "complex32":
        return lambda values: _cast(values.view(np.float32), np.dtype(np.float16), known).astype("<f2", copy=False)
    if known not in BYTE_TABLES:
        native = np.dtype(DTYPES[known].native)
        return lambda values: values.astype(native.newbyteorder("<"), copy=False)
    return (lambda values: _looked_up(values, known)) if bits == 8 else (lambda values: _packed(values, known, bits))


def _cast(values: Array, native: np.dtype[Any], known: str) -> Array:
    """Cast values to the type that decoded values have, if that changes none of them."""
    if values.dtype == native:
        return np.ascontiguousarray(values)
    if values.dtype.kind == "c" and native.kind != "c":
        raise TensorFileError(f"{known} has no complex values; save the part that is meant")
    # A number that is too large becomes infinite or wraps, which the comparison below sees.
    with np.errstate(all="ignore"):
        cast: Array = values.astype(native)
        wrong = cast.astype(values.dtype) != values
    if values.dtype.kind in "fc":
        wrong &= ~np.isnan(values)
    _refuse(values, wrong, known)
    return cast


def _refuse(values: Array, wrong: Array, known: str) -> None:
    if wrong.any():
        first = values[int(np.argmax(wrong))]
        raise TensorFileError(
            f"{first!s} is none that {known} has; nothing is rounded: cast it where it is made, or name a wider type"
        )


def _bfloat16(values: Array) -> Array:
    bits = values.view(np.uint32)
    nan = np.isnan(values)
    _refuse(values, (bits & _LOW_HALF != 0) & ~nan, "bfloat16")
    upper: Array = bits >> np.uint32(16)
    # The bits of a NaN may all be in the half that goes, and what is left would be infinite.
    lost = nan & (bits & _LOW_HALF != 0)
    return np.where(lost, upper | _QUIET, upper).astype("<u2")


@cache
def _codes(known: str) -> tuple[Array, Array]:
    """Return the bits of all values of a type, sorted, and the bytes that hold them."""
    bits = byte_table(known)[:, 0].view(np.uint32)
    order: Array = np.argsort(bits, kind="stable")
    return bits[order], order.astype(np.uint8)


def _looked_up(values: Array, known: str) -> Array:
    bits, codes = _codes(known)
    wanted = _usual(values, known)
    place = np.minimum(np.searchsorted(bits, wanted), 255)
    _refuse(values, bits[place] != wanted, known)
    return codes[place]


def _usual(values: Array, known: str) -> Array:
    """Return the bits of values; a NaN or minus zero that the type lacks becomes one that it has."""
    table = byte_table(known)[:, 0]
    wanted: Array = values.view(np.uint32)
    there = np.isin(wanted, table.view(np.uint32))
    if there.all():
        return wanted
    nans = table[np.isnan(table)]
    out: Array = wanted.copy()
    for negative in (False, True):
        # The usual NaN comes first where there are several of a sign.
        own = sorted(nans[np.signbit(nans) == negative].view(np.uint32).tolist()) or nans.view(np.uint32).tolist()
        lacking = np.isnan(values) & ~there & (np.signbit(values) == negative)
        out[lacking] = own[0]
    out[(values == 0) & ~there] = 0
    return out


def _packed(values: Array, known: str, bits: int) -> Array:
    """Put several integers into each byte, in the order that `dtypes.low_precision` takes them out."""
    in_byte = 8 // bits
    count = -(-values.size // in_byte)
    fields = np.zeros(count * in_byte, np.uint8)
    fields[: values.size] = values.astype(np.uint8) & np.uint8(2**bits - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    if known == "uint1":
        shifts = shifts[::-1]
    packed: Array = np.bitwise_or.reduce(fields.reshape(count, in_byte) << shifts, axis=1).astype(np.uint8)
    _refuse(values, byte_table(known)[packed].reshape(-1)[: values.size] != values, known)
    return packed
