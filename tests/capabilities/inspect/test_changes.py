"""How a weight changed, against numpy.isclose and means of whole arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_msdump.capabilities.overflow.contents import change
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorShapeError

VALUES = st.one_of(st.sampled_from([0.0, 1.0, 1.00001, -1.0, np.nan, np.inf, -np.inf]), st.floats(-100, 100, width=32))


def changed(current, previous, **options):
    return change(ArrayView(current), ArrayView(previous), **{"rtol": 1e-5, "atol": 1e-8, **options})


@settings(deadline=None, max_examples=150)
@given(st.data(), st.integers(1, 30), st.integers(1, 31), st.booleans())
def test_what_moved_is_what_isclose_denies(data, size, block_elements, equal_nan):
    previous = data.draw(hnp.arrays(np.float64, size, elements=VALUES))
    current = np.where(
        data.draw(hnp.arrays(bool, size)), previous, data.draw(hnp.arrays(np.float64, size, elements=VALUES))
    )
    found = changed(current, previous, equal_nan=equal_nan, block_elements=block_elements)
    close = np.isclose(current, previous, rtol=1e-5, atol=1e-8, equal_nan=equal_nan)
    assert found.moved == (~close).sum()
    finite = np.isfinite(current) & np.isfinite(previous)
    if not finite.any():
        assert (found.mean_change, found.mean_before, found.ratio(1e-9)) == (None, None, None)
        return
    apart, before = np.abs(current[finite] - previous[finite]), np.abs(previous)[finite]
    assert found.largest == apart.max()
    assert found.mean_change == pytest.approx(apart.mean(), rel=1e-12)
    assert found.ratio(1e-9) == pytest.approx(apart.mean() / (before.mean() + 1e-9), rel=1e-12)


def test_a_weight_that_was_zero_has_a_ratio_by_epsilon():
    found = changed(np.array([1e-3]), np.array([0.0]))
    assert found.ratio(1e-9) == pytest.approx(1e6)
    assert found.ratio(0.0) == float("inf")
    assert changed(np.zeros(2), np.zeros(2)).ratio(0.0) == 0.0


def test_integers_beyond_float64_are_told_apart():
    found = changed(np.array([2**53 + 1]), np.array([2**53]), rtol=0.0, atol=0.0)
    assert (found.moved, found.largest) == (1, 1.0)


def test_a_weight_of_another_shape_is_an_error():
    with pytest.raises(TensorShapeError, match=r"\(3,\) and was \(1, 3\)"):
        changed(np.zeros(3), np.zeros((1, 3)))
