"""Training steps of a CNN in MindSpore, with mistakes of porting: MISTAKE WEIGHTS."""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from pytest_msdump.record import load_weights

_, MISTAKE, WEIGHTS = sys.argv


class CNN(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        momentum = 0.1 if MISTAKE == "bnmom" else 0.9
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(8, momentum=momentum)
        self.relu1, self.pool = nn.ReLU(), nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(8, 12, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn2, self.relu2 = nn.BatchNorm2d(12, momentum=momentum), nn.ReLU()
        self.fc = nn.Dense(12, 10)

    def construct(self, x):
        x = self.pool(self.relu1(self.bn1(self.conv1(x))))
        return self.fc(self.relu2(self.bn2(self.conv2(x))).mean((2, 3)))


ms.set_context(mode=ms.GRAPH_MODE)
net = CNN()
load_weights(net, WEIGHTS)
rng = np.random.default_rng(0)
images = Tensor(rng.standard_normal((4, 3, 32, 32)).astype(np.float32))
labels = Tensor(np.array([1, 2, 3, 4], np.int32))
groups = net.trainable_params()
if MISTAKE != "nodecay":
    # Not grouped, MindSpore leaves beta and gamma out of weight decay.
    groups = [{"params": groups, "weight_decay": 1e-2}]
rate, momentum = (0.05 if MISTAKE == "lr" else 0.1), (0.8 if MISTAKE == "momentum" else 0.9)
decay = 1e-2 if MISTAKE == "nodecay" else 0.0
optimizer = nn.Momentum(groups, rate, momentum, weight_decay=decay)
loss = nn.CrossEntropyLoss(reduction="sum" if MISTAKE == "reduction" else "mean")
step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
step.set_train()
for _ in range(2):
    step(images, labels)
