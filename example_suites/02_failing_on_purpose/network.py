"""A port to MindSpore with one mistake: conv2 does not say how to pad, and MindSpore's default is not PyTorch's."""

from mindspore import Tensor, nn


class Lenet(nn.Cell):
    """The same layers under the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, pad_mode="pad", padding=1, has_bias=True)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2, stride=2)
        self.conv2 = nn.Conv2d(6, 12, 3, stride=2, has_bias=True)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(48, 24)
        self.relu3 = nn.ReLU()
        self.fc2 = nn.Dense(24, 10)

    def construct(self, x: Tensor) -> Tensor:
        """Return the class scores of a batch of 1 x 16 x 16 images."""
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.relu3(self.fc1(self.flatten(x)))
        return self.fc2(x)
