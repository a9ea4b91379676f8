"""TensorFlow (NHWC) against ONNX Runtime (NCHW): both run here, are recorded, and are compared layer by layer."""

from pathlib import Path
from typing import Any

import pytest
from network import image, onnx_network, tensorflow_network

from pytest_msdump import assert_dumps_close

pytest.importorskip("tensorflow")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture
def reference(msdump_recorder) -> Path:
    with msdump_recorder.keras(tensorflow_network(), exclude="net") as recording:
        recording.model(image())
    return recording.directory


def ported(recorder, **mistake: Any) -> Path:
    with recorder.onnx(onnx_network(**mistake)) as recording:
        recording.run(None, {"image": image().transpose(0, 3, 1, 2)})
    return recording.directory


def test_the_port_computes_what_the_original_does(msdump_recorder, reference):
    assert_dumps_close(ported(msdump_recorder), reference, right_format="NHWC", profile="strict", min_coverage=1.0)


@pytest.mark.parametrize(
    ("mistake", "first"),
    [
        # PyTorch's epsilon, where Keras has another.
        ({"epsilon": 1e-5}, "bn1"),
        # Padding on all sides, where TensorFlow pads at the end.
        ({"pads": (1, 1, 0, 0)}, "conv2"),
        # The matrix expects channels last.
        ({"channels_last": False}, "flatten"),
    ],
    ids=["epsilon", "padding", "flatten"],
)
def test_a_wrong_port_is_caught_where_it_starts(msdump_recorder, reference, mistake, first):
    wrong = ported(msdump_recorder, **mistake)
    with pytest.raises(AssertionError, match=rf"tensors fail; cause {first}\b"):
        assert_dumps_close(wrong, reference, right_format="NHWC")
