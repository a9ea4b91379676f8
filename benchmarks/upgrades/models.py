"""Records one of four small ONNX models, $MODEL, into $MSDUMP_DIR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pytest_msdump.record import Recorder

_SEED = 7


class Graph:
    """Nodes and weights of a model; each node is named by what it makes."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(_SEED)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Add a weight, and return its name."""
        values = self.rng.standard_normal(shape) * (scale or shape[0] ** -0.5)
        return self.constant(values.astype("f4"))

    def constant(self, values: Any) -> str:
        """Add a constant, and return its name."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, name: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node, and return the name of its first output."""
        made = [name, *(f"{name}_{slot}" for slot in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=name, **attributes))
        return name


def convolutions(net: Graph) -> tuple[str, tuple[int, ...]]:
    """Convolutions, normalisation and pools."""
    x = "x"
    for layer, (before, after) in enumerate(((3, 16), (16, 32))):
        at = f"block{layer}."
        x = net.node("Conv", at + "conv", x, net.weight(after, before, 3, 3, scale=0.2), pads=[1] * 4)
        norm = [net.weight(after, scale=one) for one in (1, 0.1, 0.1)]
        x = net.node("BatchNormalization", at + "norm", x, *norm, net.constant(np.full(after, 0.7, "f4")))
        x = net.node("Relu", at + "relu", x)
        x = net.node("MaxPool", at + "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", "flat", net.node("GlobalAveragePool", "mean", x))
    x = net.node("Gemm", "logits", x, net.weight(32, 10), net.weight(10, scale=0.1))
    net.node("Softmax", "softmax", x, axis=-1)
    return "softmax", (2, 3, 32, 32)


def attention(net: Graph) -> tuple[str, tuple[int, ...]]:
    """Two blocks of a transformer."""
    x, width = "x", 128
    for layer in range(2):
        at = f"block{layer}."
        y = net.node("LayerNormalization", at + "norm", x, net.weight(width, scale=1), net.weight(width, scale=0.1))
        q, k, v = (net.node("MatMul", at + one, y, net.weight(width, width)) for one in "qkv")
        scores = net.node("MatMul", at + "scores", q, net.node("Transpose", at + "k_t", k, perm=[0, 2, 1]))
        scores = net.node("Mul", at + "scaled", scores, net.constant(np.float32(width**-0.5)))
        y = net.node("MatMul", at + "attended", net.node("Softmax", at + "softmax", scores, axis=-1), v)
        x = net.node("Add", at + "residual", x, net.node("MatMul", at + "out", y, net.weight(width, width)))
        y = net.node("Erf", at + "erf", net.node("MatMul", at + "up", x, net.weight(width, 2 * width)))
        x = net.node("Add", at + "sum", x, net.node("MatMul", at + "down", y, net.weight(2 * width, width)))
    return x, (2, 24, width)


def recurrent(net: Graph) -> tuple[str, tuple[int, ...]]:
    """An LSTM and a GRU, one behind the other."""
    width = 32
    given, own = net.weight(1, 4 * width, 16, scale=0.2), net.weight(1, 4 * width, width, scale=0.2)
    y = net.node("LSTM", "lstm", "x", given, own, hidden_size=width)
    y = net.node("Squeeze", "lstm_out", y, net.constant(np.array([1])))
    given, own = (net.weight(1, 3 * width, width, scale=0.2) for _ in range(2))
    y = net.node("GRU", "gru", y, given, own, hidden_size=width)
    y = net.node("Squeeze", "gru_out", y, net.constant(np.array([1])))
    return net.node("Tanh", "tanh", y), (12, 2, 16)


def elementwise(net: Graph) -> tuple[str, tuple[int, ...]]:
    """Functions of single values, reductions and other normalisations."""
    x = net.node("InstanceNormalization", "instance", "x", net.weight(8, scale=1), net.weight(8, scale=0.1))
    x = net.node("ConvTranspose", "up", x, net.weight(8, 8, 2, 2, scale=0.2), strides=[2, 2])
    for kind in ("Sigmoid", "Softplus", "Elu", "HardSigmoid", "LeakyRelu", "Tanh", "Exp", "Sqrt", "Log"):
        x = net.node(kind, kind.lower(), x)
    x = net.node("ReduceMean", "mean", x, axes=[2, 3], keepdims=0)
    x = net.node("LpNormalization", "unit", x, axis=1, p=2)
    return net.node("LogSoftmax", "log_softmax", x, axis=-1), (2, 8, 12, 12)


MODELS: Mapping[str, Callable[[Graph], tuple[str, tuple[int, ...]]]] = {
    one.__name__: one for one in (convolutions, attention, recurrent, elementwise)
}


def main() -> None:
    """Record the model."""
    import onnxruntime

    net = Graph()
    made, shape = MODELS[os.environ["MODEL"]](net)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(net.nodes, "net", [given], [helper.ValueInfoProto(name=made)], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    x = net.rng.standard_normal(shape).astype("f4")
    with Recorder(".").onnx(model, directory=os.environ["MSDUMP_DIR"], session_options=options) as recording:
        recording.run(None, {"x": x})


if __name__ == "__main__":
    main()
