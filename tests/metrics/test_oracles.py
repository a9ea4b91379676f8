"""Every metric against an oracle that shares no code with it: numpy and scipy on whole arrays, or exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from campaign import oracle as exact

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import Comparison
from pytest_msdump.core.text import say

Array = npt.NDArray[Any]
RTOL, ATOL = 1e-3, 1e-4


def floats(dtype: str, seed: int = 7) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    right = rng.normal(0.3, 2.0, (7, 11, 13))
    left = right + rng.normal(0.0, 0.01, right.shape) * (rng.random(right.shape) < 0.7)
    return left.astype(dtype), right.astype(dtype)


def integers(dtype: str, seed: int = 8) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    draw = (rng.integers(info.min, info.max, (7, 11, 13), dtype=dtype, endpoint=True) for _ in range(2))
    left, right = draw
    return left, right


def complexes(dtype: str) -> tuple[Array, Array]:
    (a, b), (c, d) = floats("float64", 1), floats("float64", 2)
    return (a + 1j * c).astype(dtype), (b + 1j * d).astype(dtype)


PAIRS: dict[str, tuple[Array, Array]] = {
    **{dtype: floats(dtype) for dtype in ("float16", "float32", "float64")},
    "float16 against float32": (floats("float16")[0], floats("float32")[1]),
    **{dtype: integers(dtype) for dtype in ("int8", "uint8", "int16", "uint32", "int64", "uint64")},
    "int64 against uint64": (integers("int64")[0], integers("uint64", 9)[1]),
    "int32 against float32": (integers("int32")[0] // 1000, (integers("int32", 9)[1] // 1000).astype("float32")),
    "bool": tuple(array > 0.3 for array in floats("float32")),  # type: ignore[dict-item]
    **{dtype: complexes(dtype) for dtype in ("complex64", "complex128")},
    "complex64 against float32": (complexes("complex64")[0], floats("float32")[1]),
}


def wide(array: Array) -> Array:
    return array.astype(complex if array.dtype.kind == "c" else float)


def fractions(left: Array, right: Array) -> list[Fraction]:
    pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
    return [abs(Fraction(a) - Fraction(b)) for a, b in pairs]


def absolute(left: Array, right: Array) -> Array:
    if "c" in left.dtype.kind + right.dtype.kind:
        return np.asarray(np.abs(wide(left) - wide(right)).ravel())
    return np.array([float(each) for each in fractions(left, right)])


def norm(array: Array) -> float:
    flat = wide(array).ravel()
    return math.sqrt(math.fsum([*(flat.real**2).tolist(), *(flat.imag**2).tolist()]))


def in_ulps(left: Array, right: Array) -> list[float]:
    """|l−r| in numpy's spacing of the coarser type at r, which is the smallest denormal at 0."""
    coarse = min((a.dtype for a in (left, right) if a.dtype.kind == "f"), key=lambda dtype: dtype.itemsize)
    # A finer number between two of the coarser type has the spacing of the lower one.
    lower = np.abs(right.astype("float64")).ravel()
    near = lower.astype(coarse)
    near = np.where(near.astype("float64") > lower, np.nextafter(near, coarse.type(0)), near)
    return [float(x / y) for x, y in zip(absolute(left, right), np.spacing(near).astype("float64"), strict=True)]


def worst_slice(left: Array, right: Array, axis: int = 1, rounding: float = 0.0) -> float:
    apart, below = (np.abs(side) ** 2 for side in (wide(left) - wide(right), wide(right)))
    of_slices = []
    for place in range(right.shape[axis]):
        error, length = (math.fsum(np.take(side, place, axis).ravel().tolist()) for side in (apart, below))
        share = np.take(below, place, axis).size / below.size
        floor = max(1e-3, rounding) ** 2 * math.fsum(below.ravel().tolist()) * share
        of_slices.append(math.sqrt(error / max(length, floor)))
    return max(of_slices)


# Of the others `campaign.oracle` knows the truth.
ORACLES: dict[str, Callable[[Array, Array], Any]] = {
    "mean_ulp_distance": lambda a, b: math.fsum(in_ulps(a, b)) / a.size,
    "ulp_above_1_share": lambda a, b: sum(ulps > 1 for ulps in in_ulps(a, b)) / a.size,
    "ulp_above_32_share": lambda a, b: sum(ulps > 32 for ulps in in_ulps(a, b)) / a.size,
    "signal_to_noise_ratio": lambda a, b: 20 * math.log10(norm(b) / math.sqrt(math.fsum(absolute(a, b) ** 2))),
    "underflow_share": lambda a, b: int(((wide(a) == 0) & (wide(b) != 0)).sum()) / a.size,
    "worst_slice_error": worst_slice,
}


