"""Ten mistakes of ports in one small decoder layer, written in numpy: ``python example_suites/failures.py FOLDER``.

FOLDER gets the reference and a run for each mistake; `docs/explanation/ten_failures.md` shows what is said of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from pytest_msdump.record import DumpWriter

Array = npt.NDArray[np.float32]
BATCH, TOKENS, HEADS, WIDTH = 2, 12, 4, 8
MODEL = HEADS * WIDTH
MISTAKES = (
    "gelu_by_tanh",
    "epsilon",
    "scale",
    "softmax_axis",
    "mask",
    "rope_pairs",
    "head_order",
    "transposed",
    "residual",
    "overflow",
)


def forward(writer: DumpWriter, mistake: str = "") -> None:
    """Run the layer, with one mistake or none, and write what each operator gives out."""
    rng = np.random.default_rng(7)

    def save(name: str, values: npt.NDArray[np.floating], kind: str) -> Array:
        values = values.astype(np.float32)
        writer.write(name, values, op_type=kind)
        return values

    def linear(name: str, values: Array, width: int) -> Array:
        weight = rng.standard_normal((values.shape[-1], width), np.float32) / np.sqrt(values.shape[-1])
        wrong = mistake == "transposed" and name == "attention.o"
        return save(name, values @ (weight.T if wrong else weight), "MatMul")

    def norm(name: str, values: Array) -> Array:
        epsilon = 1e-2 if mistake == "epsilon" and name == "norm2" else 1e-5
        centred = values - values.mean(-1, keepdims=True)
        return save(name, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon), "LayerNorm")

    def heads(values: Array) -> Array:
        if mistake == "head_order":
            return values.reshape(BATCH, TOKENS, WIDTH, HEADS).transpose(0, 3, 1, 2)
        return values.reshape(BATCH, TOKENS, HEADS, WIDTH).transpose(0, 2, 1, 3)

    def rotated(name: str, values: Array) -> Array:
        angle = np.arange(TOKENS)[:, None] * 100.0 ** (-np.arange(WIDTH // 2) / (WIDTH // 2))
        cos, sin = np.cos(angle), np.sin(angle)
        turned = np.empty_like(values)
        even = np.s_[..., ::2], np.s_[..., 1::2]
        halves = np.s_[..., : WIDTH // 2], np.s_[..., WIDTH // 2 :]
        first, second = even if mistake == "rope_pairs" else halves
        turned[first] = values[first] * cos - values[second] * sin
        turned[second] = values[first] * sin + values[second] * cos
        return save(name, turned, "Rope")

    x = save("embed", 0.2 * rng.standard_normal((BATCH, TOKENS, MODEL)), "Gather")
    normed = norm("norm1", x)
    query, key, value = (linear(f"attention.{name}", normed, MODEL) for name in "qkv")
    query, key = rotated("attention.q_rope", heads(query)), rotated("attention.k_rope", heads(key))
    scores = query @ key.swapaxes(-1, -2) / (WIDTH if mistake == "scale" else np.sqrt(WIDTH))
    scores = save("attention.scores", scores, "BatchMatMul")
    hidden = np.triu(np.ones((TOKENS, TOKENS), bool), 2 if mistake == "mask" else 1)
    shifted = np.where(hidden, -np.inf, scores)
    axis = -2 if mistake == "softmax_axis" else -1
    exponent = np.exp(shifted - shifted.max(axis, keepdims=True))
    weights = save("attention.softmax", exponent / exponent.sum(axis, keepdims=True), "Softmax")
    context = (weights @ heads(value)).transpose(0, 2, 1, 3).reshape(BATCH, TOKENS, MODEL)
    out = linear("attention.o", save("attention.context", context, "BatchMatMul"), MODEL)
    x = save("add1", (0 if mistake == "residual" else x) + out, "Add")
    inner = linear("mlp.up", norm("norm2", x), 4 * MODEL)
    if mistake == "gelu_by_tanh":
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    else:
        inner = 0.5 * inner * (1 + erf(inner / np.sqrt(2)))
    if mistake == "overflow":
        # The largest number of float16 is 65504.
        inner = (inner * 3e4).astype(np.float16).astype(np.float32) / 3e4
    x = save("add2", x + linear("mlp.down", save("mlp.act", inner, "Gelu"), MODEL), "Add")
    linear("head", x, 50)


def main() -> None:
    """Write the reference, and a run for each mistake."""
    folder = Path(sys.argv[1])
    # What is Inf in one of them is NaN behind it.
    np.seterr(invalid="ignore", over="ignore")
    for name in ("", *MISTAKES):
        with DumpWriter(folder / (name or "reference"), framework="numpy", device="cpu") as writer:
            forward(writer, name)


if __name__ == "__main__":
    main()
