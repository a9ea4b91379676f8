"""Mistakes in ports to ONNX: in the model before it is exported, or in one node of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cases import Mistake
from module_mistakes import channels_reversed, epsilon, no_bias, scaled_weight, transposed_weight
from onnx import NodeProto
from onnx_graph import Graph

__all__ = ["MISTAKES", "TWO", "GraphMistake"]

ScopeOf = Callable[[NodeProto], str]


class GraphMistake(Mistake):
    """A mistake in the graph: `apply` is given the graph, the node of the module, and what tells a node's module.

    It returns the names of the nodes that are wrong.
    """


def average_pooling(at: str) -> Mistake:
    """Return the mistake of average for maximum."""

    def apply(graph: Graph, name: str, _: ScopeOf) -> list[str]:
        node = graph.nodes[name]
        node.op_type = "AveragePool"
        graph.set(node, dilations=None, storage_order=None, count_include_pad=1)
        return [name]

    return GraphMistake("average_pooling", at, "average pooling for maximum pooling", apply)


def same_padding(at: str, convolution: str = "") -> Mistake:
    """Return the mistake of padding as TensorFlow does: less at the beginning of a strided axis than at its end."""

    def apply(graph: Graph, name: str, scope_of: ScopeOf) -> list[str]:
        node = graph.nodes[name]
        if node.op_type not in ("Conv", "MaxPool"):
            node = next(one for one in graph.nodes.values() if scope_of(one) == convolution)
        graph.set(node, pads=None, auto_pad="SAME_UPPER")
        return [node.name]

    return GraphMistake("padding", at, "padding as SAME of TensorFlow", apply)


def relu6(at: str) -> Mistake:
    """Return the mistake of ReLU6 for ReLU; at 1 in place of 6, which these small activations would not reach."""

    def apply(graph: Graph, name: str, _: ScopeOf) -> list[str]:
        node = graph.nodes[name]
        node.op_type = "Clip"
        graph.give(node, 1, np.float32(0))
        graph.give(node, 2, np.float32(1))
        return [name]

    return GraphMistake("clipped_relu", at, "a clipped ReLU for ReLU", apply)


def other_type(name: str, at: str, title: str, op_type: str, **attributes: Any) -> Mistake:
    """Return the mistake of another operator in place of the right one."""

    def apply(graph: Graph, node_name: str, _: ScopeOf) -> list[str]:
        node = graph.nodes[node_name]
        node.op_type = op_type
        graph.set(node, **attributes)
        return [node_name]

    return GraphMistake(name, at, title, apply)


def no_residual(scope: str, number: int = 0, *, kept: int) -> Mistake:
    """Return the mistake of a missing addition: of those that belong to the module `scope` itself."""

    def apply(graph: Graph, _: str, scope_of: ScopeOf) -> list[str]:
        adds = [node for node in graph.proto.graph.node if node.op_type == "Add" and scope_of(node) == scope]
        node = adds[number]
        graph.bypass(node, kept)
        return [node.name]

    return GraphMistake("no_residual", f"{scope}.+", "a missing residual connection", apply)


def no_attention_scale(scope: str) -> Mistake:
    """Return the mistake of an attention without its scale on the queries."""

    def apply(graph: Graph, _: str, scope_of: ScopeOf) -> list[str]:
        inside = [node for node in graph.proto.graph.node if scope_of(node) == scope]
        softmax = next(node for node in inside if node.op_type == "Softmax")
        product = _behind(graph, softmax, "MatMul")
        scale = next(graph.makers[given] for given in product.input if graph.makers[given].op_type == "Mul")
        graph.give(scale, 1, np.float32(1))
        return [scale.name]

    return GraphMistake("attention_scale", f"{scope}.scale", "an attention without its scale", apply)


def _behind(graph: Graph, node: NodeProto, op_type: str) -> NodeProto:
    while node.op_type != op_type:
        node = next(graph.makers[given] for given in node.input if given in graph.makers)
    return node


# Name of the model → mistakes.
MISTAKES: dict[str, Sequence[Mistake]] = {
    "resnet18": (
        epsilon("layer2.0.bn1", 1e-3),
        average_pooling("maxpool"),
        no_residual("layer2.1", kept=0),
        same_padding("bn1", "conv1"),
        no_bias("fc"),
        scaled_weight("layer3.1.conv1", seen_in="layer3.1.bn1"),
        relu6("layer1.1.relu"),
        channels_reversed("conv1", seen_in="bn1"),
    ),
    "mobilenet_v3_small": (
        epsilon("features.4.block.0.1", 1e-5),
        other_type(
            "hard_sigmoid", "features.4.block.2.scale_activation", "slope 0.2 for 1/6", "HardSigmoid", alpha=0.2
        ),
        other_type("relu_for_hardswish", "features.8.block.1.2", "ReLU for Hardswish", "Relu"),
        no_residual("features.5", kept=0),
        no_bias("features.7.block.2.fc1"),
        scaled_weight("classifier.0"),
    ),
    "vit": (
        epsilon("encoder.layers.encoder_layer_1.ln_1", 1e-3),
        other_type(
            "tanh_gelu", "encoder.layers.encoder_layer_2.mlp.1", "tanh GELU for erf", "Gelu", approximate="tanh"
        ),
        no_attention_scale("encoder.layers.encoder_layer_1.self_attention"),
        no_residual("encoder.layers.encoder_layer_2", 1, kept=0),
        transposed_weight("encoder.layers.encoder_layer_0.self_attention", "out_proj.weight"),
        no_bias("encoder.layers.encoder_layer_3.mlp.3"),
        channels_reversed("conv_proj"),
    ),
    "swin": (
        epsilon("features.1.1.norm1", 1e-3),
        other_type("tanh_gelu", "features.1.0.mlp.1", "tanh GELU for erf", "Gelu", approximate="tanh"),
        no_residual("features.3.0", 1, kept=0),
        no_bias("features.3.1.mlp.3"),
        scaled_weight("features.2.reduction"),
    ),
}

# Two in one port, where both are in it; the second is far larger than what the first has become there.
TWO = (("epsilon", "no_residual"), ("epsilon", "relu_for_hardswish"), ("tanh_gelu", "no_bias"))
