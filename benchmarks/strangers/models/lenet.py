"""LeNet-5, and ports of it that number and name its layers in other ways."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ..port import Model, Port
from .weights import images, seeded

INPUT = images(2, 1, 28, 28)


class LeNet(nn.Module):
    """The reference: layers as attributes, activations as modules."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, padding=2)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(4, 8, 5)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(200, 32)
        self.relu3 = nn.ReLU()
        self.fc2 = nn.Linear(32, 24)
        self.relu4 = nn.ReLU()
        self.fc3 = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.flatten(self.pool2(self.relu2(self.conv2(x))))
        return self.fc3(self.relu4(self.fc2(self.relu3(self.fc1(x)))))


class Staged(nn.Module):
    """Two Sequentials, as in many tutorials."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        more = (nn.Conv2d(4, 8, 5), nn.ReLU(), nn.MaxPool2d(2))
        self.features = nn.Sequential(*convolutions, *more)
        dense = (nn.Linear(200, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 10))
        self.classifier = nn.Sequential(*dense)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.classifier(self.features(x).flatten(1))


class OneActivation(nn.Module):
    """One activation and one pooling module, called again and again; MindSpore's tutorials are written so."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(1, 4, 5, padding=2)
        self.c3 = nn.Conv2d(4, 8, 5)
        self.act = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(2)
        self.f5 = nn.Linear(200, 32)
        self.f6 = nn.Linear(32, 24)
        self.out = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.max_pool2d(self.act(self.c1(x)))
        x = self.max_pool2d(self.act(self.c3(x)))
        x = self.act(self.f6(self.act(self.f5(x.flatten(1)))))
        return self.out(x)


class Bare(nn.Module):
    """Layers with weights as modules, everything else as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(1, 4, 5, padding=2)
        self.conv_2 = nn.Conv2d(4, 8, 5)
        self.dense_1 = nn.Linear(200, 32)
        self.dense_2 = nn.Linear(32, 24)
        self.dense_3 = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = functional.max_pool2d(functional.relu(self.conv_1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv_2(x)), 2).flatten(1)
        return self.dense_3(functional.relu(self.dense_2(functional.relu(self.dense_1(x)))))


_STAGED = {
    "features.0": "conv1", "features.1": "relu1", "features.2": "pool1",
    "features.3": "conv2", "features.4": "relu2", "features.5": "pool2",
    "classifier.0": "fc1", "classifier.1": "relu3", "classifier.2": "fc2", "classifier.3": "relu4",
    "classifier.4": "fc3", "features": "pool2", "classifier": "fc3",
}  # fmt: skip
_ONE_ACTIVATION = {
    "c1": "conv1", "act": "relu1", "max_pool2d": "pool1", "c3": "conv2", "act@1": "relu2", "max_pool2d@1": "pool2",
    "f5": "fc1", "act@2": "relu3", "f6": "fc2", "act@3": "relu4", "out": "fc3",
}  # fmt: skip
_BARE = {"conv_1": "conv1", "conv_2": "conv2", "dense_1": "fc1", "dense_2": "fc2", "dense_3": "fc3"}

MODEL = Model(
    "lenet",
    lambda: seeded(LeNet()),
    lambda model: model(INPUT),
    (
        Port("staged", Staged, _STAGED),
        Port("one-activation", OneActivation, _ONE_ACTIVATION),
        Port("bare", Bare, _BARE),
    ),
    export=(INPUT,),
    inputs=(INPUT,),
)
