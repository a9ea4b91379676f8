"""What other tools get wrong: corner cases by name, against exact arithmetic, and what is said of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from campaign import oracle
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
OF_TWO = {name for name, fact in METRICS.items() if not fact.golden and not fact.of}
RELATIVE = ("max_relative_error", "mean_relative_error", "accumulated_relative_error")


def compare(left: npt.ArrayLike, right: npt.ArrayLike, dtype: str = "float32", **tolerance: float) -> Comparison:
    return measure(ArrayView(np.array(left, dtype)), ArrayView(np.array(right, dtype)), **tolerance)  # type: ignore[arg-type]


def value(comparison: Comparison, metric: str) -> Any:
    return comparison.measurements[metric].value


def reason(comparison: Comparison, metric: str) -> str | None:
    found = comparison.measurements[metric]
    assert found.value is None
    return None if found.undefined is None else say(found.undefined)


def top_of(dtype: str) -> float:
    return oracle.BFLOAT16_MAX if dtype == "bfloat16" else float(np.finfo(dtype).max)


FAR = np.array([1.0, 2.0, 0.0, -1.0])
PEAKS = ([1, 0, 0, 0], [0, 1, 0, 0])
SHIFTED = np.random.default_rng(3).normal(size=99)
# Left, right, then one type or that of each side, and tolerances, where they are not float32 and 0.
CORNERS: dict[str, tuple[Any, ...]] = {
    "NaN in the same place": ([1, NAN, 3], [1, NAN, 3]),
    "NaN against a number": ([1, 2, NAN, 4], [1, 2, 3, NAN]),
    "NaN on the left": ([NAN, 1], [0, 1]),
    "NaN on the right": ([0, 1], [NAN, 1]),
    "nothing finite": ([NAN, 1], [1, NAN]),
    "equal infinities": ([INF, -INF, 1], [INF, -INF, 1]),
    "opposite infinities": ([INF, 1], [-INF, 1]),
    "infinity against the largest number": ([1, INF], [1, 65504], "float16"),
    **{
        f"{dtype} saturated {side}": (*([1, -top, 2], [1, -top / 2, 2])[::step], dtype)
        for dtype in ("float16", "float32", "float64", "complex64", "complex128", "bfloat16")
        for top in [top_of(dtype)]
        for side, step in (("on the left", 1), ("on the right", -1))
    },
    "the largest bfloat16 as float32": ([oracle.BFLOAT16_MAX], [oracle.BFLOAT16_MAX / 2]),
    "zeros": ([0, 0], [0, 0]),
    "zeros on the left": ([0, 0], [1, 2]),
    "zeros on the right": ([1, 2], [0, 0]),
    "a zero on the right": ([1, 0, 3], [0, 0, 2]),
    "minus zero": ([-0.0, 1], [0.0, 1]),
    "one element": ([-7.5], [1.25]),
    "integers beyond 2^53": ([2**53 + 1, 2**63 - 1], [2**53, -(2**63)], "int64"),
    "no 64 bits hold the distance": ([-(2**63), 5, -1], [2**64 - 1, 5, 0], ("int64", "uint64")),
    "nor the other way round": ([2**64 - 1, 5, 0], [-(2**63), 5, -1], ("uint64", "int64")),
    "integers against floats": ([2**53 + 1, 2**53, 2**63 - 1], [2.0**53, 2.0**53, 2.0**63], ("int64", "float64")),
    "floats against integers": ([2.0**53, 2.0**53, 2.0**63], [2**53 + 1, 2**53, 2**63 - 1], ("float64", "int64")),
    "the largest uint64 against a float": ([2**64 - 1], [2.0**64], ("uint64", "float64")),
    "uint8 does not wrap": ([75, 255], [76, 0], "uint8"),
    "bools": ([True, False, True], [True, True, True], "bool"),
    "conjugates": ([1 + 1j, 2 - 2j], [1 - 1j, 2 + 2j], "complex64"),
    "moduli do not overflow": ([1e300 + 1e300j, 1], [1e300 + 2e300j, 1], "complex128"),
    "products of float16 do not overflow": ([300, 300, 60000], [300, 301, 60000], "float16"),
    **{
        f"squares of {dtype} at {scale:g}": (np.array([1, 2, 4]) * scale, np.array([1, 2, 3]) * scale, dtype)
        for dtype, scale in (("float32", 1e30), ("float32", 1e-30), ("float64", 1e200))
    },
    **{
        f"magnitudes of {left:g} and {right:g}": (FAR * left, FAR[::-1] * right, "float64")
        for left, right in ((1e200, 1e-200), (1e-300, 1e300), (1e-200, 1e-200), (1e300, 1e300))
    },
    "small before large": ([1e-300, 2e-300, 0, 1e300], [2e-300, 1e-300, 0, 1e300], "float64"),
    "a difference beyond float64": ([1.7e308, 1], [-1.7e308, 2], "float64", (1.0, 1.0)),
    "a range beyond float64": ([1.7e308, -1.7e308, 1], [1.7e308, -1.7e308, 2], "float64"),
    "a relative error beyond float64": ([1e300, 1], [1e-300, 1], "float64"),
    "a sum beyond float64": (np.full(8, 1.5e308), np.full(8, 1e307), "float64"),
    **{
        f"denormals of {dtype}": ([tiny, 0, 3 * tiny], [2 * tiny, 0, 3 * tiny], dtype)
        for dtype, tiny in (("float16", 2.0**-24), ("float32", 2.0**-149), ("float64", 5e-324))
    },
    "what is relative": ([2, 4], [1, 4]),
    "what is relative, swapped": ([1, 4], [2, 4]),
    "disjoint peaks": PEAKS,
    "scaled and shifted": (3 * SHIFTED + 10, SHIFTED, "float64"),
    "tolerances of both kinds": ([1.0, 1.5, NAN, INF, 2.0], [1.25, 1.25, NAN, 1.0, 1.0], "float32", (0.1, 0.125)),
    "an absolute tolerance": ([1.0, 1.5, 1.25], [1.0, 1.0, 1.0], "float32", (0.0, 0.375)),
    "a relative tolerance": ([1.0, 1.5, 1.25], [1.0, 1.0, 1.0], "float32", (0.375, 0.0)),
}


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("block", [1, 3, 10])
@pytest.mark.parametrize("name", CORNERS)
def test_corner_cases_agree_with_exact_arithmetic(name: str, block: int, kernel: str) -> None:
    left, right, dtype, tolerance = (*CORNERS[name], *("float32", (0.0, 0.0))[len(CORNERS[name]) - 2 :])
    dtypes = (dtype, dtype) if isinstance(dtype, str) else dtype
    sides = [np.asarray(side, DTYPES[one].native) for side, one in zip((left, right), dtypes, strict=True)]
    pair = oracle.Pair(sides[0], sides[1], dtypes, tolerance, block, name)
    assert list(oracle.disagreements(oracle.measured(pair, kernel), oracle.truth_of(pair))) == []


def test_nan_payloads_differ_in_bits_only() -> None:
    left = np.array([0x7FC00000, 0x7FC00001], "uint32").view("float32")
    right = np.array([0x7FC00000, 0xFFC00000], "uint32").view("float32")
    found = measure(ArrayView(left), ArrayView(right))
    assert found.equal
    assert value(found, "bitwise_mismatch") == 1


@pytest.mark.parametrize(
    ("left", "right", "counts", "first", "first_mismatch"),
    [
        ([1, NAN, 3], [1, NAN, 3], {"nan_both": 1}, (1,), None),
        ([[1, 2], [NAN, 4]], [[1, 2], [3, NAN]], {"nan_left": 1, "nan_right": 1, "mismatch": 2}, (1, 0), (1, 0)),
        ([INF, -INF, 1], [INF, -INF, 1], {"inf_both": 2}, (0,), None),
        ([INF, 1], [-INF, 1], {"inf_left": 1, "inf_right": 1, "mismatch": 1}, (0,), (0,)),
        # A complex number is NaN or Inf if either part is.
        (
            [complex(NAN, 1), complex(1, INF), complex(INF, NAN), complex(INF, 0), 1],
            [complex(1, NAN), complex(2, INF), complex(NAN, 0), complex(-INF, 0), 1],
            {"nan_both": 2, "inf_both": 1, "inf_left": 1, "inf_right": 1, "mismatch": 1},
            (0,),
            (3,),
        ),
    ],
)
def test_classes_are_counted_and_placed(
    left: Any, right: Any, counts: dict[str, int], first: Any, first_mismatch: Any
) -> None:
    found = compare(left, right, "complex128" if np.iscomplexobj(left) else "float32")
    names = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "mismatch", "saturated")
    assert {name: getattr(found.nonfinite, name) for name in names} == dict.fromkeys(names, 0) | counts
    assert (found.nonfinite.first_nonfinite, found.nonfinite.first_mismatch) == (first, first_mismatch)
    assert found.measurements["nonfinite_mismatch"].where == first_mismatch


def test_a_saturated_and_a_largest_difference_have_a_place() -> None:
    found = compare([1, INF], [1, 65504], "float16")
    assert found.measurements["saturated_count"] == Measurement("saturated_count", 1, where=(1,))
    for shape in ((), (1,), (1, 1, 1)):
        one = compare(np.full(shape, -7.5), np.full(shape, 1.25))
        assert one.measurements["max_absolute_error"] == Measurement(
            "max_absolute_error", 8.75, where=(0,) * len(shape)
        )
        assert not one.measurements["cosine_similarity"].applies


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (
            [NAN, 1],
            [1, NAN],
            {
                "no position where both sides are finite": OF_TWO
                - {"nonfinite_mismatch", "saturated_count", "allclose", "bitwise_mismatch"}
            },
        ),
        ([], [], {"no elements": OF_TWO}),
        (
            [0, 0],
            [0, 0],
            {
                "all elements of both sides are 0": ["cosine_similarity"],
                "all elements of the right side are 0": ["relative_euclidean_distance"],
            },
        ),
        ([0, 0], [1, 2], {"all elements of the left side are 0": ["cosine_similarity"]}),
        (
            [1, 2],
            [0, 0],
            {
                "all elements of the right side are 0": [
                    "cosine_similarity",
                    "relative_euclidean_distance",
                    "normalized_max_error",
                ]
            },
        ),
        ([1j], [1], {"the tensors are complex": ["kl_divergence"]}),
        (
            [1.7e308, 1],
            [-1.7e308, 2],
            {
                "the difference of two elements is larger than float64 can hold": [
                    "max_absolute_error",
                    "mean_absolute_error",
                    "root_mean_square_error",
                    "normalized_max_error",
                ],
                "a relative error is larger than float64 can hold": ["max_relative_error"],
            },
        ),
        (
            [1.7e308, -1.7e308, 1],
            [1.7e308, -1.7e308, 2],
            {"the range of a side is larger than float64 can hold": ["kl_divergence"]},
        ),
        ([1e300, 1], [1e-300, 1], {"a relative error is larger than float64 can hold": ["max_relative_error"]}),
    ],
)
def test_what_has_no_number_says_why(left: Any, right: Any, said: dict[str, Any]) -> None:
    found = compare(left, right, "complex128" if np.iscomplexobj(left) else "float64")
    for sentence, metrics in said.items():
        for metric in metrics:
            assert reason(found, metric) == sentence, metric


def test_sums_that_no_float64_holds_are_left_out() -> None:
    for left, right in (([NAN, 1], [1, NAN]), ([1.7e308, 1], [-1.7e308, 2]), ([1.5e308] * 8, [1e307] * 8)):
        assert compare(left, right, "float64").absolute_error_sum is None
    assert compare([2**53 + 1, 2**63 - 1], [2**53, -(2**63)], "int64").absolute_error_sum == 2**64


def test_the_vendors_relative_errors_count_zeros_on_the_right_as_nothing() -> None:
    zeros, one = compare([1, 2], [0, 0]), compare([1, 0, 3], [0, 0, 2])
    assert [zeros.vendor[metric] for metric in RELATIVE] == [0.0] * 3
    assert one.vendor["mean_relative_error"] == pytest.approx(0.5 / 3)
    assert "max_relative_error" not in compare([1e300, 1], [1e-300, 1], "float64").vendor


def test_bools_of_any_byte_are_true() -> None:
    found = measure(ArrayView(np.array([2, 255, 0], "uint8").view("bool")), ArrayView(np.array([True, True, False])))
    assert (found.equal, value(found, "bitwise_mismatch")) == (True, 2)
    assert value(found, "standard_deviation")[0] == pytest.approx(2 / 3)


def test_a_bool_stays_one_among_the_worst() -> None:
    worst = compare([True, False, True], [True, True, True], "bool").worst[0]
    assert (worst.left, worst.right, type(worst.left)) == (False, True, bool)


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
