"""Random weights, and joining them, for the models of this folder."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.ports.models import declare_nms, randomise

__all__ = ["TOKENS", "VOCABULARY", "declare_nms", "images", "joined", "seeded", "transformers"]

VOCABULARY = 96
TOKENS = torch.randint(0, VOCABULARY, (2, 10), generator=torch.Generator().manual_seed(5))


def images(*shape: int) -> torch.Tensor:
    """Return seeded noise."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def joined(target: Any, *layers: Any) -> None:
    """Give a layer the weights of several, one below the other, and their biases."""
    target.weight.data.copy_(torch.cat([layer.weight.data for layer in layers]))
    if target.bias is not None:
        target.bias.data.copy_(torch.cat([layer.bias.data for layer in layers]))


def transformers() -> Any:
    """Import transformers, which wants operators of torchvision declared."""
    declare_nms()
    import transformers as package

    return package


def seeded(module: nn.Module, given: Any = None) -> nn.Module:
    """Give a model random weights of its own."""
    torch.manual_seed(0)
    return randomise(module, given)
