"""A small network in Keras, channels last, and in PyTorch: either is the port of the other."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cases import Case, Mistake, Port, causes_at, named, pairs_of
from models import images, randomise
from module_mistakes import epsilon, no_bias
from torch import nn
from truth import Cause, Truth

from pytest_msdump.record import Recorder

__all__ = ["keras_cases"]

# TensorFlow says much about the processor.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Layers of Keras by the names that it gives them itself → modules.
NAMES = {
    "zero_padding2d": "pad",
    "conv2d": "stem.conv",
    "batch_normalization": "stem.norm",
    "re_lu": "stem.act",
    "max_pooling2d": "pool",
    "depthwise_conv2d": "middle.depthwise",
    "batch_normalization_1": "middle.norm",
    "leaky_re_lu": "middle.act",
    "conv2d_1": "middle.pointwise",
    "up_sampling2d": "up",
    "conv2d_2": "skip",
    "conv2d_3": "head.conv",
    "activation": "head.act",
    "average_pooling2d": "head.pool",
    "dense": "classifier.0",
    "re_lu_1": "classifier.1",
    "dense_1": "classifier.2",
}


class Net(nn.Module):
    """The PyTorch side: a stem, a strided depthwise block, upsampling with a skip connection, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.Module
        self.pad = nn.ZeroPad2d(1)
        self.stem, self.middle, self.head = block(), block(), block()
        self.stem.conv, self.stem.norm, self.stem.act = nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.middle.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.middle.norm, self.middle.act = nn.BatchNorm2d(16), nn.LeakyReLU(0.01)
        self.middle.pointwise = nn.Conv2d(16, 24, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.skip = nn.Conv2d(16, 24, 1)
        self.head.conv, self.head.act = nn.Conv2d(24, 12, 3, padding=1), nn.GELU()
        self.head.pool = nn.AvgPool2d(4)
        self.classifier = nn.Sequential(nn.Linear(12 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = self.stem.act(self.stem.norm(self.stem.conv(self.pad(x))))
        y = self.middle.act(self.middle.norm(self.middle.depthwise(self.pool(x))))
        y = self.up(self.middle.pointwise(y)) + self.skip(x)
        y = self.head.pool(self.head.act(self.head.conv(y)))
        return self.classifier(y.flatten(1))


_SHAPE = (2, 3, 32, 32)


def keras_cases() -> Iterator[Case]:
    """Yield both directions."""
    model = randomise(Net(), images(_SHAPE))
    with torch.no_grad():
        # Where both kinds of GELU differ.
        model.head.conv.weight.mul_(5)

    def meant(left: str, right: str) -> bool:
        return NAMES.get(left, left) == NAMES.get(right, right)

    def torch_side(directory: Path, mistakes: Sequence[Mistake] = (), **options: Any) -> None:
        wrong = copy.deepcopy(model)
        with torch.no_grad():
            for mistake in mistakes:
                mistake.apply(wrong)
            with Recorder(directory.parent).torch(wrong, directory=directory, **options):
                wrong(images(_SHAPE))

    def keras_side(directory: Path, mistakes: Sequence[Mistake] = (), **options: Any) -> None:
        settings: dict[str, Any] = {}
        for mistake in mistakes:
            mistake.apply(settings)
        network = build(settings)
        carry_over(model, network, settings)
        with Recorder(directory.parent).keras(network, directory=directory, **options):
            network(images(_SHAPE).numpy().transpose(0, 2, 3, 1))

    def ports(side: Callable[..., None], mistakes: Sequence[Mistake]) -> list[Port]:
        return [_port(side, several) for several in ((), *((one,) for one in mistakes), *pairs_of(mistakes, _TWO))]

    yield Case("keras-from-torch", torch_side, ports(keras_side, _KERAS_MISTAKES), meant, left_is_nhwc=True)
    yield Case("keras-to-torch", keras_side, ports(torch_side, _TORCH_MISTAKES), meant, right_is_nhwc=True)


def _port(side: Callable[..., None], mistakes: Sequence[Mistake]) -> Port:
    def record(directory: Path, truth: Truth | None) -> tuple[Truth | None, list[Cause]]:
        side(directory, mistakes)
        return truth, causes_at(mistakes, truth)

    return Port(*named(mistakes), record)


def build(settings: dict[str, Any]) -> Any:
    """Return the Keras side; settings are what mistakes change."""
    import keras
    from keras import layers

    # Names count from the beginning again.
    keras.backend.clear_session()
    given = keras.Input((32, 32, 3))
    if settings.get("same_padding"):
        # The layer stays, and pads nothing.
        x = layers.Conv2D(16, 3, strides=2, padding="same")(layers.ZeroPadding2D(0)(given))
    else:
        x = layers.Conv2D(16, 3, strides=2)(layers.ZeroPadding2D(1)(given))
    x = layers.ReLU()(layers.BatchNormalization(epsilon=settings.get("epsilon", 1e-5))(x))
    y = (
        layers.MaxPooling2D(2)(x)
        if not settings.get("average")
        else layers.AveragePooling2D(2, name="max_pooling2d")(x)
    )
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(y)
    y = layers.LeakyReLU(negative_slope=settings.get("slope", 0.01))(layers.BatchNormalization(epsilon=1e-5)(y))
    y = layers.Conv2D(24, 1)(y)
    y = layers.UpSampling2D(2, interpolation=settings.get("interpolation", "bilinear"))(y)
    y = layers.Conv2D(24, 1)(x) if settings.get("no_skip") else layers.Add()([y, layers.Conv2D(24, 1)(x)])
    activation = layers.Activation(
        lambda tensor: keras.activations.gelu(tensor, approximate=settings.get("tanh", False)), name="activation"
    )
    y = layers.AveragePooling2D(4, name="average_pooling2d")(activation(layers.Conv2D(12, 3, padding="same")(y)))
    y = layers.ReLU()(layers.Dense(32)(layers.Flatten()(y)))
    return keras.Model(given, layers.Dense(20)(y))


def carry_over(model: nn.Module, network: Any, settings: dict[str, Any]) -> None:
    """Give the Keras side the weights of the PyTorch side, their axes in Keras' order."""
    modules = dict(model.named_modules())
    for layer in network.layers:
        module = modules.get(NAMES.get(layer.name, ""))
        if module is None or not layer.weights:
            continue
        weight = module.weight.detach().numpy()
        rest = [] if module.bias is None else [module.bias.detach().numpy()]
        if isinstance(module, nn.Conv2d):
            # Depthwise kernels have their channels in the third place, too.
            weight = weight.transpose(2, 3, 0, 1) if module.groups > 1 else weight.transpose(2, 3, 1, 0)
        elif isinstance(module, nn.BatchNorm2d):
            rest += [module.running_mean.numpy(), module.running_var.numpy()]
        elif layer.name == "dense" and not settings.get("flatten_order"):
            # What is flattened has its channels last.
            weight = weight.reshape(32, 12, 4, 4).transpose(2, 3, 1, 0).reshape(-1, 32)
        else:
            weight = weight.T
        if layer.name == "conv2d" and settings.get("channel_order"):
            weight = weight[:, :, ::-1]
        if layer.name == settings.get("no_bias"):
            rest[0] = np.zeros_like(rest[0])
        layer.set_weights([weight, *rest])


def _setting(name: str, at: str, title: str, key: str, value: Any = True, shows_in: tuple[str, ...] = ()) -> Mistake:
    return Mistake(name, at, title, lambda settings: settings.__setitem__(key, value), shows_in)


def _align_corners(model: Any) -> None:
    model.up.align_corners = True


_KERAS_MISTAKES: Sequence[Mistake] = (
    _setting("epsilon", "stem.norm", "Keras' own epsilon 0.001", "epsilon", 1e-3),
    _setting("padding", "stem.conv", "padding same", "same_padding", shows_in=("pad",)),
    _setting("average_pooling", "pool", "average pooling for maximum pooling", "average"),
    _setting("slope", "middle.act", "Keras' own slope 0.3", "slope", 0.3),
    _setting("nearest", "up", "nearest for bilinear", "interpolation", "nearest"),
    _setting("no_residual", "head.conv", "a missing skip connection", "no_skip"),
    _setting("tanh_gelu", "head.act", "tanh GELU for erf", "tanh"),
    _setting("flatten_order", "classifier.0", "weights behind Flatten in channels-first order", "flatten_order"),
    _setting("channel_order", "stem.conv", "BGR for RGB", "channel_order"),
    _setting("no_bias", "skip", "no bias", "no_bias", "conv2d_2"),
)
# The reference's names are Keras' here.
_KERAS_NAME = {module: layer for layer, module in NAMES.items()}


def _of_keras(mistake: Mistake) -> Mistake:
    return Mistake(mistake.name, _KERAS_NAME[mistake.at], mistake.title, mistake.apply)


_TORCH_MISTAKES: Sequence[Mistake] = (
    Mistake("align_corners", "up_sampling2d", "align_corners", _align_corners),
    _of_keras(epsilon("middle.norm", 1e-3)),
    _of_keras(no_bias("classifier.0")),
)
_TWO = (("epsilon", "flatten_order"), ("epsilon", "no_bias"))
