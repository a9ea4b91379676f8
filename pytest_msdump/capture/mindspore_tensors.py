"""Tensors of MindSpore as arrays, bit for bit."""

from __future__ import annotations

from typing import Any

from pytest_msdump.capture.raw import RawArray
from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import DTYPES

__all__ = ["array_of", "is_tensor"]

# Bytes of an element → the type its bits are taken in.
_BITS = {1: "uint8", 2: "uint16"}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of MindSpore."""
    import mindspore

    return isinstance(value, mindspore.Tensor)


def array_of(tensor: Any) -> Any:
    """Return a numpy array, or a `RawArray` for types that numpy lacks.

    Raises
    ------
    ConfigError
        A tensor that has no numbers: sparse, or not initialised.
    """
    import mindspore

    name = _name(tensor.dtype)
    try:
        if name in DTYPES and DTYPES[name].native == name:
            return tensor.asnumpy()
        # Not as its bytes in memory: those of a transposed tensor lie in another order.
        bits = tensor.view(getattr(mindspore, _BITS[tensor.itemsize])).asnumpy()
        return RawArray(bits, tuple(tensor.shape), name)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"a {type(tensor).__name__} of {tensor.dtype} cannot be recorded ({reason}); leave it out with exclude="
        ) from error


def _name(dtype: Any) -> str:
    """The logical type, as the tables have it where they do."""
    said = str(dtype).lower()
    # MindSpore's qint4x2 calls itself so, and has two elements in each byte, in an order that nothing public says.
    return "qint4x2" if said == "int4" else canonical(said) or said
