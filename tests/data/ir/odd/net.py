import numpy as np, mindspore as ms
from mindspore import nn, ops, Tensor, Parameter
ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, pad_mode="valid")
        self.table = Tensor(np.arange(32).reshape(2, 16).astype(np.float32))
        self.split = ops.Split(1, 2)
        self.shift = Parameter(Tensor(np.zeros((2,), np.float32)), name="odd) = name(x, %y")
    def construct(self, x):
        a, b = self.split(self.conv(x))
        y = ops.concat((b, a), 1)
        y = ops.flatten(y)[:, :16] * self.table
        return y.sum(1) + self.shift
Net()(Tensor(np.ones((2, 1, 6, 6), np.float32)))
