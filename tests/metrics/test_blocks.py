"""How the data is cut into blocks does not show in the result."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.metrics.numpy_kernel import NOTHING, Partial, Task, measure_block
from pytest_msdump.core.metrics.rankings import Tolerance
from pytest_msdump.core.metrics.values import Workspace
from pytest_msdump.core.model.comparison import Comparison, Measurement
from pytest_msdump.core.text import Message

Array = npt.NDArray[Any]

SYMMETRIC = ("cosine_similarity", "max_absolute_error", "mean_absolute_error", "root_mean_square_error")
COUNTS = ("nonfinite_mismatch", "allclose", "bitwise_mismatch")
# What is left of numbers near 1, and the logarithm of a ratio, in dB.
SCALES = {"cosine_similarity": 1.0, "kl_divergence": 1.0, "signal_to_noise_ratio": 10.0}
DTYPES = ("float16", "float32", "float64", "int8", "int64", "uint64", "bool", "complex64", "complex128")
_LARGEST = sys.float_info.max
# Their relative distance is as large as float64 can hold, and one bit more in blocks of another size.
AT_THE_BORDER = (
    np.array([math.nan, 0.0, -_LARGEST, *[math.nextafter(_LARGEST, 0.0)] * 2, _LARGEST, math.nextafter(_LARGEST, 0.0)]),
    np.array([True, True, True, False, True, True, True]),
)
TOLERANCES = st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.0, 0.5), (0.01, 0.01)])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two arrays of few distinct values, so that ties, zeros, NaN and equal blocks are common."""
    left, right = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(DTYPES))
    size = draw(st.integers(1, 40))
    sides = [draw(arrays.arrays(dtype, size, elements=elements(dtype))) for dtype in (left, right)]
    if left == right and draw(st.booleans()):
        cut = draw(st.integers(0, size))
        sides[1][:cut] = sides[0][:cut]
    return sides[0], sides[1]


def elements(dtype: str) -> st.SearchStrategy[Any]:
    kind = np.dtype(dtype).kind
    if kind in "iub":
        return arrays.from_dtype(np.dtype(dtype)) | st.sampled_from([0, 1])
    few = [0.0, -0.0, 1.0, 2.0, -3.0, math.inf, -math.inf, math.nan, float(np.finfo(dtype).max)]
    if dtype in ("float64", "complex128"):
        few += [1e200, 1e-200, 5e-324, -1e300]
    return st.sampled_from([dtype_of(dtype)(each) for each in few])


def dtype_of(dtype: str) -> Any:
    return np.dtype(dtype).type


def close(a: float, b: float, scale: float = 0.0) -> bool:
    return math.isclose(a, b, rel_tol=1e-13, abs_tol=1e-13 * scale)


def assert_same(a: Comparison, b: Comparison) -> None:
    """Counts, maxima, places and worst elements exactly; sums within 1e-13, also where that is beyond float64."""
    for field in ("elements", "finite", "differing", "right_zero_mismatch", "nonfinite", "worst"):
        assert getattr(a, field) == getattr(b, field) or "nan" in repr(a.worst)
    assert repr(a.worst) == repr(b.worst)
    for metric, one in a.measurements.items():
        other = b.measurements[metric]
        assert (one.where, one.applies) == (other.where, other.applies)
        if one.undefined != other.undefined:
            assert is_at_the_border(one, other) or is_at_the_border(other, one), metric
            continue
        assert_close(metric, one.value, other.value)


def is_at_the_border(one: Measurement, other: Measurement) -> bool:
    """Whether a number is the largest of float64, but for its last bits, and the other one does not fit any more."""
    return (
        one.undefined is None
        and one.value is not None
        and not isinstance(one.value, tuple)
        and one.value >= _LARGEST * (1 - 1e-13)
        and other.undefined == Message("number_too_large")
    )


def assert_close(metric: str, one: Any, other: Any) -> None:
    if isinstance(one, tuple):
        # A mean may cancel: its error is measured by the deviation beside it.
        left, right = math.hypot(*one[:2]), math.hypot(*one[2:])
        scales = (left, left, right, right)
        assert all(close(x, y, scale) for x, y, scale in zip(one, other, scales, strict=True)), metric
    elif isinstance(one, float) and metric not in ("max_absolute_error", "max_relative_error", "normalized_max_error"):
        assert close(one, other, SCALES.get(metric, 0.0)), metric
    else:
        assert one == other, metric


