"""The same network, ported to MindSpore: graph mode, CPU. What it dumps is up to MINDSPORE_DUMP_CONFIG."""

import mindspore as ms
from mindspore import Tensor, nn, ops
from network import EPSILON, image, weights

# TensorFlow's name of a weight → MindSpore's, and its axes.
PARAMETERS = {
    "conv1/kernel": ("conv1.weight", (3, 2, 0, 1)),
    "conv1/bias": ("conv1.bias", (0,)),
    "bn1/gamma": ("bn1.gamma", (0,)),
    "bn1/beta": ("bn1.beta", (0,)),
    "bn1/moving_mean": ("bn1.moving_mean", (0,)),
    "bn1/moving_variance": ("bn1.moving_variance", (0,)),
    "conv2/kernel": ("conv2.weight", (3, 2, 0, 1)),
    "conv2/bias": ("conv2.bias", (0,)),
    "fc/kernel": ("fc.weight", (1, 0)),
    "fc/bias": ("fc.bias", (0,)),
}


class Net(nn.Cell):
    """NCHW inside."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, pad_mode="same", has_bias=True)
        self.bn1 = nn.BatchNorm2d(8, eps=EPSILON)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, pad_mode="same", has_bias=True)
        self.relu2 = nn.ReLU()
        self.pool = nn.MaxPool2d(2, stride=2)
        self.fc = nn.Dense(32, 10)

    def construct(self, x: Tensor) -> Tensor:
        """Return the class scores of a batch of 3 x 8 x 8 images."""
        x = self.relu1(self.bn1(self.conv1(x)))
        x = self.pool(self.relu2(self.conv2(x)))
        # The matrix expects channels last.
        return self.fc(ops.transpose(x, (0, 2, 3, 1)).reshape(-1, 32))


def main() -> None:
    """Load the weights, run once."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    network = Net()
    network.set_train(False)
    values = {
        name: ms.Parameter(weights()[original].transpose(axes).copy()) for original, (name, axes) in PARAMETERS.items()
    }
    unloaded, _ = ms.load_param_into_net(network, values)
    if unloaded:
        raise SystemExit(f"no weights for {unloaded}")
    network(Tensor(image().transpose(0, 3, 1, 2).copy())).asnumpy()


if __name__ == "__main__":
    main()
