"""Run a transformer block twice: transformer_block.py RESULTS.npz. For ``made:`` see cnn_training.py."""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

WIDTH, HEADS = 16, 2


class Attention(nn.Cell):
    """Of several heads."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Dense(WIDTH, 3 * WIDTH)
        self.out = nn.Dense(WIDTH, WIDTH)

    def heads(self, x):
        batch, length, _ = x.shape
        x = x.reshape((batch, length, HEADS, WIDTH // HEADS))  # made: */attention-Attention/Reshape-*
        return x.transpose((0, 2, 1, 3))  # made: */Transpose-*

    def construct(self, x):
        query, key, value = ops.split(self.qkv(x), WIDTH, axis=-1)  # made: */qkv-Dense/* */Split-*
        query, key, value = self.heads(query), self.heads(key), self.heads(value)
        scores = ops.matmul(query, key.swapaxes(-1, -2))  # made: */Transpose-op2 Expand/_MatMulExt/BatchMatMul-op0
        scores = scores / (WIDTH // HEADS) ** 0.5  # made: Expand/_Divs/*
        weights = ops.softmax(scores, axis=-1)  # made: */Softmax-*
        mixed = ops.matmul(weights, value)  # made: Expand/_MatMulExt/*
        mixed = mixed.transpose((0, 2, 1, 3)).reshape(x.shape)  # made: */Transpose-op4
        return self.out(mixed)  # made: */out-Dense/*


class Block(nn.Cell):
    """Attention and two dense layers, each normed before and added after."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm((WIDTH,))
        self.attention = Attention()
        self.norm2 = nn.LayerNorm((WIDTH,))
        self.up = nn.Dense(WIDTH, 2 * WIDTH)
        self.down = nn.Dense(2 * WIDTH, WIDTH)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))  # made: */norm1-LayerNorm/* Default/Add-op0
        y = self.norm2(x)  # made: */norm2-LayerNorm/*
        y = self.up(y)  # made: */up-Dense/*
        y = ops.gelu(y)  # made: Default/Div-* Default/Erf-* Default/Mul-* Default/Add-op1
        y = self.down(y)  # made: */down-Dense/*
        return x + y  # made: Default/Add-op2


def main(results: str) -> None:
    """Run, and say what was seen."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    ms.set_seed(1)
    random = np.random.default_rng(7)
    net = Block()
    net.set_train(False)
    seen = {}
    for step in range(2):
        x = random.normal(size=(2, 3, WIDTH)).astype(np.float32)
        seen[f"{step} 0 0 Default/norm1-LayerNorm/LayerNorm-op0:input:0"] = x
        seen[f"{step} 0 0 Default/Add-op2:output:0"] = net(ms.Tensor(x)).asnumpy()
        for parameter in net.trainable_params():
            seen[f"{step} 0 0 {parameter.name}:output:0"] = parameter.asnumpy()
    np.savez(results, **seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
