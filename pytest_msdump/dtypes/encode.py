"""From values back to stored bytes: the other direction of `dtypes.decode.stored_as`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.decode import stored_as
from pytest_msdump.dtypes.low_precision import BYTE_TABLES, byte_table
from pytest_msdump.errors import TensorFileError

__all__ = ["encode"]

Array = npt.NDArray[Any]


def encode(values: Array, name: str) -> Array:
    """Return the bytes of numbers as a binary dump stores them: little-endian, without gaps.

    Parameters
    ----------
    values : array, 1-D
        As `stored_as` decodes them. Where several elements share a byte, the last byte is filled up with zeros.
    name : str
        Their logical type, in any spelling that `dtypes.canonical` knows.

    Returns
    -------
    array of uint8, 1-D
        All bytes of bfloat16 NaNs are kept; of several codes for NaN that an 8-bit float has, the lowest is written.

    Raises
    ------
    UnknownNameError, TensorFileError
        As `stored_as`; also for a number that the type does not have: values are never rounded.

    Examples
    --------
    >>> encode(np.array([1, 2, -8, -1]), "int4").tolist()
    [33, 248]
    >>> encode(np.array([1.0], np.float32), "bfloat16").tolist()
    [128, 63]
    """
    form = stored_as(name)
    known = canonical(name) or name
    if known in BYTE_TABLES:
        return _codes(values, known, 8 // form.itemsize_bits)
    if known == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        if (bits & 0xFFFF).any():
            raise _not_of(known)
        return _bytes((bits >> 16).astype("<u2"))
    if known == "complex32":
        parts = np.ascontiguousarray(values, np.complex64).view(np.float32)
        return _bytes(_exactly(parts, np.dtype("<f2"), known))
    native = np.dtype("?") if known == "bool" else form.stored
    return _bytes(_exactly(values, native, known))


def _exactly(values: Array, dtype: np.dtype[Any], name: str) -> Array:
    if values.dtype == dtype:
        return values
    # What overflows is found below, by not being what it was.
    with np.errstate(all="ignore"):
        stored: Array = values.astype(dtype)
    if values.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        same = np.array_equal(stored.astype(values.dtype), values, equal_nan=values.dtype.kind in "fc")
        if not same:
            raise _not_of(name)
    return stored


def _codes(values: Array, name: str, in_a_byte: int) -> Array:
    table = byte_table(name)
    fields = table if in_a_byte == 1 else table[:, 0]
    if in_a_byte == 1:
        return _lookup(values.astype(np.float32).view(np.uint32), fields.reshape(-1).view(np.uint32), name)
    low, high = int(fields.min()), int(fields.max())
    if values.size and not low <= int(values.min()) <= int(values.max()) <= high:
        raise _not_of(name)
    padded = np.zeros(-(-values.size // in_a_byte) * in_a_byte, np.int64)
    padded[: values.size] = values
    # A field's place in its byte, by what the byte with only that field set decodes to.
    bits = 8 // in_a_byte
    shifts = [next(shift for shift in range(0, 8, bits) if table[1 << shift, place]) for place in range(in_a_byte)]
    pieces = (padded.reshape(-1, in_a_byte) & (2**bits - 1)) << np.array(shifts)
    joined: Array = pieces.sum(axis=1).astype(np.uint8)
    return joined


def _lookup(bits: Array, table: Array, name: str) -> Array:
    """Find each number among the 256 that there are, by its bits, so that the two zeros stay apart."""
    nan = np.isnan(table.view(np.float32))
    codes = np.flatnonzero(~nan)
    order = codes[np.argsort(table[codes], kind="stable")]
    known = table[order]
    places = np.minimum(np.searchsorted(known, bits), len(known) - 1)
    found = order[places].astype(np.uint8)
    is_nan = np.isnan(bits.view(np.float32))
    wrong = known[places] != bits
    if nan.any():
        found[is_nan] = np.flatnonzero(nan)[0]
        wrong &= ~is_nan
    if wrong.any():
        raise _not_of(name)
    return found


def _bytes(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def _not_of(name: str) -> TensorFileError:
    return TensorFileError(f"a value is none that {name} has; round the values first, or name a wider type")
