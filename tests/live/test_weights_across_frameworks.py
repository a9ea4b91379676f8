"""Weights carried between layers of PyTorch, MindSpore and Keras: the layers then compute the same.

Runs where these frameworks are installed side by side, as `.ci/run live` does it.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import assert_same_weights, load_weights, read_weights, save_weights

pytestmark = [
    pytest.mark.live,
    # What frameworks warn of when they are imported is theirs.
    pytest.mark.filterwarnings("ignore"),
]
both = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("mindspore")), reason="PyTorch and MindSpore are not installed side by side"
)
with_keras = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("keras")), reason="PyTorch and Keras are not installed side by side"
)

# Square wherever a layer can be, so that only its type tells how its axes lie.
LINES, IMAGES, VOLUMES = (2, 3, 8), (2, 3, 8, 8), (2, 3, 5, 5, 5)


def torch_layer(text: str) -> Any:
    """A layer of PyTorch whose weights are all different and far from what layers begin with."""
    import torch

    layer = eval(text, {"nn": torch.nn})
    drawn = np.random.default_rng(7)
    with torch.no_grad():
        for held in [*layer.parameters(), *(buffer for buffer in layer.buffers() if buffer.dim())]:
            held.copy_(torch.from_numpy(drawn.uniform(0.5, 1.5, held.shape).astype("f4")))
    return layer.eval()


def torch_says(layer: Any, x: Any) -> Any:
    import torch

    return layer(torch.from_numpy(x)).detach().numpy()


def given(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(8).standard_normal(shape).astype("f4")


@both
@pytest.mark.parametrize(
    ("torch_text", "mindspore_text", "shape"),
    [
        ("nn.Linear(4, 4)", "nn.Dense(4, 4)", (2, 4)),
        ("nn.Conv1d(3, 3, 3)", "nn.Conv1d(3, 3, 3, pad_mode='valid', has_bias=True)", LINES),
        ("nn.Conv2d(3, 3, 3)", "nn.Conv2d(3, 3, 3, pad_mode='valid', has_bias=True)", IMAGES),
        ("nn.Conv2d(3, 6, 3, groups=3)", "nn.Conv2d(3, 6, 3, group=3, pad_mode='valid', has_bias=True)", IMAGES),
        ("nn.Conv3d(3, 3, 2)", "nn.Conv3d(3, 3, 2, pad_mode='valid', has_bias=True)", VOLUMES),
        ("nn.ConvTranspose1d(3, 3, 3)", "nn.Conv1dTranspose(3, 3, 3, pad_mode='valid', has_bias=True)", LINES),
        ("nn.ConvTranspose2d(3, 3, 3)", "nn.Conv2dTranspose(3, 3, 3, pad_mode='valid', has_bias=True)", IMAGES),
        ("nn.BatchNorm2d(3)", "nn.BatchNorm2d(3)", IMAGES),
        ("nn.LayerNorm(8)", "nn.LayerNorm((8,), epsilon=1e-5)", LINES),
        ("nn.GroupNorm(1, 3)", "nn.GroupNorm(1, 3)", IMAGES),
        ("nn.PReLU(3)", "nn.PReLU(3)", IMAGES),
    ],
)
def test_a_layer_of_mindspore_computes_what_that_of_pytorch_does(
    torch_text: str, mindspore_text: str, shape: tuple[int, ...]
) -> None:
    import mindspore

    reference = torch_layer(torch_text)
    port = eval(mindspore_text, {"nn": mindspore.nn}).set_train(False)
    load_weights(port, reference)
    assert_same_weights(port, reference)
    x = given(shape)
    np.testing.assert_allclose(port(mindspore.Tensor(x)).asnumpy(), torch_says(reference, x), rtol=1e-4, atol=1e-4)


@both
def test_an_embedding_of_mindspore_holds_what_that_of_pytorch_does() -> None:
    import mindspore
    import torch

    reference, port = torch_layer("nn.Embedding(5, 5)"), mindspore.nn.Embedding(5, 5)
    load_weights(port, reference)
    np.testing.assert_array_equal(port.embedding_table.asnumpy(), reference.weight.detach().numpy())
    back = torch.nn.Embedding(5, 5)
    load_weights(back, port)
    assert torch.equal(back.weight, reference.weight)


@with_keras
@pytest.mark.parametrize(
    ("torch_text", "keras_text", "shape"),
    [
        ("nn.Linear(4, 4)", "Dense(4)", (2, 4)),
        ("nn.Conv1d(3, 3, 3)", "Conv1D(3, 3)", LINES),
        ("nn.Conv2d(3, 3, 3)", "Conv2D(3, 3)", IMAGES),
        ("nn.Conv2d(3, 6, 3, groups=3)", "Conv2D(6, 3, groups=3)", IMAGES),
        ("nn.Conv2d(3, 6, 3, groups=3)", "DepthwiseConv2D(3, depth_multiplier=2)", IMAGES),
        ("nn.Conv1d(3, 6, 3, groups=3)", "DepthwiseConv1D(3, depth_multiplier=2)", LINES),
        ("nn.Conv3d(3, 3, 2)", "Conv3D(3, 2)", VOLUMES),
        ("nn.ConvTranspose1d(3, 3, 3)", "Conv1DTranspose(3, 3)", LINES),
        ("nn.ConvTranspose2d(3, 3, 3)", "Conv2DTranspose(3, 3)", IMAGES),
        ("nn.ConvTranspose3d(3, 3, 2)", "Conv3DTranspose(3, 2)", VOLUMES),
        ("nn.BatchNorm2d(3)", "BatchNormalization(epsilon=1e-5)", IMAGES),
        ("nn.GroupNorm(1, 3)", "GroupNormalization(1, epsilon=1e-5)", IMAGES),
    ],
)
def test_a_layer_of_keras_computes_what_that_of_pytorch_does(
    torch_text: str, keras_text: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    keras = import_keras(monkeypatch)
    reference = torch_layer(torch_text)
    port = keras.Sequential([eval(f"layers.{keras_text}", {"layers": keras.layers})])
    x = given(shape)
    last = np.moveaxis(x, 1, -1)
    port(last)
    names = {port.layers[0].name: ""}
    load_weights(port, reference, map=names)
    assert_same_weights(port, reference, map=names)
    computed = keras.ops.convert_to_numpy(port(last))
    np.testing.assert_allclose(np.moveaxis(computed, -1, 1), torch_says(reference, x), rtol=1e-4, atol=1e-4)


def import_keras(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keras on whatever backend is here."""
    if not find_spec("tensorflow") and "KERAS_BACKEND" not in os.environ:
        monkeypatch.setenv("KERAS_BACKEND", "torch")
    import keras

    return keras


