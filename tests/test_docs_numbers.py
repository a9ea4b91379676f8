"""The numbers that `docs/howto/choose_limits.md` advises by, measured again and held against the page."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from docs_pages import ROOT
from scipy.special import erf

from pytest_msdump import compare, open_dump

EXAMPLES = ROOT / "example_suites"
NORMAL = np.random.default_rng(7).standard_normal((1000, 200))
FAILING = {
    "nowhere": [],
    "only with a rule of your own": [],
    "`strict`": ["strict"],
    "everywhere": ["default", "strict"],
}


def _row(start: str) -> list[str]:
    """The cells of the one row of the page that begins so."""
    lines = (ROOT / "docs" / "howto" / "choose_limits.md").read_text("utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {start}")]
    return [cell.strip() for cell in row.strip("|").split("|")]


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
    ("row", "left", "right"),
    [
        ("LayerNorm with epsilon", _layer_norm(1e-7, 1), _layer_norm(1e-5, 1)),
        ("the same LayerNorm, inputs of variance 0.01", _layer_norm(1e-7, 0.01), _layer_norm(1e-5, 0.01)),
        ("GELU by tanh for GELU by erf", _gelu(exact=False), _gelu(exact=True)),
    ],
    ids=["LayerNorm-unit-variance", "LayerNorm-small-variance", "GELU"],
)
def test_mistakes_are_as_large_as_the_page_says(
    row: str, left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]
) -> None:
    measured, failed = _measured(left, right)
    _, distance, failing = _row(row)
    assert f"{measured:.0e}" == f"{float(distance):.0e}"
    assert failed == FAILING[failing]


@pytest.mark.parametrize(
    ("row", "path", "wrong"),
    [
        ("another library's rounding", "01_lenet_port", []),
        # What takes the error from a wrong convolution is wrong as well.
        ("padding `same` for padding 1", "02_failing_on_purpose", ["conv2", "fc1", "fc2"]),
    ],
)
def test_the_examples_are_as_far_off_as_the_page_says(row: str, path: str, wrong: list[str]) -> None:
    reference = open_dump(EXAMPLES / "01_lenet_port" / "reference")
    run = open_dump(EXAMPLES / path / "run")
    operators = {"conv1": "conv1-Conv2d", "conv2": "conv2-Conv2d", "fc1": "fc1-Dense", "fc2": "fc2-Dense"}
    measured = {
        layer: _measured(run.read(f"Default/{scope}/BiasAdd-op0:output:0"), reference.read(layer))
        for layer, scope in operators.items()
    }
    _, distance, failing = _row(row)
    assert f"{max(found for found, _ in measured.values()):.1e}" == f"{float(distance):.1e}"
    assert {layer: failed for layer, (_, failed) in measured.items()} == {
        layer: FAILING[failing] if layer in wrong else [] for layer in operators
    }


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_one_rounding_costs_what_the_page_says(name: str) -> None:
    distance = float(np.linalg.norm(NORMAL.astype(name) - NORMAL) / np.linalg.norm(NORMAL))
    rounding = float(_row(f"{name} |")[1])
    assert rounding / 2 < distance < rounding * 2
