"""Hand-written ports to MindSpore, each run in graph mode by a process whose dump configuration saves everything.

python -m benchmarks.strangers.mindspore_nets MODEL FOLDER

FOLDER has ``weights.npz`` (by the reference's names) and ``inputs.npz``; MINDSPORE_DUMP_CONFIG says where dumps go. A
line of JSON for each run says which graphs of the dump are its own, and which cell has which scope.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from .port import expanded

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")

_GIVEN_BY = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var",
             "embedding_table": "weight"}  # fmt: skip


class LeNet(nn.Cell):
    """As in MindSpore's tutorial: one activation, one pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, pad_mode="same", has_bias=True)
        self.conv2 = nn.Conv2d(4, 8, 5, pad_mode="valid", has_bias=True)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc1, self.fc2, self.fc3 = nn.Dense(200, 32), nn.Dense(32, 24), nn.Dense(24, 10)

    def construct(self, x: Any) -> Any:  # noqa: D102
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.flatten(self.max_pool2d(self.relu(self.conv2(x))))
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


# One cell that is called in several places stands for several modules.
LENET = {
    "conv1": "conv1", "conv2": "conv2", "fc1": "fc1", "fc2": "fc2", "fc3": "fc3",
    "relu": "relu1 relu2 relu3 relu4", "max_pool2d": "pool1 pool2",
}  # fmt: skip
_WIDTHS = (8, 12, 16, 24)


