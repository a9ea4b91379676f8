"""Distances in units of the last place, signal to noise, and zeros where the right side is none."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import EACH
from semantics.gate import ask_arrays

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import Comparison
from pytest_msdump.core.text import Message

MEAN, ABOVE_1, ABOVE_32 = "mean_ulp_distance", "ulp_above_1_share", "ulp_above_32_share"
SNR, UNDERFLOW = "signal_to_noise_ratio", "underflow_share"


@pytest.fixture(params=EACH, autouse=True)
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def compare(left: Any, right: Any, dtype: str = "float32", stored: str | None = None) -> Comparison:
    sides = [np.asarray(side).astype(stored or dtype) for side in (left, right)]
    return measure(*(ArrayView(side, dtype) for side in sides), block_elements=1500)


def value(found: Comparison, metric: str) -> Any:
    return found.measurements[metric].value


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_unit_is_numpys_spacing_also_of_subnormals_and_of_zero(dtype: str) -> None:
    rng = np.random.default_rng(4)
    info = np.finfo(dtype)
    right = (rng.normal(size=5000) * 2.0 ** rng.integers(info.minexp - 8, min(info.maxexp, 200) - 4, 5000)).astype(
        dtype
    )
    right[:40] = [0, -0.0, float(info.smallest_subnormal), -float(info.tiny), float(info.tiny), 1, 2, -4] * 5
    steps = rng.choice([0, 0.5, 1, 1, 2, 31, 32, 33, 1000], 5000)
    left = (right.astype("float64") + steps * np.spacing(np.abs(right)).astype("float64")).astype(dtype)
    found = compare(left, right, dtype)
    pairs = zip(left.tolist(), right.tolist(), np.spacing(np.abs(right)).tolist(), strict=True)
    ulps = [abs(Fraction(a) - Fraction(b)) / Fraction(one) for a, b, one in pairs]
    assert value(found, MEAN) == pytest.approx(float(sum(ulps) / len(ulps)), rel=1e-12)
    assert value(found, ABOVE_1) == sum(one > 1 for one in ulps) / len(ulps)
    assert value(found, ABOVE_32) == sum(one > 32 for one in ulps) / len(ulps)


# Spacing from 2^k to 2^(k+1), and the smallest number, by the formats' own definitions.
@pytest.mark.parametrize(
    ("dtype", "right", "step"),
    [
        ("bfloat16", 1.5, 2.0**-7),
        ("bfloat16", 0.0, 2.0**-133),
        ("float8_e4m3fn", 3.0, 2.0**-2),
        ("float8_e4m3fn", 2.0**-9, 2.0**-9),
        ("float8_e5m2", 1.0, 2.0**-2),
        ("float8_e5m2fnuz", 0.0, 2.0**-17),
    ],
)
def test_units_are_those_of_the_type_and_not_of_what_it_is_stored_as(dtype: str, right: float, step: float) -> None:
    found = compare(np.full(40, right + 3 * step), np.full(40, right), dtype, "float32")
    assert [value(found, metric) for metric in (MEAN, ABOVE_1, ABOVE_32)] == [3.0, 1.0, 0.0]


def test_a_limit_in_units_passes_over_integers(tmp_path: Path) -> None:
    limits = ("--threshold", "ulp=1", "--threshold", "max_abs=1")
    answer = ask_arrays(tmp_path, np.arange(9), np.arange(9) + 1, *limits)
    assert answer.record["verdict"] == "pass"
    assert "mean_ulp_distance does not apply, because int64 has no units of the last place" in answer.sentences


def test_more_units_than_float64_can_count_are_undefined() -> None:
    assert found_undefined(compare([1.0, 2.0], [0.0, 2.0], "float64"), MEAN) == Message("number_too_large")


def found_undefined(found: Comparison, metric: str) -> Message | None:
    return found.measurements[metric].undefined


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("noise", [1e-9, 1e-3, 30.0])
def test_signal_to_noise_is_in_decibel_at_any_scale(scale: float, noise: float) -> None:
    rng = np.random.default_rng(5)
    right = rng.normal(size=3000)
    left = right + noise * rng.normal(size=right.size)
    pairs = zip((left * scale).tolist(), (right * scale).tolist(), strict=True)
    squares = [(Fraction(b) ** 2, (Fraction(a) - Fraction(b)) ** 2) for a, b in pairs]
    signal, error = (sum(column) for column in zip(*squares, strict=True))
    expected = 10 * math.log10(signal / error)
    assert value(compare(left * scale, right * scale, "float64"), SNR) == pytest.approx(expected, abs=1e-10)


def test_signal_to_noise_of_equal_sides_does_not_apply_and_of_a_right_of_zeros_is_undefined() -> None:
    equal = compare([1, 2, math.nan], [1, 2, 3]).measurements[SNR]
    assert (equal.value, equal.applies, equal.undefined) == (None, False, Message("no_noise"))
    zeros = compare([1, 2], [0, 0]).measurements[SNR]
    assert (zeros.value, zeros.applies, zeros.undefined) == (None, True, Message("right_all_zero"))


def test_zeros_alone_on_the_left_have_underflowed_unless_the_right_is_next_to_zero() -> None:
    tiny = float(np.finfo("float16").smallest_subnormal)
    left, right = np.zeros(100), np.ones(100)
    right[:3] = tiny, 2 * tiny, -3 * tiny
    left[3], right[4], right[5] = 1.0, 0.0, math.nan
    # Of 99 finite positions: two are next to zero, one is not zero left, one is zero on both sides.
    assert value(compare(left, right, "float16"), UNDERFLOW) == 95 / 99
    assert value(compare(right, left, "float16"), UNDERFLOW) == 0.0
    assert value(compare([0, 1, 0], [2j, 1, 0], "complex64"), UNDERFLOW) == 1 / 3


@pytest.mark.parametrize("limit", ["snr=-20", "ulp=64", "ulp_1=0.001", "ulp_32=0.05", "underflow=0"])
def test_each_can_be_limited_by_its_short_form(tmp_path: Path, limit: str) -> None:
    right = np.random.default_rng(6).normal(size=500).astype("float32")
    left = right.copy()
    left[::2] = 0.0
    answer = ask_arrays(tmp_path, left * np.float32(-20), right, "--profile", "ascend", "--threshold", limit)
    metric = {"snr": SNR, "ulp": MEAN, "ulp_1": ABOVE_1, "ulp_32": ABOVE_32, "underflow": UNDERFLOW}
    assert metric[limit.partition("=")[0]] in answer.failed


def test_units_are_counted_where_a_limit_asks_for_them(tmp_path: Path) -> None:
    right = np.linspace(1, 2, 50, dtype="float32")
    left = np.nextafter(right, np.float32(9))
    assert not {MEAN, ABOVE_1, ABOVE_32} & ask_arrays(tmp_path, left, right).metrics.keys()
    assert ask_arrays(tmp_path, left, right, "--threshold", "ulp_1=0").metrics[MEAN] == 1.0
