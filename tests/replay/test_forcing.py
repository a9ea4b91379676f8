"""Scores and judgements of replayed tensors, by formulas of their own; which tensor of the left goes where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_dumps import planned

from pytest_msdump.capabilities.replay.forcing import (
    EXP_FAMILY,
    ForcedPlace,
    Forcing,
    Marks,
    in_order_of,
    judge,
    nudged,
    precision,
)
from pytest_msdump.core.model.record import Local
from pytest_msdump.record import DumpWriter

EXACT = np.random.default_rng(3).normal(size=(40, 50))
SINGLE = EXACT.astype("f4")


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round half to even by whole numbers of units in the last place."""
    _, exponent = np.frexp(values)
    unit = np.ldexp(1.0, exponent - 8)
    return (np.rint(values / unit) * unit).astype("f4")


def judged(left, dtype="float32", exact=EXACT, own=SINGLE, limit=16.0):
    return judge(left, dtype, exact, own, limit=limit)


def test_the_score_is_the_larger_ratio_of_the_two_distances():
    left = SINGLE + np.float32(3e-6) * np.random.default_rng(4).normal(size=SINGLE.shape).astype("f4")
    error, own = left.astype("f8") - EXACT, SINGLE.astype("f8") - EXACT
    euclid = np.linalg.norm(error) / np.linalg.norm(own)
    # The reference's largest error is below the floor of half a rounding unit of the largest value.
    largest = np.abs(error).max() / max(np.abs(own).max(), 2.0**-25 * np.abs(EXACT).max())
    floor = np.linalg.norm(error) / (2.0**-25 * np.linalg.norm(EXACT))
    found = judged(left)
    assert found.score == pytest.approx(max(min(euclid, floor), largest), rel=1e-6)
    assert (found.outcome, found.measure, found.limit) == ("fail", "score", 16.0)


def test_a_reference_that_is_exact_allows_a_rounding():
    exact = SINGLE.astype("f8")
    left = np.nextafter(SINGLE, np.float32(9))
    assert judged(left, exact=exact).outcome == "pass"
    assert judged(SINGLE, exact=exact).score == 0.0


HALVES = [("bfloat16", bfloat16(EXACT)), ("float16", EXACT.astype("f2").astype("f8"))]


@pytest.mark.parametrize(("dtype", "rounded"), HALVES)
def test_sixteen_bits_are_judged_by_the_share_that_is_not_correctly_rounded(dtype, rounded):
    own, flat = rounded.astype("f4"), np.arange(EXACT.size).reshape(EXACT.shape)
    assert judged(rounded, dtype, own=own) == Local("pass", "flips", 0.0, 1e-3)
    # To the other side: a rounding unit at most.
    unit = np.ldexp(1.0, np.frexp(EXACT)[1] - (8 if dtype == "bfloat16" else 11))
    other = np.where(rounded > EXACT, rounded - unit, rounded + unit)
    assert judged(np.where(flat < 2, other, rounded), dtype, own=own).outcome == "pass"
    found = judged(np.where(flat < 3, other, rounded), dtype, own=own)
    assert (found.outcome, found.measure, found.score) == ("fail", "flips", 3 / EXACT.size)


@pytest.mark.parametrize(("dtype", "rounded"), HALVES)
@pytest.mark.parametrize("factor", [-3, 0, 0.9, 1.1, 1e4])
def test_no_share_of_the_elements_may_be_of_any_size(dtype, rounded, factor):
    # One of 2,000 elements, one of 1,024 channels, all of two.
    one = rounded.copy()
    one[np.unravel_index(np.abs(EXACT - 1).argmin(), EXACT.shape)] *= factor
    assert judged(one, dtype, own=rounded).outcome == "fail"
    wide = np.random.default_rng(5).normal(size=(64, 1024))
    exact = bfloat16(wide).astype("f8") if dtype == "bfloat16" else wide.astype("f2").astype("f8")
    channel = exact.copy()
    channel[:, 7] *= factor
    assert judged(channel, dtype, exact=exact, own=exact).outcome == "fail"
    assert judged(exact[:2, :1] * factor, dtype, exact=exact[:2, :1], own=exact[:2, :1]).outcome == "fail"


