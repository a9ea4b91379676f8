"""Every metric against an oracle that shares no code with it: numpy and scipy on whole arrays, or exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial import distance
from scipy.stats import entropy

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


def relative(left: Array, right: Array) -> Array:
    below = np.abs(wide(right)).ravel()
    used = (below != 0) | (absolute(left, right) == 0)
    with np.errstate(invalid="ignore"):
        terms = np.where(below[used] == 0, 0.0, absolute(left, right)[used] / below[used])
    return np.asarray(terms)


def as_vector(array: Array) -> Array:
    """Complex numbers as pairs of real ones: their scalar product is Re⟨l,r⟩."""
    flat = wide(array).ravel()
    return np.concatenate([flat.real, flat.imag])


def divergence(left: Array, right: Array) -> float:
    def normalise(array: Array) -> Array:
        flat = wide(array).ravel()
        return np.asarray(np.maximum((flat - flat.min()) / (flat.max() - flat.min()), 2.0**-23))

    return float(entropy(normalise(left), normalise(right)))


def norm(array: Array) -> float:
    return math.sqrt(math.fsum((as_vector(array) ** 2).tolist()))


def statistics(left: Array, right: Array) -> tuple[float, ...]:
    sides = (wide(side) for side in (left, right))
    return tuple(float(number) for side in sides for number in (abs(side.mean()) * _sign(side), side.std()))


def _sign(side: Array) -> float:
    return 1.0 if side.dtype.kind == "c" else math.copysign(1.0, float(side.mean()))


def outside(left: Array, right: Array) -> int:
    return int((absolute(left, right) > ATOL + RTOL * np.abs(wide(right)).ravel()).sum())


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


ORACLES: dict[str, Callable[[Array, Array], Any]] = {
    "cosine_similarity": lambda a, b: 1.0 - distance.cosine(as_vector(a), as_vector(b)),
    "max_absolute_error": lambda a, b: absolute(a, b).max(),
    "mean_absolute_error": lambda a, b: math.fsum(absolute(a, b)) / a.size,
    "root_mean_square_error": lambda a, b: math.sqrt(math.fsum(absolute(a, b) ** 2) / a.size),
    "relative_euclidean_distance": lambda a, b: math.sqrt(math.fsum(absolute(a, b) ** 2)) / norm(b),
    "normalized_max_error": lambda a, b: absolute(a, b).max() / np.abs(wide(b)).max(),
    "max_relative_error": lambda a, b: relative(a, b).max(),
    "mean_relative_error": lambda a, b: math.fsum(relative(a, b)) / relative(a, b).size,
    "accumulated_relative_error": lambda a, b: math.fsum(relative(a, b)),
    "kl_divergence": divergence,
    "standard_deviation": statistics,
    "mean_ulp_distance": lambda a, b: math.fsum(in_ulps(a, b)) / a.size,
    "ulp_above_1_share": lambda a, b: sum(ulps > 1 for ulps in in_ulps(a, b)) / a.size,
    "ulp_above_32_share": lambda a, b: sum(ulps > 32 for ulps in in_ulps(a, b)) / a.size,
    "signal_to_noise_ratio": lambda a, b: 20 * math.log10(norm(b) / math.sqrt(math.fsum(absolute(a, b) ** 2))),
    "underflow_share": lambda a, b: int(((wide(a) == 0) & (wide(b) != 0)).sum()) / a.size,
    "worst_slice_error": worst_slice,
    "nonfinite_mismatch": lambda _a, _b: 0,
    "saturated_count": lambda _a, _b: 0,
    "allclose": outside,
    "bitwise_mismatch": lambda a, b: sum(x.tobytes() != y.tobytes() for x, y in zip(a.ravel(), b.ravel(), strict=True)),
}


@pytest.fixture(scope="module")
def comparisons() -> dict[str, Comparison]:
    return {
        name: measure(ArrayView(left), ArrayView(right), rtol=RTOL, atol=ATOL, block_elements=100)
        for name, (left, right) in PAIRS.items()
    }


def test_every_metric_has_an_oracle() -> None:
    assert set(ORACLES) == {name for name, fact in METRICS.items() if not fact.golden}


@pytest.mark.parametrize("metric", ORACLES)
@pytest.mark.parametrize("name", PAIRS)
def test_metric_agrees_with_its_oracle(comparisons: dict[str, Comparison], name: str, metric: str) -> None:
    left, right = PAIRS[name]
    found = comparisons[name].measurements[metric]
    if metric == "kl_divergence" and "complex" in name:
        assert say(found.undefined) == "the tensors are complex"
        return
    if "ulp" in metric and ("complex" in name or {left.dtype.kind, right.dtype.kind}.isdisjoint("f")):
        assert not found.applies
        return
    if metric == "bitwise_mismatch" and left.dtype != right.dtype:
        assert say(found.undefined) == f"dtypes differ: {left.dtype} and {right.dtype}"
        return
    expected = ORACLES[metric](left, right)
    assert found.value == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert not isinstance(found.value, np.generic)


@pytest.mark.parametrize("name", PAIRS)
def test_counts_are_exact(comparisons: dict[str, Comparison], name: str) -> None:
    left, right = PAIRS[name]
    assert comparisons[name].elements == comparisons[name].finite == left.size
    assert comparisons[name].differing == int((absolute(left, right) != 0).sum())
    zero = (np.abs(wide(right)).ravel() == 0) & (absolute(left, right) != 0)
    assert comparisons[name].right_zero_mismatch == int(zero.sum())


@pytest.mark.parametrize("name", [name for name in PAIRS if "int" in name and "float" not in name] + ["bool"])
def test_integers_are_exact(comparisons: dict[str, Comparison], name: str) -> None:
    exact = fractions(*PAIRS[name])
    found = comparisons[name]
    assert found.measurements["max_absolute_error"].value == max(exact)
    assert isinstance(found.measurements["max_absolute_error"].value, int)
    assert found.absolute_error_sum == sum(exact)
    assert isinstance(found.absolute_error_sum, int)
    assert found.measurements["mean_absolute_error"].value == float(sum(exact) / len(exact))


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


@pytest.mark.parametrize("kernel", ["", "numpy"])
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
def test_deviation_keeps_its_bits_wherever_the_mean_is(
    side: Array, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    found = measure(ArrayView(side), ArrayView(side * 2)).measurements["standard_deviation"].value
    exact = _exact(side)
    mean = sum(exact) / len(exact)
    deviation = math.sqrt(float(sum((x - mean) ** 2 for x in exact) / len(exact)))
    assert isinstance(found, tuple)
    assert found[0] == pytest.approx(float(mean), rel=0, abs=1e-14 * math.hypot(float(mean), deviation))
    assert found[1] == pytest.approx(deviation, rel=1e-12)
