"""What other tools get wrong of values, through real files and the whole gate; one law each."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import ask_arrays

NAN, INF = float("nan"), float("inf")


def f16(*values: float) -> np.ndarray:
    return np.array(values, np.float16)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_both_nan_at_the_same_place_pass(tmp_path: Path) -> None:
    answer = ask_arrays(tmp_path, f32(1, NAN, 3), f32(1, NAN, 3.001))
    assert (answer.code, answer.record["verdict"]) == (0, "pass")
    assert answer.record["nonfinite"]["nan_both"] == 1
    assert answer.metrics["max_absolute_error"] == pytest.approx(0.001, rel=1e-3)


def test_nan_against_a_number_fails_and_says_where(tmp_path: Path) -> None:
    answer = ask_arrays(tmp_path, f32(1, 2, NAN, 4), f32(1, 2, 3, 4))
    assert answer.code == 1
    assert answer.failed == {"nonfinite_mismatch", "saturated_count"}
    assert "NaN left 1, right 0" in answer.sentences
    assert "[2]" in answer.sentences


def test_opposite_infinities_fail(tmp_path: Path) -> None:
    answer = ask_arrays(tmp_path, f32(1, INF, 3), f32(1, -INF, 3))
    assert (answer.code, answer.failed) == (1, {"nonfinite_mismatch"})
    assert answer.record["equal"] is False


@pytest.mark.parametrize("profile", ["default", "strict", "ascend", "torch", "bitwise"])
def test_infinity_against_the_largest_float16_fails_by_every_profile(tmp_path: Path, profile: str) -> None:
    answer = ask_arrays(tmp_path, f16(1, INF), f16(1, 65504), "--profile", profile)
    assert answer.code == 1
    # The left overflows where the right is finite: that is more than a mismatch.
    assert profile == "bitwise" or "saturated_count" in answer.failed


@pytest.mark.parametrize(("left", "right", "side"), [(0, 1, "left"), (1, 0, "right")])
def test_zeros_on_one_side_have_no_cosine_and_the_reason_names_the_side(
    tmp_path: Path, left: float, right: float, side: str
) -> None:
    answer = ask_arrays(tmp_path, f32(*[left] * 5), f32(*[right] * 5), "--report", "json,csv")
    assert answer.code == 1
    assert "cosine_similarity" not in answer.metrics
    assert answer.record["undefined"]["cosine_similarity"] == f"all elements of the {side} side are 0"
    with (tmp_path / "reports" / "ops.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    # The vendor's table writes NaN for what is undefined, and why beside it; results.json leaves it out.
    assert row["CosineSimilarity"] == "NaN"
    assert f"all elements of the {side} side are 0" in row["CompareFailReason"]
    assert row["Verdict"] == answer.record["verdict"] == "undefined"


@pytest.mark.parametrize("profile", ["default", "strict", "ascend", "torch"])
@pytest.mark.parametrize("others", [[], [0, 0], [1, -3]])
def test_one_rounding_from_zero_passes_and_is_counted(tmp_path: Path, profile: str, others: list[float]) -> None:
    answer = ask_arrays(tmp_path, f32(1.4e-45, *others), f32(0, *others), "--profile", profile, "--all")
    assert (answer.code, answer.record["near_zero"], answer.record["right_zero_mismatch"]) == (0, 1, 0)
    assert "1 element is 0 on one side" in " ".join(answer.text.split())


def test_a_left_side_that_lost_everything_fails_however_small_that_was(tmp_path: Path) -> None:
    small = f16(*[6e-8, 1.2e-7] * 8)
    assert ask_arrays(tmp_path, np.zeros_like(small), small).code == 1


def test_a_value_against_zero_fails_by_a_relative_limit_alone(tmp_path: Path) -> None:
    answer = ask_arrays(
        tmp_path,
        f32(1, 1e-6),
        f32(1, 0),
        "--profile",
        "torch",
        "--threshold",
        "max_rel=10",
        "--threshold",
        "allclose=9",
    )
    assert (answer.code, answer.record["right_zero_mismatch"]) == (1, 1)
    assert answer.metrics["max_relative_error"] == 0


def test_cosine_is_skipped_for_one_element_and_that_is_said(tmp_path: Path) -> None:
    for shape in ((), (1,), (1, 1)):
        good = ask_arrays(tmp_path, np.full(shape, 1.0005, np.float32), np.ones(shape, np.float32))
        assert good.code == 0
        assert "cosine_similarity does not apply to one-element tensors" in good.text
        bad = ask_arrays(tmp_path, np.full(shape, 1.1, np.float32), np.ones(shape, np.float32))
        assert bad.code == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 4)])
def test_empty_tensors_warn_and_are_not_counted_as_passed(tmp_path: Path, shape: tuple[int, ...]) -> None:
    answer = ask_arrays(tmp_path, np.zeros(shape), np.zeros(shape))
    assert (answer.code, answer.record["verdict"]) == (0, "warn")
    assert (answer.results["counts"]["pass"], answer.results["counts"]["warn"]) == (0, 1)
    assert "nothing was compared" in answer.text


@pytest.mark.parametrize("shapes", [((0,), (3,)), ((3,), (0,)), ((0, 3), (3, 0)), ((0,), (0, 1))])
def test_one_empty_side_is_an_error(tmp_path: Path, shapes: tuple[tuple[int, ...], ...]) -> None:
    answer = ask_arrays(tmp_path, np.zeros(shapes[0]), np.zeros(shapes[1]))
    assert (answer.code, answer.record["verdict"]) == (1, "error")


def test_integers_of_other_width_pass_when_equal_and_say_so(tmp_path: Path) -> None:
    same = ask_arrays(tmp_path, np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int64))
    assert same.code == 0
    assert "dtypes differ: left int32, right int64" in same.text
    assert ask_arrays(tmp_path, np.arange(5, dtype=np.int32), np.arange(1, 6, dtype=np.int64)).code == 1


@pytest.mark.parametrize(("left", "right"), [(np.float16, np.float32), (np.float32, np.float64)])
def test_other_dtypes_are_judged_by_the_coarser_and_told(tmp_path: Path, left: type, right: type) -> None:
    values = np.linspace(1, 2, 50)
    for one, other in ((left, right), (right, left)):
        answer = ask_arrays(tmp_path, values.astype(one), values.astype(other))
        assert (answer.code, answer.record["judged_as"]) == (0, np.dtype(left).name)
        assert f"dtypes differ: left {np.dtype(one)}, right {np.dtype(other)}" in answer.text
    assert ask_arrays(tmp_path, values.astype(left), values.astype(right), "--profile", "bitwise").code == 1


def test_an_integer_that_should_be_a_float_is_judged_by_the_floats_rule(tmp_path: Path) -> None:
    answer = ask_arrays(tmp_path, np.array([1, 2, 3]), f32(1.4, 2.3, 2.9))
    assert (answer.code, answer.record["judged_as"]) == (1, "float32")
