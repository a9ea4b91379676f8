"""What a tensor is called: its operator's name, and the type before it where names alone are not enough."""

from __future__ import annotations

import pytest

from pytest_msdump.core.model.tensor import OpKey, TensorKey


@pytest.mark.parametrize(
    ("op", "address", "typed"),
    [
        (OpKey("conv1", op_type="Conv2D"), "conv1:output:1", "Conv2D.conv1:output:1"),
        (OpKey("a_conv1", op_type="Conv2D", true_name="a/conv1"), "a/conv1:output:1", "Conv2D.a/conv1:output:1"),
        (OpKey("conv1"), "conv1:output:1", "conv1:output:1"),
    ],
)
def test_a_tensor_is_called_by_its_operator_and_with_the_type_where_it_is_known(op, address, typed):
    key = TensorKey(op, "output", 1)
    assert (key.address, key.typed_address) == (address, typed)
