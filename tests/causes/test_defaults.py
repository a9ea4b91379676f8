"""A default that frameworks do not share is named where the values show it, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from diagnosis import trials
from docs_pages import ROOT, anchors
from numpy.random import default_rng

from pytest_msdump import assert_dumps_close
from pytest_msdump.capabilities.diagnosis.diagnose import diagnose
from pytest_msdump.capabilities.diagnosis.text import DEFAULTS
from pytest_msdump.core.compare.opening import ArrayView

X = default_rng(3).normal(size=(4, 8, 6, 10))
ROWS = default_rng(4).normal(size=(40, 64)) * default_rng(5).uniform(1e-3, 1e-2, (40, 1))
MEANS = default_rng(6).normal(size=64)
ERF = np.vectorize(__import__("math").erf)


def leaky(x, slope):
    return np.where(x < 0, slope * x, x)


def gelu(x, kind="erf"):
    inner = {"erf": ERF(x / 2**0.5), "tanh": np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))}
    return x / (1 + np.exp(-1.702 * x)) if kind == "sigmoid" else x * (1 + inner[kind]) / 2


def softmax(x, axis):
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def norm(x, epsilon, ddof=0, centre=1.0):
    return (x - centre * x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True, ddof=ddof) + epsilon)


def noisy(x, size):
    return x * (1 + size * default_rng(9).normal(size=x.shape))


# The code → what the left and the right hold, and what the operators are called.
SHOWN = {
    "LeakyReLU": ("default_slope", leaky(X, 0.2), leaky(X, 0.01), "Maximum Default/act-LeakyReLU/Maximum-op0 act"),
    "LeakyReLU after noise": ("default_slope", leaky(noisy(X, 1e-4), 0.2), leaky(X, 0.01), "leaky_relu_3"),
    "GELU": ("default_gelu", gelu(X, "tanh"), gelu(X), "GeLU Default/act-GELU/GeLU-op0 act"),
    "GELU of small values": ("default_gelu", gelu(0.3 * X, "tanh"), gelu(0.3 * X), "GELU"),
    "GELU after noise": ("default_gelu", gelu(noisy(X, 1e-5), "tanh"), gelu(X), "GELU"),
    "Softmax": ("default_softmax", softmax(X, 3), softmax(X, 1), "Softmax"),
    "Softmax of a square": ("default_softmax", softmax(X[0, :6, :, :6], 2), softmax(X[0, :6, :, :6], 0), "Softmax"),
    "LogSoftmax": ("default_softmax", np.log(softmax(X, 3)), np.log(softmax(X, 1)), "LogSoftmax"),
    "LayerNorm": ("default_epsilon", norm(ROWS, 1e-7), norm(ROWS, 1e-5), "LayerNorm"),
    "moving mean": ("default_momentum", 0.9 * MEANS, 0.1 * MEANS, "Parameter bn.moving_mean bn.running_mean"),
    "moving variance": (
        "default_momentum",
        0.1 + 0.9 * MEANS**2,
        0.9 + 0.1 * MEANS**2,
        "Parameter bn.moving_variance bn.running_var",
    ),
}
ALL_NAMES = "LeakyReLU GELU Softmax LayerNorm bn.moving_mean"
# Near to the same, and of another cause.
OTHER = {
    **{f"slope {slope}": (leaky(X, slope), leaky(X, 0.01)) for slope in (0, 0.02, 0.1, 0.19, 0.21, 0.25, 0.3, -0.2)},
    "slopes exchanged": (leaky(X, 0.01), leaky(X, 0.2)),
    "slope 0.2 on both sides, scaled": (1.01 * leaky(X, 0.2), leaky(X, 0.2)),
    "ELU": (np.where(X < 0, np.expm1(X), X), leaky(X, 0.01)),
    "absolute values": (np.abs(X), leaky(X, 0.01)),
    "no activation": (X, leaky(X, 0.01)),
    "GELU by a sigmoid": (gelu(X, "sigmoid"), gelu(X)),
    "GELU exchanged": (gelu(X), gelu(X, "tanh")),
    "SiLU": (X / (1 + np.exp(-X)), gelu(X)),
    "GELU in float16": (gelu(X).astype(np.float16), gelu(X)),
    "GELU with noise": (noisy(gelu(X), 3e-4), gelu(X)),
    "GELU by tanh, lost in noise": (gelu(noisy(X, 1e-3), "tanh"), gelu(X)),
    "Softmax of other logits": (softmax(X + 0.1 * X[::-1], 1), softmax(X, 1)),
    "Softmax of a temperature": (softmax(X / 8, 3), softmax(X, 3)),
    "Softmax along the last on the right": (softmax(X, 1), softmax(X, 3)),
    "Softmax along two others": (softmax(X, 2), softmax(X, 1)),
    "log of Softmax": (np.log(softmax(X, 3)), softmax(X, 3)),
    "no Softmax on the left": (X, softmax(X, 1)),
    "attention transposed": (softmax(X[..., :6], 3).swapaxes(2, 3), softmax(X[..., :6], 3)),
    **{f"epsilon {epsilon}": (norm(ROWS, epsilon), norm(ROWS, 1e-5)) for epsilon in (1e-3, 1e-6, 1e-8, 1e-12)},
    "epsilon exchanged": (norm(ROWS, 1e-5), norm(ROWS, 1e-7)),
    "LayerNorm with n - 1": (norm(ROWS, 1e-5, ddof=1), norm(ROWS, 1e-5)),
    "LayerNorm without the mean": (norm(ROWS + 1e-3, 1e-5, centre=0), norm(ROWS + 1e-3, 1e-5)),
    "LayerNorm of other rows": (norm(ROWS[::-1], 1e-7), norm(ROWS, 1e-5)),
    **{f"{share} of the new": (share * MEANS, 0.1 * MEANS) for share in (0.01, 0.2, 0.5, 0.85, 0.95, 0.99, 1, -0.9)},
    "the mean of other data": (0.9 * MEANS[::-1], 0.1 * MEANS),
    "the second step": (0.9 * MEANS[::-1] + 0.09 * MEANS, 0.1 * MEANS[::-1] + 0.09 * MEANS),
    "noise": (noisy(X, 1e-3), X),
    "one channel": (X * (np.arange(8)[:, None, None] != 3), X),
}


def told(left, right, operator, dtype=np.float32):
    views = (ArrayView(np.ascontiguousarray(side, dtype)) for side in (left, right))
    found = [entry for entry in diagnose(*views, operator=operator) if entry.id == "other_default"]
    return [entry.evidence.parameters.get("why", entry.evidence).code for entry in found]


@pytest.mark.parametrize("name", SHOWN)
def test_a_default_is_named_where_values_and_names_show_it(name):
    code, left, right, operator = SHOWN[name]
    assert told(left, right, operator) == [code]
    assert told(left, right, "Conv2D conv1") == []


@pytest.mark.parametrize("name", OTHER)
def test_another_mistake_of_the_same_operator_is_not_taken_for_a_default(name):
    for operator in (ALL_NAMES, ALL_NAMES.replace("mean", "variance")):
        assert [told(*OTHER[name], operator, dtype) for dtype in (np.float32, np.float16)] == [[], []]


def test_no_drift_of_the_benchmark_is_taken_for_a_default():
    drifts = list(trials(1, 300, seed=36, sizes=(600,)))
    assert len(drifts) > 300
    assert [one.how for one in drifts if told(one.left, one.right, ALL_NAMES, None)] == []


def test_the_failure_points_to_the_row_and_fails(tmp_path):
    for side, slope in (("left", 0.2), ("right", 0.01)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "leaky_relu1.0.1700000000000000.npy", leaky(X, slope).astype(np.float32))
    with pytest.raises(match=r"another default \(high\): LeakyReLU's slope is 20 times") as failure:
        assert_dumps_close(tmp_path / "left", tmp_path / "right")
    assert DEFAULTS["default_slope"][1].rpartition("#")[2] in "".join(str(failure.value).split())


@pytest.mark.parametrize("code", DEFAULTS)
def test_the_page_has_the_section_that_a_default_points_to(code):
    page, _, anchor = DEFAULTS[code][1].partition("#")
    assert anchor in anchors(ROOT / page)
