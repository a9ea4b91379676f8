"""What other tools get wrong: one test for each, named by the right answer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernels import EACH

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import Comparison, Measurement
from pytest_msdump.core.text import say

NAN, INF = math.nan, math.inf
# Of two tensors alone; others need a golden or a third one.
OF_TWO = {name for name, fact in METRICS.items() if not fact.golden}
RELATIVE = ("max_relative_error", "mean_relative_error", "accumulated_relative_error")


def compare(left: npt.ArrayLike, right: npt.ArrayLike, dtype: str = "float32", **tolerance: float) -> Comparison:
    return measure(ArrayView(np.array(left, dtype)), ArrayView(np.array(right, dtype)), **tolerance)  # type: ignore[arg-type]


def value(comparison: Comparison, metric: str) -> Any:
    return comparison.measurements[metric].value


def reason(comparison: Comparison, metric: str) -> str | None:
    found = comparison.measurements[metric]
    assert found.value is None
    return None if found.undefined is None else say(found.undefined)


def test_nan_in_the_same_place_is_equal_and_out_of_the_finite_metrics() -> None:
    found = compare([1, NAN, 3], [1, NAN, 3])
    assert found.equal
    assert (found.elements, found.finite, found.nonfinite.nan_both) == (3, 2, 1)
    assert value(found, "nonfinite_mismatch") == value(found, "allclose") == 0
    assert value(found, "max_absolute_error") == 0.0
    assert value(found, "cosine_similarity") == 1.0
    assert found.nonfinite.first_nonfinite == (1,)
    assert found.nonfinite.first_mismatch is None


def test_nan_payloads_differ_in_bits_only() -> None:
    left = np.array([0x7FC00000, 0x7FC00001], "uint32").view("float32")
    right = np.array([0x7FC00000, 0xFFC00000], "uint32").view("float32")
    found = measure(ArrayView(left), ArrayView(right))
    assert found.equal
    assert value(found, "bitwise_mismatch") == 1


def test_nan_against_a_number_is_a_mismatch_with_a_place() -> None:
    found = compare([[1, 2], [NAN, 4]], [[1, 2], [3, NAN]])
    assert not found.equal
    assert (found.nonfinite.nan_left, found.nonfinite.nan_right, found.nonfinite.mismatch) == (1, 1, 2)
    assert found.measurements["nonfinite_mismatch"] == Measurement("nonfinite_mismatch", 2, where=(1, 0))
    assert value(found, "allclose") == 2
    assert value(found, "max_absolute_error") == 0.0
    assert (found.finite, found.differing) == (2, 2)


def test_equal_infinities_are_equal() -> None:
    found = compare([INF, -INF, 1], [INF, -INF, 1])
    assert found.equal
    assert found.nonfinite.inf_both == 2


def test_opposite_infinities_are_a_mismatch() -> None:
    found = compare([INF, 1], [-INF, 1])
    assert (found.nonfinite.inf_left, found.nonfinite.inf_right, found.nonfinite.mismatch) == (1, 1, 1)
    assert value(found, "saturated_count") == 0


def test_infinity_against_the_largest_float16_is_a_mismatch_and_an_overflow() -> None:
    found = compare([1, INF], [1, 65504], "float16")
    assert value(found, "nonfinite_mismatch") == 1
    assert found.measurements["saturated_count"] == Measurement("saturated_count", 1, where=(1,))
    assert found.nonfinite.saturated == 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_every_float_dtype_saturates_at_its_own_maximum(dtype: str) -> None:
    top = float(np.finfo(dtype).max)
    found = compare([1, -top, 2], [1, -top / 2, 2], dtype)
    assert found.measurements["saturated_count"] == Measurement("saturated_count", 1, where=(1,))
    assert value(compare([1, top / 2, 2], [1, top, 2], dtype), "saturated_count") == 0


def test_bfloat16_saturates_at_its_own_maximum() -> None:
    top = np.array([0x7F7F0000], "uint32").view("float32")
    right = ArrayView(top / 2, "bfloat16")
    assert value(measure(ArrayView(top, "bfloat16"), right), "saturated_count") == 1
    assert value(measure(ArrayView(top), right), "saturated_count") == 0


def test_nan_on_the_left_is_an_overflow_and_on_the_right_is_not() -> None:
    assert value(compare([NAN, 1], [0, 1]), "saturated_count") == 1
    assert value(compare([0, 1], [NAN, 1]), "saturated_count") == 0


def test_no_finite_position_leaves_the_finite_metrics_undefined() -> None:
    found = compare([NAN, 1], [1, NAN])
    counts = {"nonfinite_mismatch", "saturated_count", "allclose", "bitwise_mismatch"}
    for metric in OF_TWO - counts:
        assert reason(found, metric) == "no position where both sides are finite"
    assert [value(found, metric) for metric in sorted(counts)] == [2, 2, 2, 1]
    assert found.absolute_error_sum is None


def test_all_zero_on_both_sides_is_equal_and_has_no_cosine() -> None:
    found = compare([0, 0], [0, 0])
    assert found.equal
    assert reason(found, "cosine_similarity") == "all elements of both sides are 0"
    assert reason(found, "relative_euclidean_distance") == "all elements of the right side are 0"
    assert [value(found, metric) for metric in RELATIVE] == [0.0, 0.0, 0.0]


def test_all_zero_on_one_side_names_the_side() -> None:
    left, right = compare([0, 0], [1, 2]), compare([1, 2], [0, 0])
    assert reason(left, "cosine_similarity") == "all elements of the left side are 0"
    assert value(left, "relative_euclidean_distance") == 1.0
    assert reason(right, "cosine_similarity") == "all elements of the right side are 0"
    for metric in ("relative_euclidean_distance", "normalized_max_error"):
        assert reason(right, metric) == "all elements of the right side are 0"
    for metric in RELATIVE:
        assert reason(right, metric) is not None
        assert right.vendor[metric] == 0.0
    assert right.right_zero_mismatch == 2


def test_zero_on_the_right_is_left_out_of_the_mean_and_counted() -> None:
    found = compare([1, 0, 3], [0, 0, 2])
    assert found.right_zero_mismatch == 1
    assert [value(found, metric) for metric in RELATIVE] == [0.5, 0.25, 0.5]
    assert found.vendor["mean_relative_error"] == pytest.approx(0.5 / 3)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_cosine_does_not_apply_to_one_element(shape: tuple[int, ...]) -> None:
    found = compare(np.full(shape, -7.5), np.full(shape, 1.25))
    assert not found.measurements["cosine_similarity"].applies
    assert value(found, "cosine_similarity") is None
    assert found.measurements["max_absolute_error"] == Measurement("max_absolute_error", 8.75, where=(0,) * len(shape))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 5)])
def test_empty_tensors_have_no_numbers_at_all(shape: tuple[int, ...]) -> None:
    found = compare(np.empty(shape), np.empty(shape))
    assert found.elements == 0
    assert {say(each.undefined) for each in found.measurements.values()} == {"no elements"}
    assert found.measurements.keys() == OF_TWO


def test_int64_beyond_two_to_the_53_is_exact() -> None:
    found = compare([2**53 + 1, 2**63 - 1], [2**53, -(2**63)], "int64")
    assert found.differing == 2
    assert value(found, "max_absolute_error") == 2**64 - 1
    assert found.absolute_error_sum == 2**64
    assert value(found, "mean_absolute_error") == float(2**63)


def test_int64_against_uint64_is_exact_where_no_64_bits_hold_the_distance() -> None:
    left, right = np.array([-(2**63), 5, -1], "int64"), np.array([2**64 - 1, 5, 0], "uint64")
    for a, b in ((left, right), (right, left)):
        found = measure(ArrayView(a), ArrayView(b))
        assert value(found, "max_absolute_error") == 2**64 - 1 + 2**63
        assert found.absolute_error_sum == 2**64 + 2**63
        assert found.differing == 2


def test_integer_against_float_is_compared_exactly() -> None:
    left, right = np.array([2**53 + 1, 2**53, 2**63 - 1], "int64"), np.array([2.0**53, 2.0**53, 2.0**63])
    for a, b in ((left, right), (right, left)):
        found = measure(ArrayView(a), ArrayView(b))
        assert found.differing == 2
        assert value(found, "max_absolute_error") == 1.0
        assert found.measurements["max_absolute_error"].where == (0,)
    assert measure(ArrayView(np.array([2**64 - 1], "uint64")), ArrayView(np.array([2.0**64]))).differing == 1


# Around 0, halves of a word, the last integers that float64 holds one by one, and both ends.
LANDMARKS = (0, -1, 1, 2**32, -(2**32), 2**32 - 1, 2**53, -(2**53), 2**53 + 1, -(2**53) - 1, 2**62 + 3, -(2**62) - 1)
ENDS = (2**63 - 1, -(2**63), 2**63 - 1025, -(2**63) + 1)


@pytest.mark.parametrize("kind", ["float64", "float32", "complex128"])
def test_integer_against_float_is_rounded_once(kind: str) -> None:
    rng = np.random.default_rng(3)
    integers = [mark + step for mark in LANDMARKS for step in (-1, 0, 1)] + list(ENDS)
    left = np.array(integers * 3, "int64")
    off = np.concatenate(
        [np.zeros(len(integers)), 1e-7 * rng.normal(size=len(integers)), rng.normal(size=len(integers))]
    )
    right = (left.astype("float64") * (1 + off / np.maximum(np.abs(left.astype("float64")), 1))).astype(kind)
    for a, b in ((left, right), (right, left)):
        for one, other in zip(a, b, strict=True):
            truth = abs(Fraction(_exact(one)) - Fraction(_exact(other)))
            found = measure(ArrayView(np.array([one])), ArrayView(np.array([other])))
            assert (found.differing == 0) == (truth == 0), (one, other)
            assert value(found, "max_absolute_error") == pytest.approx(float(truth), rel=2**-52, abs=0.0), (one, other)


def _exact(number: Any) -> int | float:
    plain = number.item()
    return plain.real if isinstance(plain, complex) else plain


def test_uint8_does_not_wrap() -> None:
    found = compare([75, 255], [76, 0], "uint8")
    assert value(found, "max_absolute_error") == 255
    assert found.absolute_error_sum == 256


def test_bools_count_as_zero_and_one() -> None:
    found = compare([True, False, True], [True, True, True], "bool")
    assert value(found, "max_absolute_error") == 1
    assert value(found, "cosine_similarity") == pytest.approx(2 / math.sqrt(6))
    assert (found.worst[0].left, found.worst[0].right) == (False, True)
    assert type(found.worst[0].left) is bool


def test_bools_of_any_byte_are_true() -> None:
    odd = ArrayView(np.array([2, 255, 0], "uint8").view("bool"))
    found = measure(odd, ArrayView(np.array([True, True, False])))
    assert found.equal
    assert value(found, "bitwise_mismatch") == 2
    assert value(found, "standard_deviation")[0] == pytest.approx(2 / 3)


def test_conjugates_are_not_equal() -> None:
    found = compare([1 + 1j, 2 - 2j], [1 - 1j, 2 + 2j], "complex64")
    assert found.differing == 2
    assert value(found, "cosine_similarity") == pytest.approx(0.0, abs=1e-15)
    assert value(found, "max_absolute_error") == 4.0
    assert reason(found, "kl_divergence") == "the tensors are complex"


def test_complex_is_nan_or_inf_if_either_part_is() -> None:
    left = [complex(NAN, 1), complex(1, INF), complex(INF, NAN), complex(INF, 0), 1]
    right = [complex(1, NAN), complex(2, INF), complex(NAN, 0), complex(-INF, 0), 1]
    found = compare(left, right, "complex128")
    assert (found.nonfinite.nan_both, found.nonfinite.inf_both) == (2, 1)
    assert (found.nonfinite.inf_left, found.nonfinite.inf_right, found.nonfinite.mismatch) == (1, 1, 1)
    assert found.nonfinite.first_mismatch == (3,)
    assert found.finite == 1


def test_complex_moduli_do_not_overflow() -> None:
    found = compare([1e300 + 1e300j, 1], [1e300 + 2e300j, 1], "complex128")
    assert value(found, "max_absolute_error") == pytest.approx(1e300)
    assert value(found, "relative_euclidean_distance") == pytest.approx(1 / math.sqrt(5))


def test_float16_products_do_not_overflow() -> None:
    found = compare([300, 300, 60000], [300, 301, 60000], "float16")
    assert 0.9999 < value(found, "cosine_similarity") < 1.0
    assert value(found, "root_mean_square_error") == pytest.approx(math.sqrt(1 / 3))


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e30), ("float32", 1e-30), ("float64", 1e200)])
def test_squares_neither_overflow_nor_underflow(dtype: str, scale: float) -> None:
    left, right = np.array([1, 2, 4]) * scale, np.array([1, 2, 3]) * scale
    found = compare(left, right, dtype)
    assert value(found, "cosine_similarity") == pytest.approx(17 / math.sqrt(21 * 14), rel=1e-6)
    assert value(found, "relative_euclidean_distance") == pytest.approx(1 / math.sqrt(14), rel=1e-6)
    assert value(found, "root_mean_square_error") == pytest.approx(scale / math.sqrt(3), rel=1e-6)
    assert value(found, "standard_deviation") == pytest.approx(
        (7 / 3 * scale, math.sqrt(14) / 3 * scale, 2 * scale, math.sqrt(2 / 3) * scale), rel=1e-6
    )


@pytest.mark.parametrize(("left", "right"), [(1e200, 1e-200), (1e-300, 1e300), (1e-200, 1e-200), (1e300, 1e300)])
@pytest.mark.parametrize("block_elements", [1, 3, 10])
def test_sides_of_far_magnitudes_still_have_a_cosine(left: float, right: float, block_elements: int) -> None:
    pattern = np.array([1.0, 2.0, 0.0, -1.0])
    a, b = ArrayView(pattern * left), ArrayView(pattern[::-1] * right)
    found = measure(a, b, block_elements=block_elements)
    assert value(found, "cosine_similarity") == pytest.approx(-1 / 3)


def test_small_blocks_before_large_ones_keep_their_place() -> None:
    left, right = np.array([1e-300, 2e-300, 0, 1e300]), np.array([2e-300, 1e-300, 0, 1e300])
    found = measure(ArrayView(left), ArrayView(right), block_elements=1)
    assert value(found, "root_mean_square_error") == pytest.approx(1e-300 / math.sqrt(2))
    assert value(found, "relative_euclidean_distance") == 0.0
    assert value(found, "max_relative_error") == 1.0


def test_a_difference_beyond_float64_is_undefined_not_infinite() -> None:
    found = compare([1.7e308, 1], [-1.7e308, 2], "float64", rtol=1.0, atol=1.0)
    for metric in ("max_absolute_error", "mean_absolute_error", "root_mean_square_error", "normalized_max_error"):
        assert reason(found, metric) == "the difference of two elements is larger than float64 can hold"
    assert value(found, "cosine_similarity") == -1.0
    assert reason(found, "max_relative_error") == "a relative error is larger than float64 can hold"
    assert found.absolute_error_sum is None


def test_a_range_beyond_float64_has_no_divergence() -> None:
    found = compare([1.7e308, -1.7e308, 1], [1.7e308, -1.7e308, 2], "float64")
    assert reason(found, "kl_divergence") == "the range of a side is larger than float64 can hold"
    assert value(found, "max_absolute_error") == 1.0
    assert value(found, "standard_deviation")[0] == pytest.approx(0, abs=1e293)


def test_relative_errors_beyond_float64_are_undefined() -> None:
    found = compare([1e300, 1], [1e-300, 1], "float64")
    assert reason(found, "max_relative_error") == "a relative error is larger than float64 can hold"
    assert value(found, "max_absolute_error") == 1e300
    assert "max_relative_error" not in found.vendor


def test_sums_beyond_float64_leave_their_means() -> None:
    found = compare(np.full(8, 1.5e308), np.full(8, 1e307), "float64")
    assert value(found, "mean_absolute_error") == pytest.approx(1.4e308)
    assert found.absolute_error_sum is None


@pytest.mark.parametrize(("dtype", "tiny"), [("float16", 2.0**-24), ("float32", 2.0**-149), ("float64", 5e-324)])
def test_denormals_are_numbers_of_their_own(dtype: str, tiny: float) -> None:
    found = compare([tiny, 0, 3 * tiny], [2 * tiny, 0, 3 * tiny], dtype)
    assert found.differing == 1
    assert value(found, "max_absolute_error") == tiny
    assert value(found, "max_relative_error") == 0.5
    assert value(found, "cosine_similarity") == pytest.approx(11 / math.sqrt(10 * 13))
    assert value(found, "relative_euclidean_distance") == pytest.approx(1 / math.sqrt(13))


# The smallest number above 0 of the coarser type, by IEEE 754 and the formats' own papers.
NEXT_TO_ZERO = (
    ("float64", "float64", 2.0**-1074),
    ("float32", "float64", 2.0**-149),
    ("complex64", "complex64", 2.0**-149),
    ("int32", "float32", 2.0**-149),
    ("float16", "float32", 2.0**-24),
    ("bfloat16", "float32", 2.0**-133),
    ("float8_e4m3fn", "float16", 2.0**-9),
    ("float8_e5m2", "float32", 2.0**-16),
    ("float8_e4m3fnuz", "float32", 2.0**-10),
    ("float8_e5m2fnuz", "float32", 2.0**-17),
    ("float8_e4m3b11fnuz", "float32", 2.0**-13),
    ("hifloat8", "float32", 2.0**-22),
)


def as_type(values: list[float], dtype: str) -> ArrayView:
    return ArrayView(np.array(values, DTYPES[dtype].native), dtype)


@pytest.mark.parametrize(("coarse", "fine", "unit"), NEXT_TO_ZERO)
@pytest.mark.parametrize("size", [7, 100, 1500])
@pytest.mark.parametrize("kernel", EACH)
def test_what_rounds_to_zero_on_one_side_has_no_relative_error(
    coarse: str, fine: str, unit: float, size: int, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, kernel)
    same = [1.0] * (size - 6)
    left = [0.0, -2 * unit, 0.0, unit, 0.0, 3 * unit, *same]
    right = [unit, 0.0, -2 * unit, -unit, 3 * unit, 0.0, *same]
    if DTYPES[coarse].kind == "integer":
        # An integer is 0 or far away; the float beside it is as it was.
        left, right = [0.0] * 6 + same, [unit, -2 * unit, 0.0, 0.0, 3 * unit, 4 * unit, *same]
        found = measure(as_type(left, coarse), as_type(right, fine))
        assert (found.near_zero, found.right_zero_mismatch) == (2, 0)
        assert value(found, "max_relative_error") == 1.0
        return
    found = measure(as_type(left, coarse), as_type(right, coarse), block_elements=64)
    assert (found.near_zero, found.right_zero_mismatch, found.differing) == (3, 1, 6)
    # Signs differ, and three units are no rounding.
    assert value(found, "max_relative_error") == 2.0
    assert value(found, "accumulated_relative_error") == 3.0
    assert value(found, "mean_relative_error") == pytest.approx(3 / (size - 1))
    assert value(found, "bitwise_mismatch") == 6
    # The coarser type decides, on whichever side it is.
    for a, b in ((coarse, fine), (fine, coarse)):
        if unit >= DTYPES[DTYPES[fine].component or fine].smallest:
            assert measure(as_type(left, a), as_type(right, b)).near_zero == 3


@pytest.mark.parametrize("kernel", EACH)
def test_ratios_do_not_apply_where_the_right_is_zero_and_the_left_rounds_to_it(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, kernel)
    ratios = ("cosine_similarity", "relative_euclidean_distance", "normalized_max_error", "kl_divergence")
    found = compare([0, 1.4e-45, 0], [0, 0, 0])
    assert not any(found.measurements[metric].applies for metric in ratios)
    assert [value(found, metric) for metric in RELATIVE] == [0.0] * 3
    assert found.differing == 1
    # Not where more than that differs, nor where the left is what is 0: it may have lost what the right has.
    for left, right in (([0, 4.2e-45], [0, 0]), ([1.4e-45, 1], [0, 0]), ([0, 0], [0, 1.4e-45])):
        other = compare(left, right)
        assert all(other.measurements[metric].applies for metric in ratios)
    assert value(compare([0, 0], [0, 1.4e-45]), "relative_euclidean_distance") == 1.0


def test_minus_zero_is_equal_to_zero_but_for_its_bits() -> None:
    found = compare([-0.0, 1], [0.0, 1])
    assert found.equal
    assert value(found, "bitwise_mismatch") == 1
    assert found.worst == ()


def test_big_endian_fortran_and_strided_arrays_are_read_by_logical_index() -> None:
    plain = np.arange(24, dtype="float32").reshape(2, 3, 4)
    wide = np.zeros((2, 3, 8), "float32")
    wide[..., ::2] = plain
    for other in (plain.astype(">f4"), np.asfortranarray(plain), wide[..., ::2]):
        assert measure(ArrayView(other), ArrayView(plain), block_elements=5).equal


def test_shapes_are_never_guessed() -> None:
    for left, right in (((4, 1), (4,)), ((2, 3), (3, 2)), ((), (1,))):
        with pytest.raises(ValueError, match="bring both to one shape first"):
            compare(np.zeros(left), np.zeros(right))


def test_swapping_the_sides_swaps_what_is_relative() -> None:
    found, swapped = compare([2, 4], [1, 4]), compare([1, 4], [2, 4])
    assert value(found, "max_relative_error") == 1.0
    assert value(swapped, "max_relative_error") == 0.5
    assert value(found, "kl_divergence") == value(swapped, "kl_divergence") == 0.0


def test_divergence_of_disjoint_peaks_is_the_vendors() -> None:
    epsilon = 2.0**-23
    found = compare([1, 0, 0, 0], [0, 1, 0, 0])
    total = 1 + 3 * epsilon
    assert value(found, "kl_divergence") == pytest.approx((1 - epsilon) * -math.log(epsilon) / total, rel=1e-12)


def test_divergence_is_blind_to_scale_and_shift() -> None:
    x = np.random.default_rng(3).normal(size=99)
    assert value(compare(3 * x + 10, x, "float64"), "kl_divergence") == pytest.approx(0.0, abs=1e-13)


def test_allclose_counts_as_torch_does() -> None:
    found = compare([1.0, 1.5, NAN, INF, 2.0], [1.25, 1.25, NAN, 1.0, 1.0], "float32", rtol=0.1, atol=0.125)
    assert value(found, "allclose") == 2


def test_allclose_counts_what_is_outside_by_little() -> None:
    assert value(compare([1.0, 1.5, 1.25], [1.0, 1.0, 1.0], "float32", atol=0.375), "allclose") == 1
    assert value(compare([1.0, 1.5, 1.25], [1.0, 1.0, 1.0], "float32", rtol=0.375), "allclose") == 1


def test_class_mismatches_come_before_differences_beyond_float64() -> None:
    for tolerance in ({}, {"rtol": 0.1}, {"atol": 0.1}):
        found = compare([1.7e308, NAN, 2], [-1.7e308, 1, 1], "float64", **tolerance)
        assert [each.index for each in found.worst] == [(1,), (0,), (2,)]


def test_class_mismatches_come_first_among_the_worst() -> None:
    found = compare([1, NAN, 9, INF, 5], [2, 3, 0, INF, 5], "float32", rtol=0.5)
    assert [(each.index, each.ratio) for each in found.worst] == [((1,), INF), ((2,), INF), ((0,), 1.0)]
    assert found.worst[0].right == 3.0


def test_refusals_say_what_was_asked() -> None:
    view = ArrayView(np.zeros(3))
    with pytest.raises(ValueError, match="block_elements is 0"):
        measure(view, view, block_elements=0)
    with pytest.raises(ValueError, match="rtol is -1"):
        measure(view, view, rtol=-1)
