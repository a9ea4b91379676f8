"""Puts arrays into the parameters of models."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_msdump.capture.weight_pairs import WeightPair
from pytest_msdump.capture.weight_sources import Weight
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import DTYPES

__all__ = ["assign", "fitted"]


def fitted(pair: WeightPair, *, cast: bool = False) -> Weight:
    """Return what the left side's weight is to hold: the right side's numbers, in the left side's axes and type.

    Raises
    ------
    ConfigError
        They would be rounded.
    """
    left, right = pair.left, pair.right
    if left.dtype == right.dtype:
        return Weight(np.ascontiguousarray(pair.right_as_left()), left.dtype)
    numbers = np.ascontiguousarray(pair.right_as_left(right.numbers()))
    values = _converted(numbers, left.dtype)
    if values is None:
        raise ConfigError(f"{pair.name} is {left.dtype} and {pair.right_name} {right.dtype}; convert one model first")
    weight = Weight(values, left.dtype)
    if not cast and not np.array_equal(weight.numbers(), numbers, equal_nan=numbers.dtype.kind in "fc"):
        raise ConfigError(
            f"{pair.name} is {left.dtype} and would round {pair.right_name}, which is {right.dtype}; "
            "cast=True allows it"
        )
    return weight


def _converted(numbers: Any, dtype: str) -> Any:
    """Numbers in a type: numpy's own, or bfloat16 rounded to the nearest, ties to even."""
    if dtype in DTYPES and DTYPES[dtype].native == dtype:
        with np.errstate(over="ignore", invalid="ignore"):
            return numbers.astype(dtype)
    if dtype != "bfloat16" or numbers.dtype.kind not in "f":
        return None
    with np.errstate(over="ignore"):
        bits = numbers.astype("<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(numbers), quiet, rounded).astype("<u2")


def assign(framework: str, tensor: Any, weight: Weight) -> None:
    """Write a weight over a tensor of a model, which has its shape and type."""
    _ASSIGN[framework](tensor, weight)


def _torch(tensor: Any, weight: Weight) -> None:
    import torch

    # Bit patterns go by a signed type: not every release has the unsigned ones.
    values = weight.values
    if values.dtype.name == weight.dtype and values.dtype.kind != "u":
        held = torch.from_numpy(values)
    else:
        signed = values.reshape(-1).view("u1" if values.itemsize == 1 else f"i{values.itemsize}")
        held = torch.from_numpy(signed).view(tensor.dtype).reshape(values.shape)
    with torch.no_grad():
        tensor.copy_(held)


def _mindspore(parameter: Any, weight: Weight) -> None:
    import mindspore

    if weight.values.dtype.name == weight.dtype:
        parameter.set_data(mindspore.Tensor(weight.values))
        return
    bits = mindspore.Tensor(weight.values.reshape(-1).view(f"u{weight.values.itemsize}"))
    parameter.set_data(bits.view(parameter.dtype).reshape(weight.values.shape))


def _keras(variable: Any, weight: Weight) -> None:
    variable.assign(weight.numbers())


_ASSIGN = {"torch": _torch, "mindspore": _mindspore, "keras": _keras}
