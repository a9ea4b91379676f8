"""Bins, against numpy.histogram of the whole tensor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_msdump.capabilities.overflow.contents import histogram
from pytest_msdump.core.compare.opening import ArrayView


@settings(deadline=None, max_examples=100)
@given(hnp.arrays(np.float32, st.integers(2, 50), elements=st.floats(-1000, 1000, width=32)), st.integers(1, 51))
def test_bins_are_numpys_for_every_block_size(array, block_elements):
    low, high = float(array.min()), float(array.max())
    found = histogram(ArrayView(array), low, high, bins=7, block_elements=block_elements)
    if low == high:
        assert found.counts == (array.size,)
        return
    counts, edges = np.histogram(array.astype(np.float64), 7, (low, high))
    assert found.counts == tuple(counts)
    np.testing.assert_allclose(found.edges, edges)


def test_the_whole_range_of_float64_has_bins():
    largest = float(np.finfo(np.float64).max)
    found = histogram(ArrayView(np.array([-largest, 0.0, largest])), -largest, largest, bins=3)
    assert found.counts == (1, 1, 1)
    assert found.edges[0] == -largest
    assert found.edges[-1] == largest


def test_few_whole_numbers_have_a_bin_each():
    found = histogram(ArrayView(np.array([-2, 1, 1, 0], np.int8)), -2, 1, bins=4, whole=True)
    assert (found.counts, found.is_each) == ((1, 0, 1, 2), True)
    found = histogram(ArrayView(np.array([-2, 1, 1, 0], np.int8)), -2, 1, bins=3, whole=True)
    assert (found.counts, found.is_each) == ((1, 0, 3), False)
    # Beyond 2**53 there is no float64 for each of them.
    beyond = histogram(ArrayView(np.array([2**53, 2**53 + 2])), 2**53, 2**53 + 2, bins=4, whole=True)
    assert (sum(beyond.counts), beyond.is_each) == (2, False)
    one = histogram(ArrayView(np.array([3, 3])), 3, 3, whole=True)
    assert (one.counts, one.is_each) == ((2,), False)


def test_there_is_a_bin():
    with pytest.raises(ValueError, match="at least 1"):
        histogram(ArrayView(np.ones(3)), 0.0, 1.0, bins=0)
