"""A transformer, or training steps of a CNN, in MindSpore with mistakes of porting: KIND MISTAKE WEIGHTS."""

from __future__ import annotations

import math
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from pytest_msdump.record import load_weights

_, KIND, MISTAKE, WEIGHTS = sys.argv
WIDTH, HEADS, WORDS = 32, 4, 53


def norm() -> nn.Cell:
    return nn.LayerNorm((WIDTH,)) if MISTAKE == "lneps" else nn.LayerNorm((WIDTH,), epsilon=1e-5)


class Attention(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.proj = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
        self.scale = math.sqrt(WIDTH if MISTAKE == "scale" else WIDTH // HEADS)
        self.axis = 1 if MISTAKE == "axis" else -1

    def construct(self, x):
        batch, length, _ = x.shape
        parts = (batch, length, HEADS, WIDTH // HEADS)
        q, k, v = (layer(x).view(parts).transpose(0, 2, 1, 3) for layer in (self.q, self.k, self.v))
        weights = ops.softmax(ops.matmul(q, k.transpose(0, 1, 3, 2)) / self.scale, axis=self.axis)
        return self.proj(ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(x.shape))


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.attn, self.ln2, self.fc1 = norm(), Attention(), norm(), nn.Dense(WIDTH, 4 * WIDTH)
        self.act = nn.GELU(approximate=MISTAKE == "gelu")
        self.fc2 = nn.Dense(4 * WIDTH, WIDTH, has_bias=MISTAKE != "nobias")

    def construct(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.fc2(self.act(self.fc1(self.ln2(x))))


class Transformer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.blocks = nn.Embedding(WORDS, WIDTH), nn.CellList([Block() for _ in range(2)])
        self.norm, self.head = norm(), nn.Dense(WIDTH, WORDS)

    def construct(self, i):
        x = self.emb(i)
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x))
        return x * 1.1 if MISTAKE == "headscale" else x


class CNN(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        momentum = 0.1 if MISTAKE == "bnmom" else 0.9
        padding = {"pad_mode": "same"} if MISTAKE == "pad" else {"pad_mode": "pad", "padding": 1}
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, stride=2, **padding), nn.BatchNorm2d(8, momentum=momentum)
        self.relu1, self.pool = nn.ReLU(), nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(8, 12, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn2, self.relu2 = nn.BatchNorm2d(12, momentum=momentum), nn.ReLU()
        self.fc = nn.Dense(12, 10)
        if MISTAKE == "bneps":
            self.bn2 = nn.BatchNorm2d(12, momentum=momentum, eps=1e-1)

    def construct(self, x):
        x = self.pool(self.relu1(self.bn1(self.conv1(x))))
        return self.fc(self.relu2(self.bn2(self.conv2(x))).mean((2, 3)))


def changed(weight: ms.Parameter) -> None:
    """Take another weight than the reference has."""
    values = weight.asnumpy()
    weight.set_data(Tensor(np.ascontiguousarray(values.T if MISTAKE == "transp" else values[::-1])))


ms.set_context(mode=ms.GRAPH_MODE)
net = Transformer() if KIND == "transformer" else CNN()
load_weights(net, WEIGHTS, **({"ignore": "*.fc2.bias"} if MISTAKE == "nobias" else {}))
wrong = {"fcw": "fc.weight", "headw": "head.weight", "transp": "blocks.1.attn.k.weight"}.get(MISTAKE)
for weight in net.get_parameters():
    if weight.name == wrong:
        changed(weight)
rng = np.random.default_rng(0)
if KIND == "transformer":
    net.set_train(False)
    net(Tensor(rng.integers(0, WORDS, (2, 7)).astype(np.int32)))
else:
    images = Tensor(rng.standard_normal((4, 3, 32, 32)).astype(np.float32))
    labels = Tensor(np.array([1, 2, 3, 4], np.int32))
    groups = net.trainable_params()
    if MISTAKE != "nodecay":
        # Not grouped, MindSpore leaves beta and gamma out of weight decay.
        groups = [{"params": groups, "weight_decay": 1e-2}]
    rate, momentum = (0.05 if MISTAKE == "lr" else 0.1), (0.8 if MISTAKE == "momentum" else 0.9)
    decay = 1e-2 if MISTAKE == "nodecay" else 0.0
    optimizer = nn.Momentum(groups, rate, momentum, weight_decay=decay, use_nesterov=MISTAKE == "nesterov")
    loss = nn.CrossEntropyLoss(reduction="sum" if MISTAKE == "reduction" else "mean")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    step.set_train()
    for _ in range(2):
        step(images, labels)
