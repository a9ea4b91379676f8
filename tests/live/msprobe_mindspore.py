"""A training by MindSpore, dumped by msprobe: FOLDER NAME…, see `msprobe_forks.py`."""

import sys

import mindspore as ms
import numpy as np
from mindspore import mint, nn, ops
from msprobe.mindspore import PrecisionDebugger
from msprobe_forks import start

# On the CPU MindSpore has none ("The kernel LinalgVectorNorm unregistered"), and msprobe calls it in every mode.
mint.norm = lambda x, *_, **__: ms.Tensor(np.float32(np.linalg.norm(x.asnumpy().astype(np.float64))))


class Block(nn.Cell):
    def __init__(self, kind, saw):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm([6]), nn.Dense(6, 8), nn.Dense(8, 6)
        self.kind, self.saw = kind, saw

    def construct(self, x):
        normed = self.norm(x)
        wide = self.up(normed)
        hidden = ops.gelu(wide, approximate=self.kind)
        narrow = self.down(hidden)
        total = x + narrow
        self.saw("Primitive.layer_norm.LayerNorm:output:0", normed)
        self.saw("Primitive.bias_add.BiasAdd:output:0", wide)
        self.saw("Functional.gelu:output:0", hidden)
        self.saw("Primitive.bias_add.BiasAdd:output:0", narrow)
        self.saw("Tensor.__add__:output:0", total)
        return total


def array(value):
    return value.asnumpy()


def run(one):
    def saw(address, value):
        one.saw(address, array(value))

    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    net = nn.SequentialCell(Block("none", saw), Block("tanh" if one.is_wrong else "none", saw))
    for path, cell in net.cells_and_names():
        if path:
            forward, backward = one.hooks(path, array)
            cell.register_forward_hook(forward)
            cell.register_backward_hook(backward)
    weights = list(net.trainable_params())
    numbers = np.random.RandomState(3)
    for weight in weights:
        weight.set_data(ms.Tensor(numbers.standard_normal(weight.shape).astype("f4")))
    debugger = PrecisionDebugger(config_path=str(one.config))
    learn = ms.value_and_grad(lambda x: (net(x) ** 2).mean(), 0, weights)
    debugger.start(net)
    loss, (_, gradients) = learn(ms.Tensor(numbers.standard_normal((4, 6)).astype("f4")))
    debugger.stop()
    debugger.step()
    saw("Tensor.mean:output:0", loss)
    for weight, gradient in zip(weights, gradients, strict=True):
        saw(f"{weight.name}:output:0", weight)
        saw(f"{weight.name}/grad:output:0", gradient)


if __name__ == "__main__":
    raise SystemExit(start(run, sys.argv[1:], ranks=1))
