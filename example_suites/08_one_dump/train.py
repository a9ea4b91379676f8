"""Two training steps in MindSpore, graph mode, CPU; the file named by MINDSPORE_DUMP_CONFIG says what is dumped."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import nn
from net import Net


def main() -> None:
    """Train twice on the same four rows."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    random = np.random.default_rng(5)
    net = Net()
    for parameter in net.get_parameters():
        parameter.set_data(ms.Tensor((random.standard_normal(parameter.shape) / 2).astype(np.float32)))
    # The mistake: the first layer is left out.
    optimizer = nn.SGD(net.second.trainable_params(), learning_rate=0.01)
    step = nn.TrainOneStepCell(net, optimizer).set_train()
    rows = ms.Tensor(random.standard_normal((4, 6)).astype(np.float32))
    for _ in range(2):
        step(rows)


if __name__ == "__main__":
    main()
