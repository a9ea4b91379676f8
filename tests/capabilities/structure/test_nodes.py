"""Names of an exported graph's nodes: which of them is what leaves a module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from two_dumps import planned

from pytest_msdump.capabilities.structure.nodes import is_of_nodes, modules_of_nodes, without_rounding

BLOCK = ["/h.0/ln/LayerNormalization_output_0", "/h.0/fc/MatMul_output_0", "/h.0/fc/Add_output_0", "/h.0/Add_output_0"]


def in_order(names: list[str]) -> dict[str, int | None]:
    return {name: place for place, name in enumerate(names)}


def test_the_last_node_of_a_module_leaves_it_and_what_runs_before_its_layers_does_not() -> None:
    assert is_of_nodes(BLOCK)
    assert not is_of_nodes(["fc_output", "head.0"])
    expected = {BLOCK[0]: "h.0/ln", BLOCK[2]: "h.0/fc", BLOCK[3]: "h.0"}
    assert modules_of_nodes(in_order(BLOCK)) == expected
    first = ["/h.0/Reshape_output_0", *BLOCK[:3]]
    assert modules_of_nodes(in_order(first)) == {BLOCK[0]: "h.0/ln", BLOCK[2]: "h.0/fc"}


def test_counters_are_the_order_and_without_any_only_a_bias_is_known_to_be_last() -> None:
    counted = [f"{place:03}_{name.replace('/', '_')}" for place, name in enumerate(BLOCK)]
    assert list(modules_of_nodes(dict.fromkeys(counted))) == [counted[0], counted[2], counted[3]]
    assert modules_of_nodes(dict.fromkeys(BLOCK)) == {BLOCK[0]: "h.0/ln", BLOCK[2]: "h.0/fc"}
    two = ["/act/Mul_output_0", "/act/Sigmoid_output_0"]
    assert modules_of_nodes(dict.fromkeys(two)) == {}


def test_a_convolution_without_norms_in_the_graph_may_be_the_norm_behind_it() -> None:
    conv = "/layer1/layer1.0/conv1/Conv_output_0"
    assert modules_of_nodes({conv: 0}) == {conv: "layer1.0/bn1"}
    norm = "/layer1/layer1.0/bn1/BatchNormalization_output_0"
    assert modules_of_nodes({conv: 0, norm: 1}) == {conv: "layer1.0/conv1", norm: "layer1.0/bn1"}
    assert modules_of_nodes({"/features/features.0/Conv_output_0": 0}) == {}


@pytest.mark.parametrize("has_norm", [True, False])
def test_a_folder_of_nodes_meets_a_folder_of_hooks(has_norm: bool, tmp_path: Path) -> None:
    sizes = {"conv1": 24, "bn1": 24, "relu": 24, "fc": 10}
    nodes = ["_conv1_Conv", "_relu_Relu", "_fc_MatMul", "_fc_Add"]
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
    for place, node in enumerate(nodes):
        values = np.ones(sizes[node.split("_")[1]], "f4")
        np.save(tmp_path / f"left/{node}_output_0.0.{1700000000000000 + place}.npy", values)
    layers = [name for name in sizes if has_norm or name != "bn1"]
    for place, name in enumerate(layers):
        np.save(tmp_path / f"right/{name}.0.{1700000000000000 + place}.npy", np.ones(sizes[name], "f4"))
    pairs = {pair.left.key.op.name: pair.right.key.op.name for pair in planned(tmp_path).pairing.pairs}
    expected = {"_relu_Relu_output_0": "relu", "_fc_Add_output_0": "fc"}
    # Where the other side has no norms, none was folded into the convolution.
    assert pairs == expected | {"_conv1_Conv_output_0": "bn1" if has_norm else "conv1"}


@pytest.mark.parametrize("saved", ["{}", "012__{}", "{}_float32_12"])
def test_what_was_dequantised_leaves_the_module_of_what_it_stands_for(saved: str) -> None:
    tensor = "/h/act/Relu_output_0"
    ends = ("", "_QuantizeLinear_Output", "_DequantizeLinear_Output")
    names = [saved.format(f"{tensor}{end}") for end in ends] + ["weight_DequantizeLinear_Output"]
    found = without_rounding(dict(enumerate(names)))
    assert found == {2: names[0]}
    # A counter is the order.
    counter = saved.partition("{")[0]
    assert list(modules_of_nodes(dict.fromkeys(found.values())).values()) == [f"{counter}h/act"]
