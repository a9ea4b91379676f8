"""What one tensor holds, against numpy on the whole of it, however it is cut into blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_msdump.capabilities.overflow.contents import contents, contents_of_statistics
from pytest_msdump.core.compare.opening import ArrayView

SPECIAL = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 2.0**-100, 2.0**100])
ARRAYS = hnp.arrays(np.float32, st.integers(0, 40), elements=st.one_of(SPECIAL, st.floats(-1e6, 1e6, width=32)))


@settings(deadline=None, max_examples=150)
@given(ARRAYS, st.integers(1, 41))
def test_counts_and_means_are_numpys_for_every_block_size(array, block_elements):
    found = contents(ArrayView(array), ranges=((-1.0, 0.0),), block_elements=block_elements)
    finite = array[np.isfinite(array)].astype(np.float64)
    assert found.elements == array.size
    assert found.nan == np.isnan(array).sum()
    assert found.inf == np.isinf(array).sum()
    assert found.zero == (array == 0).sum()
    assert found.within == (((finite >= -1) & (finite <= 0)).sum(),)
    bad = np.flatnonzero(~np.isfinite(array))
    assert found.first_nonfinite == found.first == ((int(bad[0]),) if bad.size else None)
    if not finite.size:
        assert (found.minimum, found.maximum, found.mean, found.abs_mean) == (None,) * 4
        return
    assert (found.minimum, found.maximum) == (finite.min(), finite.max())
    scale = np.abs(finite).max()
    assert found.mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-13 * scale)
    assert found.abs_mean == pytest.approx(np.abs(finite).mean(), rel=1e-12)


def test_complex_numbers_count_by_modulus():
    found = contents(ArrayView(np.array([3 + 4j, 0, complex(np.nan, np.inf), complex(1, -np.inf)])))
    assert (found.nan, found.inf, found.zero, found.first) == (1, 1, 1, (2,))
    assert (found.minimum, found.maximum, found.abs_mean) == (0, 5, 2.5)


def test_a_block_holds_something():
    with pytest.raises(ValueError, match="at least 1"):
        contents(ArrayView(np.ones(3)), block_elements=0)


def of_statistics(elements=4, **values):
    return contents_of_statistics(values, elements=elements, dtype="float32")


@pytest.mark.parametrize(("norm", "expected"), [(float("nan"), (1, 0)), (float("inf"), (0, 1)), (2.0, (0, 0))])
def test_a_norm_tells_of_nan_and_inf_where_nobody_counted(norm, expected):
    found = of_statistics(l2_norm=norm)
    assert (found.nan, found.inf) == expected


def test_a_range_of_zero_is_all_zero():
    assert of_statistics(minimum=0.0, maximum=0.0).zero == 4
    assert of_statistics(minimum=0.0, maximum=0.0, nan_count=1).zero == 3
    assert of_statistics(minimum=0.0, maximum=1.0).zero is None


def test_without_a_count_or_a_shape_nothing_is_known():
    assert of_statistics(elements=None, maximum=1.0) is None
    assert of_statistics(elements=None, count=2).elements == 2