@pytest.mark.parametrize("size", [1.0, 0.1])
def test_a_channel_is_found_where_the_reference_rounds_in_several_places(size):
    exact = np.random.default_rng(6).normal(size=(4, 6, 256))
    exact[..., 9] *= size
    own, left = (bfloat16(bfloat16(exact * by) / np.float32(by)) for by in (1.37, 1.61))
    assert judged(left, "bfloat16", exact=exact, own=own, limit=8.0).outcome == "pass"
    left[..., 9] *= 1.1
    found = judged(left, "bfloat16", exact=exact, own=own, limit=8.0)
    assert (found.outcome, found.measure) == ("fail", "score")


def test_what_is_computed_in_16_bits_and_stored_in_32_is_judged_as_16_bits():
    own = bfloat16(EXACT)
    left = own.copy()
    left[:, 5] *= 1.1
    assert judge(left, "float32", EXACT, own, limit=64.0).outcome == "pass"
    assert judge(left, "float32", EXACT, own, limit=64.0, half=8.0).outcome == "fail"
    # To the other side where a rounding has two.
    other = bfloat16(bfloat16(EXACT * 1.37) / np.float32(1.37))
    assert judge(other, "float32", EXACT, own, limit=64.0, half=8.0).outcome == "pass"


@pytest.mark.parametrize("mask", [-3.3e38, -1e9, -1e4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_beside_a_mask_is_judged_alone(mask, dtype):
    scores = np.random.default_rng(7).normal(size=(32, 32))
    exact = scores + np.triu(np.full((32, 32), mask), 1)
    own = exact.astype("f4") if dtype == "float32" else bfloat16(exact)
    assert judged(own, dtype, exact=exact, own=own).outcome == "pass"
    wrong = np.where(np.tri(32) > 0, bfloat16(scores * 1.1), own)
    assert judged(wrong, dtype, exact=exact, own=own).outcome == "fail"


def test_flips_do_not_count_where_the_reference_rounds_in_several_places():
    twice = bfloat16(bfloat16(EXACT * 1.37) / np.float32(1.37))
    found = judged(twice, "bfloat16", own=twice)
    assert (found.outcome, found.measure, found.score) == ("pass", "score", 1.0)


@given(st.floats(min_value=2.0**-120, max_value=2.0**120), st.booleans())
def test_correct_rounding_is_to_the_nearest_and_to_even(value, negative):
    exact = np.array([-value if negative else value] * 4)
    expected = bfloat16(exact)
    assert judge(expected, "bfloat16", exact, expected, limit=16.0).score == 0.0


def test_whole_numbers_have_to_be_equal():
    numbers = np.arange(6)
    assert judge(numbers, "int64", numbers, numbers, limit=16.0).outcome == "pass"
    assert judge(numbers[::-1], "int64", numbers, numbers, limit=16.0) == Local("fail", "differing", 6.0, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, EXACT.size])
def test_nan_and_inf_are_wrong_where_the_reference_is_finite_and_the_other_way_round(dtype, value, count):
    finite = EXACT.astype("f2" if dtype == "float16" else "f4").astype("f8")
    foreign = np.where(np.arange(EXACT.size).reshape(EXACT.shape) < count, value, finite)
    assert judged(foreign, dtype) == Local("fail", "nonfinite", count, 0.0)
    assert judged(finite, dtype, exact=foreign, own=foreign) == Local("fail", "nonfinite", count, 0.0)
    if count == 1:
        assert judged(foreign, dtype, exact=foreign, own=foreign).outcome == "pass"
    else:
        assert judged(foreign, dtype, exact=foreign, own=foreign).why.code == "local_nonfinite"


def test_what_overflows_in_either_run_of_the_reference_may_overflow_and_the_rest_is_judged():
    left, exact, own = SINGLE.copy(), EXACT.copy(), SINGLE.copy()
    exact[0, :3], own[0, :3], left[0, :3] = 1e39, (np.inf, np.inf, np.inf), (np.inf, np.inf, np.inf)
    assert judged(left, exact=exact, own=own).outcome == "pass"
    # Where the reference alone overflows the left is as it should be.
    exact[0, 0], left[0, 0] = 1.0, 1.0
    assert judged(left, exact=exact, own=own).outcome == "pass"
    left[1] *= 1.01
    assert judged(left, exact=exact, own=own).outcome == "fail"


def test_zeros_in_exact_arithmetic_are_no_division_by_zero():
    zeros = np.zeros(4)
    assert judge(np.zeros(4, "f4"), "float32", zeros, np.zeros(4, "f4"), limit=16.0).outcome == "pass"
    assert judge(np.ones(4, "f4"), "float32", zeros, np.zeros(4, "f4"), limit=16.0).outcome == "fail"
    # What rounding leaves of nothing in the reference it may leave in the left.
    noise = np.full(4, 1e-8, "f4")
    assert judge(-noise, "float32", zeros, noise, limit=16.0) == Local("pass", "score", 1.0, 16.0)
    assert judge(noise * 100, "float32", zeros, noise, limit=16.0).outcome == "fail"


def test_what_is_stored_in_more_has_to_be_as_good_as_the_reference():
    assert judged(EXACT, "float64").outcome == judged(SINGLE.astype("f8"), "float64").outcome == "pass"
    assert judged(EXACT * 1.00001, "float64").outcome == "fail"


def test_complex_numbers_are_judged_by_their_parts():
    exact = EXACT[:20] + 1j * EXACT[20:]
    assert judged(exact.astype("c8"), "complex64", exact=exact, own=exact.astype("c8")).outcome == "pass"
    assert judged(exact.astype("c8").conj(), "complex64", exact=exact, own=exact.astype("c8")).outcome == "fail"
    for one, dtype, other in ((exact, "complex64", EXACT[:20]), (EXACT[:20], "float32", exact)):
        found = judged(one, dtype, exact=other, own=other)
        assert (found.outcome, found.why.code) == ("error", "local_kind")


def test_a_whole_number_of_either_precision_is_right():
    exact, own = np.array([25, 7, 0]), np.array([26, 7, 0])
    assert judge(own, "uint8", exact, own, limit=16.0).outcome == "pass"
    assert judge(exact, "uint8", exact, own, limit=16.0).outcome == "pass"
    assert judge(exact - 1, "int64", exact, own, limit=16.0).score == 3.0


def test_a_whole_number_at_a_tie_may_be_that_of_either_side_and_no_other_may():
    exact = np.array([26, 3, -7])

    def ties():
        yield from (np.array([25, 3, -7]), np.array([26, 3, -8]))

    def differing(*left):
        return judge(np.array(left), "int8", exact, exact, limit=16.0, ties=ties).score

    assert differing(25, 3, -8) == 0
    assert differing(25, 4, -7) == differing(24, 3, -7) == differing(26, 3, -6) == 1


def test_nudged_values_stand_on_either_side_and_decide_between_equals():
    values = np.array([[2.5, 1.0, 2.5], [-3.5, 7.0, 0.0]])
    found = [*nudged(values, 2.0**-24)]
    assert {tuple(np.round(one[0])) for one in found[:2]} == {(2, 1, 2), (3, 1, 3)}
    assert [one[0].argmax() for one in found[2:]] == [2, 0]
    assert all(np.abs(one - values).max() < 1e-6 for one in found)


def test_what_has_no_finer_type_is_not_judged():
    assert judged(EXACT, "float8_e5m2").why.code == "local_dtype"
    assert judge(np.zeros(0, "f4"), "float32", np.zeros(0), np.zeros(0, "f4"), limit=16.0).why.code == "local_empty"


@pytest.mark.parametrize(
    ("name", "has_exp"),
    [("_softmax", 1), ("gelu", 1), ("exp", 1), ("expand", 0), ("relu", 0), ("elu", 1), ("sigmoid_", 1), ("prelu", 0)],
)
def test_operations_with_an_exponential_are_known_by_their_names(name, has_exp):
    assert bool(EXP_FAMILY.search(name)) == has_exp


def test_the_precision_of_a_run_is_its_coarsest():
    assert precision([]) == ("float32", False)
    assert precision(["float16", "float16", "int64"]) == ("float16", False)


# -- dumps ------------------------------------------------------------------------------------------------------------


def forcing(tmp_path: Path, left, right, **table):
    """Both sides by name; the right one as a recording has it."""
    for side, tensors in (("left", left), ("right", right)):
        with DumpWriter(tmp_path / side, framework="torch") as writer:
            for name, tensor in tensors.items():
                writer.write(name, tensor)
    (tmp_path / "own").mkdir()
    pairs = planned(tmp_path, **table).pairing.pairs
    return Forcing(pairs, tmp_path / "own"), pairs


def test_a_tensor_of_the_left_is_put_in_in_the_order_of_the_reference(tmp_path):
    right = np.arange(24, dtype="f4").reshape(2, 3, 4, 1)
    left = right.transpose(0, 2, 3, 1)
    found, pairs = forcing(tmp_path, {"conv": left}, {"conv": right}, left_format="NHWC", right_format="NCHW")
    np.testing.assert_array_equal(found.values(ForcedPlace("conv", 0), right.shape)[0], right)
    np.testing.assert_array_equal(in_order_of(pairs[0], right.shape)[0], right)


def test_a_map_entry_s_transpose_and_reshape_are_undone(tmp_path):
    right = np.arange(24, dtype="f4").reshape(2, 3, 4)
    entry = {"left": "a", "right": "b", "transpose": [2, 0, 1], "reshape": True}
    found, _ = forcing(tmp_path, {"a": right.transpose(2, 0, 1).reshape(4, 6)}, {"b": right}, map=[entry])
    np.testing.assert_array_equal(found.values(ForcedPlace("b", 0), right.shape)[0], right)


def test_another_shape_is_an_error_and_nothing_is_put_in(tmp_path):
    found, _ = forcing(tmp_path, {"a": np.zeros(3, "f4")}, {"a": np.zeros(3, "f4")})
    assert found.values(ForcedPlace("a", 0), (4,)) is None
    assert (found.whole()[0].outcome, found.whole()[0].why.code) == ("error", "local_shape")


def test_a_damaged_file_is_an_error(tmp_path):
    found, pairs = forcing(tmp_path, {"a": np.zeros(3, "f4")}, {"a": np.zeros(3, "f4")})
    pairs[0].left.source.path.write_bytes(b"\x93NUMPY\x01\x00")
    assert found.values(ForcedPlace("a", 0), (3,)) is None
    assert (found.whole()[0].outcome, found.whole()[0].why.code) == ("error", "local_unreadable")


def test_what_the_reference_never_calls_is_a_reason(tmp_path):
    tensors = {"a": np.zeros(3, "f4"), "a/grad_output": np.zeros(3, "f4"), "a/grad_input": np.zeros(3, "f4")}
    found, pairs = forcing(tmp_path, tensors, tensors)
    assert found.has_gradients
    codes = {pairs[number].right.key.op.label: local.why.code for number, local in found.whole().items()}
    assert codes == {"a": "local_not_called", "a/grad_output": "local_no_gradient", "a/grad_input": "local_input"}


def test_the_first_who_sees_a_wrong_segment_is_accused_and_what_else_it_went_into_is_not(tmp_path):
    tensors = dict.fromkeys("abc", SINGLE)
    found, _ = forcing(tmp_path, {**tensors, "a": SINGLE * 2, "b": SINGLE * 2, "c": SINGLE * 2}, tensors)
    inside = {"a": {"x"}, "b": {"x", "y"}, "c": set()}
    for name, modules in inside.items():
        found.keep(ForcedPlace(name, 0), SINGLE)
        found.judge(ForcedPlace(name, 0), EXACT, Marks(frozenset(modules)))
    a, b, c = found.whole().values()
    assert (a.outcome, a.segment) == ("fail", ("x",))
    assert (b.outcome, b.why.parameters) == ("not_replayable", {"module": "a"})
    assert c.outcome == "fail"


@pytest.mark.parametrize("marks", [Marks(random="native_dropout"), Marks(single="exotic")])
def test_random_numbers_and_missing_kernels_are_reasons(tmp_path, marks):
    found, _ = forcing(tmp_path, {"a": SINGLE}, {"a": SINGLE})
    found.keep(ForcedPlace("a", 0), SINGLE)
    found.judge(ForcedPlace("a", 0), EXACT, marks)
    assert found.whole()[0].why.code == ("local_random" if marks.random else "local_single")


def test_marks_join():
    one = Marks(frozenset("a"), random="rand", around=frozenset("c"))
    other = Marks(frozenset("b"), has_exp=True, is_wide=True)
    assert one | other == Marks(frozenset("ab"), True, "rand", "", True, frozenset("c"))
