"""Models of ONNX in 8 bits against float ones, by the names that ONNX Runtime's quantiser gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matching.made import addresses, dump, reasons, tensor

from pytest_msdump.core.matching import MapEntry, pair_dumps
from pytest_msdump.core.model.dump import Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, Pairing

# Conv, Relu (folded into the pair behind the convolution), Add; as tensors and as nodes.
FLOAT_TENSORS = ("c_Conv_output_0", "r_Relu_output_0", "a_Add_output_0")
INT8_TENSORS = tuple(
    f"{name}{end}"
    for name in FLOAT_TENSORS[1:]
    for end in ("", "_QuantizeLinear_Output", "_DequantizeLinear_Output")
)  # fmt: skip
FLOAT_NODES = (("/c/Conv", "Conv"), ("/r/Relu", "Relu"), ("/a/Add", "Add"))
INT8_NODES = (
    ("w_DequantizeLinear", "DequantizeLinear"),
    ("/c/Conv", "Conv"),
    ("/r/Relu_output_0_QuantizeLinear", "QuantizeLinear"),
    ("/r/Relu_output_0_DequantizeLinear", "DequantizeLinear"),
    ("/a/Add", "Add"),
    ("/a/Add_output_0_QuantizeLinear", "QuantizeLinear"),
    ("/a/Add_output_0_DequantizeLinear", "DequantizeLinear"),
)


def _tensors(*names: str) -> Dump:
    return dump(*(tensor(name) for name in names))


def _chain(*nodes: tuple[str, str], slot: int = 0) -> Dump:
    """Nodes of which each is fed by the one before."""
    operators = [
        Operator(name, kind, number, (Edge(nodes[number - 1][0], slot),) if number else ())
        for number, (name, kind) in enumerate(nodes)
    ]
    graph = OperatorGraph(tuple(operators), is_recorded=True)
    made = dump(*(tensor(name, op_type=kind) for name, kind in nodes))
    return replace(made, graphs=((Coordinates(), graph),))


def _both_ways(quantised: Dump, exact: Dump) -> list[tuple[Pairing, str]]:
    return [(pair_dumps(quantised, exact), "left"), (pair_dumps(exact, quantised), "right")]


def _names(pairing: Pairing, side: str) -> dict[str, str]:
    """The exact side's operator of each quantised one."""
    return {(one if side == "left" else other).split(":")[0]: (other if side == "left" else one).split(":")[0]
            for one, other, _ in addresses(pairing)}  # fmt: skip


def test_a_folder_of_tensors_pairs_what_was_dequantised_and_not_what_went_into_it() -> None:
    for pairing, side in _both_ways(_tensors(*INT8_TENSORS), _tensors(*FLOAT_TENSORS)):
        assert _names(pairing, side) == {f"{name}_DequantizeLinear_Output": name for name in FLOAT_TENSORS[1:]}
        why = reasons(pairing, side)
        assert why["r_Relu_output_0_QuantizeLinear_Output:output:0"].startswith("output of a quantisation")
        assert why["r_Relu_output_0:output:0"].startswith("it is quantised next")


def test_nodes_pair_with_their_like_and_a_folded_activation_with_what_was_dequantised() -> None:
    for pairing, side in _both_ways(_chain(*INT8_NODES), _chain(*FLOAT_NODES)):
        assert _names(pairing, side) == {
            "/c/Conv": "/c/Conv", "/r/Relu_output_0_DequantizeLinear": "/r/Relu", "/a/Add": "/a/Add",
        }  # fmt: skip
        assert reasons(pairing, side)["/a/Add_output_0_DequantizeLinear:output:0"].startswith("the same value rounded")


def test_weights_in_8_bits_are_no_gaps_of_the_reference() -> None:
    pairing = pair_dumps(_chain(*FLOAT_NODES), _chain(*INT8_NODES))
    assert reasons(pairing, "right")["w_DequantizeLinear:output:0"] == "a weight that is kept in 8 bits"
    assert pairing.right_total == len(INT8_NODES) - 1