@settings(deadline=None, max_examples=200)
@given(pair=pairs(), block_elements=st.integers(1, 20), tolerance=TOLERANCES)
@example(pair=AT_THE_BORDER, block_elements=4, tolerance=(0.0, 0.0))
def test_block_size_does_not_show(
    pair: tuple[Array, Array], block_elements: int, tolerance: tuple[float, float]
) -> None:
    left, right = (ArrayView(side) for side in pair)
    rtol, atol = tolerance
    whole = measure(left, right, rtol=rtol, atol=atol, block_elements=1000)
    assert_same(whole, measure(left, right, rtol=rtol, atol=atol, block_elements=block_elements))


@settings(deadline=None, max_examples=100)
@given(pair=pairs(), cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)), tolerance=TOLERANCES)
def test_merging_is_associative_and_has_a_zero(
    pair: tuple[Array, Array], cuts: tuple[int, int], tolerance: tuple[float, float]
) -> None:
    left, right = pair
    task = Task(left.dtype.name, right.dtype.name, Tolerance(*tolerance))
    first, second = sorted(cuts)

    def part(start: int, stop: int) -> Partial:
        if start >= min(stop, left.size):
            return NOTHING._replace(bits=0 if task.left == task.right else None)
        with np.errstate(all="ignore"):
            return measure_block(left[start:stop], right[start:stop], start, task, Workspace())

    a, b, c = part(0, first), part(first, second), part(second, 40)
    one, other = a.merge(b, 5).merge(c, 5), a.merge(b.merge(c, 5), 5)
    exact = [(p.elements, p.bits, p.classes, p.finite, p.errors.largest, p.errors.differing) for p in (one, other)]
    assert exact[0] == exact[1]
    assert repr(one.worst) == repr(other.worst)
    assert a.merge(NOTHING, 5) == a or "nan" in repr(a)


@settings(deadline=None, max_examples=100)
@given(pair=pairs())
def test_swapping_the_sides_keeps_what_is_symmetric(pair: tuple[Array, Array]) -> None:
    left, right = (ArrayView(side) for side in pair)
    one, other = measure(left, right), measure(right, left)
    assert (one.differing, one.finite, one.elements) == (other.differing, other.finite, other.elements)
    assert (one.nonfinite.nan_left, one.nonfinite.inf_right) == (other.nonfinite.nan_right, other.nonfinite.inf_left)
    for metric in COUNTS:
        assert one.measurements[metric].value == other.measurements[metric].value
    for metric in SYMMETRIC:
        a, b = one.measurements[metric].value, other.measurements[metric].value
        assert (a is None) is (b is None), metric
        if isinstance(a, float) and isinstance(b, float):
            assert close(a, b, 1.0 if metric == "cosine_similarity" else 0.0), metric
        else:
            assert a == b, metric
    deviations = one.measurements["standard_deviation"].value
    if deviations is not None:
        assert isinstance(deviations, tuple)
        # Not the same last bits: one order may be left to numpy, because of its relative errors.
        swapped = other.measurements["standard_deviation"].value
        assert_close("standard_deviation", (*deviations[2:], *deviations[:2]), swapped)


@settings(deadline=None, max_examples=100)
@given(pair=pairs())
def test_a_tensor_is_equal_to_itself(pair: tuple[Array, Array]) -> None:
    view = ArrayView(pair[0])
    found = measure(view, view)
    assert found.equal
    assert found.worst == ()
    for metric in ("max_absolute_error", "mean_absolute_error", "mean_relative_error", "kl_divergence", "allclose"):
        assert found.measurements[metric].value in (0, None)
    assert found.measurements["cosine_similarity"].value in (1.0, None)
    assert found.measurements["bitwise_mismatch"].value == 0


@pytest.mark.parametrize("block_elements", [1, 3, 100])
def test_constants_have_their_own_mean_and_no_deviation(block_elements: int) -> None:
    left, right = ArrayView(np.full(70, 0.1)), ArrayView(np.full(70, 0.7))
    found = measure(left, right, block_elements=block_elements)
    assert found.measurements["standard_deviation"].value == (0.1, 0.0, 0.7, 0.0)
