"""Run two networks in turn, one of them with a new shape at last: two_nets.py RESULTS.npz.

For ``made:`` see cnn_training.py.
"""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class First(nn.Cell):
    """A dense layer."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 2)

    def construct(self, x):
        return ops.relu(self.fc(x))  # made: */fc-Dense/* Default/ReLU-*


class Second(nn.Cell):
    """A weight that counts."""

    def __init__(self):
        super().__init__()
        self.count = ms.Parameter(ms.Tensor(0.0, ms.float32), name="count")

    def construct(self, x):
        ops.assign_add(self.count, ms.Tensor(1.0, ms.float32))  # made: Default/AssignAdd-*
        return ops.tanh(x) * self.count  # made: Default/Tanh-* Default/Mul-*


def main(results: str) -> None:
    """Run first, second, first, second, and first with a larger batch; say what was seen."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    ms.set_seed(1)
    first, second = First(), Second()
    random = np.random.default_rng(7)
    seen = {}
    for turn, (iteration, graph) in enumerate(((0, 0), (1, 1), (1, 0), (2, 1), (2, 2))):
        # The larger batch makes a graph of its own. Only the end of a run of the first net counts a step.
        x = random.normal(size=(4 if graph == 2 else 2, 3)).astype(np.float32)
        if graph == 1:
            seen[f"{iteration} 1 0 Default/Mul-op0:output:0"] = second(ms.Tensor(x)).asnumpy()
            # The kernel writes in place: its input is saved after it ran.
            for slot in ("input", "output"):
                seen[f"{iteration} 1 0 Default/AssignAdd-op0:{slot}:0"] = np.float32((turn + 1) // 2)
        else:
            seen[f"{iteration} {graph} 0 Default/ReLU-op0:output:0"] = first(ms.Tensor(x)).asnumpy()
            seen[f"{iteration} {graph} 0 Default/fc-Dense/MatMul-op0:input:0"] = x
    np.savez(results, **seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
