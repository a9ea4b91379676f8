"""One small network, as TensorFlow has it and as it was ported to ONNX. Layers have the same names on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

# Keras's own.
EPSILON = 1e-3


def image() -> Array:
    """Two images, NHWC."""
    return np.random.RandomState(1).standard_normal((2, 8, 8, 3)).astype(np.float32)


def weights() -> dict[str, Array]:
    """The weights as TensorFlow arranges them: kernels HWIO, the matrix input by output."""
    random = np.random.RandomState(0)

    def drawn(*shape: int, scale: float = 0.3) -> Array:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    return {
        "conv1/kernel": drawn(3, 3, 3, 8),
        "conv1/bias": drawn(8),
        "bn1/gamma": 1 + drawn(8),
        "bn1/beta": drawn(8),
        "bn1/moving_mean": drawn(8),
        # Small enough for epsilon to count.
        "bn1/moving_variance": np.abs(drawn(8, scale=0.01)),
        "conv2/kernel": drawn(3, 3, 8, 8),
        "conv2/bias": drawn(8),
        "fc/kernel": drawn(32, 10),
        "fc/bias": drawn(10),
    }


def tensorflow_network() -> Any:
    """The original, in Keras."""
    from keras import Input, Sequential, layers

    network = Sequential(
        [
            Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", name="conv1"),
            layers.BatchNormalization(epsilon=EPSILON, name="bn1"),
            layers.ReLU(name="relu1"),
            layers.Conv2D(8, 3, strides=2, padding="same", name="conv2"),
            layers.ReLU(name="relu2"),
            layers.MaxPooling2D(2, name="pool"),
            layers.Flatten(name="flatten"),
            layers.Dense(10, name="fc"),
        ],
        name="net",
    )
    values = weights()
    for variable in network.weights:
        variable.assign(values["/".join(variable.path.split("/")[-2:])])
    return network


def onnx_network(*, epsilon: float = EPSILON, pads: tuple[int, ...] = (0, 0, 1, 1), channels_last: bool = True) -> Any:
    """The port, NCHW, by `onnx.helper`.

    A convolution of stride 2 on an even number of pixels pads "same" at the end only: ``pads`` is (0, 0, 1, 1). The
    rows of the matrix are ordered by pixels, then channels: what is flattened must have its channels last.
    """
    from onnx import TensorProto, helper, numpy_helper

    def node(op: str, name: str, *inputs: str, **attributes: Any) -> Any:
        return helper.make_node(op, inputs, [name], name=name, **attributes)

    batch_norm = ("bn1/gamma", "bn1/beta", "bn1/moving_mean", "bn1/moving_variance")
    order = (0, 2, 3, 1) if channels_last else (0, 1, 2, 3)
    nodes = [
        node("Conv", "conv1", "image", "conv1/kernel", "conv1/bias", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "bn1", "conv1", *batch_norm, epsilon=epsilon),
        node("Relu", "relu1", "bn1"),
        node("Conv", "conv2", "relu1", "conv2/kernel", "conv2/bias", strides=[2, 2], pads=pads),
        node("Relu", "relu2", "conv2"),
        node("MaxPool", "pool", "relu2", kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", "to_nhwc", "pool", perm=order),
        node("Flatten", "flatten", "to_nhwc"),
        node("Gemm", "fc", "flatten", "fc/kernel", "fc/bias"),
    ]
    turned = {name: array.transpose(3, 2, 0, 1) if array.ndim == 4 else array for name, array in weights().items()}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [None, 3, 8, 8])],
        [helper.make_tensor_value_info("fc", TensorProto.FLOAT, [None, 10])],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in turned.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
