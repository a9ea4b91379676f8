"""A small MobileNetV3 of torchvision, and a port that names every part of a block."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from ..port import Model, Port
from .weights import declare_nms, images, seeded

INPUT = images(2, 3, 32, 32)
# Channels in, kernel, channels inside, channels out, squeeze and excitation, activation, stride.
_SETTINGS = (
    (8, 3, 8, 8, True, "RE", 2),
    (8, 3, 24, 16, False, "RE", 2),
    (16, 3, 32, 16, False, "RE", 1),
    (16, 5, 40, 24, True, "HS", 2),
    (24, 5, 56, 24, True, "HS", 1),
    (24, 5, 56, 24, True, "HS", 1),
)
# Channels of a gate by those of its block, as torchvision rounds a quarter.
_SQUEEZED = {8: 8, 40: 16, 56: 16}


def _reference() -> nn.Module:
    declare_nms()
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    settings = [InvertedResidualConfig(*setting, 1, 1.0) for setting in _SETTINGS]
    return seeded(MobileNetV3(settings, last_channel=48, num_classes=10, dropout=0.2), INPUT)


def _layer(inner: int, outer: int, size: int, act: type[nn.Module] | None, stride: int = 1, groups: int = 1) -> Any:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(inner, outer, size, stride, size // 2, groups=groups, bias=False),
        norm=nn.BatchNorm2d(outer, eps=0.001),
    )
    if act is not None:
        layers["act"] = act()
    return nn.Sequential(layers)


class SqueezeExcite(nn.Module):
    """A gate for each channel."""

    def __init__(self, width: int, squeezed: int) -> None:
        super().__init__()
        self.pool, self.act, self.gate = nn.AdaptiveAvgPool2d(1), nn.ReLU(), nn.Hardsigmoid()
        self.reduce, self.expand = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return x * self.gate(self.expand(self.act(self.reduce(self.pool(x)))))


class Bottleneck(nn.Module):
    """Expansion, depthwise convolution, gate, projection."""

    def __init__(self, setting: tuple[Any, ...]) -> None:
        super().__init__()
        inner, size, wide, outer, has_gate, act_name, stride = setting
        act = nn.Hardswish if act_name == "HS" else nn.ReLU
        self.expand = _layer(inner, wide, 1, act) if wide != inner else None
        self.depthwise = _layer(wide, wide, size, act, stride, wide)
        self.se = SqueezeExcite(wide, _SQUEEZED[wide]) if has_gate else None
        self.project = _layer(wide, outer, 1, None)
        self.is_residual = stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        y = x if self.expand is None else self.expand(x)
        y = self.depthwise(y)
        y = self.project(y if self.se is None else self.se(y))
        return x + y if self.is_residual else y


class MobileNet(nn.Module):
    """stem, blocks, head, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _layer(3, 8, 3, nn.Hardswish, 2)
        self.blocks = nn.ModuleList(Bottleneck(setting) for setting in _SETTINGS)
        self.head = _layer(24, 144, 1, nn.Hardswish)
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.pre_logits, self.act = nn.Linear(144, 48), nn.Hardswish()
        self.logits = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.global_pool(self.head(x)).flatten(1)
        return self.logits(self.act(self.pre_logits(x)))


def _table() -> dict[str, str]:
    """Return the table: how many layers a block of torchvision has depends on its setting."""
    last = len(_SETTINGS) + 1
    same = {"global_pool": "avgpool", "pre_logits": "classifier.0", "act": "classifier.1", "logits": "classifier.3"}
    layers = {"stem": "features.0", "head": f"features.{last}"}
    for number, (inner, _, wide, _, has_gate, _, _) in enumerate(_SETTINGS):
        block, names = f"features.{number + 1}", iter(range(4))
        same[f"blocks.{number}"] = block
        if wide != inner:
            layers[f"blocks.{number}.expand"] = f"{block}.block.{next(names)}"
        layers[f"blocks.{number}.depthwise"] = f"{block}.block.{next(names)}"
        if has_gate:
            gate, ours = f"{block}.block.{next(names)}", f"blocks.{number}.se"
            same[ours] = gate
            parts = {
                "pool": "avgpool",
                "reduce": "fc1",
                "act": "activation",
                "expand": "fc2",
                "gate": "scale_activation",
            }
            same |= {f"{ours}.{left}": f"{gate}.{right}" for left, right in parts.items()}
        project = f"{block}.block.{next(names)}"
        same |= {f"blocks.{number}.project.conv": f"{project}.0", f"blocks.{number}.project.norm": f"{project}.1"}
    for left, right in layers.items():
        same |= {f"{left}.{part}": f"{right}.{place}" for place, part in enumerate(("conv", "norm", "act"))}
    return same


MODEL = Model(
    "mobilenetv3",
    _reference,
    lambda model: model(INPUT),
    (Port("named", MobileNet, _table()),),
    export=(INPUT,),
)