@pytest.fixture(scope="module")
def comparisons() -> dict[str, Comparison]:
    return {
        name: measure(ArrayView(left), ArrayView(right), rtol=RTOL, atol=ATOL, block_elements=100)
        for name, (left, right) in PAIRS.items()
    }


def test_every_metric_has_an_oracle() -> None:
    left, right = (side.ravel()[:9] for side in PAIRS["float32"])
    truth = exact.truth_of(exact.Pair(left, right, ("float32", "float32"), (RTOL, ATOL), 9, ""))
    known = {*ORACLES, *truth.numbers, *truth.counts, "allclose", "standard_deviation"}
    assert not {name for name, fact in METRICS.items() if not fact.golden and not fact.of} - known


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_of_every_kind_agrees_with_exact_arithmetic(name: str) -> None:
    left, right = (side.ravel()[:250] for side in PAIRS[name])
    pair = exact.Pair(left, right, (left.dtype.name, right.dtype.name), (RTOL, ATOL), 100, name)
    truth = exact.truth_of(pair)
    for kernel in ("", "numpy"):
        found = exact.measured(pair, kernel)
        assert list(exact.disagreements(found, truth)) == []
        assert not [one for one in found.measurements.values() if isinstance(one.value, np.generic)]
        if left.dtype != right.dtype:
            undefined = found.measurements["bitwise_mismatch"].undefined
            assert say(undefined) == f"dtypes differ: {left.dtype} and {right.dtype}"
        if "float" not in name and "complex" not in name:
            assert {type(found.measurements["max_absolute_error"].value), type(found.absolute_error_sum)} == {int}


@pytest.mark.parametrize("metric", ORACLES)
@pytest.mark.parametrize("name", PAIRS)
def test_metric_agrees_with_its_oracle(comparisons: dict[str, Comparison], name: str, metric: str) -> None:
    left, right = PAIRS[name]
    found = comparisons[name].measurements[metric]
    if "ulp" in metric and ("complex" in name or {left.dtype.kind, right.dtype.kind}.isdisjoint("f")):
        assert not found.applies
        return
    assert found.value == pytest.approx(ORACLES[metric](left, right), rel=1e-12, abs=1e-13)
    assert not isinstance(found.value, np.generic)


@pytest.mark.parametrize("metric", ["max_absolute_error", "max_relative_error"])
@pytest.mark.parametrize("name", ["float32", "uint8", "int64", "complex64"])
def test_maxima_say_where_they_are(comparisons: dict[str, Comparison], name: str, metric: str) -> None:
    left, right = PAIRS[name]
    found = comparisons[name].measurements[metric]
    apart, below = absolute(left, right).reshape(left.shape), np.abs(wide(right))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = apart if metric == "max_absolute_error" else np.where(below == 0, 0.0, apart / below)
    assert found.where == np.unravel_index(int(terms.argmax()), left.shape)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("tolerance", [(RTOL, ATOL), (RTOL, 0.0), (0.0, ATOL), (0.0, 0.0)])
def test_worst_elements_are_those_of_a_full_sort(name: str, tolerance: tuple[float, float]) -> None:
    left, right = PAIRS[name]
    rtol, atol = tolerance
    found = measure(ArrayView(left), ArrayView(right), rtol=rtol, atol=atol, block_elements=50).worst
    apart = absolute(left, right)
    allowed = atol + rtol * np.abs(wide(right)).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(allowed == 0, np.inf, apart / allowed)
    places = [place for place in range(left.size) if apart[place] > 0]
    places.sort(key=lambda place: (-ratio[place], -apart[place] if np.isinf(ratio[place]) else 0.0, place))
    assert [np.ravel_multi_index(each.index, left.shape) for each in found] == places[:5]
    assert [each.ratio for each in found] == pytest.approx([ratio[place] for place in places[:5]])
    assert [each.left for each in found] == [left.ravel()[place].item() for place in places[:5]]
    assert [each.right for each in found] == [right.ravel()[place].item() for place in places[:5]]
    assert all(type(each.left) is type(left.ravel()[0].item()) for each in found)


def _exact(side: Array) -> list[Fraction]:
    return [Fraction(x) for x in side.tolist()]


@pytest.mark.parametrize("kernel", ["", "numpy"])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
@pytest.mark.parametrize("alike", [0.0, 1.0, -1.0])
def test_cosine_keeps_its_bits_whatever_the_sides_have_in_common(
    alike: float, scale: float, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    rng = np.random.default_rng(5)
    right = rng.normal(size=3000)
    left = scale * (alike * right + 0.1 * rng.normal(size=3000))
    found = measure(ArrayView(left), ArrayView(right)).measurements["cosine_similarity"].value
    a, b = _exact(left), _exact(right)
    product = sum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(float(sum(x * x for x in a) * sum(y * y for y in b)))
    assert found == pytest.approx(float(product) / lengths, rel=0, abs=1e-14)
