"""Tensors of PyTorch as arrays, bit for bit."""

from __future__ import annotations

from typing import Any

from pytest_msdump.capture.raw import RawArray
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import DTYPES

__all__ = ["array_of", "is_tensor"]

# Bytes of an element → the type its bits are taken in.
_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of PyTorch."""
    import torch

    return isinstance(value, torch.Tensor)


def array_of(tensor: Any) -> Any:
    """Return a numpy array, or a `RawArray` for types that numpy lacks.

    Sparse tensors are made dense and quantized ones are told in real numbers. On the CPU the memory is shared: write
    the array before the tensor can change.

    Parameters
    ----------
    tensor : torch.Tensor
        On any device, with or without gradient, in any order in memory.

    Raises
    ------
    ConfigError
        A tensor without numbers of its own: on the device ``meta``, inside of ``vmap``, nested.
    """
    try:
        return _array_of(tensor)
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"a {type(tensor).__name__} of {tensor.dtype} on {tensor.device} cannot be recorded ({reason}); "
            "leave it out with exclude="
        ) from error


def _array_of(tensor: Any) -> Any:
    import torch

    dense = tensor.detach()
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    if dense.is_quantized:
        dense = dense.dequantize()
    plain = dense.cpu().resolve_conj().resolve_neg().contiguous()
    name = str(plain.dtype).removeprefix("torch.")
    if name in DTYPES and DTYPES[name].native == name:
        return plain.numpy()
    bits = plain.view(getattr(torch, _BITS[plain.element_size()]))
    return RawArray(bits.numpy(), tuple(plain.shape), name)
