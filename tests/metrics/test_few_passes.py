"""What NumPy is spared of the arithmetic does not show in the result. The compiled kernel has passes of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics import measure as streaming
from pytest_msdump.core.metrics import rankings
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.metrics.measure import measure

Array = npt.NDArray[Any]

TILE = 256
ELEMENTS = 20 * TILE + 17


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the compiled kernel leaves out is its own affair.
    monkeypatch.setenv(VARIABLE, "numpy")
    monkeypatch.setattr(streaming, "_TILE_ELEMENTS", TILE)
    monkeypatch.setenv(VARIABLE, "numpy")


def drifted(seed: int, *, noise: float, scale: float = 1.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    right = rng.normal(size=ELEMENTS) * scale
    return right * (1 + rng.normal(scale=noise, size=ELEMENTS)), right


def with_zeros(left: Array, right: Array) -> tuple[Array, Array]:
    """Zeros of both signs on the right, a few of them on both sides."""
    right[::7], right[::21] = 0.0, -0.0
    left[::14] = 0.0
    return left, right


def with_few_differences(left: Array, right: Array) -> tuple[Array, Array]:
    left[: ELEMENTS - 400] = right[: ELEMENTS - 400]
    left[5] *= 2
    return left, right


def with_mismatches(left: Array, right: Array) -> tuple[Array, Array]:
    left[10:40:3] = math.nan
    right[700] = math.inf
    return left, right


def with_one_far_off(left: Array, right: Array) -> tuple[Array, Array]:
    left[3] = 1e3
    return left, right


SHAPES = {
    "plain": lambda left, right: (left, right),
    "zeros": with_zeros,
    "few": with_few_differences,
    "mismatches": with_mismatches,
    "one far off": with_one_far_off,
    "float32": lambda left, right: (left.astype("f4"), right.astype("f4")),
    "float16": lambda left, right: (left.astype("f2"), right.astype("f2")),
    "mixed": lambda left, right: (left.astype("f4"), right),
    "int8": lambda left, right: ((left * 30).astype("i1"), (right * 30).astype("i1")),
    "rising": lambda left, right: (right + (left - right) * np.linspace(0.1, 1, ELEMENTS), right),
}

TOLERANCES = [(1e-3, 1e-3), (1e-1, 1e-1), (1e-6, 1e-6), (1e-3, 0.0), (0.0, 1e-3), (0.0, 0.0), (1e-3, 1e-300)]


def allowances(right: Array, rtol: float, atol: float) -> Array:
    return np.abs(right.astype("f8")) * rtol + atol


@pytest.mark.parametrize("noise", [1e-5, 1e-1])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("rtol", "atol"), TOLERANCES)
def test_the_worst_and_the_count_outside_are_those_of_looking_at_every_element(
    shape: str, rtol: float, atol: float, noise: float
) -> None:
    left, right = SHAPES[shape](*drifted(3, noise=noise))
    found = measure(ArrayView(left), ArrayView(right), rtol=rtol, atol=atol)
    with np.errstate(all="ignore"):
        apart = np.abs(left.astype("f8") - right.astype("f8"))
        differ = np.isfinite(left) != np.isfinite(right)
        apart[differ] = math.inf
        allowed = allowances(right, rtol, atol)
        ratio = np.where(apart == 0.0, 0.0, apart / allowed)
        ratio[differ], allowed[differ] = math.inf, 0.0
    magnitude = np.where(np.isinf(ratio), apart, 0.0)
    order = np.lexsort((np.arange(ELEMENTS), -magnitude, -ratio))[:5]
    order = order[ratio[order] > 0.0]
    assert [each.index[0] for each in found.worst] == order.tolist()
    assert [each.ratio for each in found.worst] == ratio[order].tolist()
    assert found.measurements["allclose"].value == np.count_nonzero(apart > allowed)
    assert found.differing == np.count_nonzero(apart)
    finite = ~differ & (np.abs(right.astype("f8")) == 0.0)
    assert found.right_zero_mismatch == np.count_nonzero(finite & (apart != 0.0))


@pytest.mark.parametrize(("tolerance", "expected"), [(1e-3, 1), (1e-7, 2)])
def test_tiles_without_anything_worse_are_not_ranked(
    monkeypatch: pytest.MonkeyPatch, tolerance: float, expected: int
) -> None:
    ranked = []
    whole = rankings._all_ranked
    monkeypatch.setattr(rankings, "_all_ranked", lambda *given: ranked.append(1) or whole(*given))
    left, right = drifted(4, noise=1e-5)
    measure(ArrayView(left), ArrayView(right), rtol=tolerance, atol=tolerance)
    # The first tile has nothing to be compared with.
    assert 1 <= len(ranked) <= expected
