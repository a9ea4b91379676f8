"""One side alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_msdump.capabilities.overflow.contents import Contents, contents
from pytest_msdump.core.compare.opening import ArrayView

NAN, INF = math.nan, math.inf


def scan(view: ArrayView, **options: int) -> Contents:
    return contents(view, ranges=None, **options)


def seen(found: Contents) -> tuple[object, ...]:
    counts = (found.elements, found.nan, found.inf, found.saturated, found.first)
    return (*counts, found.minimum, found.maximum, found.mean)


@pytest.mark.parametrize("block_elements", [1, 2, 100])
def test_nan_inf_and_saturation_are_counted_and_the_first_is_placed(block_elements: int) -> None:
    array = np.array([[1, 65504, 3], [NAN, -INF, -65504]], "float16")
    found = scan(ArrayView(array), block_elements=block_elements)
    assert seen(found) == (6, 1, 1, 2, (0, 1), -65504.0, 65504.0, pytest.approx(4 / 4))
    assert found.first_nonfinite == (1, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_below_the_maximum_is_not_saturated(dtype: str) -> None:
    top = np.finfo(dtype).max
    below = np.nextafter(top, np.zeros((), dtype)[()])
    assert scan(ArrayView(np.array([top, below, -top, -below], dtype))).saturated == 2


def test_bfloat16_has_its_own_maximum() -> None:
    top = np.array([0x7F7F0000, 0x3F800000], "uint32").view("float32")
    assert scan(ArrayView(top, "bfloat16")).saturated == 1
    assert scan(ArrayView(top)).saturated == 0


def test_integers_do_not_overflow_and_keep_their_range_exactly() -> None:
    found = scan(ArrayView(np.array([2**63 - 1, -(2**63), 2**53 + 1], "int64")))
    assert seen(found) == (3, 0, 0, 0, None, -(2**63), 2**63 - 1, pytest.approx(2**53 / 3))
    assert type(found.maximum) is int


def test_complex_counts_parts_and_measures_moduli() -> None:
    top = float(np.finfo("float32").max)
    array = np.array([3 + 4j, complex(NAN, INF), complex(1, -INF), complex(top, 1), complex(NAN, top)], "complex64")
    found = scan(ArrayView(array), block_elements=2)
    assert (found.nan, found.inf, found.saturated, found.first) == (2, 1, 1, (1,))
    assert found.minimum == 5.0
    assert found.maximum == pytest.approx(top)


def test_blocks_have_to_hold_something() -> None:
    with pytest.raises(ValueError, match="block_elements is 0"):
        scan(ArrayView(np.zeros(1)), block_elements=0)
