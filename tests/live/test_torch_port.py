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

def words():
    ids = keras.Input((40,), dtype="int32", name="ids")
    return keras.Model(ids, keras.layers.Embedding(9, 2)(ids))
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
    capsys.readouterr()
    cli.main(["port", "--keras", "kn.py:words", "--keras", "kn.py:words"])
    assert "ids int32 (2, 40) of 0 to 8" in capsys.readouterr().out


def test_ids_are_drawn_from_the_whole_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def build():\n    torch.manual_seed(0)\n    return nn.Sequential(nn.Embedding(7, 4))\n",
        "utf-8",
    )
    table = torch.nn.Sequential(torch.nn.Embedding(7, 4))
    torch.manual_seed(0)
    table[0].reset_parameters()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        table[0].weight.data[-1] += 1
        torch.onnx.export(table, (torch.zeros(6, 9, dtype=torch.int64),), "last.onnx", input_names=["ids"], dynamo=True)
    assert cli.main(["port", "--torch", "ids.py:build", "--onnx", "last.onnx"]) == 1
    printed = capsys.readouterr().out
    assert "ids int64 (6, 9) of 0 to 6" in printed
    # A model that a command calls is called by no line of the user's.
    assert "right made by" not in printed


BLOCKS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x):
        return self.blocks(x)

def build():
    torch.manual_seed(0)
    return Net(), (torch.randn(3, 8),)
"""


def test_nodes_of_an_export_are_shown_as_modules_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("blocks_net.py").write_text(BLOCKS, "utf-8")
    import blocks_net

    model, inputs = blocks_net.build()
    with torch.no_grad():
        model.blocks[1].down.weight *= 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        torch.onnx.export(model.eval(), inputs, "net.onnx", dynamo=True)
    typed = ["port", "--torch", "blocks_net.py:build", "--onnx", "net.onnx", "--keep", "kept"]
    assert cli.main(typed) == 1
    printed = capsys.readouterr().out
    assert "DRIFT  blocks.1.down:output:0 (node_linear_3)" in printed
    assert "made by blocks_net.py:11" in printed
    results = json.loads(Path("msdump-report/results.json").read_text("utf-8"))
    shown = sorted(name for name in results["left"]["shown"].values() if name.startswith("blocks.1"))
    assert shown == ["blocks.1", "blocks.1 (Gelu)", "blocks.1.down", "blocks.1.up"]
    for name in ("blocks.1.down", "node_linear_3"):
        assert cli.main(["compare", "kept/run", "kept/reference", "--select", name, "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["first_failing"]["tensor"] == "node_linear_3:output:0"
        assert (document["counts"]["pass"], document["counts"]["fail"]) == (0, 1)
