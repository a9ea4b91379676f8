"""``msdump port`` runs real frameworks and finds the mistake. Needs PyTorch, ONNX Runtime and Keras."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from pytest_msdump import cli

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.live

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.conv, self.act, self.fc = nn.Conv2d(3, 4, 3), act, nn.Linear(4 * 36, 5)

    def forward(self, images, scale):
        return self.fc((self.act(self.conv(images)) * scale).flatten(1))

def build():
    torch.manual_seed(0)
    return Net(nn.GELU()), {"scale": torch.tensor([2.0]), "images": torch.randn(2, 3, 8, 8)}

def approximate():
    torch.manual_seed(0)
    return Net(nn.GELU(approximate="tanh"))
"""
KERAS = """
import keras

def build(activation="gelu"):
    keras.utils.set_random_seed(0)
    images = keras.Input((8,), name="features")
    hidden = keras.layers.Dense(6, activation=activation, name="first")(images)
    return keras.Model(images, keras.layers.Dense(2, name="second")(hidden))

def wrong():
    return build("relu")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET, "utf-8")
    (tmp_path / "kn.py").write_text(KERAS, "utf-8")
    found: dict[str, object] = {}
    exec(NET, found)
    _, inputs = found["build"]()
    for name in ("build", "approximate"):
        made = found[name]()
        model = made[0] if isinstance(made, tuple) else made
        args = (inputs["images"], inputs["scale"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own
            torch.onnx.export(model.eval(), args, f"{name}.onnx", input_names=["images", "scale"], dynamo=True)
    return tmp_path


def test_pytorch_against_its_export_passes_and_a_wrong_activation_is_the_cause(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["port", "--torch", "net.py:build", "--onnx", "build.onnx"]) == 0, capsys.readouterr().out
    assert cli.main(["port", "--torch", "net.py:build", "--onnx", "approximate.onnx"]) == 1
    results = json.loads((folder / "msdump-report/results.json").read_text("utf-8"))
    causes = [one["right"]["address"] for one in results["tensors"] if one.get("role") == "cause"]
    assert causes == ["act:output:0"]
    # The model that returns no inputs is given those that the other returns, by their names.
    assert cli.main(["port", "--torch", "net.py:approximate", "--torch", "net.py:build"]) == 1
    assert "GELU by tanh" in capsys.readouterr().out


def test_two_files_run_on_inputs_that_they_declare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["port", "--onnx", "build.onnx", "--onnx", "build.onnx"]) == 0
    assert "drawn for build.onnx: images float32 (2, 3, 8, 8), scale float32 (1,)" in capsys.readouterr().out
    assert cli.main(["port", "--onnx", "approximate.onnx", "--onnx", "build.onnx"]) == 1
    (folder / "damaged.onnx").write_bytes((folder / "build.onnx").read_bytes()[:200])
    capsys.readouterr()
    assert cli.main(["port", "--onnx", "damaged.onnx", "--onnx", "build.onnx"]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.usefixtures("folder")
def test_keras_runs_on_inputs_that_it_declares(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorflow")
    assert cli.main(["port", "--keras", "kn.py:build", "--keras", "kn.py:build"]) == 0
    assert "features float32 (2, 8)" in capsys.readouterr().out
    assert cli.main(["port", "--keras", "kn.py:wrong", "--keras", "kn.py:build"]) == 1