class ResidualBlock(nn.Cell):
    """conv1, norm1, conv2, norm2, relu, down_sample."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, "pad", 1)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, "pad", 1)
        self.norm2 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU()
        self.down_sample = None
        if stride != 1 or inner != outer:
            self.down_sample = nn.SequentialCell([nn.Conv2d(inner, outer, 1, stride), nn.BatchNorm2d(outer)])

    def construct(self, x: Any) -> Any:  # noqa: D102
        out = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        identity = x if self.down_sample is None else self.down_sample(x)
        return self.relu(out + identity)


class ResNet(nn.Cell):
    """conv1, norm, relu, max_pool, layer1 to layer4, avg_pool, fc."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm, self.relu = nn.Conv2d(3, 8, 7, 2, "pad", 3), nn.BatchNorm2d(8), nn.ReLU()
        self.max_pool = nn.MaxPool2d(3, 2, "pad", 1)
        widths = (8, *_WIDTHS)
        for number, (inner, outer) in enumerate(zip(widths, _WIDTHS, strict=False), 1):
            blocks = [ResidualBlock(inner, outer, 1 if number == 1 else 2), ResidualBlock(outer, outer, 1)]
            setattr(self, f"layer{number}", nn.SequentialCell(blocks))
        self.fc = nn.Dense(_WIDTHS[-1], 10)

    def construct(self, x: Any) -> Any:  # noqa: D102
        x = self.max_pool(self.relu(self.norm(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(ops.mean(x, (2, 3)))


RESNET = {
    "conv1": "conv1", "norm": "bn1", "relu": "relu", "max_pool": "maxpool", "fc": "fc", "layer{i}.{j}": "layer{i}.{j}",
    "layer{i}.{j}.conv1": "layer{i}.{j}.conv1", "layer{i}.{j}.norm1": "layer{i}.{j}.bn1",
    "layer{i}.{j}.conv2": "layer{i}.{j}.conv2", "layer{i}.{j}.norm2": "layer{i}.{j}.bn2",
    "layer{i}.{j}.relu": "layer{i}.{j}.relu",
    "layer{i}.{j}.down_sample.{k}": "layer{i}.{j}.downsample.{k}",
}  # fmt: skip
_WIDTH, _HEADS, _LAYERS, _CLASSES = 24, 4, 2, 10


class Attention(nn.Cell):
    """query, key, value, dense."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Dense(_WIDTH, _WIDTH, has_bias=False) for _ in range(3))
        self.dense = nn.Dense(_WIDTH, _WIDTH)
        self.softmax = nn.Softmax()

    def construct(self, x: Any) -> Any:  # noqa: D102
        shape = (x.shape[0], x.shape[1], _HEADS, _WIDTH // _HEADS)
        q = self.query(x).reshape(shape).transpose(0, 2, 1, 3)
        k = self.key(x).reshape(shape).transpose(0, 2, 3, 1)
        v = self.value(x).reshape(shape).transpose(0, 2, 1, 3)
        weights = self.softmax(ops.matmul(q, k) / (_WIDTH // _HEADS) ** 0.5)
        return self.dense(ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(x.shape))


class EncoderCell(nn.Cell):
    """attention, ln1, fc1, act, fc2, ln2."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.ln1, self.ln2 = (nn.LayerNorm((_WIDTH,), epsilon=1e-5) for _ in range(2))
        self.fc1, self.fc2, self.act = nn.Dense(_WIDTH, 2 * _WIDTH), nn.Dense(2 * _WIDTH, _WIDTH), nn.ReLU()

    def construct(self, x: Any) -> Any:  # noqa: D102
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.fc2(self.act(self.fc1(x))))


class Encoder(nn.Cell):
    """embedding, layer, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(96, _WIDTH)
        self.layer = nn.CellList([EncoderCell() for _ in range(_LAYERS)])
        self.classifier = nn.Dense(_WIDTH, _CLASSES)

    def construct(self, ids: Any) -> Any:  # noqa: D102
        x = self.embedding(ids)
        for layer in self.layer:
            x = layer(x)
        return self.classifier(ops.mean(x, 1))


ENCODER = {
    "embedding": "embedding", "classifier": "classifier", "layer.{i}": "layers.{i}",
    "layer.{i}.attention": "layers.{i}.self_attn", "layer.{i}.attention.query": "layers.{i}.self_attn.q_proj",
    "layer.{i}.attention.key": "layers.{i}.self_attn.k_proj",
    "layer.{i}.attention.value": "layers.{i}.self_attn.v_proj",
    "layer.{i}.attention.dense": "layers.{i}.self_attn.out_proj",
    "layer.{i}.ln1": "layers.{i}.norm1", "layer.{i}.ln2": "layers.{i}.norm2",
    "layer.{i}.fc1": "layers.{i}.linear1", "layer.{i}.fc2": "layers.{i}.linear2", "layer.{i}.act": "layers.{i}.relu",
}  # fmt: skip


class Loss(nn.Cell):
    """A net and its loss."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net, self.loss = net, nn.CrossEntropyLoss()

    def construct(self, x: Any, classes: Any) -> Any:  # noqa: D102
        return self.loss(self.net(x), classes)


def momentum(net: nn.Cell) -> Any:
    """Return the optimizer of the reference of LeNet."""
    return nn.Momentum(net.trainable_params(), 0.01, 0.9)


# Model → net, cells by the reference's modules, optimizer of a training.
NETS: dict[str, tuple[Callable[[], nn.Cell], dict[str, str], Callable[[nn.Cell], Any] | None]] = {
    "lenet": (LeNet, LENET, None),
    "resnet18": (ResNet, RESNET, None),
    "encoder": (Encoder, ENCODER, None),
    "lenet-steps": (LeNet, LENET, momentum),
}


def _scaled_weight(net: nn.Cell) -> None:
    weights = [one for one in net.get_parameters() if one.name.endswith("weight")]
    _give(weights[len(weights) // 2], weights[len(weights) // 2].asnumpy() * np.float32(1.05))


def _zero_bias(net: nn.Cell) -> None:
    biases = [one for one in net.get_parameters() if one.name.endswith(("bias", "beta"))]
    _give(biases[len(biases) // 2], biases[len(biases) // 2].asnumpy() * 0)


def _no_operator(net: nn.Cell) -> None:
    _replace_activation(net, nn.Identity())


def _activation(net: nn.Cell) -> None:
    _replace_activation(net, nn.LeakyReLU(0.05))


def _replace_activation(net: nn.Cell, new: nn.Cell) -> None:
    """Put another cell in the place of the last activation."""
    cells = [(cell, name) for _, cell in net.cells_and_names() for name in ("relu", "act") if name in cell.name_cells()]
    setattr(*cells[-1], new)


VARIANTS: dict[str, Callable[[nn.Cell], None]] = {
    "good": lambda _: None,
    "scaled_weight": _scaled_weight,
    "zero_bias": _zero_bias,
    "no_operator": _no_operator,
    "activation": _activation,
}


def _give(parameter: Parameter, values: Any) -> None:
    parameter.set_data(Tensor(np.ascontiguousarray(values, np.float32)))


def _load(net: nn.Cell, table: dict[str, str], weights: Any) -> None:
    cells = dict(net.cells_and_names())
    for template, other in table.items():
        for path, right in expanded(template, other, cells):
            for parameter in cells[path].get_parameters(expand=False) if " " not in right else ():
                name = parameter.name.rpartition(".")[2]
                _give(parameter, weights[f"{right}.{_GIVEN_BY.get(name, name)}"])


def _scopes(net: nn.Cell) -> Iterator[tuple[str, str]]:
    """Yield each cell's path with its scope as the file names of a dump have it, without what is around the net."""
    names = {"": ""}
    for path, cell in net.cells_and_names():
        if path:
            parent, _, name = path.rpartition(".")
            names[path] = f"{names.get(parent, '')}{name}-{type(cell).__name__}_"
            yield path, names[path]


def main() -> None:
    """Run every variant of one model."""
    model, folder = sys.argv[1], Path(sys.argv[2])
    config = json.loads(Path(os.environ["MINDSPORE_DUMP_CONFIG"]).read_text(encoding="utf-8"))
    dumps = Path(config["common_dump_settings"]["path"]) / "rank_0" / "Net"
    build, table, optimizer = NETS[model]
    weights, inputs = np.load(folder / "weights.npz"), np.load(folder / "inputs.npz")
    given = [Tensor(inputs[name].astype(np.int32 if inputs[name].dtype.kind == "i" else np.float32)) for name in inputs]
    seen: set[str] = set()
    for variant, mistake in VARIANTS.items():
        net = build()
        _load(net, table, weights)
        mistake(net)
        if optimizer is None:
            net.set_train(False)(given[0])
        else:
            step = nn.TrainOneStepCell(Loss(net), optimizer(net)).set_train()
            for _ in range(2):
                step(*given)
        graphs = {path.name for path in dumps.iterdir()} - seen
        seen |= graphs
        scopes = dict(_scopes(net))
        line = {"variant": variant, "graphs": sorted(graphs), "scopes": scopes, "table": table}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
