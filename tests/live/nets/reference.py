"""The same training in PyTorch, saved by hooks of one's own as ``NAME.0.TIME.npy``: STYLE WEIGHTS FOLDER."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

_, STYLE, WEIGHTS, FOLDER = sys.argv
ITERATION = {"step": 0}


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.relu1, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.conv2, self.bn2, self.relu2 = nn.Conv2d(8, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()
        self.fc = nn.Linear(12, 10)

    def forward(self, x):
        x = self.pool(self.relu1(self.bn1(self.conv1(x))))
        return self.fc(self.relu2(self.bn2(self.conv2(x))).mean((2, 3)))


def save(name: str, values: torch.Tensor) -> None:
    folder = Path(FOLDER) if STYLE == "flat" else Path(FOLDER) / str(ITERATION["step"])
    folder.mkdir(parents=True, exist_ok=True)
    name = name.replace(".", "_") if STYLE == "underscores" else name
    np.save(folder / f"{name}.0.{time.time_ns() // 1000}.npy", values.detach().numpy())


torch.manual_seed(0)
model = CNN()
with torch.no_grad():
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            # No normalisation as it begins: a decay of 1 and one of 0 must show.
            weight.copy_(torch.randn(weight.shape) * 0.2 + float(name.endswith("weight")))
np.savez(WEIGHTS, **{name: values.numpy() for name, values in model.state_dict().items()})
for name, module in model.named_modules():
    if name:
        module.register_forward_hook(lambda _, __, output, name=name: save(name, output))
rng = np.random.default_rng(0)
images, labels = torch.tensor(rng.standard_normal((4, 3, 32, 32)).astype(np.float32)), torch.tensor([1, 2, 3, 4])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
for step in range(2):
    ITERATION["step"] = step
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(images), labels)
    loss.backward()
    save("loss", loss)
    for name, weight in model.named_parameters():
        save(f"{name}.grad", weight.grad)
    optimizer.step()
    for name, values in model.state_dict().items():
        if values.ndim:
            save(name, values)
    for name, weight in model.named_parameters():
        save(f"{name}.momentum_buffer", optimizer.state[weight]["momentum_buffer"])