@both
def test_bfloat16_goes_by_a_file_and_keeps_every_bit(tmp_path: Path) -> None:
    import mindspore
    import torch

    reference = torch.nn.Linear(4, 3).to(torch.bfloat16)
    saved = save_weights(reference, tmp_path / "w.npz")
    port = mindspore.nn.Dense(4, 3)
    for held in port.get_parameters():
        held.set_dtype(mindspore.bfloat16)
    load_weights(port, saved)
    bits = reference.weight.detach().view(torch.int16).numpy().view("u2")
    np.testing.assert_array_equal(read_weights(port)["weight"].values, bits)
    np.testing.assert_array_equal(port.weight.astype(mindspore.float32).asnumpy().view("u4") >> 16, bits)
    assert_same_weights(port, reference)


@both
def test_a_model_that_one_weight_does_not_fit_keeps_all_of_its_own() -> None:
    import mindspore
    import torch

    reference = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))
    port = mindspore.nn.SequentialCell(mindspore.nn.Dense(4, 4), mindspore.nn.Dense(4, 5))
    before = port[0].weight.asnumpy().copy()
    with pytest.raises(ConfigError, match=r"1\.weight ↔ 1\.weight: the shapes \(5, 4\) and \(3, 4\)"):
        load_weights(port, reference)
    np.testing.assert_array_equal(port[0].weight.asnumpy(), before)


@both
def test_layers_that_share_a_tensor_share_it_afterwards() -> None:
    import torch

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    reference, port = Tied(), Tied()
    assert read_weights(reference)["embedding.weight"].also == ("head.weight",)
    load_weights(port, reference)
    assert torch.equal(port.head.weight, reference.embedding.weight)
    assert port.head.weight is port.embedding.weight
