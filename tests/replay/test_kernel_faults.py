"""A kernel that computes wrongly is accused, and it alone, although what follows it is wrong, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from operator_networks import (
    Array,
    Fault,
    conv,
    conv_filter,
    cut_mantissa,
    full,
    layer_norm,
    network,
    single,
    softmax,
    windows,
)
from scipy.special import erf

from pytest_msdump.capabilities.kernels.again import replay
from pytest_msdump.core.compare.opening import index

Inputs = Sequence[Array]
SEEDS = range(3)


def element(change: Any) -> Fault:
    """One element in the middle is changed."""

    def fault(_: Inputs, y: Array) -> Array:
        y = y.copy()
        y.flat[y.size // 2] = change(y.flat[y.size // 2])
        return y

    return fault


def swapped(axis: int) -> Fault:
    def fault(_: Inputs, y: Array) -> Array:
        order = np.arange(y.shape[axis])
        order[:2] = 1, 0
        return np.take(y, order, axis)

    return fault


def unbiased_layer_norm(i: Inputs, _: Array) -> Array:
    x, gamma, beta = i
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + 1e-5) * gamma + beta


def half_sums(i: Inputs, _: Array) -> Array:
    total = np.zeros((i[0].shape[0], i[1].shape[1]), np.float16)
    for k in range(i[0].shape[1]):
        total = total + (i[0][:, k : k + 1] * i[1][k : k + 1]).astype(np.float16)
    return total


def without_last(i: Inputs, y: Array) -> Array:
    return y - np.asarray(i[0])[-1] if y.ndim == 1 else y


def zero_tile(_: Inputs, y: Array) -> Array:
    y = y.copy()
    y[:2, :2] = 0
    return y


def norm_eps(i: Inputs, _: Array) -> Array:
    x, g, b, m, v = (one if one.ndim > 1 else one[:, None, None] for one in i)
    return (x - m) / np.sqrt(v + 1e-3) * g + b


FAULTS: dict[str, tuple[str, Fault]] = {
    "convolution in TF32": ("conv", lambda i, _: conv(cut_mantissa(i[0], 10), cut_mantissa(i[1], 10))),
    "convolution in bfloat16": ("conv", lambda i, _: conv(cut_mantissa(i[0], 7), cut_mantissa(i[1], 7))),
    "convolution shifted by one": ("conv", lambda i, _: conv(np.roll(i[0], 1, 3), i[1])),
    "convolution without a channel": ("conv", lambda i, _: conv(i[0] * single([1, 1, 0])[:, None, None], i[1])),
    "convolution, kernel turned": ("conv", lambda i, _: conv(i[0], i[1][..., ::-1])),
    "bias left out of the last channel": (
        "bias_add",
        lambda i, y: y - i[1][:, None, None] * (np.arange(8) == 7)[:, None, None],
    ),
    "bias added twice": ("dense_bias", lambda i, y: y + i[1]),
    "batch norm, other epsilon": ("norm", norm_eps),
    "batch norm, neighbour's scale": ("norm", swapped(1)),
    "ReLU lets a little through": ("relu", lambda i, y: np.where(i[0] > 0, y, i[0] * 1e-6)),
    "ReLU of one element": ("relu", element(lambda v: v - 1e-6)),
    "max pooling, window shifted": ("pool", lambda i, _: windows(np.roll(i[0], 1, 2)).max((-1, -2))),
    "mean pooling divides by 3": ("average_pool", lambda _, y: y * 4 / 3),
    "sum of saturated numbers": ("both", lambda _, y: np.clip(y, -1, 1)),
    "view out of order": ("flat", swapped(1)),
    "product in TF32": ("dense_product", lambda i, _: cut_mantissa(i[0], 10) @ cut_mantissa(i[1], 10)),
    "product in bfloat16": ("dense_product", lambda i, _: cut_mantissa(i[0], 7) @ cut_mantissa(i[1], 7)),
    "product added up in half precision": ("dense_product", half_sums),
    "product without the last term": ("dense_product", lambda i, _: i[0][:, :-1] @ i[1][:-1]),
    "product, rows swapped": ("dense_product", swapped(0)),
    "product, tile left at 0": ("dense_product", zero_tile),
    "product, a bit flipped": ("dense_product", element(lambda v: v * 2)),
    "product, a NaN": ("dense_product", element(lambda _: np.nan)),
    "product, an infinity": ("mixed", element(lambda _: np.inf)),
    "layer norm, other epsilon": ("layer_norm", lambda i, _: layer_norm(*i, eps=1e-3)),
    "layer norm, unbiased variance": ("layer_norm", unbiased_layer_norm),
    "GELU by erf": ("gelu", lambda i, _: 0.5 * i[0] * (1 + erf(i[0] / np.sqrt(2)))),
    "GELU in half precision": ("gelu", lambda _, y: y.astype(np.float16)),
    "embedding, neighbour's row": ("embedded", lambda i, _: i[0][(i[1] + (np.arange(4) == 2)) % 20]),
    "factor in bfloat16": ("scaled", lambda i, _: cut_mantissa(i[0], 7) * cut_mantissa(i[1], 7)),
    "not turned": ("turned", lambda i, _: i[0].reshape(64, 4)),
    "softmax of rows in half precision": ("attention", lambda i, _: softmax(i[0].astype(np.float16))),
    "softmax over the other axis": ("attention", lambda i, _: softmax(i[0].T).T),
    "parts swapped": ("joined", lambda i, _: np.concatenate([i[1], i[0]], 1)),
    "slice off by one": ("cut", lambda i, _: i[0][:, 33:97]),
    "exp in half precision": ("exp", lambda _, y: y.astype(np.float16)),
    "root by a table": ("root", lambda _, y: cut_mantissa(y, 14)),
    "division by a table": ("ratio", lambda _, y: cut_mantissa(y, 14)),
    "logarithm of base 2": ("log", lambda _, y: y / np.log(2)),
    "sigmoid, hard": ("gate", lambda i, _: np.clip(i[0] / 6 + 0.5, 0, 1)),
    "mean over one less": ("rows", lambda _, y: y * 64 / 63),
    "sum without the last row": ("columns", without_last),
    "largest, off by one unit": ("highest", lambda _, y: np.nextafter(y, single(9))),
    "cast cuts off": ("half", lambda i, _: np.nextafter(i[0].astype(np.float16), np.float16(0))),
    "gradient of sigmoid without a factor": ("gate_grad", lambda i, _: i[1] * i[0]),
    "gradient of bias without the last row": ("bias_grad", without_last),
    "gradient of weights averaged": ("weight_grad", lambda _, y: y / 4),
    "gradient of ReLU everywhere": ("relu_grad", lambda i, _: i[0]),
    "gradient of a kernel without a sample": (
        "kernel_grad",
        lambda i, y: y - conv_filter(i[0][-1:], i[1][-1:]),
    ),
    "log of softmax without the largest": ("log_softmax", lambda i, y: y + i[0].max(1, keepdims=True) * 1e-3),
}


@pytest.mark.parametrize("inputs", [True, False], ids=["with inputs", "outputs alone"])
@pytest.mark.parametrize("seed", SEEDS)
def test_sound_kernels_are_not_accused(seed: int, inputs: bool, tmp_path: Path) -> None:
    net = network(seed)
    net.dump(tmp_path, inputs=inputs)
    found = replay(index(tmp_path))
    assert [(one.op.label, one.score) for one in found.accused] == []
    assert [(one.op.label, one.why) for one in found.refused] == []
    assert found.calls == len(net.steps)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.full
def test_a_wrong_kernel_is_accused_alone(name: str, tmp_path: Path) -> None:
    op, fault = FAULTS[name]
    for seed in SEEDS:
        for inputs in (True, False):
            root = tmp_path / f"{seed} {inputs}"
            network(seed).dump(root, {op: fault}, inputs=inputs)
            assert {one.op.label for one in replay(index(root)).accused} == {full(op)}, (seed, inputs)
