"""A port from PyTorch to MindSpore as one pytest file: build both, copy the weights, run both, compare every layer."""

import numpy as np
import pytest

from pytest_msdump import assert_dumps_close
from pytest_msdump.record import assert_same_weights, load_weights

torch = pytest.importorskip("torch")
ms = pytest.importorskip("mindspore")

# -- the reference: PyTorch --------------------------------------------------------------------------------------------


class TorchCNN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(8)
        self.relu1 = torch.nn.ReLU()
        self.pool1 = torch.nn.MaxPool2d(2)
        self.conv2 = torch.nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.relu2 = torch.nn.ReLU()
        self.flatten = torch.nn.Flatten()
        self.fc = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = self.pool1(self.relu1(self.bn1(self.conv1(x))))
        return self.fc(self.flatten(self.relu2(self.conv2(x))))


class TorchBlock(torch.nn.Module):
    """A transformer block of one head. All its matrices but two are square: their shapes do not tell how they lie."""

    def __init__(self, width=16):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width)
        self.query = torch.nn.Linear(width, width)
        self.key = torch.nn.Linear(width, width)
        self.value = torch.nn.Linear(width, width)
        self.softmax = torch.nn.Softmax(dim=-1)
        self.project = torch.nn.Linear(width, width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.gelu = torch.nn.GELU()
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        scores = self.query(y) @ self.key(y).transpose(-1, -2) / y.shape[-1] ** 0.5
        x = x + self.project(self.softmax(scores) @ self.value(y))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class TorchTraining(torch.nn.Module):
    """A network and its loss, so that the loss is an operator of the dump."""

    def __init__(self, network, reduction="mean"):
        super().__init__()
        self.network = network
        self.loss = torch.nn.CrossEntropyLoss(reduction=reduction)

    def forward(self, x, labels):
        return self.loss(self.network(x), labels)


# -- the port: MindSpore. What a wrong port does wrong is an argument, for test_wrong_ports.py -------------------------


class CNN(ms.nn.Cell):
    def __init__(self, pad_mode="pad"):
        super().__init__()
        padding = 1 if pad_mode == "pad" else 0
        self.conv1 = ms.nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1)
        self.bn1 = ms.nn.BatchNorm2d(8)
        self.relu1 = ms.nn.ReLU()
        self.pool1 = ms.nn.MaxPool2d(2, 2)
        self.conv2 = ms.nn.Conv2d(8, 8, 3, stride=2, pad_mode=pad_mode, padding=padding, has_bias=True)
        self.relu2 = ms.nn.ReLU()
        self.flatten = ms.nn.Flatten()
        self.fc = ms.nn.Dense(128, 10)

    def construct(self, x):
        x = self.pool1(self.relu1(self.bn1(self.conv1(x))))
        return self.fc(self.flatten(self.relu2(self.conv2(x))))


class Block(ms.nn.Cell):
    def __init__(self, width=16, epsilon=1e-5):
        super().__init__()
        self.norm1 = ms.nn.LayerNorm((width,), epsilon=epsilon)
        self.dense_q = ms.nn.Dense(width, width)
        self.dense_k = ms.nn.Dense(width, width)
        self.dense_v = ms.nn.Dense(width, width)
        self.softmax = ms.nn.Softmax(axis=-1)
        self.project = ms.nn.Dense(width, width)
        self.norm2 = ms.nn.LayerNorm((width,), epsilon=epsilon)
        self.up = ms.nn.Dense(width, 2 * width)
        self.gelu = ms.nn.GELU(approximate=False)
        self.down = ms.nn.Dense(2 * width, width)

    def construct(self, x):
        y = self.norm1(x)
        scores = ms.ops.matmul(self.dense_q(y), self.dense_k(y).swapaxes(-1, -2)) / y.shape[-1] ** 0.5
        x = x + self.project(ms.ops.matmul(self.softmax(scores), self.dense_v(y)))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Training(ms.nn.Cell):
    def __init__(self, network, reduction="mean"):
        super().__init__()
        self.network = network
        self.loss = ms.nn.CrossEntropyLoss(reduction=reduction)

    def construct(self, x, labels):
        return self.loss(self.network(x), labels)


# -- what both are given -----------------------------------------------------------------------------------------------

# Layer of the port → layer of the reference, where the names differ: for weights and for dumps.
BLOCK_NAMES = {"dense_q": "query", "dense_k": "key", "dense_v": "value"}
# Gradients are called by their parameter as each framework calls it.
GRADIENT_NAMES = {
    "Training": "TorchTraining",
    "Training/grad_output": "TorchTraining/grad_output",
    "network.bn1.gamma/grad": "network.bn1.weight/grad",
    "network.bn1.beta/grad": "network.bn1.bias/grad",
}

IMAGES = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype("float32")
LABELS = np.array([1, 0, 7, 3], "int32")
# Activations are small on purpose: there the epsilon of a LayerNorm counts.
TOKENS = 0.01 * np.random.default_rng(1).standard_normal((2, 6, 16)).astype("float32")


def seeded(build):
    torch.manual_seed(2)
    return build()


def carry(port, reference, names=None):
    """Copy the weights, and check that both sides hold the same numbers."""
    load_weights(port, reference, map=names)
    assert_same_weights(port, reference, map=names)


# -- inference ---------------------------------------------------------------------------------------------------------


def run_both(recorder, port, reference, x):
    """Run both on the same numbers; return their two dumps, the port's first."""
    with recorder.torch(reference.eval()) as right, torch.no_grad():
        reference(torch.from_numpy(x))
    with recorder.mindspore(port.set_train(False)) as left:
        port(ms.Tensor(x))
    return left.directory, right.directory


def test_every_layer_of_the_cnn_is_close(msdump_recorder):
    reference, port = seeded(TorchCNN), CNN()
    carry(port, reference)
    left, right = run_both(msdump_recorder, port, reference, IMAGES)
    report = assert_dumps_close(left, right, map={"CNN": "TorchCNN"}, min_coverage=1.0)
    assert len(report.records) == 9


def test_every_layer_of_the_transformer_block_is_close(msdump_recorder):
    reference, port = seeded(TorchBlock), Block()
    carry(port, reference, BLOCK_NAMES)
    left, right = run_both(msdump_recorder, port, reference, TOKENS)
    report = assert_dumps_close(left, right, map={**BLOCK_NAMES, "Block": "TorchBlock"}, min_coverage=1.0)
    assert len(report.records) == 11


# -- one step of training ----------------------------------------------------------------------------------------------


def train_both(recorder, port, reference):
    """Run both forwards and backwards, with the gradients of layers and parameters; return their two dumps."""
    with recorder.torch(reference.train(), gradients=True) as right:
        reference(torch.from_numpy(IMAGES), torch.from_numpy(LABELS).long()).backward()
    with recorder.mindspore(port.set_train(), gradients=True) as left:
        step = ms.value_and_grad(port, None, port.trainable_params())
        _, gradients = step(ms.Tensor(IMAGES), ms.Tensor(LABELS))
        left.parameter_gradients(gradients)
    return left.directory, right.directory


def test_every_gradient_of_the_cnn_is_close(msdump_recorder):
    reference, port = TorchTraining(seeded(TorchCNN)), Training(CNN())
    carry(port, reference)
    left, right = train_both(msdump_recorder, port, reference)
    report = assert_dumps_close(left, right, map=GRADIENT_NAMES, min_coverage=1.0)
    assert len(report.records) == 37
