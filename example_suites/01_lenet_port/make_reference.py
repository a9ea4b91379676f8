"""Run the original network in PyTorch and save what each layer put out.

make_reference.py WEIGHTS.npz OUTPUT_DIRECTORY

Each file is named `op.index.timestamp.npy`: the module's name, the number of its output, microseconds since 1970.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


class Lenet(nn.Module):
    """The network as its author wrote it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(6, 12, 3, stride=2, padding=1)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(48, 24)
        self.relu3 = nn.ReLU()
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores of a batch of 1 x 16 x 16 images."""
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.relu3(self.fc1(self.flatten(x)))
        return self.fc2(x)


def save_outputs(network: nn.Module, directory: Path) -> None:
    """Let every layer write its output as soon as it has one."""

    def writer(name: str) -> Any:
        def write(_module: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            stamp = time.time_ns() // 1000
            np.save(directory / f"{name}.0.{stamp}.npy", output.detach().numpy())

        return write

    for name, module in network.named_children():
        module.register_forward_hook(writer(name))


def main(weights_file: str, directory: str) -> None:
    """Load the shared weights, run once."""
    weights = dict(np.load(weights_file))
    image = torch.from_numpy(weights.pop("input"))
    network = Lenet().eval()
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    Path(directory).mkdir(parents=True, exist_ok=True)
    save_outputs(network, Path(directory))
    with torch.no_grad():
        network(image)


if __name__ == "__main__":
    main(*sys.argv[1:])
