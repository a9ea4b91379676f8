"""Scores and judgements of replayed tensors, by formulas of their own; which tensor of the left goes where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_msdump.comparison.planning import plan
from pytest_msdump.facts.replay import EXP_FAMILY
from pytest_msdump.record import DumpWriter
from pytest_msdump.replay.forcing import Forcing, Marks, Place, in_order_of, judge, precision
from pytest_msdump.suite import load_suite

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


@pytest.mark.parametrize(("dtype", "rounded"), [("bfloat16", bfloat16(EXACT)), ("float16", EXACT.astype("f2"))])
def test_sixteen_bits_are_judged_by_the_share_that_is_not_correctly_rounded(dtype, rounded):
    own = rounded.astype("f4")
    assert judged(rounded, dtype, own=own) == ("pass", "flips", 0.0, 1e-3, (), None)
    wrong = rounded.copy().ravel()
    wrong[:3] *= 2
    found = judged(wrong.reshape(EXACT.shape), dtype, own=own)
    assert (found.outcome, found.score) == ("fail", 3 / EXACT.size)
    assert judged(np.where(np.arange(2000).reshape(40, 50) < 2, rounded * 2, rounded), dtype, own=own).outcome == "pass"


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
    assert judge(numbers[::-1], "int64", numbers, numbers, limit=16.0) == ("fail", "differing", 6.0, 0.0, (), None)


def test_nan_of_the_left_alone_is_wrong_and_what_overflows_on_both_sides_is_not():
    left, exact, own = SINGLE.copy(), EXACT.copy(), SINGLE.copy()
    left[0, 0] = np.nan
    assert judged(left) == ("fail", "score", np.inf, 16.0, (), None)
    exact[0, 0], own[0, 0], left[0, 0] = 1e39, np.inf, np.inf
    assert judged(left, exact=exact, own=own).outcome == "pass"
    assert judged(np.full_like(left, np.nan)).why.code == "local_nonfinite"


def test_zeros_in_exact_arithmetic_are_no_division_by_zero():
    zeros = np.zeros(4)
    assert judge(np.zeros(4, "f4"), "float32", zeros, np.zeros(4, "f4"), limit=16.0).outcome == "pass"
    assert judge(np.ones(4, "f4"), "float32", zeros, np.zeros(4, "f4"), limit=16.0).outcome == "fail"


@pytest.mark.parametrize(("dtype", "code"), [("float64", "local_dtype"), ("float8_e5m2", "local_dtype")])
def test_what_has_no_finer_type_is_not_judged(dtype, code):
    assert judged(EXACT, dtype).why.code == code
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
    table = {"left": str(tmp_path / "left"), "right": str(tmp_path / "right"), **table}
    pairs = plan(load_suite(file=None, table=table, options={}, directory=tmp_path)).pairing.pairs
    return Forcing(pairs, tmp_path / "own"), pairs


def test_a_tensor_of_the_left_is_put_in_in_the_order_of_the_reference(tmp_path):
    right = np.arange(24, dtype="f4").reshape(2, 3, 4, 1)
    left = right.transpose(0, 2, 3, 1)
    found, pairs = forcing(tmp_path, {"conv": left}, {"conv": right}, left_format="NHWC", right_format="NCHW")
    np.testing.assert_array_equal(found.values(Place("conv", 0), right.shape), right)
    np.testing.assert_array_equal(in_order_of(pairs[0], right.shape)[0], right)


def test_a_map_entry_s_transpose_and_reshape_are_undone(tmp_path):
    right = np.arange(24, dtype="f4").reshape(2, 3, 4)
    entry = {"left": "a", "right": "b", "transpose": [2, 0, 1], "reshape": True}
    found, _ = forcing(tmp_path, {"a": right.transpose(2, 0, 1).reshape(4, 6)}, {"b": right}, map=[entry])
    np.testing.assert_array_equal(found.values(Place("b", 0), right.shape), right)


def test_another_shape_is_a_reason_and_nothing_is_put_in(tmp_path):
    found, _ = forcing(tmp_path, {"a": np.zeros(3, "f4")}, {"a": np.zeros(3, "f4")})
    assert found.values(Place("a", 0), (4,)) is None
    assert found.whole()[0].why.code == "local_shape"


def test_a_damaged_file_is_a_reason(tmp_path):
    found, pairs = forcing(tmp_path, {"a": np.zeros(3, "f4")}, {"a": np.zeros(3, "f4")})
    pairs[0].left.source.path.write_bytes(b"\x93NUMPY\x01\x00")
    assert found.values(Place("a", 0), (3,)) is None
    assert found.whole()[0].why.code == "local_unreadable"


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
        found.keep(Place(name, 0), SINGLE)
        found.judge(Place(name, 0), EXACT, Marks(frozenset(modules)))
    a, b, c = found.whole().values()
    assert (a.outcome, a.segment) == ("fail", ("x",))
    assert (b.outcome, b.why.parameters) == ("not_replayable", {"module": "a"})
    assert c.outcome == "fail"


@pytest.mark.parametrize("marks", [Marks(random="native_dropout"), Marks(single="exotic")])
def test_random_numbers_and_missing_kernels_are_reasons(tmp_path, marks):
    found, _ = forcing(tmp_path, {"a": SINGLE}, {"a": SINGLE})
    found.keep(Place("a", 0), SINGLE)
    found.judge(Place("a", 0), EXACT, marks)
    assert found.whole()[0].why.code == ("local_random" if marks.random else "local_single")


def test_marks_join():
    one = Marks(frozenset("a"), random="rand", around=frozenset("c"))
    other = Marks(frozenset("b"), has_exp=True, is_wide=True)
    assert one | other == Marks(frozenset("ab"), True, "rand", "", True, frozenset("c"))
