"""What `recording.py` records: in each framework a network that is mostly arithmetic, and one of many small layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.record import Recorder

__all__ = ["FRAMEWORKS", "Case"]

IMAGES = np.random.default_rng(0).standard_normal((8, 3, 64, 64)).astype("float32")
TOKENS = np.random.default_rng(1).standard_normal((8, 64, 128)).astype("float32")
LAYERS = 4


class Case(NamedTuple):
    """One kind of recording of one network: what a step does, given a recording, or ``None``, and the kind."""

    network: str
    kind: str
    step: Callable[[Any, str], object]
    recording: Callable[[Path], AbstractContextManager[Any]]


def of_torch() -> tuple[str, Iterator[Case]]:
    import torch
    from torch import nn

    torch.manual_seed(0)

    def block(inside: int, outside: int) -> Any:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())

    convolutions = nn.Sequential(
        *(block(3, 32), block(32, 64), nn.MaxPool2d(2), block(64, 64)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    transformer = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def training(model: Any, given: Any) -> Callable[[Any, str], None]:
        def step(_: Any, __: str) -> None:
            model.zero_grad()
            model(given).square().mean().backward()

        return step

    kinds = {**_GRADIENTS, "operations": {"level": "operation"}, "modules, operations": {"level": "both"}}
    networks = {"convolutions": (convolutions, IMAGES), "transformer": (transformer, TOKENS)}
    steps = {name: (model, training(model, torch.from_numpy(x))) for name, (model, x) in networks.items()}
    return f"torch {torch.__version__}, {torch.get_num_threads()} threads", _cases("torch", steps, kinds)


def of_mindspore() -> tuple[str, Iterator[Case]]:
    import mindspore as ms
    from mindspore import nn, ops

    ms.set_context(mode=ms.PYNATIVE_MODE)

    def block(inside: int, outside: int) -> Any:
        return nn.SequentialCell(nn.Conv2d(inside, outside, 3, has_bias=True), nn.BatchNorm2d(outside), nn.ReLU())

    class Mean(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x.mean((2, 3))

    convolutions = nn.SequentialCell(
        *(block(3, 32), block(32, 64), nn.MaxPool2d(2, 2), block(64, 64), Mean(), nn.Dense(64, 10))
    )

    class Layer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm((128,)), nn.LayerNorm((128,))
            self.query, self.key, self.value, self.project = (nn.Dense(128, 128) for _ in range(4))
            self.softmax, self.up, self.relu, self.down = (
                nn.Softmax(),
                nn.Dense(128, 256),
                nn.ReLU(),
                nn.Dense(256, 128),
            )

        def construct(self, x: Any) -> Any:
            scores = ops.matmul(self.query(x), self.key(x).swapaxes(-1, -2)) / 128**0.5
            x = self.norm1(x + self.project(ops.matmul(self.softmax(scores), self.value(x))))
            return self.norm2(x + self.down(self.relu(self.up(x))))

    def training(network: Any, given: Any) -> Callable[[Any, str], None]:
        network.set_train()
        run = ms.value_and_grad(lambda x: network(x).square().mean(), None, network.trainable_params())

        def step(recording: Any, kind: str) -> None:
            loss, gradients = run(given)
            if recording is not None and "gradients" in kind:
                recording.parameter_gradients(gradients)
            # Operations are started, not finished, when they give back.
            loss.asnumpy(), gradients[0].asnumpy()

        return step

    transformer = nn.SequentialCell(*(Layer() for _ in range(LAYERS)))
    # A sixteenth of what the others get: a training step of MindSpore's convolutions takes many seconds on a CPU.
    networks = {"convolutions": (convolutions, IMAGES[:2, :, :32, :32].copy()), "transformer": (transformer, TOKENS)}
    steps = {name: (model, training(model, ms.Tensor(x))) for name, (model, x) in networks.items()}
    return f"mindspore {ms.__version__}", _cases("mindspore", steps, _GRADIENTS)


def of_keras() -> tuple[str, Iterator[Case]]:
    import keras
    import tensorflow as tf
    from keras import layers

    keras.utils.set_random_seed(0)

    def block(width: int) -> list[Any]:
        return [layers.Conv2D(width, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]

    convolutions = keras.Sequential(
        [*block(32), *block(64), layers.MaxPooling2D(), *block(64), layers.GlobalAveragePooling2D(), layers.Dense(10)]
    )

    def encoder() -> Any:
        x = tokens = keras.Input((64, 128))
        for _ in range(LAYERS):
            x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 32)(x, x))
            x = layers.LayerNormalization()(x + layers.Dense(128)(layers.Dense(256, activation="relu")(x)))
        return keras.Model(tokens, x)

    def training(model: Any, given: Any) -> Callable[[Any, str], None]:
        def step(_: Any, __: str) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(given, training=True) ** 2)
            tape.gradient(loss, model.trainable_variables)

        return step

    networks = {"convolutions": (convolutions, IMAGES.transpose(0, 2, 3, 1)), "transformer": (encoder(), TOKENS)}
    steps = {name: (model, training(model, tf.constant(x))) for name, (model, x) in networks.items()}
    return f"keras {keras.__version__}, tensorflow {tf.__version__}", _cases("keras", steps, _GRADIENTS)


def of_onnx() -> tuple[str, Iterator[Case]]:
    import onnx
    import onnxruntime
    from onnx import helper

    options = onnxruntime.SessionOptions()
    # As a recording computes: every node as the model has it.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def running(model: Any, given: Any) -> Callable[[Any, str], object]:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda recording, _: (recording or session).run(None, {"x": given})

    def model(nodes: list[Any], weights: dict[str, Any], given: Any) -> Any:
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, given.shape)],
            [onnx.ValueInfoProto(name=nodes[-1].output[0])],
            [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    networks = {
        "convolutions": (model(*_convolutions(helper.make_node), IMAGES), IMAGES),
        "transformer": (model(*_transformer(helper.make_node), TOKENS), TOKENS),
    }
    steps = {name: (made, running(made, x)) for name, (made, x) in networks.items()}
    return f"onnxruntime {onnxruntime.__version__}", _cases("onnx", steps, _OUTPUTS)


def _convolutions(node: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    rng, nodes, weights, flows, inside = np.random.default_rng(2), [], {}, "x", 3
    for number, outside in enumerate((32, 64, 64)):
        weights[f"w{number}"] = rng.standard_normal((outside, inside, 3, 3)).astype("float32") / 20
        nodes.append(node("Conv", [flows, f"w{number}"], [f"conv{number}"], pads=[1, 1, 1, 1]))
        nodes.append(node("Relu", [f"conv{number}"], [f"relu{number}"]))
        flows, inside = f"relu{number}", outside
        if number == 1:
            nodes.append(node("MaxPool", [flows], ["pool"], kernel_shape=[2, 2], strides=[2, 2]))
            flows = "pool"
    nodes.append(node("GlobalAveragePool", [flows], ["y"]))
    return nodes, weights


def _transformer(node: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    rng, nodes, x = np.random.default_rng(3), [], "x"
    shapes = {"q": (128, 128), "k": (128, 128), "v": (128, 128), "up": (128, 256), "down": (256, 128)}
    weights: dict[str, Any] = {"scale": np.ones(128, "float32")}
    for layer in range(LAYERS):
        names = {name: f"{name}{layer}" for name in (*shapes, "kt", "scores", "soft", "mixed", "sum", "norm", "relu")}
        for name, shape in shapes.items():
            weights[f"w_{names[name]}"] = rng.standard_normal(shape).astype("float32") / 50
        nodes += [node("MatMul", [x, f"w_{names[name]}"], [names[name]]) for name in ("q", "k", "v")]
        nodes += [
            node("Transpose", [names["k"]], [names["kt"]], perm=[0, 2, 1]),
            node("MatMul", [names["q"], names["kt"]], [names["scores"]]),
            node("Softmax", [names["scores"]], [names["soft"]]),
            node("MatMul", [names["soft"], names["v"]], [names["mixed"]]),
            node("Add", [x, names["mixed"]], [names["sum"]]),
            node("LayerNormalization", [names["sum"], "scale"], [names["norm"]]),
            node("MatMul", [names["norm"], f"w_{names['up']}"], [names["up"]]),
            node("Relu", [names["up"]], [names["relu"]]),
            node("MatMul", [names["relu"], f"w_{names['down']}"], [names["down"]]),
        ]
        x = names["down"]
    return nodes, weights


_OUTPUTS: dict[str, dict[str, Any]] = {"outputs": {}, "outputs, inputs": {"inputs": True}}
_GRADIENTS = {**_OUTPUTS, "outputs, gradients": {"gradients": True}}


def _cases(framework: str, steps: dict[str, tuple[Any, Any]], kinds: dict[str, dict[str, Any]]) -> Iterator[Case]:
    for network, (model, step) in steps.items():
        for kind, options in kinds.items():

            def recording(folder: Path, model: Any = model, options: dict[str, Any] = options) -> Any:
                record = getattr(Recorder(folder), framework)
                return record(model, directory=folder / "dump", digests=False, iterations=True, **options)

            yield Case(network, kind, step, recording)


FRAMEWORKS: dict[str, Callable[[], tuple[str, Iterator[Case]]]] = {
    "torch": of_torch,
    "mindspore": of_mindspore,
    "keras": of_keras,
    "onnx": of_onnx,
}
