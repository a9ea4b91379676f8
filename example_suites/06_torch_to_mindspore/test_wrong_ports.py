"""Three ports with a mistake each, caught at the operator where the mistake is, not where it shows."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("mindspore")

from test_port import (
    BLOCK_NAMES,
    CNN,
    GRADIENT_NAMES,
    IMAGES,
    TOKENS,
    Block,
    TorchBlock,
    TorchCNN,
    TorchTraining,
    Training,
    carry,
    run_both,
    seeded,
    train_both,
)

from pytest_msdump import assert_dumps_close


def cause(operator):
    """What the gate says first of the operator that has the mistake."""
    return rf"tensors fail; cause {operator}\b"


def test_the_epsilon_of_mindspores_layer_norm_is_caught_at_the_first_norm(msdump_recorder):
    # 1e-7 is what nn.LayerNorm of MindSpore has when nobody says anything; PyTorch has 1e-5.
    reference, port = seeded(TorchBlock), Block(epsilon=1e-7)
    carry(port, reference, BLOCK_NAMES)
    left, right = run_both(msdump_recorder, port, reference, TOKENS)
    with pytest.raises(AssertionError, match=cause("norm1")):
        assert_dumps_close(left, right, map={**BLOCK_NAMES, "Block": "TorchBlock"})


def test_the_padding_mode_is_caught_at_the_convolution_that_has_a_stride(msdump_recorder):
    # "same" gives the same shape, and pads an even image on the right and at the bottom only.
    reference, port = seeded(TorchCNN), CNN(pad_mode="same")
    carry(port, reference)
    left, right = run_both(msdump_recorder, port, reference, IMAGES)
    with pytest.raises(AssertionError, match=cause("conv2")):
        assert_dumps_close(left, right, map={"CNN": "TorchCNN"})


def test_the_reduction_of_the_loss_is_caught_at_the_loss_and_not_at_a_gradient(msdump_recorder):
    # Every gradient is four times too large, and every layer of the network is right.
    reference, port = TorchTraining(seeded(TorchCNN)), Training(CNN(), reduction="sum")
    carry(port, reference)
    left, right = train_both(msdump_recorder, port, reference)
    with pytest.raises(AssertionError, match=cause("loss")) as caught:
        assert_dumps_close(left, right, map=GRADIENT_NAMES)
    # The nine layers before the loss, and the gradients of it that are 1 by definition.
    assert "37 tensors: 11 pass, 26 fail" in str(caught.value)
