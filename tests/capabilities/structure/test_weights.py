"""Pairing of weights, gradients and optimizer states by what frameworks call them; weights make no containers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matching.made import addresses, dump, run_tensor, tensor

from pytest_msdump.core.matching import pair_dumps
from pytest_msdump.core.model.dump import Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates


@pytest.mark.parametrize("is_known", [True, False], ids=["with a graph", "without"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("bn1.gamma", "bn1.weight"),
        ("bn1.beta", "module.bn1.bias"),
        ("bn1.moving_mean", "bn1_running_mean"),
        ("layer1.0.bn.moving_variance", "layer1.0.bn.running_var"),
        ("emb.embedding_table", "emb.weight"),
        ("moments.bn1.gamma", "bn1.weight.momentum_buffer"),
        ("accum.fc.weight", "fc_weight_momentum_buffer"),
        ("moment1.fc.bias", "fc.bias/exp_avg"),
        ("adam_v.fc.bias", "state.fc.bias.exp_avg_sq"),
        ("moment2.down_sample.weight", "exp_avg_sq.downsample.weight"),
    ],
)
def test_weights_and_their_states_pair_by_what_every_framework_calls_them(
    ours: str, theirs: str, is_known: bool
) -> None:
    pairing = pair_dumps(dump(run_tensor(ours, op_type="Parameter", known=is_known)), dump(tensor(theirs)))
    assert [one.left.key.slot for one in pairing.pairs] == [0]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("moments.bn1.gamma", "bn1.weight"),
        ("bn1.gamma", "bn1.weight.grad"),
        ("moment1.fc.weight", "fc.weight.exp_avg_sq"),
        ("layer1_0.weight", "layer10.weight"),
        # The axes of Keras' kernels are others.
        ("fc.kernel", "fc.weight"),
    ],
)
def test_a_state_is_not_the_weight_nor_another_state(ours: str, theirs: str) -> None:
    assert not pair_dumps(dump(run_tensor(ours, op_type="Parameter")), dump(tensor(theirs))).pairs


def test_two_tensors_that_may_be_one_weight_leave_it_alone() -> None:
    left = dump(run_tensor("bn1.gamma", op_type="Parameter"))
    assert not pair_dumps(left, dump(tensor("bn1.weight"), tensor("bn1_weight"))).pairs


def _training_step(*, more: tuple[Edge, ...] = ()) -> Dump:
    """One weight, its gradient of a misleading name, weight decay, and the optimizer."""
    gradient, decay = "Gradients/Default/fc-Dense/Grad_BatchNorm/BatchNormGrad-op1", "Default/optimizer-Momentum/"
    refs = [
        run_tensor("bn1.gamma", op_type="Parameter"),
        run_tensor("moments.bn1.gamma", op_type="Parameter"),
        *(run_tensor(gradient, f"output:{slot}") for slot in range(3)),
        run_tensor(f"{decay}AddN-op0"),
        run_tensor(f"{decay}ApplyMomentum-op0"),
    ]
    gamma = Edge("bn1.gamma", 0, is_parameter=True)
    operators = (
        Operator(gradient, "BatchNormGrad"),
        Operator(f"{decay}Mul-op0", "Mul", inputs=(gamma, None)),
        Operator(f"{decay}AddN-op0", "AddN", inputs=(Edge(f"{decay}Mul-op0", 0), Edge(gradient, 1), *more)),
        Operator(
            f"{decay}ApplyMomentum-op0",
            "ApplyMomentum",
            inputs=(gamma, Edge("moments.bn1.gamma", 0, is_parameter=True), Edge(f"{decay}AddN-op0", 0)),
        ),
    )
    graph = OperatorGraph(operators, "graph.ir", is_final=True)
    return replace(dump(*refs), graphs=((Coordinates(rank=0, graph=0), graph),), reader="mindspore")


def test_a_gradient_is_what_the_graph_feeds_to_the_optimizer_of_the_weight() -> None:
    right = dump(tensor("bn1.weight"), tensor("bn1.weight.grad"), tensor("bn1.weight.momentum_buffer"))
    assert {(ours, theirs) for ours, theirs, _ in addresses(pair_dumps(_training_step(), right))} == {
        ("bn1.gamma:output:0", "bn1.weight:output:0"),
        ("Gradients/Default/fc-Dense/Grad_BatchNorm/BatchNormGrad-op1:output:1", "bn1.weight.grad:output:0"),
        ("moments.bn1.gamma:output:0", "bn1.weight.momentum_buffer:output:0"),
    }


def test_of_several_tensors_that_reach_an_optimizer_none_is_the_gradient() -> None:
    left = _training_step(more=(Edge("Default/clip-Clip/Mul-op0", 0),))
    assert not pair_dumps(left, dump(tensor("bn1.weight.grad"))).pairs


@pytest.mark.parametrize("name", ["loss", "criterion", "loss_fn"])
def test_the_loss_of_a_training_cell_is_the_loss_of_a_loop(name: str) -> None:
    left = dump(run_tensor("Default/network-WithLossCell/_loss_fn-CrossEntropyLoss/Add-op1"))
    assert [how for _, _, how in addresses(pair_dumps(left, dump(tensor(name))))] == ["structure"]


@pytest.mark.parametrize("last", [None, "Mul", "Reshape"])
def test_what_a_model_computes_after_the_last_of_the_right_is_named(last: str | None) -> None:
    """A view is no further step; an operator is one, and nothing was saved to compare it with."""
    fc, more = "Default/fc-Dense/BiasAdd-op0", f"Expand/_Muls/{last}-op0"
    operators = [Operator(fc, "BiasAdd"), *([Operator(more, last, inputs=(Edge(fc, 0),))] if last else [])]
    graph = OperatorGraph(tuple(operators), "graph.ir", is_final=True)
    left = dump(*(run_tensor(one.name, op_type=one.op_type) for one in operators))
    left = replace(left, graphs=((Coordinates(rank=0, graph=0), graph),), reader="mindspore")
    notes = pair_dumps(left, dump(tensor("fc"))).notes
    assert [more in note for note in notes] == ([True] if last == "Mul" else [])
