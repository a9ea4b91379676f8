"""What of an array goes into its file: numbers of numpy's own types, or the bit patterns of types that it lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capture.arrays import as_array
from pytest_msdump.capture.raw import RawArray
from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.decode import storage_of
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import DTYPES

__all__ = ["decoded", "stored"]

Array = npt.NDArray[Any]

# Kinds of numpy whose elements are numbers of the same width on every machine.
_NUMBERS = frozenset("?bBhHiIlLqQefdFD")
_SIGNED_BYTES = ("int4", "int2")


def stored(array: Any, dtype: str | None = None) -> tuple[Array, str | None]:
    """Return the array to save, in C order, and its logical type where the file's header will not tell.

    Parameters
    ----------
    array : array or RawArray
        An array or a tensor as `capture.arrays.as_array` takes it.
    dtype : str, optional
        The logical type, where `array` holds the bit patterns of another one.

    Raises
    ------
    ConfigError
        No numbers (text, objects, records), numbers that differ from machine to machine, bytes that do not make up
        the shape.
    """
    array = as_array(array)
    if isinstance(array, RawArray):
        return _from_bits(array)
    values = np.asarray(array, order="C")
    if dtype is not None:
        return _from_bits(RawArray(values.reshape(-1), values.shape, dtype))
    # 2: another library's type, whose letter may be one of numpy's (float8_e4m3b11fnuz of ml_dtypes is an "L").
    if values.dtype.isbuiltin != 2 and values.dtype.char in _NUMBERS:
        return values, None
    # Libraries that extend numpy with bfloat16 and 8-bit floats register types whose names the tables know.
    known = canonical(values.dtype.name)
    if known is None or DTYPES[known].kind == "opaque" or values.dtype.names:
        raise ConfigError(f"an array of {values.dtype} cannot be recorded as numbers; leave it out, or convert it")
    if known in _SIGNED_BYTES:
        # Such libraries hold -1 as 0x0F; a file holds it as the int8 that it is.
        return values.astype(np.int8), known
    return _from_bits(RawArray(values.reshape(-1).view(f"u{values.dtype.itemsize}"), values.shape, known))


def decoded(raw: RawArray) -> tuple[Array, str]:
    """Return the values of a tensor given as its bits, exactly, and its logical type.

    Raises
    ------
    ConfigError
        As `stored`.
    TensorFileError
        The type is not known as one of numbers.
    """
    codes, logical = stored(raw)
    if logical is None:
        return codes, codes.dtype.name
    storage = storage_of(codes.dtype.str, logical, where="an array in memory")
    return storage.decode(codes.reshape(-1)).reshape(codes.shape), logical


def _from_bits(raw: RawArray) -> tuple[Array, str | None]:
    logical = canonical(raw.dtype) or raw.dtype.strip().lower()
    shape = tuple(int(axis) for axis in raw.shape)
    count = math.prod(shape)
    data = np.frombuffer(_bytes(raw.data), np.uint8)
    width = _width(logical, data.size, count)
    if data.size != count * width:
        raise ConfigError(
            f"{data.size} bytes of {logical} do not make up the shape {shape}, which takes {count} × {width}"
        )
    return data.view(_code(logical, width)).reshape(shape), None if _is_plain(logical) else logical


def _bytes(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    view = memoryview(data)
    return view if view.contiguous else view.tobytes()


def _is_plain(logical: str) -> bool:
    return logical in DTYPES and DTYPES[logical].native == logical


def _width(logical: str, available: int, count: int) -> int:
    """Bytes of one element. Of a type that no table knows, as many as there are for each element."""
    if logical in DTYPES and DTYPES[logical].bits:
        return -(-DTYPES[logical].bits // 8)
    return max(available // max(count, 1), 1)


def _code(logical: str, width: int) -> str:
    if _is_plain(logical):
        return DTYPES[logical].native
    if width not in (1, 2, 4, 8):
        raise ConfigError(f"{logical} of {width} bytes an element cannot be recorded; record it as a plain type")
    return f"{'i' if logical in _SIGNED_BYTES else 'u'}{width}"
