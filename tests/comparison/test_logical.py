"""Both sides reach one logical shape; what nobody explained stays an error."""

from __future__ import annotations

from contextlib import suppress
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.comparison.logical import (
    _logical_views,
    _NeedsValuesError,
    _Outline,
    course_of,
    logical_views,
    views_that_meet,
)
from pytest_msdump.comparison.operands import ArrayView
from pytest_msdump.errors import TensorShapeError
from pytest_msdump.layouts.axes import meet
from pytest_msdump.layouts.device_layout import stored
from pytest_msdump.model.pairing import Transform
from pytest_msdump.model.tensor import TensorSpec

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


def test_a_padded_left_meets_a_plain_right():
    left, right = met(padded(VALUES, "NCHW"), Dumped(VALUES))
    assert np.array_equal(left, VALUES)
    assert np.array_equal(right, VALUES)


def test_a_rule_in_nhwc_meets_a_reference_in_nhwc():
    left, right = met(
        padded(NHWC_VALUES, "NHWC"),
        Dumped(NHWC_VALUES),
        left_logical_format="NHWC",
        left_logical_shape=NHWC_VALUES.shape,
    )
    assert np.array_equal(left, NHWC_VALUES)
    assert np.array_equal(right, NHWC_VALUES)


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


def test_two_padded_sides_meet_in_the_origins_order():
    left, right = met(padded(NHWC_VALUES, "NHWC"), padded(NHWC_VALUES, "NHWC"))
    assert np.array_equal(left, NHWC_VALUES)
    assert np.array_equal(right, NHWC_VALUES)


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
    with pytest.raises(TensorShapeError, match="nothing tells its logical shape"):
        met(padded(VALUES, "NCHW", said=False), padded(VALUES, "NCHW", said=False))


def test_the_usual_case_is_decided_once():
    course_of.cache_clear()
    for _ in range(3):
        met(padded(VALUES, "NCHW"), Dumped(VALUES))
    assert course_of.cache_info()[:2] == (2, 1)


SHAPES = ((2, 19, 5, 7), (2, 5, 7, 19), (1, 16, 3, 1), (4, 19), (19,), (), (2, 0, 5, 7))
ORDERS = (None, "NCHW", "NHWC", "HWCN", "nonsense")


@st.composite
def sides(draw):
    """A tensor as some dump has it: plain, or in blocks or groups, with or without a word on its shape."""
    if draw(st.integers(0, 9)) == 0:
        values, dumped = grouped(draw(st.sampled_from(["NCHW", "NHWC", "HWCN"])))
        return draw(st.sampled_from([Dumped(values), dumped]))
    values = np.arange(prod(shape := draw(st.sampled_from(SHAPES))), dtype=np.float32).reshape(shape)
    memory_format = draw(st.sampled_from([None, "ND", "NCHW", "NHWC", "NC1HWC0", "FRACTAL_NZ", "unheard of"]))
    told = draw(st.sampled_from([None, shape, shape[::-1], (2, 19, 5, 7), (2, 5, 7, 19)]))
    if memory_format in ("NC1HWC0", "FRACTAL_NZ") and 0 not in shape and len(shape) in (2, 4):
        order = draw(st.sampled_from(["NCHW", "NHWC"])) if len(shape) == 4 else None
        with suppress(TensorShapeError):
            values = stored(values, memory_format, logical_format=order)
    return Dumped(values, memory_format, told)


@settings(deadline=None, max_examples=400)
@given(
    sides(),
    sides(),
    st.builds(
        Transform,
        left_format=st.sampled_from([None, "NCHW", "NHWC"]),
        right_format=st.sampled_from([None, "NCHW", "NHWC"]),
        left_logical_shape=st.sampled_from([None, (2, 19, 5, 7), (-1, 5, 7, 19)]),
        left_logical_format=st.sampled_from(ORDERS),
    ),
)
def test_what_is_decided_for_a_kind_of_tensors_is_what_is_decided_for_each(left, right, transform):
    def outcome(decide, *more):
        try:
            *views, rest = decide(left, right, transform, *more)
        except TensorShapeError as error:
            return str(error)
        read = [view.read(0, view.size).tobytes() for view in views]
        return [(type(view), view.spec, view.shape) for view in views], read, rest

    each = outcome(_logical_views, None)
    assert outcome(logical_views) == each
    # Once more, out of what was kept.
    assert outcome(logical_views) == each


@pytest.mark.parametrize("read", [lambda view: view.read(0, 1), lambda view: view.blocks(1)])
def test_an_outline_refuses_to_be_read_also_in_another_order_of_axes(read):
    outline = _Outline(TensorSpec("float32", NCHW, None, None), NCHW)
    for view in (outline, outline.permuted((0, 2, 3, 1))):
        with pytest.raises(_NeedsValuesError):
            read(view)


@st.composite
def two_of_one_shape(draw):
    """Two tensors of one logical shape, each plain or in blocks, and seldom more to be done than to undo these."""
    shape = draw(st.sampled_from([one for one in SHAPES if 0 not in one]))
    order = draw(st.sampled_from(["NCHW", "NHWC"])) if len(shape) == 4 else None
    found = []
    for start in (0, 1000):
        values = np.arange(start, start + prod(shape), dtype=np.float32).reshape(shape)
        memory_format = draw(st.sampled_from([None, "ND", "NC1HWC0" if order else "FRACTAL_NZ"]))
        if memory_format in ("NC1HWC0", "FRACTAL_NZ") and len(shape) in (2, 4):
            found.append(
                Dumped(stored(values, memory_format, logical_format=order, padding=np.nan), memory_format, shape)
            )
        else:
            found.append(Dumped(values, None, draw(st.sampled_from([None, shape]))))
    usual = Transform(left_logical_format=order)
    others = (Transform(right_format="NHWC"), Transform(left_format="nonsense"), Transform(transpose=(1, 0, 2, 3)))
    return *found, draw(st.sampled_from([Transform(), usual, usual, usual, *others]))


def test_what_meets_without_another_word_is_what_meets_step_by_step():
    meetings = []

    @settings(max_examples=300, deadline=None, database=None)
    @given(two_of_one_shape() | st.tuples(sides(), sides(), st.builds(Transform)))
    def law(drawn):
        left, right, transform = drawn
        told = views_that_meet(left, right, transform)
        if told is None:
            return
        meetings.append(told)
        *each, rest = _logical_views(left, right, transform, None)
        assert told[2] == rest
        for one, other in zip(told[:2], meet(*each, rest), strict=True):
            assert (one.spec, one.shape) == (other.spec, other.shape)
            assert one.read(0, one.size).tobytes() == other.read(0, other.size).tobytes()

    law()
    # Or the law is about nothing.
    assert len(meetings) >= 60
    assert any(type(one) is not type(other) for one, other, _ in meetings)


@pytest.mark.parametrize("transform", [Transform(transpose=(1, 0)), Transform(right_format="nonsense")])
def test_what_has_more_to_say_than_two_equal_shapes_does_not_meet_without_it(transform):
    square = Dumped(np.arange(9.0, dtype=np.float32).reshape(3, 3))
    assert views_that_meet(square, square, Transform()) is not None
    assert views_that_meet(square, square, transform) is None
