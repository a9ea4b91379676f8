"""The numbers that `docs/howto/choose_limits.md` advises by, measured again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from docs_pages import ROOT
from scipy.special import erf

from pytest_msdump import compare, open_dump

EXAMPLES = ROOT / "example_suites"
NORMAL = np.random.default_rng(7).standard_normal((1000, 200))


def _layer_norm(epsilon: float, variance: float) -> npt.NDArray[np.float32]:
    values = NORMAL * np.sqrt(variance)
    centred = values - values.mean(axis=1, keepdims=True)
    return (centred / np.sqrt(values.var(axis=1, keepdims=True) + epsilon)).astype(np.float32)


def _gelu(exact: bool) -> npt.NDArray[np.float32]:
    if exact:
        return (NORMAL * (1 + erf(NORMAL / np.sqrt(2))) / 2).astype(np.float32)
    return (NORMAL * (1 + np.tanh(np.sqrt(2 / np.pi) * (NORMAL + 0.044715 * NORMAL**3))) / 2).astype(np.float32)


def _measured(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> tuple[float, list[str]]:
    """The relative Euclidean distance, by numpy, and the profiles that fail."""
    distance = float(np.linalg.norm(left.astype(float) - right) / np.linalg.norm(right.astype(float)))
    failing = [name for name in ("default", "strict") if compare(left, right, profile=name).verdict.outcome == "fail"]
    return distance, failing


@pytest.mark.parametrize(
    ("left", "right", "distance", "failing"),
    [
        pytest.param(_layer_norm(1e-7, 1), _layer_norm(1e-5, 1), 5e-6, [], id="LayerNorm-unit-variance"),
        pytest.param(_layer_norm(1e-7, 0.01), _layer_norm(1e-5, 0.01), 5e-4, ["strict"], id="LayerNorm-small-variance"),
        pytest.param(_gelu(exact=False), _gelu(exact=True), 2e-4, ["strict"], id="GELU"),
    ],
)
def test_mistakes_are_as_large_as_the_page_says(
    left: npt.NDArray[np.float32], right: npt.NDArray[np.float32], distance: float, failing: list[str]
) -> None:
    measured, failed = _measured(left, right)
    assert f"{measured:.0e}" == f"{distance:.0e}"
    assert failed == failing


@pytest.mark.parametrize(
    ("example", "distance", "failing"),
    [("01_lenet_port", "1.4e-07", []), ("02_failing_on_purpose", "7.4e-01", ["default", "strict"])],
)
def test_the_examples_are_as_far_off_as_the_page_says(example: str, distance: str, failing: list[str]) -> None:
    reference = open_dump(EXAMPLES / "01_lenet_port" / "reference")
    run = open_dump(EXAMPLES / example / "run")
    operators = {"conv1": "conv1-Conv2d", "conv2": "conv2-Conv2d", "fc1": "fc1-Dense", "fc2": "fc2-Dense"}
    measured = [
        _measured(run.read(f"Default/{scope}/BiasAdd-op0:output:0"), reference.read(layer))
        for layer, scope in operators.items()
    ]
    assert f"{max(measured)[0]:.1e}" == distance
    assert max(measured)[1] == failing


@pytest.mark.parametrize(("name", "rounding"), [("float32", 3e-8), ("float16", 2e-4)])
def test_one_rounding_costs_what_the_page_says(name: str, rounding: float) -> None:
    distance = float(np.linalg.norm(NORMAL.astype(name) - NORMAL) / np.linalg.norm(NORMAL))
    assert rounding / 2 < distance < rounding * 2