@pytest.mark.parametrize(("fed_by", "is_paired"), [(0, False), (1, True)])
def test_whole_numbers_that_a_node_passes_on_pair_with_nothing(fed_by: int, is_paired: bool) -> None:
    nodes = (("x_QuantizeLinear", "DynamicQuantizeLinear"), ("pool", "MaxPool"), ("flat", "Flatten"))
    # The second output of a quantisation is its scale, and what that is multiplied by is no whole number.
    pairing = pair_dumps(_chain(*nodes, slot=fed_by), _chain(("pool", "MaxPool"), ("flat", "Flatten")))
    assert bool(pairing.pairs) == is_paired


def test_of_a_convolution_of_whole_numbers_what_is_dequantised_pairs() -> None:
    nodes = (
        ("x_QuantizeLinear", "QuantizeLinear"),
        ("c_quant", "QLinearConv"),
        ("c_DequantizeLinear", "DequantizeLinear"),
    )
    pairing = pair_dumps(_chain(*nodes), _chain(("b", "Relu"), ("c", "Conv")))
    assert _names(pairing, "left") == {"c_DequantizeLinear": "c"}
    assert not pair_dumps(_chain(*nodes[:1], ("c", "QLinearConv")), _chain(("b", "Relu"), ("c", "Conv"))).pairs


def _graph(*nodes: tuple[str, str, str | None]) -> Dump:
    """Nodes with what each is fed by."""
    operators = [Operator(name, kind, at, (Edge(fed, 0),) if fed else ()) for at, (name, kind, fed) in enumerate(nodes)]
    made = dump(*(tensor(name, op_type=kind) for name, kind, _ in nodes))
    return replace(made, graphs=((Coordinates(), OperatorGraph(tuple(operators), is_recorded=True)),))


ROUNDED = (("q", "QuantizeLinear", "c"), ("d", "DequantizeLinear", "q"), ("p", "MaxPool", "d"))


@pytest.mark.parametrize(
    ("exact", "partner"),
    [
        ((("c", "Conv", None), ("r", "Relu", "c"), ("p", "MaxPool", "r")), "r"),
        ((("c", "Conv", None), ("r", "Relu", "c"), ("s", "Clip", "r"), ("p", "MaxPool", "s")), "s"),
        # What feeds the layer behind comes from elsewhere, or the layer behind is not the same.
        ((("c", "Conv", None), ("b", "Conv", None), ("r", "Relu", "b"), ("p", "MaxPool", "r")), None),
        ((("c", "Conv", None), ("r", "Relu", "c"), ("o", "MaxPool", "r")), None),
    ],
)
def test_edges_say_what_was_dequantised_whatever_the_quantiser_calls_it(exact: tuple, partner: str | None) -> None:
    for pairing, side in _both_ways(_graph(("c", "Conv", None), *ROUNDED), _graph(*exact)):
        assert _names(pairing, side).get("d") == partner


def test_edges_do_not_pair_what_is_rounded_a_second_time() -> None:
    pairing = pair_dumps(_graph(("c", "Conv", None), *ROUNDED), _graph(("c", "Conv", None), ("p", "MaxPool", "c")))
    assert _names(pairing, "left") == {"c": "c", "p": "p"}
    assert reasons(pairing)["d:output:0"].startswith("the same value rounded")


def test_two_models_in_8_bits_pair_by_their_names() -> None:
    pairing = pair_dumps(_chain(*INT8_NODES), _chain(*INT8_NODES))
    assert len(pairing.pairs) == len(INT8_NODES)


def test_an_entry_says_otherwise() -> None:
    entry = MapEntry("a_Add_output_0", "a_Add_output_0")
    pairing = pair_dumps(_tensors(*INT8_TENSORS), _tensors(*FLOAT_TENSORS), entries=[entry])
    assert ("a_Add_output_0:output:0", "a_Add_output_0:output:0", "mapped") in addresses(pairing)
    assert _names(pairing, "left")["r_Relu_output_0_DequantizeLinear_Output"] == "r_Relu_output_0"
