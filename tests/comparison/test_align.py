"""Both sides reach one logical shape; what nobody explained stays an error."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.core.compare.align import logical_views
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.layouts.axes import meet
from pytest_msdump.core.layouts.device_layout import stored
from pytest_msdump.core.model.tensor import TensorSpec, Transform

NCHW = (2, 19, 5, 7)
VALUES = np.arange(2 * 19 * 5 * 7, dtype=np.float32).reshape(NCHW)
NHWC_VALUES = np.ascontiguousarray(VALUES.transpose(0, 2, 3, 1))


class Dumped(ArrayView):
    def __init__(self, values, memory_format=None, logical_shape=None, groups=1):
        super().__init__(values)
        self._said = TensorSpec("float32", values.shape, memory_format, logical_shape, groups)

    @property
    def spec(self):
        return self._said


def padded(values, order, said=True):
    lying = stored(values, "NC1HWC0", logical_format=order, padding=np.nan)
    return Dumped(lying, "NC1HWC0", values.shape if said else None)


def grouped(order, groups=2):
    """A weight of six filters, three channels and two groups, its axes in this order."""
    values = np.arange(6 * 3 * 5 * 7, dtype=np.float32).reshape(6, 3, 5, 7)
    values = np.ascontiguousarray(values.transpose(["NCHW".index(letter) for letter in order]))
    lying = stored(values, "FRACTAL_Z", logical_format=order, groups=groups, padding=np.nan)
    return values, Dumped(lying, "FRACTAL_Z", values.shape, groups)


def met(left, right, **transform):
    views = logical_views(left, right, Transform(**transform))
    return [view.read(0, view.size).reshape(view.shape) for view in meet(*views)]


def test_a_rule_in_nhwc_meets_a_reference_in_nchw_by_its_shape():
    left, right = met(padded(NHWC_VALUES, "NHWC"), Dumped(VALUES), left_logical_format="NHWC")
    assert np.array_equal(left, VALUES)
    assert np.array_equal(right, VALUES)


def test_without_a_rule_channels_at_the_other_end_are_an_error_that_says_so():
    with pytest.raises(TensorShapeError, match=r"transpose = \[0, 3, 1, 2\]"):
        met(padded(VALUES, "NCHW"), Dumped(NHWC_VALUES))


def test_the_users_word_on_the_right_side_goes_before_a_guess_by_shape():
    square = np.arange(7**4, dtype=np.float32).reshape(7, 7, 7, 7)
    left, right = met(
        padded(square, "NHWC"), Dumped(square.transpose(0, 3, 1, 2)), left_logical_format="NHWC", right_format="NCHW"
    )
    assert np.array_equal(left, right)


def test_the_reference_tells_the_shape_that_no_header_does():
    left, _ = met(padded(VALUES, "NCHW", said=False), Dumped(VALUES))
    assert np.array_equal(left, VALUES)


@pytest.mark.parametrize("order", ["NCHW", "NHWC", "HWCN"])
def test_a_grouped_weight_meets_a_plain_one_in_any_order_of_its_axes(order):
    values, dumped = grouped(order)
    left, right = met(dumped, Dumped(values), left_logical_format=order)
    assert np.array_equal(left, values)
    assert np.array_equal(right, values)


def test_two_padded_sides_of_which_nobody_tells_the_shape_are_refused():
    with pytest.raises(TensorShapeError, match="its logical shape is unknown"):
        met(padded(VALUES, "NCHW", said=False), padded(VALUES, "NCHW", said=False))
