"""Numbers out of whatever an array library calls a tensor, without importing that library."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pytest_msdump.capture.raw import RawArray
from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import ConfigError

__all__ = ["as_array"]

# What takes a tensor out of its graph and off its device, in this order, where a library has it.
_STEPS = ("detach", "cpu")
_WAYS = ("asnumpy", "numpy", "__array__", "get")


def as_array(value: Any) -> Any:
    """Return an array of numpy's, or a `RawArray` where numpy lacks the type.

    Parameters
    ----------
    value : array_like
        numpy's arrays and whatever `numpy.asarray` takes; tensors of PyTorch, TensorFlow, MindSpore, JAX, CuPy;
        anything with ``__array__`` or ``__dlpack__``. Tensors that need a gradient, and tensors on a device, too.

    Raises
    ------
    ConfigError
        No way to its numbers is known.
    """
    if isinstance(value, (np.ndarray, np.generic, RawArray, int, float, complex, list, tuple)):
        return value
    for step in _STEPS:
        value = getattr(value, step)() if hasattr(value, step) else value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _from_torch(torch, value)
    if canonical(str(getattr(value, "dtype", "")).lower()) == "bfloat16" and hasattr(value, "asnumpy"):
        return _from_mindspore(value)
    if not any(hasattr(value, way) for way in _WAYS) and hasattr(value, "__dlpack__"):
        return _from_dlpack(value)
    for way in ("asnumpy", "numpy", "get"):
        if hasattr(value, way) and not hasattr(value, "keys"):
            return np.asarray(getattr(value, way)())
    return np.asarray(value)


def _from_torch(torch: Any, value: Any) -> Any:
    """A tensor of PyTorch: dense, its lazy conjugation done; bits where numpy has no such type."""
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


def _from_mindspore(value: Any) -> Any:
    """A bfloat16 tensor of MindSpore, which not every release brings to numpy: float32 holds it exactly."""
    single = np.asarray(value.float().asnumpy(), "<f4", order="C")
    return RawArray((single.view("<u4") >> np.uint32(16)).astype("<u2"), single.shape, "bfloat16")


def _from_dlpack(value: Any) -> Any:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"a {type(value).__name__} cannot be read as numbers ({error}); give it as a numpy array"
        ) from error
