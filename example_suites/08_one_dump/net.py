"""A classifier that is trained with two mistakes: its exponential overflows, and one layer is never trained."""

from __future__ import annotations

from mindspore import Tensor, nn, ops


class Net(nn.Cell):
    """Two dense layers; the result of the second one is turned into probabilities by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(6, 8)
        self.second = nn.Dense(8, 4)

    def construct(self, x: Tensor) -> Tensor:
        """Mean negative log-probability of the first class."""
        hidden = ops.relu(self.first(x))
        powers = ops.exp(self.second(hidden) * 60)
        shares = powers / powers.sum(-1, keepdims=True)
        return -ops.log(shares[:, 0]).mean()
