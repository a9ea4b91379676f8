"""What other tools get wrong of values, through real files and the whole gate."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import ask_arrays

NAN, INF = float("nan"), float("inf")
PROFILES = ("default", "strict", "ascend", "torch", "bitwise")


def f16(*values: float) -> np.ndarray:
    return np.array(values, np.float16)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


SMALL = f16(*[6e-8, 1.2e-7] * 8)
RISING = np.linspace(1, 2, 50)
ROWS = np.arange(5)

# What is compared, with which options; the verdict, and what is said.
CASES = {
    "both NaN at one place": (f32(1, NAN, 3), f32(1, NAN, 3.001), (), "pass", ""),
    "NaN against a number": (f32(1, 2, NAN, 4), f32(1, 2, 3, 4), (), "fail", "NaN left 1, right 0"),
    "opposite infinities": (f32(1, INF, 3), f32(1, -INF, 3), (), "fail", "nonfinite_mismatch"),
    "zeros on the left": (f32(0, 0), f32(1, 1), (), "undefined", "all elements of the left side are 0"),
    "zeros on the right": (f32(1, 1), f32(0, 0), (), "undefined", "all elements of the right side are 0"),
    "nothing but NaN on the right": (f32(1, 1), f32(NAN, NAN), (), "undefined", ""),
    "all of a small right side lost": (np.zeros_like(SMALL), SMALL, (), "undefined", ""),
    "a value against 0, by a relative limit alone": (
        f32(1, 1e-6), f32(1, 0), ("--profile=torch", "--threshold=max_rel=10", "--threshold=allclose=9"), "fail", "0",
    ),
    "empty": (np.zeros((0, 4)), np.zeros((0, 4)), (), "warn", "nothing was compared"),
    "an empty side": (np.zeros(0), np.zeros(3), (), "error", ""),
    "empty in other shapes": (np.zeros((0, 3)), np.zeros((3, 0)), (), "error", ""),
    # Axes of length 1 meet.
    "a scalar for one element": (np.ones(()), np.ones(1), (), "pass", ""),
    "what could be broadcast": (np.ones((3, 1)), np.ones((3, 3)), (), "error", ""),
    "equal integers of other width": (ROWS.astype("i4"), ROWS, (), "pass", "dtypes differ: left int32, right int64"),
    "integers of other width": (ROWS.astype("i4"), ROWS + 1, (), "fail", ""),
    "integers for floats": (np.array([1, 2, 3]), f32(1.4, 2.3, 2.9), (), "fail", "judged as float32"),
    # Fault 5 of the vendor's tool: nothing is lost in a cast to float32.
    "large int32": (np.array([2**24 + 1], "i4"), np.array([2**24], "i4"), (), "fail", ""),
    "large int64": (np.array([2**53 + 1]), np.array([2**53]), (), "fail", ""),
    "large norms": (f32(1, 1e25), f32(1, -1e25), (), "fail", ""),
    "conjugates": (np.array([1 + 2j, 3 - 1j], "c8"), np.array([1 - 2j, 3 + 1j], "c8"), (), "fail", ""),
    "large float64": (np.array([1e300]), np.array([1.1e300]), (), "fail", ""),
    **{
        f"infinity against the largest float16 by {profile}": (
            f16(1, INF), f16(1, 65504), ("--profile", profile), "fail", "saturated_count" * (profile != "bitwise"),
        )
        for profile in PROFILES
    },
    **{
        f"{dtype} against {other} by {profile}": (
            RISING.astype(dtype), RISING.astype(other), ("--profile", profile), verdict, f"judged as {dtype}" * is_said,
        )
        for dtype, other in (("float16", "float32"), ("float32", "float64"))
        for profile, verdict, is_said in (("default", "pass", False), ("bitwise", "fail", False))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_are_judged_as_they_are(tmp_path: Path, case: str) -> None:
    left, right, options, verdict, told = CASES[case]
    answer = ask_arrays(tmp_path, left, right, *options)
    assert (answer.record["verdict"], answer.code) == (verdict, int(verdict not in ("pass", "warn")))
    assert told in answer.sentences + answer.text
    assert (answer.results["counts"]["pass"], answer.results["counts"]["warn"]) == (
        verdict == "pass",
        verdict == "warn",
    )


def test_zeros_on_one_side_have_no_cosine_in_the_vendors_table(tmp_path: Path) -> None:
    answer = ask_arrays(tmp_path, f32(*[0] * 5), f32(*[1] * 5), "--report", "json,csv")
    assert "cosine_similarity" not in answer.metrics
    with (tmp_path / "reports" / "ops.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    # The vendor's table writes NaN for what is undefined, and why beside it; results.json leaves it out.
    assert row["CosineSimilarity"] == "NaN"
    assert "all elements of the left side are 0" in row["CompareFailReason"]
    assert row["Verdict"] == answer.record["verdict"] == "undefined"


@pytest.mark.parametrize("profile", PROFILES[:-1])
@pytest.mark.parametrize("others", [[], [0, 0], [1, -3]])
def test_one_rounding_from_zero_passes_and_is_counted(tmp_path: Path, profile: str, others: list[float]) -> None:
    answer = ask_arrays(tmp_path, f32(1.4e-45, *others), f32(0, *others), "--profile", profile, "--all")
    assert (answer.code, answer.record["near_zero"], answer.record["right_zero_mismatch"]) == (0, 1, 0)
    assert "1 element is 0 on one side" in answer.text


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_cosine_is_skipped_for_one_element_and_that_is_said(tmp_path: Path, shape: tuple[int, ...]) -> None:
    good = ask_arrays(tmp_path, np.full(shape, 1.0005, np.float32), np.ones(shape, np.float32))
    assert (good.code, "cosine_similarity does not apply to one-element tensors" in good.text) == (0, True)
    assert ask_arrays(tmp_path, np.full(shape, 1.1, np.float32), np.ones(shape, np.float32)).code == 1
