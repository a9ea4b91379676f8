"""Mistakes that are put into a hand-written port: four in numbers, four that remove or add an operator or a block.

Each is a function of the model and a random generator. It changes the model in place and returns what has to be done
once the hooks are there (or nothing), or raises `NoPlaceError`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import nn

from .recording import added

__all__ = ["MISTAKES", "NoPlaceError"]

Arm = Callable[[], None]

_NORMS = (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)
_ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.ReLU6)


class NoPlaceError(Exception):
    """The model has nothing that this mistake can be made in."""


def _scaled_weight(model: nn.Module, draw: Random) -> None:
    """One layer's weight is 5 % too large."""
    _one([one for one in model.modules() if isinstance(one, (nn.Linear, nn.Conv2d))], draw).weight.data.mul_(1.05)


def _epsilon(model: nn.Module, draw: Random) -> None:
    """One normalisation has another epsilon."""
    norms = [one for one in model.modules() if isinstance(one, _NORMS) or type(one).__name__ == "RMSNorm"]
    _one(norms, draw).eps = 0.1


def _activation(model: nn.Module, draw: Random) -> None:
    """One activation is another one."""
    places = [place for place in _children(model) if isinstance(place[2], _ACTIVATIONS)]
    parent, name, old = _one(places, draw)
    new = nn.GELU(approximate="tanh") if isinstance(old, nn.GELU) else nn.LeakyReLU(0.05)
    setattr(parent, name, _as_origin(new, old))


def _zero_bias(model: nn.Module, draw: Random) -> None:
    """One layer's bias was not loaded."""
    layers = [one for one in model.modules() if isinstance(getattr(one, "bias", None), torch.Tensor)]
    _one(layers, draw).bias.data.zero_()


def _no_operator(model: nn.Module, draw: Random) -> None:
    """One activation or normalisation was forgotten."""
    places = [place for place in _children(model) if isinstance(place[2], (*_ACTIVATIONS, *_NORMS))]
    parent, name, _ = _one(places, draw)
    setattr(parent, name, Skipped())


def _extra_operator(model: nn.Module, draw: Random) -> Arm:
    """There is an activation behind one layer that the reference does not have."""
    places = [place for place in _children(model) if isinstance(place[2], (nn.Linear, nn.Conv2d, *_NORMS))]
    parent, _, layer = _one(places, draw)
    extra = added(nn.Tanh())
    parent.add_module("extra_act", extra)
    return lambda: _after(layer, extra)


def _no_block(model: nn.Module, draw: Random) -> None:
    """One of several equal blocks is missing; those behind it move up."""
    blocks, number = _one(list(_removable(model)), draw)
    del blocks[number]


def _extra_block(model: nn.Module, draw: Random) -> None:
    """One of several equal blocks is there twice."""
    blocks, number = _one(list(_removable(model)), draw)
    # The copy is given what the block gave out: the first of both has the values of the reference.
    blocks.insert(number + 1, added(copy.deepcopy(blocks[number])))


MISTAKES: dict[str, Callable[[nn.Module, Random], Any]] = {
    "scaled_weight": _scaled_weight,
    "epsilon": _epsilon,
    "activation": _activation,
    "zero_bias": _zero_bias,
    "no_operator": _no_operator,
    "extra_operator": _extra_operator,
    "no_block": _no_block,
    "extra_block": _extra_block,
}


class Skipped(nn.Module):
    """Stands where an operator was forgotten; no file is written for it."""

    def forward(self, x: Any) -> Any:
        return x


def _after(layer: nn.Module, extra: nn.Module) -> None:
    layer.register_forward_hook(lambda _module, _given, output: extra(output))


def _as_origin(new: nn.Module, old: nn.Module) -> nn.Module:
    """Return a module that stands for another one, with its origin."""
    new.__dict__.update({key: value for key, value in old.__dict__.items() if key.startswith("path_")})
    return new


def _one(places: list[Any], draw: Random) -> Any:
    if not places:
        raise NoPlaceError
    return draw.choice(places)


def _children(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    for module in model.modules():
        for name, child in module.named_children():
            yield module, name, child


def _removable(model: nn.Module) -> Iterator[tuple[Any, int]]:
    """Yield each block that is like the one before it, with the list that holds both."""
    for module in model.modules():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            shapes = [[(name, tuple(part.shape)) for name, part in child.named_parameters()] for child in module]
            is_plain = [not [*child.children()] for child in module]
            for number in range(1, len(shapes)):
                if shapes[number] and not is_plain[number] and shapes[number] == shapes[number - 1]:
                    yield module, number
