"""Run a loop whose end depends on data: while_loop.py RESULTS.npz. For ``made:`` see cnn_training.py."""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

WEIGHT = np.array([1.5, -2.0, 0.25], np.float32)


class Loop(nn.Cell):
    """Grows until it is large, then chooses."""

    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor(WEIGHT), name="weight")

    def construct(self, x, limit):
        total = x * self.weight  # made: Default/Mul-*
        # The graph tells no line of the comparison.
        while total.max() < limit:  # made: Expand/_Max/*
            total = total + ops.abs(total)  # made: Default/Abs-* Default/Add-op0
            total = ops.sub(total, x)  # made: Default/Sub-*
        if total.sum() > 3:  # made: Expand/_SumExt/* Default/Greater-*
            total = ops.neg(total)  # made: Default/Neg-op0
            total = ops.exp(total)  # made: Default/Exp-*
        else:
            total = ops.sin(total)  # made: Default/Sin-*
        return total


# made of no line: Default/Less-op0
def main(results: str) -> None:
    """Run it three times, with several, many and no rounds, and say what was seen."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    net = Loop()
    x = np.array([1.0, 0.5, 2.0], np.float32)
    seen = {}
    for step, limit in enumerate((2.0, 40.0, -10.0)):
        total, rounds = x * WEIGHT, 0
        seen[f"{step} 0 0 Default/Mul-op0:output:0"] = total
        while total.max() < limit:
            total = total + np.abs(total) - x
            seen[f"{step} 3 {rounds} Default/Sub-op0:output:0"] = total
            rounds += 1
        out = net(ms.Tensor(x), ms.Tensor(limit, ms.float32)).asnumpy()
        chosen = "5 0 Default/Exp-op0" if total.sum() > 3 else "6 0 Default/Sin-op0"
        seen[f"{step} {chosen}:output:0"] = out
    np.savez(results, **seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
