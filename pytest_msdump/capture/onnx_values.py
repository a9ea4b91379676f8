"""Values of ONNX Runtime as arrays, bit for bit, and arrays as values."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from pytest_msdump.capture.raw import RawArray
from pytest_msdump.capture.stored import stored

__all__ = ["array_of", "given", "value_of"]

# Element types that numpy lacks, by number in onnx.proto's TensorProto.DataType: their name, and the bits of one.
_FOREIGN = {
    16: ("bfloat16", 16),
    17: ("float8_e4m3fn", 8),
    18: ("float8_e4m3fnuz", 8),
    19: ("float8_e5m2", 8),
    20: ("float8_e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4_e2m1", 4),
    24: ("float8_e8m0", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
}
_SIGNED = {"int4", "int2"}
_STRING = 8


def array_of(value: Any) -> Any:
    """Return an array, a `RawArray` where numpy lacks the type, ``None`` for text, sequences and maps.

    Parameters
    ----------
    value : onnxruntime.OrtValue
        In the memory of the CPU.
    """
    if not value.has_value() or not value.is_tensor() or value.element_type() == _STRING:
        return None
    if value.element_type() not in _FOREIGN:
        return value.numpy()
    name, bits = _FOREIGN[value.element_type()]
    shape = tuple(value.shape())
    count = math.prod(shape)
    data = ctypes.string_at(value.data_ptr(), -(-count * bits // 8)) if count else b""
    return RawArray(data if bits >= 8 else _apart(data, bits, count, signed=name in _SIGNED), shape, name)


def _apart(data: bytes, bits: int, count: int, *, signed: bool) -> bytes:
    """A byte for each element of those packed into bytes, the first in the lowest bits."""
    packed = np.frombuffer(data, np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((packed[:, None] >> shifts) & np.uint8(2**bits - 1)).reshape(-1)[:count]
    if signed:
        codes = np.where(codes >= 2 ** (bits - 1), codes.astype(np.int16) - 2**bits, codes).astype(np.int8)
    apart: bytes = codes.tobytes()
    return apart


def value_of(array: Any) -> Any:
    """Return the value to feed: arrays of numpy and of libraries that extend it, lists, values of ONNX Runtime."""
    import onnxruntime

    if isinstance(array, onnxruntime.OrtValue):
        return array
    values = np.asarray(array)
    if values.dtype.kind not in "V":
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values).reshape(values.shape))
    bits, name = stored(values)
    number = next((number for number, (known, _) in _FOREIGN.items() if known == name), 0)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number)


def given(value: Any) -> Any:
    """Return what ``InferenceSession.run`` gives back: an array where there is one, else the value itself."""
    try:
        return value.numpy()
    except RuntimeError:
        return value
