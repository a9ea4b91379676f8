"""TensorFlow against MindSpore: the reference was made once by TensorFlow and is kept; MindSpore runs here."""

import os
from importlib.util import find_spec
from pathlib import Path

import network
import pytest

from pytest_msdump import assert_dumps_close
from pytest_msdump.record import Recorder

HERE = Path(__file__).parent
# MindSpore may be installed elsewhere: the script runs in a process of its own.
PYTHON = os.environ.get("MSDUMP_MINDSPORE_PYTHON")

# What MindSpore made of a layer → the layer.
OPERATORS = {
    "Default/conv1-Conv2d/BiasAdd-op0": "conv1",
    "Default/bn1-BatchNorm2d/BatchNorm-op0": "bn1",
    "Default/relu1-ReLU/ReLU-op0": "relu1",
    "Default/conv2-Conv2d/BiasAdd-op0": "conv2",
    "Default/relu2-ReLU/ReLU-op0": "relu2",
    "Default/pool-MaxPool2d/MaxPool-op0": "pool",
    "Default/fc-Dense/BiasAdd-op0": "fc",
}


def record_tensorflow(folder: Path) -> None:
    with Recorder(folder).keras(
        network.tensorflow_network(), directory=folder, exclude=["net", "flatten"]
    ) as recording:
        recording.model(network.image())


@pytest.fixture
def reference(msdump_reference) -> Path:
    """Made again by `pytest --msdump-generate`, and whenever the network, the weights or the image change."""
    depends_on = [network.tensorflow_network, network.EPSILON, network.weights(), network.image()]
    return msdump_reference("tensorflow", record_tensorflow, key=depends_on, directory=HERE / "references")


@pytest.mark.skipif(not (PYTHON or find_spec("mindspore")), reason="MindSpore is not installed")
def test_the_port_computes_what_the_original_does(msdump_recorder, reference, tmp_path):
    msdump_recorder.mindspore(HERE / "mindspore_network.py", directory=tmp_path / "run", python=PYTHON)
    assert_dumps_close(
        tmp_path / "run", reference, map=OPERATORS, right_format="NHWC", profile="strict", min_coverage=1.0
    )


def test_the_kept_reference_is_that_of_this_network(reference):
    assert len(list(reference.glob("*.npy"))) == len(OPERATORS)
