"""Run a loop that writes its weights: loop_with_state.py RESULTS.npz."""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Counting(nn.Cell):
    """Adds to two weights in each round, and uses them before, within and behind the loop."""

    def __init__(self):
        super().__init__()
        self.count = ms.Parameter(ms.Tensor([0.0], ms.float32), name="count")
        self.scale = ms.Parameter(ms.Tensor([1.0, 2.0, 3.0], ms.float32), name="scale")

    def construct(self, x, limit):
        total = x * self.scale
        while total.sum() < limit:
            before = self.count * 2.0
            ops.assign_add(self.count, ms.Tensor([1.0], ms.float32))
            ops.assign(self.scale, self.scale * 1.5)
            total = total + self.scale + self.count + before
        ops.assign_add(self.count, ms.Tensor([100.0], ms.float32))
        return total * self.scale + self.count


def main(results: str) -> None:
    """Run it three times, with several, many and few rounds."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    net, x = Counting(), ms.Tensor(np.array([1.0, 0.5, 0.25], np.float32))
    np.savez(results, *(net(x, ms.Tensor(limit, ms.float32)).asnumpy() for limit in (2.0, 200.0, 30.0)))


if __name__ == "__main__":
    main(*sys.argv[1:])
