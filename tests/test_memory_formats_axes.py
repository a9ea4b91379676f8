"""Two sides to one shape: numpy's transpose and reshape are the oracle, and what stays apart is explained."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError, TensorShapeError
from pytest_msdump.core.layouts.axes import FORMATS, explain_shapes, meet
from pytest_msdump.core.model.tensor import Transform
from pytest_msdump.core.text import say


class Closing(ArrayView):
    closed = False

    def close(self):
        self.closed = True


def numbered(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)


def met(left, right, **transform):
    """Return both sides as arrays of their logical shape."""
    views = meet(ArrayView(left), ArrayView(right), Transform(**transform))
    return tuple(np.concatenate([view.read(0, 0), *view.blocks(7)]).reshape(view.shape) for view in views)


@pytest.mark.parametrize(("left_format", "right_format"), list(product([None, *FORMATS], repeat=2)))
def test_axis_orders_meet_from_every_pair_of_formats(left_format, right_format):
    logical = numbered(2, 3, 4, 5)

    def stored(axis_order):
        return logical.transpose(["NCHW".index(axis) for axis in axis_order or "NCHW"])

    left, right = met(stored(left_format), stored(right_format), left_format=left_format, right_format=right_format)
    same = (left_format or "NCHW") == (right_format or "NCHW")
    want = stored(left_format) if same else logical
    assert np.array_equal(left, want)
    assert np.array_equal(right, want)


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (2, 3, 4), (1, 2, 3, 4, 5)])
def test_axis_orders_leave_tensors_alone_that_have_not_four_axes(shape):
    left, right = met(numbered(*shape), numbered(*shape), right_format="NHWC")
    assert np.array_equal(left, numbered(*shape))
    assert np.array_equal(right, numbered(*shape))


@pytest.mark.parametrize("side", ["left_format", "right_format"])
def test_unknown_axis_order_is_refused_with_the_nearest(side):
    with pytest.raises(ConfigError, match=r"unknown axis order 'NHCW'.*did you mean 'N...'"):
        met(numbered(1), numbered(1), **{side: "NHCW"})


def test_formats_come_before_transpose_and_transpose_before_reshape():
    right = numbered(2, 4, 5, 3)
    want = right.transpose(0, 3, 1, 2).transpose(1, 0, 3, 2).reshape(6, 20)
    left, got = met(want, right, right_format="NHWC", transpose=(1, 0, 3, 2), reshape=True)
    assert np.array_equal(left, want)
    assert np.array_equal(got, want)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_transpose_is_numpys(data):
    right = numbered(*data.draw(st.lists(st.integers(0, 5), max_size=5)))
    axes = tuple(data.draw(st.permutations(range(right.ndim))))
    signed = tuple(axis - right.ndim if data.draw(st.booleans()) else axis for axis in axes)
    want = right.transpose(axes)
    assert np.array_equal(met(want, right, transpose=signed)[1], want)


@pytest.mark.parametrize("axes", [(0,), (0, 1, 2), (1, 1), (0, 2), (0, -3)])
def test_transpose_that_does_not_permute_the_right_side_is_refused(axes):
    with pytest.raises(TensorShapeError, match=re.escape(f"`transpose = {list(axes)}` does not permute")):
        met(numbered(2, 3), numbered(2, 3), transpose=axes)


def test_transpose_of_a_scalar_is_refused():
    with pytest.raises(TensorShapeError, match="without axes; leave it out"):
        met(numbered(), numbered(), transpose=(0,))


def test_reshape_keeps_values_and_takes_the_lefts_shape():
    left_view, right_view = ArrayView(numbered(3, 4)), Closing(numbered(2, 6))
    _, right = meet(left_view, right_view, Transform(reshape=True))
    assert (right.shape, right.size, right.dtype) == ((3, 4), 12, "int64")
    assert right.spec == replace(right_view.spec, logical_shape=(3, 4))
    assert right.read(3, 9).tolist() == list(range(3, 9))
    assert [block.tolist() for block in right.blocks(8)] == [list(range(8)), list(range(8, 12))]
    assert right.permuted((0, 1)) is right
    with pytest.raises(TensorShapeError, match="transpose first, then reshape"):
        right.permuted((1, 0))
    right.close()
    assert right_view.closed


def explained(*shapes):
    return say(explain_shapes(*shapes))


def proposed(sentence):
    """Return the axes of the TOML line in a sentence."""
    return tuple(map(int, re.search(r"`transpose = \[([\d, ]+)\]`", sentence)[1].split(",")))


@pytest.mark.parametrize("shape", [(2, 3), (4, 5, 6), (2, 3, 4, 5), (2, 3, 3, 5), (1, 3, 4, 4), (2, 3, 4, 5, 6)])
def test_permuted_dimensions_name_a_transpose_that_works(shape):
    right = numbered(*shape)
    for axes in permutations(range(len(shape))):
        left = right.transpose(axes)
        if left.shape == right.shape:
            continue
        line = proposed(explained(left.shape, right.shape))
        got = met(numbered(*left.shape), right, transpose=line)[1]
        assert got.shape == left.shape


def test_several_fitting_permutations_name_channels_last_first_and_say_so():
    # Height and width are equal: [0, 3, 2, 1] has the same shape, and is almost never meant.
    sentence = explained((2, 3, 8, 8), (2, 8, 8, 3))
    assert proposed(sentence) == (0, 3, 1, 2)
    assert "other orders fit too" in sentence
    assert "other orders" not in explained((2, 3, 8, 5), (2, 8, 5, 3))
    assert "other orders" not in explained((1, 3, 1, 5), (1, 1, 5, 3))


def test_transpose_already_there_is_replaced_by_the_whole_one():
    right, wrong = numbered(2, 4, 5, 3), (0, 1, 3, 2)
    want = right.transpose(0, 3, 1, 2)
    with pytest.raises(TensorShapeError, match=r"instead of \[0, 1, 3, 2\]") as caught:
        met(want, right, transpose=wrong)
    assert np.array_equal(met(want, right, transpose=proposed(str(caught.value)))[1], want)


@pytest.mark.parametrize(
    ("left", "right", "meets"),
    [
        ((2, 16, 64), (32, 64), True),
        ((32, 64), (2, 16, 64), True),
        ((2, 16, 64), (2, 16, 4, 16), True),
        ((4, 1), (4,), True),
        ((), (1, 1), True),
        ((1, 4), (4, 1), True),
        # Axes that change places, or that overlap, are no merged ones.
        ((2, 3), (3, 2), False),
        ((2, 6), (4, 3), False),
        ((2, 16, 64), (64, 2, 16), False),
        ((0, 4), (0,), False),
    ],
)
def test_only_merged_and_split_axes_meet_without_reshape(left, right, meets):
    try:
        got = met(numbered(*left), numbered(*right))
    except TensorShapeError:
        assert not meets
    else:
        assert meets
        assert got[1].tolist() == numbered(*right).reshape(left).tolist()


def test_other_grouping_suggests_reshape_with_its_condition():
    assert "`reshape = true` if the values come in the same order" in explained((2, 6), (3, 4))


def test_other_counts_name_both_and_suggest_neither():
    sentence = explained((2, 5, 7), (2, 4, 8))
    assert "left (2, 5, 7) has 70 elements, right (2, 4, 8) has 64 elements" in sentence
    assert "transpose" not in sentence
    assert "reshape" not in sentence
    assert "right (1,) has 1 element:" in explained((2,), (1,))


def test_many_equal_axes_are_explained_without_trying_every_order():
    left = (2,) * 15 + (3,) + (2,) * 15
    assert len(proposed(explained(left, left[1:] + left[:1]))) == 31


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ((2, 32, 64), (2, 24, 64), ("along axis 1 alone", "`tokens`", "`crop = 1`")),
        ((9, 64), (7, 64), ("along axis 0 alone", "`tokens`", "`crop = 0`")),
        ((4, 100), (4, 97), ("along axis 1 alone", "`crop = 1`")),
        ((2, 32, 64), (1, 24, 64), ("elements",)),
        ((7,), (8,), ("elements",)),
        ((2, 0, 4), (2, 3, 4), ("elements",)),
    ],
)
def test_one_length_that_differs_is_told_with_what_compares_it(left, right, said):
    sentence = explained(left, right)
    wanted = " ".join(said)
    assert all((word in sentence) == (word in wanted) for word in ("alone", "`tokens`", "`crop"))
    assert all(one in sentence for one in said)
