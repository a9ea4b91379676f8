"""What a tensor is to the checks."""

import pytest

from pytest_msdump.capabilities.inspect.checks import is_training, is_weight
from pytest_msdump.core.model.tensor import OpKey


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("conv1.weight", True),
        ("conv1_weight", True),
        ("weight", True),
        ("backbone.bn1.gamma", True),
        ("bn1_beta", True),
        ("embedding.embedding_table", True),
        ("fc1.bias", True),
        ("moments.fc1.bias", False),
        ("moments_fc1_bias", False),
        ("accum.fc1.weight", False),
        ("moment1.fc1.weight", False),
        ("accumulator.weight", True),
        ("learning_rate", False),
        ("global_step", False),
        ("inputs0", False),
        ("x", False),
        ("beta1_power", False),
        ("bn1.moving_mean", False),
        ("overweight", False),
    ],
)
def test_weights_are_told_from_inputs_and_optimizer_states(name, weight):
    assert is_weight(OpKey(name, op_type="Parameter")) is weight
    assert not is_weight(OpKey(name, op_type="Mul"))


def test_a_run_trains_when_it_has_gradients_or_an_optimizer():
    assert is_training([("Default/conv1", "Conv2D"), ("Gradients/Default/conv1", "Conv2DBackpropInput")])
    assert is_training([("Default/optimizer/ApplyMomentum-op0", "ApplyMomentum")])
    assert is_training([("Default/AdamWeightDecay-op0", "AdamWeightDecay")])
    assert not is_training([("Default/conv1", "Conv2D"), ("x", None)])
