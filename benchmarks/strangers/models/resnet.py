"""ResNet-18, narrow, with the names of torchvision; ports with names of timm and of Hugging Face."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from ..port import Model, Port
from .weights import images, seeded

INPUT = images(1, 3, 64, 64)
WIDTHS = (8, 12, 16, 24)


class BasicBlock(nn.Module):
    """Two convolutions; one ReLU module, called twice, in place."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """The reference."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inner = 8
        for number, width in enumerate(WIDTHS, 1):
            blocks = (BasicBlock(inner, width, 1 if number == 1 else 2), BasicBlock(width, width, 1))
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
            inner = width
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inner, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TimmBlock(nn.Module):
    """timm's names: an activation for each place."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.act1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.act2 = nn.ReLU()
        self.shortcut = None
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        out = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        return self.act2(out + (x if self.shortcut is None else self.shortcut(x)))


class Stages(nn.Module):
    """A stem, a list of stages, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(3, 8, 7, 2, 3, bias=False), norm=nn.BatchNorm2d(8), act=nn.ReLU())
        )
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = (8, *WIDTHS)
        pairs = zip(widths, widths[1:], (1, 2, 2, 2), strict=False)
        self.stages = nn.ModuleList(
            nn.Sequential(TimmBlock(inner, outer, stride), TimmBlock(outer, outer, 1)) for inner, outer, stride in pairs
        )
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(WIDTHS[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.pool(self.stem(x))
        for stage in self.stages:
            x = stage(x)
        return self.head(self.global_pool(x).flatten(1))


class ConvNormAct(nn.Module):
    """Convolution, normalisation and perhaps an activation, as one layer."""

    def __init__(self, inner: int, outer: int, size: int, stride: int, *, acts: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inner, outer, size, stride, size // 2, bias=False)
        self.normalization = nn.BatchNorm2d(outer)
        self.activation = nn.ReLU() if acts else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.activation(self.normalization(self.convolution(x)))


class HubBlock(nn.Module):
    """Hugging Face's names."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        has_shortcut = stride != 1 or inner != outer
        self.shortcut = ConvNormAct(inner, outer, 1, stride, acts=False) if has_shortcut else nn.Identity()
        self.layer = nn.Sequential(ConvNormAct(inner, outer, 3, stride), ConvNormAct(outer, outer, 3, 1, acts=False))
        self.activation = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.activation(self.layer(x) + self.shortcut(x))


class Hub(nn.Module):
    """``encoder.stages.0.layers.0.layer.0.convolution``."""

    def __init__(self) -> None:
        super().__init__()
        self.embedder = ConvNormAct(3, 8, 7, 2)
        self.pooler = nn.MaxPool2d(3, 2, 1)
        widths = (8, *WIDTHS)
        pairs = zip(widths, widths[1:], (1, 2, 2, 2), strict=False)
        self.encoder = nn.Module()
        self.encoder.stages = nn.ModuleList()
        for inner, outer, stride in pairs:
            stage = nn.Module()
            stage.layers = nn.ModuleList((HubBlock(inner, outer, stride), HubBlock(outer, outer, 1)))
            self.encoder.stages.append(stage)
        self.gap = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(WIDTHS[-1], 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.pooler(self.embedder(x))
        for stage in self.encoder.stages:
            for layer in stage.layers:
                x = layer(x)
        return self.classifier(self.gap(x))


_TIMM = {
    "stem.conv": "conv1", "stem.norm": "bn1", "stem.act": "relu", "pool": "maxpool",
    "stages.{i}": "layer{i+1}", "stages.{i}.{j}": "layer{i+1}.{j}",
    "stages.{i}.{j}.conv1": "layer{i+1}.{j}.conv1", "stages.{i}.{j}.bn1": "layer{i+1}.{j}.bn1",
    "stages.{i}.{j}.act1": "layer{i+1}.{j}.relu", "stages.{i}.{j}.conv2": "layer{i+1}.{j}.conv2",
    "stages.{i}.{j}.bn2": "layer{i+1}.{j}.bn2", "stages.{i}.{j}.act2": "layer{i+1}.{j}.relu@1",
    "stages.{i}.{j}.shortcut.0": "layer{i+1}.{j}.downsample.0",
    "stages.{i}.{j}.shortcut.1": "layer{i+1}.{j}.downsample.1",
    "global_pool": "avgpool", "head": "fc",
}  # fmt: skip
_HUB_LAYER = "encoder.stages.{i}.layers.{j}"
_HUB = {
    "embedder.convolution": "conv1", "embedder.normalization": "bn1", "embedder.activation": "relu",
    "pooler": "maxpool", "gap": "avgpool", "classifier.1": "fc",
    f"{_HUB_LAYER}": "layer{i+1}.{j}",
    f"{_HUB_LAYER}.layer.0.convolution": "layer{i+1}.{j}.conv1",
    f"{_HUB_LAYER}.layer.0.normalization": "layer{i+1}.{j}.bn1",
    f"{_HUB_LAYER}.layer.0.activation": "layer{i+1}.{j}.relu",
    f"{_HUB_LAYER}.layer.1.convolution": "layer{i+1}.{j}.conv2",
    f"{_HUB_LAYER}.layer.1.normalization": "layer{i+1}.{j}.bn2",
    f"{_HUB_LAYER}.shortcut.convolution": "layer{i+1}.{j}.downsample.0",
    f"{_HUB_LAYER}.shortcut.normalization": "layer{i+1}.{j}.downsample.1",
    f"{_HUB_LAYER}.activation": "layer{i+1}.{j}.relu@1",
}  # fmt: skip

MODEL = Model(
    "resnet18",
    lambda: seeded(ResNet(), INPUT),
    lambda model: model(INPUT),
    (Port("stages", Stages, _TIMM), Port("hub", Hub, _HUB)),
    export=(INPUT,),
    inputs=(INPUT,),
)
