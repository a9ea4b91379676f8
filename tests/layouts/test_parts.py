"""Parts of tensors hold what numpy's own slices hold, however they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.layouts.parts import RangeView, in_pieces, piece_of
from pytest_msdump.core.matching.pieces import pieces_between
from pytest_msdump.core.model.tensor import AxisRange, TensorPiece, Transform
from pytest_msdump.core.text import Message, say


@st.composite
def cuts(draw):
    # The last axis may be long, so that whole runs are read as well as rows of several.
    shape = (*draw(st.lists(st.integers(1, 5), max_size=2)), draw(st.sampled_from([1, 3, 5000])))
    axis = draw(st.integers(0, len(shape) - 1))
    start = draw(st.integers(0, shape[axis]))
    stop = draw(st.integers(start, shape[axis]))
    size = int(np.prod(shape)) // shape[axis] * (stop - start)
    first = draw(st.integers(0, size))
    return shape, AxisRange(axis, start, stop), first, draw(st.integers(first, size))


@given(cuts())
def test_a_range_holds_what_the_slice_holds(drawn):
    shape, along, first, last = drawn
    whole = np.arange(np.prod(shape)).reshape(shape)
    want = whole[(slice(None),) * along.axis + (slice(along.start, along.stop),)]
    view = RangeView(ArrayView(whole), along)
    assert view.shape == want.shape
    assert view.read(first, last).tolist() == want.ravel()[first:last].tolist()
    order = tuple(range(len(shape)))[::-1]
    turned = view.permuted(order)
    assert turned.read(0, turned.size).tolist() == want.transpose(order).ravel().tolist()


@pytest.mark.parametrize("axis", [-1, -3, 1])
@pytest.mark.parametrize("widths", [(4, 2, 2), (3, 3), (1, 5, 2, 1)])
def test_parts_are_what_concatenate_was_given(axis, widths):
    shapes = [tuple(width if place == axis % 3 else 2 + place for place in range(3)) for width in widths]
    parts = [
        np.random.default_rng(width + place).normal(size=shape)
        for place, (width, shape) in enumerate(zip(widths, shapes, strict=True))
    ]
    whole = np.concatenate(parts, axis)
    for stored in (whole, whole.reshape(1, *whole.shape), np.stack([whole + 1, whole])):
        place = 1 if len(stored) == 2 and stored.ndim == 4 else None
        found = pieces_between("left", stored.shape, shapes, axis=axis, index=place)
        for piece, part in zip(found, parts, strict=True):
            view = piece_of(ArrayView(stored), piece)
            assert view.read(0, view.size).tolist() == part.ravel().tolist()
        assert sum(piece.share for piece in found) == pytest.approx(1 if place is None else 0.5)


@pytest.mark.parametrize(
    ("whole", "parts", "said"),
    [
        ((2, 9), [(2, 4), (2, 4)], "side by side along axis -1 are (2, 8), and the tensor on the left is (2, 9)"),
        ((2, 8), [(2, 4), (3, 4)], "do not lie side by side"),
        ((2, 8), [(2, 4), (4,)], "do not lie side by side"),
        # As many elements, and yet no tensor of such axes.
        ((8, 2), [(2, 4), (2, 4)], "name all its parts"),
    ],
)
def test_what_does_not_make_the_tensor_says_why(whole, parts, said):
    found = pieces_between("left", whole, parts, axis=-1)
    assert isinstance(found, Message)
    assert said in say(found)


def test_a_file_that_changed_since_is_refused():
    piece = TensorPiece("left", (2, 8), (AxisRange(1, 0, 4),))
    with pytest.raises(TensorShapeError, match="compare again"):
        piece_of(ArrayView(np.zeros((2, 9))), piece)


def cropped(left, right, crop):
    views, said = in_pieces(ArrayView(left), ArrayView(right), Transform(crop=crop))
    return [view.read(0, view.size).reshape(view.shape).tolist() for view in views], [say(one) for one in said]


def test_a_crop_takes_what_both_sides_have_and_says_what_it_leaves_out():
    left, right = np.arange(16).reshape(2, 8), np.arange(10).reshape(1, 2, 5)
    for crop in ("vocab", -1):
        values, said = cropped(left, right, crop)
        assert values == [left[:, :5].tolist(), right.tolist()]
        assert said == ["left: 3 of 8 along axis 1 left out, since the other side has 5 (crop)"]
    assert cropped(right[0], left, 1)[1] == ["right: 3 of 8 along axis 1 left out, since the other side has 5 (crop)"]
    assert cropped(left, left, "vocab") == ([left.tolist()] * 2, [])


@pytest.mark.parametrize(
    ("crop", "why"), [("experts", "nothing says which axis"), (1, "count from the end"), (-4, "no such axis")]
)
def test_a_crop_of_an_axis_that_is_not_there_is_refused(crop, why):
    with pytest.raises(TensorShapeError, match=why):
        cropped(np.zeros((2, 8)), np.zeros((1, 2, 5)), crop)
