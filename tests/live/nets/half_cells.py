"""Run a cell in float16 within a network: half_cells.py RESULTS.npz. For ``made:`` see cnn_training.py."""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn

# Sums of few small whole numbers have no rounding in float16.
WEIGHT = np.array([[1, -2, 3, 0], [0.5, 4, -1, 2]], np.float32)


class Half(nn.Cell):
    """A layer in float16 between others; its kernels on the CPU compute in float32."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 2, weight_init=ms.Tensor(WEIGHT), bias_init="zeros").to_float(ms.float16)
        self.norm = nn.LayerNorm((2,))

    def construct(self, x):
        x = self.dense(x)  # made: */dense-Dense/*
        return self.norm(x.astype(ms.float32))  # made: */norm-LayerNorm/* Default/Cast-op2


# made of no line: Default/Cast-op1 Default/dense-Dense/Cast-op[468]
def main(results: str) -> None:
    """Run it twice, and say what was seen."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    random = np.random.default_rng(3)
    net, seen = Half(), {}
    for step in range(2):
        x = random.integers(-4, 5, (3, 4)).astype(np.float32)
        seen[f"{step} 0 0 Default/norm-LayerNorm/LayerNorm-op0:output:0"] = net(ms.Tensor(x)).asnumpy()
        seen[f"{step} 0 0 Default/dense-Dense/MatMul-op0:output:0"] = x @ WEIGHT.T
        seen[f"{step} 0 0 x:output:0"] = x
    np.savez(results, **seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
