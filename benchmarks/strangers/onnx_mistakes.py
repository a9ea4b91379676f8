"""Mistakes in a graph that was exported: each changes the graph in place, or raises `NoPlaceError`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from .mistakes import NoPlaceError

__all__ = ["MISTAKES"]

_WEIGHTED = ("Conv", "Gemm", "MatMul", "ConvTranspose")
_NORMS = ("LayerNormalization", "BatchNormalization", "RMSNormalization")
_ACTIVATIONS = ("Relu", "Gelu", "HardSwish", "HardSigmoid", "Tanh", "Erf")


def _one(places: list[Any], draw: Random) -> Any:
    if not places:
        raise NoPlaceError
    return draw.choice(places)


def _of_type(graph: Any, kinds: tuple[str, ...]) -> list[Any]:
    return [node for node in graph.node if node.op_type in kinds]


def _change_input(graph: Any, place: int, kinds: tuple[str, ...], change: Callable[[Any], Any], draw: Random) -> None:
    """Give one node of a kind a changed weight as its input at a place; other nodes keep theirs."""
    weights = {one.name: one for one in graph.initializer}
    node = _one([one for one in _of_type(graph, kinds) if len(one.input) > place and one.input[place] in weights], draw)
    values = change(numpy_helper.to_array(weights[node.input[place]]))
    name = f"{node.input[place]}_of_{node.name}"
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
    node.input[place] = name


def _scaled_weight(graph: Any, draw: Random) -> None:
    """One layer's weight is 5 % too large."""
    _change_input(graph, 1, _WEIGHTED, lambda values: values * values.dtype.type(1.05), draw)


def _zero_bias(graph: Any, draw: Random) -> None:
    """One layer's bias was not loaded."""
    _change_input(graph, 2, ("Conv", "Gemm", "ConvTranspose", "LayerNormalization"), np.zeros_like, draw)


def _epsilon(graph: Any, draw: Random) -> None:
    """One normalisation has another epsilon."""
    node = _one(_of_type(graph, _NORMS), draw)
    kept = [one for one in node.attribute if one.name != "epsilon"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("epsilon", 0.1)])


def _activation(graph: Any, draw: Random) -> None:
    """One activation is another one."""
    node = _one(_of_type(graph, ("Relu", "HardSwish")), draw)
    node.op_type = "Elu"
    del node.attribute[:]


def _no_operator(graph: Any, draw: Random) -> None:
    """One activation was forgotten: what read it reads its input."""
    outputs = {one.name for one in graph.output}
    node = _one([one for one in _of_type(graph, _ACTIVATIONS) if one.output[0] not in outputs], draw)
    for reader in graph.node:
        for place, name in enumerate(reader.input):
            if name == node.output[0]:
                reader.input[place] = node.input[0]
    graph.node.remove(node)


def _extra_operator(graph: Any, draw: Random) -> None:
    """There is an activation behind one layer that the reference does not have."""
    outputs = {one.name for one in graph.output}
    nodes = [one for one in _of_type(graph, (*_WEIGHTED, *_NORMS)) if one.output[0] not in outputs]
    node = _one(nodes, draw)
    extra = helper.make_node("Tanh", [node.output[0]], [f"{node.output[0]}_tanh"], name=f"{node.name}_tanh")
    for reader in graph.node:
        for place, name in enumerate(reader.input):
            if name == node.output[0]:
                reader.input[place] = extra.output[0]
    graph.node.insert(list(graph.node).index(node) + 1, extra)


MISTAKES: dict[str, Callable[[Any, Random], None]] = {
    "scaled_weight": _scaled_weight,
    "zero_bias": _zero_bias,
    "epsilon": _epsilon,
    "activation": _activation,
    "no_operator": _no_operator,
    "extra_operator": _extra_operator,
}
