"""Train a small convolutional network for four steps: cnn_training.py RESULTS.npz.

A comment ``made:`` tells which operators MindSpore 2.10 makes of a line, by globs of their full names; of several
globs that an operator meets, the longest is meant. ``made of no line:`` tells those that the compiler adds. RESULTS
gets what the program itself saw of tensors, by ``ITERATION GRAPH OCCURRENCE ADDRESS``.
"""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops


# made of no line: Gradients/Default/network-Loss*/AddN-op?
class Cnn(nn.Cell):
    """One convolution, one dense layer."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, pad_mode="valid", has_bias=True)
        self.pool = nn.MaxPool2d(2, 2)
        self.head = nn.Dense(4 * 3 * 3, 5)

    def construct(self, image):
        # The gradient of this bias stands in the scope of the other layer, which is the same function to the compiler.
        x = self.conv(image)  # made: */conv-Conv2d/* */head-Dense/Grad_BiasAdd/BiasAddGrad-op1
        x = ops.relu(x)  # made: */net-Cnn/ReLU-* */net-Cnn/Grad_ReLU/*
        x = self.pool(x)  # made: */pool-MaxPool2d/*
        x = x.reshape((x.shape[0], -1))  # made: */net-Cnn/Reshape-* */net-Cnn/Grad_Reshape/*
        return self.head(x)  # made: */head-Dense/*


class Loss(nn.Cell):
    """The network and what is made small."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def construct(self, image, label):
        logits = self.net(image)
        return ops.cross_entropy(logits, label)  # made: *-Loss/* Expand/*


class Train(nn.Cell):
    """One step."""

    def __init__(self, net):
        super().__init__()
        self.network = Loss(net)
        self.optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
        self.gradient = ops.value_and_grad(self.network, None, self.optimizer.parameters)

    def construct(self, image, label):
        loss, gradients = self.gradient(image, label)
        self.optimizer(gradients)  # made: */optimizer-Momentum/*
        return loss


def main(results: str) -> None:
    """Train, and say what was seen."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    ms.set_seed(1)
    random = np.random.default_rng(7)
    net = Cnn()
    train = Train(net)
    seen = {}
    for step in range(4):
        image = random.normal(size=(2, 1, 8, 8)).astype(np.float32)
        label = np.array([step, 1], np.int32)
        loss = train(ms.Tensor(image), ms.Tensor(label)).asnumpy()
        seen[f"{step} 0 0 Default/network-Loss/Add-op1:output:0"] = loss
        seen[f"{step} 0 0 Default/network-Loss/net-Cnn/conv-Conv2d/Conv2D-op0:input:0"] = image
        seen[f"{step} 0 0 label:output:0"] = label
        for parameter in net.trainable_params():
            # A copy: the next step writes into it.
            seen[f"{step} 0 0 {parameter.name}:output:0"] = parameter.asnumpy().copy()
    np.savez(results, **seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
