"""Mistakes in a PyTorch module: its weights and constants; names stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from cases import Mistake
from torch import nn

__all__ = ["channels_reversed", "epsilon", "in_module", "no_bias", "scaled_weight", "transposed_weight"]

Change = Callable[[nn.Module], None]


def in_module(name: str, at: str, title: str, change: Change, seen_in: str = "") -> Mistake:
    """Return a mistake in the module `at`; `seen_in` is the module that it is folded into in an export."""
    return Mistake(name, seen_in or at, title, lambda model: change(model.get_submodule(at)))


def epsilon(at: str, value: float) -> Mistake:
    """Return the mistake of another epsilon."""

    def change(module: nn.Module) -> None:
        module.eps = value

    return in_module("epsilon", at, f"epsilon {value:g}", change)


def no_bias(at: str) -> Mistake:
    """Return the mistake of a bias that was not carried over."""
    return in_module("no_bias", at, "no bias", lambda module: module.bias.zero_())


def scaled_weight(at: str, factor: float = 0.9, *, seen_in: str = "") -> Mistake:
    """Return the mistake of a weight that was not scaled as it should be."""
    return in_module(
        "scaled_weight", at, f"weight times {factor:g}", lambda module: module.weight.mul_(factor), seen_in
    )


def transposed_weight(at: str, weight: str = "weight") -> Mistake:
    """Return the mistake of a square weight that was transposed."""

    def change(module: nn.Module) -> None:
        values = module.get_parameter(weight)
        values.copy_(values.T.clone())

    return in_module("transposed_weight", at, "a transposed weight", change)


def channels_reversed(at: str, *, seen_in: str = "") -> Mistake:
    """Return the mistake of colours in another order: BGR for RGB."""
    return in_module(
        "channel_order", at, "BGR for RGB", lambda module: module.weight.copy_(torch.flip(module.weight, (1,))), seen_in
    )
