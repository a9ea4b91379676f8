"""Means, deviations and divergences hold where sums cancel, and where numbers are far larger than their range."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernels import EACH

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics import exact_moments
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.metrics.measure import measure

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True, params=EACH)
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def spread(left: Array, right: Array, block: int | None = None) -> tuple[float, ...]:
    found = measure(ArrayView(left), ArrayView(right), block_elements=block).measurements["standard_deviation"].value
    assert isinstance(found, tuple)
    return found


def truth(side: Array) -> tuple[float, float]:
    """Mean and deviation in fractions."""
    numbers = [Fraction(one) for one in side.tolist()]
    mean = sum(numbers, Fraction()) / len(numbers)
    variance = sum(((one - mean) ** 2 for one in numbers), Fraction()) / len(numbers)
    # Shifted, so that neither the smallest nor the largest variance leaves what float64 holds.
    shift = 2 * ((variance.numerator.bit_length() - variance.denominator.bit_length()) // 2) if variance else 0
    return float(mean), math.ldexp(math.sqrt(variance / Fraction(2) ** shift), shift // 2)


def check(left: Array, right: Array) -> None:
    for block in (None, 7):
        found = spread(left, right, block)
        assert found[:2] == pytest.approx(truth(left), rel=1e-12, abs=0.0)
        assert found[2:] == pytest.approx(truth(right), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_largest_numbers_of_both_signs_leave_the_mean_of_the_rest(dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    left = np.array([largest, 880.0, -largest, 0.5, largest, -largest], dtype)
    check(left, np.random.default_rng(1).permutation(left * np.array(0.5, dtype)))


def test_what_is_left_of_the_largest_numbers_may_be_of_any_magnitude() -> None:
    for rest in (1e-123, 5e-324, 1e200):
        check(np.array([1.7e308, rest, -1.7e308]), np.array([rest, 1.0, 2.0]))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("end", ["min", "max"])
def test_integers_a_few_apart_have_a_deviation_at_the_ends_of_their_type(dtype: str, end: str) -> None:
    info = np.iinfo(dtype)
    steps = np.random.default_rng(4).integers(0, 5, 30).tolist()
    ends = [info.min + step if end == "min" else info.max - step for step in steps]
    left = np.array(ends, dtype)
    right = left[::-1].copy()
    check(left, right)
    found = measure(ArrayView(left), ArrayView(right)).measurements["kl_divergence"].value
    small = measure(ArrayView(np.array(steps)), ArrayView(np.array(steps[::-1]))).measurements["kl_divergence"].value
    if end == "min":
        # Scale and shift leave it as it is; a mirror does not.
        assert found == pytest.approx(small, rel=1e-12)
    assert isinstance(found, float)
    assert found > 0.1


@pytest.mark.parametrize(
    "side",
    [
        np.r_[1e9, np.zeros(1022), -1e-3],
        np.r_[np.full(1023, 1.0), 1.0 + 1e-9],
        1e6 + np.sin(np.arange(5000.0)),
        np.exp(np.arange(1024.0) / 20),
    ],
    ids=["one far away", "nearly constant", "far from zero", "steep"],
)
def test_deviation_keeps_its_bits_wherever_the_mean_is(side: Array) -> None:
    mean, deviation = spread(side, side * 2)[:2]
    assert mean == pytest.approx(truth(side)[0], rel=0, abs=1e-14 * math.hypot(*truth(side)))
    assert deviation == pytest.approx(truth(side)[1], rel=1e-12)


def test_positions_that_are_not_finite_take_no_part() -> None:
    left = np.array([3e38, np.nan, -3e38, 1.0, np.inf, 7.0], "float32")
    right = np.array([1.0, 5.0, 2.0, 1.0, 5.0, np.nan], "float32")
    finite = np.array([0, 2, 3])
    assert spread(left, right)[:2] == pytest.approx(truth(left[finite]), rel=1e-12, abs=0.0)


def test_of_complex_numbers_each_part_is_exact() -> None:
    real = np.array([1e38, 3.0, -1e38, 0.25])
    left = (real + 1j * real[::-1] * 3).astype("complex64")
    mean, deviation, *_ = spread(left, left * np.complex64(0.5))
    parts = truth(left.real), truth(left.imag)
    assert (mean, deviation) == pytest.approx([math.hypot(*both) for both in zip(*parts, strict=True)], rel=1e-12)


def test_usual_sides_are_not_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_moments, "with_exact_moments", None)
    rng = np.random.default_rng(6)
    for dtype in ("float32", "float16", "int32", "int64"):
        right = (100 * rng.normal(0.1, 1.0, 5000)).astype(dtype)
        spread((right * 1.01).astype(dtype), right)
    spread(np.full(5, 3.0), np.zeros(5))
