"""A pair that is measured beside others has the numbers that it has alone, to the bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import needs_kernel

from pytest_msdump.compiled import VARIABLE, chosen
from pytest_msdump.metrics.arrays import ArrayView
from pytest_msdump.metrics.measure import measure
from pytest_msdump.metrics.rows import Rows
from pytest_msdump.metrics.terms import KINDS, Terms, terms_of
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.numbers import RIGHT_ZERO, SATURATED, comparison_of

Array = npt.NDArray[Any]

CASES = int(os.environ.get("MSDUMP_KERNEL_CASES", "250"))
TYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((2,), (7,), (3, 5), (2, 1, 9), (4, 16, 3), (1000,), (8191,))
TOLERANCES = ((1e-3, 1e-5), (0.0, 0.0), (0.1, 0.0), (0.0, 0.5), (1e-3, 1e-90))
STYLES = (
    *("usual",) * 6,
    "with zeros",
    "with minus zeros",
    "far from 0",
    "constant",
    "one alone differs",
    "equal",
    "zero",
    "special",
    "at the maximum",
    "huge",
    "tiny",
    "small",
    "one denormal",
    "very near",
    "wide",
    "one tiny difference",
    "relative errors of which the sum overflows",
    "unlike",
)

# Of float32, these have numbers.
PLAIN = ("usual", "with zeros", "far from 0", "constant", "one alone differs", "equal", "very near")


@pytest.fixture(autouse=True)
def _numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numpy")


def terms(left: str, right: str, tolerance: tuple[float, float]) -> Terms:
    found = terms_of(left, right, (KINDS.index(left), KINDS.index(right)), tolerance, 5)
    assert found is not None
    return found


def rows_of(left: str, right: str, shape: tuple[int, ...], tolerance: tuple[float, float]) -> Rows | None:
    return Rows.of(terms(left, right, tolerance), shape)


def a_pair(style: str, size: int, types: tuple[str, str], rng: np.random.Generator) -> tuple[Array, Array]:
    """Two sides, as float64: most are near to each other."""
    left = rng.normal(size=size) * 20
    if types[0].startswith("u") or types[1].startswith("u"):
        left = abs(left)
    if style == "with zeros":
        left[rng.random(size) < 0.3] = 0.0
    if style == "far from 0":
        left = 100 + left / 1000
    if style == "constant":
        left[:] = 3 + rng.random()
    if style == "wide":
        left *= 2.0**299.7 / abs(left).max()
        left[:2] = abs(left).max() * np.array([1, -1])
    left *= {"huge": 1e300, "tiny": 1e-305, "small": 1e-158}.get(style, 1.0)
    right = left * (1 + rng.normal(size=size) * (1e-9 if style == "very near" else 1e-4))
    if style == "with minus zeros":
        left[0], right[0] = 0.0, -0.0
    if style == "one denormal":
        left[0], right[0] = 1e-323, 5e-324
    if style.startswith("relative"):
        left, right = left * 1e10, right * 1e10
        left[:2], right[:2] = 1.5e8, 1e-300
    if style in ("one alone differs", "one tiny difference"):
        right = left.copy()
        left[-1] = left[-1] if style == "one alone differs" else 1e-160
        right[-1] = left[-1] * 1.5
    if style in ("equal", "constant", "small"):
        right = left.copy()
    if style == "zero":
        (left, right)[rng.integers(2)][:] = 0.0
    if style == "special":
        (left, right)[rng.integers(2)][rng.integers(size)] = rng.choice([np.nan, np.inf, -np.inf])
    if style == "at the maximum" and types[0].startswith("float"):
        left[0] = float(np.finfo(types[0]).max)
        right[0] = 0.9 * left[0]
    if style == "unlike":
        right = rng.permutation(left)
    return left, right


def as_type(values: Array, name: str) -> Array:
    with np.errstate(all="ignore"):
        return np.clip(np.nan_to_num(values), 0, 120).astype(name) if "int" in name else values.astype(name)


def alone(left: Array, right: Array, tolerance: tuple[float, float]) -> Comparison:
    return measure(ArrayView(left), ArrayView(right), rtol=tolerance[0], atol=tolerance[1])


def check(
    types: tuple[str, str], shape: tuple[int, ...], tolerance: tuple[float, float], styles: list[str], seed: int
) -> None:
    rng, size = np.random.default_rng(seed), int(np.prod(shape))
    pairs = [a_pair(style, size, types, rng) for style in styles]
    sides = [np.stack([as_type(pair[side], types[side]) for pair in pairs]) for side in (0, 1)]
    rows = rows_of(*types, shape, tolerance)
    assert rows is not None
    found = rows.numbers(*sides)
    assert len(found) == len(styles)
    for style, told, left, right in zip(styles, found, *sides, strict=True):
        expected = alone(left.reshape(shape), right.reshape(shape), tolerance)
        if told is None:
            assert style not in PLAIN or types != ("float32", "float32") or size < 4, "most pairs are usual"
            continue
        numbers = told[1]
        assert (numbers[RIGHT_ZERO], numbers[SATURATED]) == (0, 0)
        made = comparison_of(*told, left=types[0], right=types[1], tolerance=tolerance)
        # As texts: 1 is not to become 1.0, nor a number one of numpy's.
        assert repr(made) == repr(expected)
        assert made.equal is expected.equal


@settings(deadline=None, max_examples=CASES)
@given(
    types=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES))
    | st.sampled_from(TYPES).map(lambda one: (one, one)),
    shape=st.sampled_from(SHAPES),
    tolerance=st.sampled_from(TOLERANCES),
    styles=st.lists(st.sampled_from(STYLES), min_size=1, max_size=9),
    seed=st.integers(0, 2**32),
)
def test_numbers_are_those_of_each_pair_alone(
    types: tuple[str, str], shape: tuple[int, ...], tolerance: tuple[float, float], styles: list[str], seed: int
) -> None:
    check(types, shape, tolerance, styles, seed)


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
def test_so_they_are_of_all_that_is_not_usual(dtype: str, tolerance: tuple[float, float]) -> None:
    check((dtype, dtype), (3, 50), tolerance, list(STYLES), seed=5)


@needs_kernel
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
def test_the_compiled_kernel_tells_the_same(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "compiled")
    module, shape = chosen().module, (3, 50)
    assert module is not None
    rng, tolerance = np.random.default_rng(5), (1e-3, 1e-5)
    pairs = [a_pair(style, 150, (dtype, dtype), rng) for style in STYLES]
    left, right = (np.stack([as_type(pair[side], dtype) for pair in pairs]) for side in (0, 1))
    rows = rows_of(dtype, dtype, shape, tolerance)
    assert rows is not None
    found = rows.numbers(left, right)
    assert sum(told is not None for told in found) > len(STYLES) // 2
    plain = (0, ())
    alike = module.Alike(terms(dtype, dtype, tolerance), shape, plain, plain)
    for told, one, other in zip(found, left, right, strict=True):
        if told is None:
            continue
        which, numbers = alike.numbers(one.tobytes(), 0, other.tobytes(), 0)
        assert (told[0], len(told[1])) == (which, len(numbers))
        for mine, its in zip(told[1], numbers, strict=True):
            assert type(mine) is type(its)
            assert mine == pytest.approx(its, rel=1e-12, abs=1e-15)


def test_rows_that_are_added_up_in_parts_are_left_alone() -> None:
    for shape, is_possible in (((1,), False), ((1, 1), False), ((2,), True), ((8191,), True), ((8192,), False)):
        assert (rows_of("float32", "float32", shape, (0.0, 0.0)) is not None) is is_possible


def test_as_many_are_measured_together_as_stay_near() -> None:
    together = {
        size: getattr(rows_of("int8", "int8", (size,), (0.0, 0.0)), "together", None) for size in (2, 1024, 8191)
    }
    assert together == {2: 8192, 1024: 16, 8191: 2}
