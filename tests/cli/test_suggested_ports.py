"""A suite that `msdump init` writes for a wrong port is not green, and for a right one it passes."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pytest_msdump.cli import main

Array = npt.NDArray[np.float32]

# A value → its names in two programs, and what both call its type.
NAMES = {
    "embed": ("model.embed_tokens", "tok_embeddings", "Embedding", "Gather"),
    "q": ("model.layers.{i}.self_attn.q_proj", "blocks.{i}.attention.wq", "Linear", "Gemm"),
    "k": ("model.layers.{i}.self_attn.k_proj", "blocks.{i}.attention.wk", "Linear", "Gemm"),
    "v": ("model.layers.{i}.self_attn.v_proj", "blocks.{i}.attention.wv", "Linear", "Gemm"),
    "o": ("model.layers.{i}.self_attn.o_proj", "blocks.{i}.attention.wo", "Linear", "Gemm"),
    "gate": ("model.layers.{i}.mlp.gate_proj", "blocks.{i}.ffn.w1", "Linear", "Gemm"),
    "up": ("model.layers.{i}.mlp.up_proj", "blocks.{i}.ffn.w3", "Linear", "Gemm"),
    "down": ("model.layers.{i}.mlp.down_proj", "blocks.{i}.ffn.w2", "Linear", "Gemm"),
    "norm": ("model.norm", "final_ln", "LayerNorm", "LayerNormalization"),
    "start": ("qa.start_logits", "head_start", "Linear", "Gemm"),
    "end": ("qa.end_logits", "head_end", "Linear", "Gemm"),
    "real": ("spectrum.real", "spec_re", "Linear", "Gemm"),
    "imag": ("spectrum.imag", "spec_im", "Linear", "Gemm"),
    "mean": ("posterior.mean", "post_mu", "Linear", "Gemm"),
    "var": ("posterior.variance", "post_var", "Linear", "Gemm"),
    "hidden": ("rnn.hidden_state", "lstm_h", "Linear", "Gemm"),
    "cell": ("rnn.cell_state", "lstm_c", "Linear", "Gemm"),
}
SIBLINGS = [
    ("start", "end"),
    ("real", "imag"),
    ("mean", "var"),
    ("hidden", "cell"),
    ("q", "k"),
    ("k", "v"),
    ("gate", "up"),
]
STYLES = ("names", "types", "counters", "types and counters")
Values = dict[tuple[str, int], Array]


def network(draw: np.random.Generator, layers: int = 2, wrong: tuple[str, int] | None = None) -> Values:
    """Return what each operator gives; of `wrong` and what follows it, other values than those of a right one."""
    weights = np.random.default_rng(draw.integers(2**31))
    found: Values = {}

    def put(name: str, number: int, values: Array) -> Array:
        if (name, number) == wrong:
            values = values + np.float32(0.3) * np.roll(values, 1, axis=-1)
        found[name, number] = values.astype(np.float32)
        return found[name, number]

    def linear(name: str, number: int, values: Array, wide: int) -> Array:
        weight = weights.standard_normal((values.shape[-1], wide)) / np.sqrt(values.shape[-1])
        return put(name, number, (values @ weight).astype(np.float32))

    stream = put("embed", 0, weights.standard_normal((6, 16)).astype(np.float32))
    for number in range(layers):
        q, k, v = (linear(name, number, stream, 16) for name in "qkv")
        scores = np.exp(q @ k.T / 4 - (q @ k.T / 4).max())
        stream = stream + linear("o", number, (scores / scores.sum(1, keepdims=True)) @ v, 16)
        gate, up = (linear(name, number, stream, 40) for name in ("gate", "up"))
        stream = stream + linear("down", number, gate / (1 + np.exp(-gate)) * up, 16)
    stream = put("norm", 0, (stream - stream.mean(1, keepdims=True)) / stream.std(1, keepdims=True))
    for pair, wide in zip(SIBLINGS[:4], (12, 20, 24, 28), strict=True):
        for name in pair:
            linear(name, 0, stream, wide)
    return found


def write(folder: str, values: Values, *, side: int, style: str, chosen: list[tuple[str, int]]) -> None:
    Path(folder).mkdir()
    tensors: dict[str, object] = {}
    for place, (name, number) in enumerate(chosen):
        op = NAMES[name][side].format(i=number)
        op_type = NAMES[name][2 + side]
        if side == 1 and "counters" in style:
            op = f"node_{op_type}_{place}"
        file = f"{op.replace('.', '_')}.0.{1_700_000_000_000_000 + place}.npy"
        np.save(Path(folder) / file, values[name, number])
        tensors[file] = {"op": op, **({"op_type": op_type} if "types" in style else {})}
    framework = ("torch", "onnxruntime")[side]
    manifest = {"schema_version": 1, "framework": framework, "complete": True, "tensors": tensors}
    (Path(folder) / "msdump.json").write_text(json.dumps(manifest), "utf-8")


def verdict(seed: int, mistake: str, folder: Path) -> tuple[int, str]:
    """Return the exit code of the suite that is written for a reference and its port, and what they are."""
    folder.mkdir()
    os.chdir(folder)
    dice, draw = random.Random(seed), np.random.default_rng(seed)
    style = STYLES[seed % len(STYLES)]
    state = draw.bit_generator.state
    reference = network(draw)
    chosen = list(reference)
    wrong, swapped = None, None
    if mistake == "first layer":
        wrong = ("embed", 0)
    elif mistake == "one layer":
        wrong = dice.choice([one for one in chosen if one[0] != "embed"])
    elif mistake == "swapped":
        swapped = dice.choice(SIBLINGS)
    draw.bit_generator.state = state
    port = network(draw, wrong=wrong)
    noise = np.random.default_rng(seed + 1)
    port = {key: values * (1 + np.float32(1e-6) * noise.standard_normal(values.shape)) for key, values in port.items()}
    port = {key: values.astype(np.float32) for key, values in port.items()}
    if swapped is not None:
        number = dice.randrange(2) if (swapped[0], 1) in port else 0
        one, other = ((name, number) for name in swapped)
        port[one], port[other] = port[other], port[one]
    write("ref", reference, side=0, style=style, chosen=chosen)
    if mistake == "partial":
        chosen = [one for one in chosen if dice.random() < 0.8 or one[0] == "end"]
    elif mistake == "other order":
        # As a runtime does that is free to: siblings depend on nothing of each other.
        for pair in dice.sample(SIBLINGS, 2):
            places = [chosen.index((name, 0)) for name in pair]
            chosen[places[0]], chosen[places[1]] = chosen[places[1]], chosen[places[0]]
        if "counters" in style:
            style = style.replace("counters", "names")
    write("run", port, side=1, style=style, chosen=chosen)
    assert main(["init", "run", "ref", "--quiet"]) in (0, 1)
    what = f"{seed} {style} {mistake} wrong={wrong} swapped={swapped}"
    return main(["compare", "--config", "msdump.toml", "--quiet"]), what


WRONG = ("swapped", "first layer", "one layer")
RIGHT = ("right", "partial", "other order")


@pytest.mark.parametrize("mistake", [*WRONG, *RIGHT])
def test_suites_of_wrong_ports_are_not_green_and_of_right_ones_they_are(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = [verdict(seed, mistake, tmp_path / str(seed)) for seed in range(int(os.environ.get("MSDUMP_PORTS", "4")))]
    expected = 1 if mistake in WRONG else 0
    assert [what for code, what in found if code != expected] == []
