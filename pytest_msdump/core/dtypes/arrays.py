"""Arrays and tensors of any library as numpy arrays, without importing that library."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.decode import storage_of
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class RawArray:
    """A tensor of a type that numpy does not have, as its bits.

    Parameters
    ----------
    data : bytes or buffer
        All elements in C order, in the machine's byte order, without gaps: a ``bytes``, or anything with the buffer
        protocol (a numpy array of any type of the same width, too). Types below 8 bits take a byte each.
    shape : sequence of int
        ``()`` for a 0-d tensor.
    dtype : str
        The logical type in any spelling, e.g. ``"bfloat16"``, ``"float8_e4m3fn"``, ``"complex32"``.
    """

    data: Any
    shape: Sequence[int]
    dtype: str


# Methods that take a tensor out of its graph and off its device, in this order, where a library has them.
_STEPS = ("detach", "cpu")
_WAYS = ("asnumpy", "numpy", "__array__", "get")


def as_array(value: Any) -> Any:
    """Return a numpy array, or a `RawArray` where numpy lacks the type."""
    if isinstance(value, (np.ndarray, np.generic, RawArray, int, float, complex, list, tuple)):
        return value
    for step in _STEPS:
        value = getattr(value, step)() if hasattr(value, step) else value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _from_torch(torch, value)
    if canonical(str(getattr(value, "dtype", "")).lower()) == "bfloat16" and hasattr(value, "asnumpy"):
        # By way of float32, since not every release brings bfloat16 to numpy.
        single = np.asarray(value.float().asnumpy(), "<f4", order="C")
        return RawArray((single.view("<u4") >> np.uint32(16)).astype("<u2"), single.shape, "bfloat16")
    if not any(hasattr(value, way) for way in _WAYS) and hasattr(value, "__dlpack__"):
        return _from_dlpack(value)
    for way in ("asnumpy", "numpy", "get"):
        if hasattr(value, way) and not hasattr(value, "keys"):
            return np.asarray(getattr(value, way)())
    return np.asarray(value)


def _from_torch(torch: Any, value: Any) -> Any:
    """Return a tensor of PyTorch as a dense array, without lazy conjugation; as bits where numpy lacks the type."""
    if value.is_quantized:
        value = value.dequantize()
    if value.layout != torch.strided:
        value = value.to_dense()
    value = value.resolve_conj().resolve_neg().contiguous()
    name = str(value.dtype).removeprefix("torch.")
    if name == "complex32":
        halves = torch.view_as_real(value).contiguous().view(torch.int16)
        return RawArray(halves.numpy(), tuple(value.shape), name)
    if name == "bfloat16":
        return RawArray(value.view(torch.int16).numpy(), tuple(value.shape), name)
    if name.startswith("float") and value.element_size() == 1:
        return RawArray(value.view(torch.uint8).numpy(), tuple(value.shape), name)
    try:
        return value.numpy()
    except TypeError as error:
        raise ConfigError(
            f"a tensor of {value.dtype} cannot be read as numbers; convert it, or leave it out"
        ) from error


def _from_dlpack(value: Any) -> Any:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"a {type(value).__name__} cannot be read as numbers ({error}); give it as a numpy array"
        ) from error


Array = npt.NDArray[Any]

# Type characters of numpy whose elements are numbers of the same width on every machine.
_NUMBERS = frozenset("?bBhHiIlLqQefdFD")
_SIGNED_BYTES = ("int4", "int2")


def array_to_save(array: Any, dtype: str | None = None) -> tuple[Array, str | None]:
    """Return the array to save, in C order, and its logical type where the file's header does not have it."""
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


def decode_raw(raw: RawArray) -> tuple[Array, str]:
    """Return the exact values of a tensor given as bits, and its logical type; raises as what it calls."""
    codes, logical = array_to_save(raw)
    if logical is None:
        return codes, codes.dtype.name
    storage = storage_of(codes.dtype.str, logical, where="an array in memory")
    return storage.decode(codes.reshape(-1)).reshape(codes.shape), logical


def _from_bits(raw: RawArray) -> tuple[Array, str | None]:
    logical = canonical(raw.dtype) or raw.dtype.strip().lower()
    shape = tuple(int(axis) for axis in raw.shape)
    count = math.prod(shape)
    data = np.frombuffer(_bytes(raw.data), np.uint8)
    bits = DTYPES[logical].bits if logical in DTYPES else 0
    # Of an unknown type, as many bytes as there are for each element.
    width = -(-bits // 8) if bits else max(data.size // max(count, 1), 1)
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


def _code(logical: str, width: int) -> str:
    if _is_plain(logical):
        return DTYPES[logical].native
    if width not in (1, 2, 4, 8):
        raise ConfigError(f"{logical} of {width} bytes an element cannot be recorded; record it as a plain type")
    return f"{'i' if logical in _SIGNED_BYTES else 'u'}{width}"
