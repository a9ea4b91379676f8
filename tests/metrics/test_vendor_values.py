"""The vendor's own answers for 40 edge pairs, cell by cell: ours agree, or the table says what makes theirs wrong.

`tests/data/d_values`: inputs made by hand, answers printed by msaccucmp (mindstudio-probe 26.2.0), which computes in
float32. Item N is section 9 of the facts collected about that tool, INTERFACE the project's own contract.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import Comparison

DATA = Path(__file__).parents[1] / "data" / "d_values"
SUMMARY = (DATA / "expected" / "summary.tsv").read_text(encoding="utf-8").splitlines()
TITLES = SUMMARY[0].split("\t")[2].split()
IDS = {fact.vendor_title: metric for metric, fact in METRICS.items() if fact.vendor_title}
ROWS = {line.split("\t")[0]: line.split("\t")[2].split() for line in SUMMARY[1:]}
MAY_NOT_BE_LISTED = {"f16", "f16_vs_f32", "int8", "opposite", "scaled_shifted", "left_some_zero", "fortran"}
MAY_NOT_BE_LISTED |= {"large_mean", "bool_vs_f32", "const_same", "const_diff", "const_neg"}

ERRORS = "MaxAbsoluteError RelativeEuclideanDistance MeanAbsoluteError RootMeanSquareError"
RELATIVE = "AccumulatedRelativeError MaxRelativeError MeanRelativeError"
SHAPES = "CosineSimilarity KullbackLeiblerDivergence StandardDeviation"

FINITE_ONLY = "INTERFACE 5, NaN and Inf: finite metrics are taken over the positions where both are finite"
UNDEFINED = "INTERFACE 5, Undefined: never 0, 1 or a passing string"
FLOAT32 = "item 5: everything is cast to float32 first"
SCALAR = "item 3: the cosine of one element is 1.000000 whatever the values; INTERFACE 5: it does not apply"
BOOL = "INTERFACE 5, Exact for integers: bools count as 0 and 1 (the vendor refuses them)"
COMPLEX = "item 5: imaginary parts are ignored; INTERFACE 5, Complex: errors by modulus"
NO_KLD = "INTERFACE 5, Complex: KLD undefined"
SMALL = "INTERFACE 5: only r = 0 ≠ l is left out; the vendor also counts |r| below float64's epsilon as 0"

LISTED: list[tuple[str, str, str]] = [
    ("zeros_both", "CosineSimilarity RelativeEuclideanDistance", UNDEFINED),
    ("zeros_right", "RelativeEuclideanDistance", UNDEFINED),
    ("nan_left", f"{SHAPES} {ERRORS} {RELATIVE}", FINITE_ONLY),
    ("nan_right", f"{SHAPES} {ERRORS}", FINITE_ONLY),
    ("nan_both", f"{SHAPES} {ERRORS}", FINITE_ONLY),
    ("inf_left", f"{SHAPES} {ERRORS} {RELATIVE}", FINITE_ONLY),
    ("inf_right", f"{SHAPES} {ERRORS} {RELATIVE}", FINITE_ONLY),
    ("inf_same", f"{SHAPES} {ERRORS} {RELATIVE}", FINITE_ONLY),
    ("inf_opposite", f"{SHAPES} {ERRORS} {RELATIVE}", FINITE_ONLY),
    ("int32_big", "MaxAbsoluteError MeanAbsoluteError RootMeanSquareError", FLOAT32),
    ("int32_off_by_one", "MaxAbsoluteError MeanAbsoluteError RootMeanSquareError", FLOAT32),
    ("int32_off_by_one", "AccumulatedRelativeError", FLOAT32),
    ("int64_huge", "MaxAbsoluteError MeanAbsoluteError RootMeanSquareError", FLOAT32),
    ("bool", f"KullbackLeiblerDivergence StandardDeviation {ERRORS} {RELATIVE}", BOOL),
    ("f64_overflow_f32", f"{SHAPES} {ERRORS} {RELATIVE}", FLOAT32),
    ("f32_large_norm", "CosineSimilarity RelativeEuclideanDistance RootMeanSquareError", FLOAT32),
    ("empty", "CosineSimilarity AccumulatedRelativeError RelativeEuclideanDistance", UNDEFINED),
    ("empty_2_0", "CosineSimilarity AccumulatedRelativeError RelativeEuclideanDistance", UNDEFINED),
    ("scalar0d", "CosineSimilarity", SCALAR),
    ("scalar_111", "CosineSimilarity", SCALAR),
    ("tiny", RELATIVE, SMALL),
    ("tiny", "RelativeEuclideanDistance", "INTERFACE 5: float64 of 1e±200 may not underflow, nor 1e-20 count as zero"),
    ("complex64", f"CosineSimilarity StandardDeviation {ERRORS} {RELATIVE}", COMPLEX),
    ("complex64", "KullbackLeiblerDivergence", NO_KLD),
]


def expand(listed: list[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    return {(case, title): reason for case, titles, reason in listed for title in titles.split()}


def load(case: str) -> tuple[ArrayView, ArrayView]:
    left, right = (ArrayView(np.load(DATA / side / f"{case}.npy")) for side in ("left", "right"))
    return left, right


def ours(comparison: Comparison, title: str) -> tuple[float, ...] | None:
    """What ops.csv would print in this column."""
    metric = IDS[title]
    value = comparison.vendor.get(metric, comparison.measurements[metric].value)
    if value is None:
        return None
    return tuple(map(float, value)) if isinstance(value, tuple) else (float(value),)


def agree(cell: str, value: tuple[float, ...] | None) -> bool:
    """Within the vendor's float32 rounding: 1e-5 relative, or one unit of the last printed digit."""
    printed = [float(number) for number in re.findall(r"[^;(),]+", cell)]
    if value is None:
        return all(math.isnan(number) for number in printed)
    unit = 1e-3 if "(" in cell else 1e-6
    return len(printed) == len(value) and all(
        math.isfinite(a) and abs(a - b) <= max(1e-5 * abs(a), 1.000001 * unit)
        for a, b in zip(printed, value, strict=True)
    )


def cells() -> Iterator[tuple[str, str, str]]:
    for case, row in ROWS.items():
        assert len(row) in (0, len(TITLES))
        for title, cell in zip(TITLES, row, strict=False):
            yield case, title, cell


@pytest.fixture(scope="module")
def comparisons() -> dict[str, Comparison]:
    return {case: measure(*load(case)) for case, row in ROWS.items() if row}


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 40
    assert sum(1 for _ in cells()) == 380
    assert set(TITLES) == set(IDS)


@pytest.mark.parametrize(("case", "title", "cell"), list(cells()))
def test_each_cell_agrees_or_is_listed_with_its_reason(
    comparisons: dict[str, Comparison], case: str, title: str, cell: str
) -> None:
    value = ours(comparisons[case], title)
    reason = expand(LISTED).get((case, title))
    assert agree(cell, value) is (reason is None), f"vendor {cell}, ours {value}, listed: {reason}"


def test_no_cell_is_listed_that_may_not_be() -> None:
    listed = expand(LISTED)
    assert not {case for case, _ in listed} & MAY_NOT_BE_LISTED
    assert set(listed) <= {(case, title) for case, title, _ in cells()}
    assert len(listed) == sum(len(titles.split()) for _, titles, _ in LISTED)


@pytest.mark.parametrize("case", ["shape_mismatch", "shape_same_size"])
def test_both_refuse_other_shapes(case: str) -> None:
    with pytest.raises(ValueError, match="cannot measure shape"):
        measure(*load(case))
