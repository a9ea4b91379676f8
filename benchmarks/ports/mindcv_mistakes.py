"""mindcv's own mistakes, how they are corrected, and further ones that ports to MindSpore have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import mindspore as ms
import numpy as np
from cases import Mistake
from mindspore import nn

__all__ = ["CORRECTIONS", "MISTAKES", "TWO"]

Make = Callable[[Any], Any]


def cell_at(network: Any, path: str) -> Any:
    """Return the cell at a path."""
    return dict(network.cells_and_names())[path]


def put(network: Any, path: str, make: Make) -> None:
    """Put another cell, made from it, in the place of a cell; weights of the same shape go over."""
    old = cell_at(network, path)
    new = make(old).set_train(False)
    for ours, theirs in zip(new.get_parameters(), old.get_parameters(), strict=True):
        ours.set_data(theirs.value())
    parent, _, name = path.rpartition(".")
    holder = cell_at(network, parent) if parent else network
    if name.isdigit():
        holder[int(name)] = new
    else:
        setattr(holder, name, new)


def replaced(
    name: str, at: str, title: str, make: Make, *, module: str = "", shows_in: tuple[str, ...] = ()
) -> Mistake:
    """Return the mistake of another cell; `module` is what the reference calls it."""
    return Mistake(name, module or at, title, lambda network: put(network, at, make), shows_in)


def weight(name: str, at: str, title: str, change: Make, *, module: str = "", parameter: str = "weight") -> Mistake:
    """Return the mistake of other values of a parameter."""

    def apply(network: Any) -> None:
        found = getattr(cell_at(network, at), parameter)
        found.set_data(ms.Tensor(np.ascontiguousarray(change(found.asnumpy()))))

    return Mistake(name, module or at, title, apply)


def batch_norm(epsilon: float) -> Make:
    """Return what makes a BatchNorm with this epsilon."""
    return lambda old: nn.BatchNorm2d(old.num_features, eps=epsilon)


def layer_norm(epsilon: float) -> Make:
    """Return what makes a LayerNorm with this epsilon."""
    return lambda old: nn.LayerNorm(old.normalized_shape, epsilon=epsilon)


def same_convolution(old: Any) -> Any:
    """Return a convolution that pads as TensorFlow does."""
    return nn.Conv2d(old.in_channels, old.out_channels, old.kernel_size, old.stride, pad_mode="same", group=old.group)


def no_residual(at: str, construct: Callable[[Any, Any], Any], *, module: str = "", shows_in: str = "") -> Mistake:
    """Return the mistake of a block that leaves out what should be added."""

    def apply(network: Any) -> None:
        block = cell_at(network, at)
        block.construct = MethodType(construct, block)

    shown = (shows_in,) if shows_in else ()
    return Mistake("no_residual", module or at, "a missing residual connection", apply, shown)


def _plain_block(self: Any, x: Any) -> Any:
    out = self.relu(self.bn1(self.conv1(x)))
    return self.relu(self.bn2(self.conv2(out)))


def no_attention_scale(at: str) -> Mistake:
    """Return the mistake of an attention without its scale."""

    def apply(network: Any) -> None:
        cell_at(network, at).scale = ms.Tensor(1.0)

    return Mistake("attention_scale", at, "an attention without its scale", apply, (f"{at}.proj",))


_NORMS = tuple(f"blocks.{number}.norm{place}" for number in range(3) for place in (1, 2))
_GELUS = tuple(f"blocks.{number}.mlp.act" for number in range(3))


def _all_norms(network: Any) -> None:
    for path in (*_NORMS, "norm"):
        put(network, path, layer_norm(1e-6))


def _all_gelus(network: Any) -> None:
    for path in _GELUS:
        put(network, path, lambda _: nn.GELU(approximate=False))


_MAX_POOL = replaced(
    "max_pool",
    "max_pool",
    "max pooling with pad_mode same",
    lambda _: nn.MaxPool2d(3, 2, pad_mode="pad", padding=1),
    module="maxpool",
)
# What mindcv 0.3 does otherwise than its originals; `apply` puts it right.
CORRECTIONS: dict[str, Sequence[Mistake]] = {
    "resnet18": (_MAX_POOL,),
    "resnet18-timm": (_MAX_POOL,),
    "mobilenet_v2": (),
    "vit": (
        Mistake("layer_norm_epsilon", "blocks.0.norm1", "MindSpore's epsilon in each LayerNorm", _all_norms, _NORMS),
        Mistake("tanh_gelu", "blocks.0.mlp.act", "tanh GELU for erf in each block", _all_gelus, _GELUS),
    ),
}
_RESNET = (
    replaced("epsilon", "layer2.0.bn1", "epsilon 0.001", batch_norm(1e-3)),
    replaced("padding", "conv1", "pad_mode same", same_convolution),
    replaced(
        "average_pooling",
        "max_pool",
        "average pooling for maximum pooling",
        lambda _: nn.AvgPool2d(3, 2, pad_mode="pad", padding=1),
        module="maxpool",
    ),
    weight("no_bias", "classifier", "no bias", lambda values: values * 0, module="fc", parameter="bias"),
    weight("scaled_weight", "layer3.1.conv1", "weight times 0.9", lambda values: values * np.float32(0.9)),
    weight("channel_order", "conv1", "BGR for RGB", lambda values: values[:, ::-1]),
)
MISTAKES: dict[str, Sequence[Mistake]] = {
    "resnet18": (*_RESNET, no_residual("layer2.1", _plain_block, shows_in="layer2.1.relu@1")),
    "resnet18-timm": (*_RESNET[:2], no_residual("layer2.1", _plain_block, shows_in="layer2.1.act2")),
    "mobilenet_v2": (
        replaced("relu", "features.9.layers.2", "ReLU for ReLU6", lambda _: nn.ReLU(), module="features.7.conv.0.2"),
        replaced("epsilon", "features.5.layers.1", "epsilon 0.001", batch_norm(1e-3), module="features.3.conv.0.1"),
        replaced("padding", "features.0", "pad_mode same", same_convolution, module="features.0.0"),
        no_residual("features.8", lambda self, x: self.layers(x), module="features.6"),
        weight(
            "scaled_weight",
            "features.12.layers.6",
            "weight times 0.9",
            lambda values: values * np.float32(0.9),
            module="features.10.conv.2",
        ),
        weight("no_bias", "classifier.1", "no bias", lambda values: values * 0, parameter="bias"),
    ),
    "vit": (
        replaced("epsilon", "blocks.1.norm1", "epsilon 0.001", layer_norm(1e-3)),
        replaced("tanh_gelu", "blocks.1.mlp.act", "tanh GELU for erf", lambda _: nn.GELU(approximate=True)),
        no_attention_scale("blocks.1.attn"),
        no_residual(
            "blocks.1", lambda self, x: x + self.mlp(self.norm2(self.attn(self.norm1(x)))), shows_in="blocks.1.norm2"
        ),
        weight("transposed_weight", "blocks.0.attn.proj", "a transposed weight", lambda values: values.T),
        weight("no_bias", "blocks.2.mlp.fc2", "no bias", lambda values: values * 0, parameter="bias"),
    ),
}

# Two in one port: the second is far larger than what the first has become there.
TWO = (("epsilon", "no_residual"), ("tanh_gelu", "no_bias"))
