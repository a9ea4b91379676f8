"""Views of a part of a tensor: ranges of its axes, such as one of several projections side by side."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.layouts.axes import ReshapedView
from pytest_msdump.core.model.tensor import (
    AxisRange,
    ForwardingView,
    TensorPiece,
    TensorView,
    Transform,
    refines,
)
from pytest_msdump.core.text import Message, Parameter

# Longer runs are read one by one; of shorter ones what lies between them is read as well.
_RUN_ELEMENTS = 4096
_ELEMENTS_HELD = 2**20


class RangeView(ForwardingView):
    """The elements of a tensor that lie in a range of one of its axes."""

    def __init__(self, view: TensorView, along: AxisRange) -> None:
        axis, start, stop = along
        shape = view.shape
        super().__init__(view, (*shape[:axis], stop - start, *shape[axis + 1 :]))
        self._along = along
        inner = prod(shape[axis + 1 :])
        # Elements of a run in the part, from one run to the next in the whole, and before the first run.
        self._run, self._step, self._skip = (stop - start) * inner, shape[axis] * inner, start * inner

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` of the part in C order."""
        pieces: list[npt.NDArray[Any]] = []
        while start < stop:
            row, place = divmod(start, self._run)
            if self._run >= _RUN_ELEMENTS or place or stop - start < self._run:
                end = min(stop, (row + 1) * self._run)
                first = row * self._step + self._skip + place
                # The array is this view's until the next read of the whole.
                piece = self._view.read(first, first + end - start)
                pieces.append(piece if end == stop and not pieces else piece.copy())
            else:
                rows = min((stop - start) // self._run, max(1, _ELEMENTS_HELD // self._step))
                whole = self._view.read(row * self._step, (row + rows) * self._step).reshape(rows, self._step)
                pieces.append(whole[:, self._skip : self._skip + self._run].flatten())
                end = start + rows * self._run
            start = end
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else self._view.read(0, 0)

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return the part with its axes in another order; reads no data."""
        order = tuple(axis % len(self.shape) for axis in axes)
        return RangeView(self._view.permuted(order), self._along._replace(axis=order.index(self._along.axis)))


def piece_of(view: TensorView, piece: TensorPiece) -> TensorView:
    """Return the piece of an opened tensor; TensorShapeError where it has another shape than when it was paired."""
    if view.shape != piece.shape:
        if view.size != prod(piece.shape) or not refines(view.shape, piece.shape):
            raise TensorShapeError(Message("piece_of_other_shape", {"shape": view.shape, "expected": piece.shape}))
        view = ReshapedView(view, piece.shape)
    for along in piece.ranges:
        view = RangeView(view, along)
    return view


def in_pieces(
    left: TensorView, right: TensorView, transform: Transform
) -> tuple[tuple[TensorView, TensorView], list[Message]]:
    """Return what of each side is compared, as a transform says, and what is said of elements that it leaves out."""
    if transform.piece is not None:
        if transform.piece.side == "left":
            left = piece_of(left, transform.piece)
        else:
            right = piece_of(right, transform.piece)
    return _cropped(left, right, transform) if transform.crop is not None else ((left, right), [])


def _cropped(
    left: TensorView, right: TensorView, transform: Transform
) -> tuple[tuple[TensorView, TensorView], list[Message]]:
    axis = transform.crop_axis
    ranks = len(left.shape), len(right.shape)
    said: dict[str, Parameter] = {"axis": str(transform.crop), "left": left.shape, "right": right.shape}
    if axis is None:
        raise TensorShapeError(Message("crop_of_unknown_axis", said))
    if not all(-rank <= axis < rank for rank in ranks) or (axis > 0 and ranks[0] != ranks[1]):
        raise TensorShapeError(Message("crop_of_no_axis", said))
    common = min(left.shape[axis], right.shape[axis])
    views, remarks = [], []
    for side, view in (("left", left), ("right", right)):
        place, length = axis % len(view.shape), view.shape[axis]
        views.append(view if length == common else RangeView(view, AxisRange(place, 0, common)))
        if length > common:
            left_out: dict[str, Parameter] = {"side": side, "n": length - common, "of": length, "kept": common}
            remarks.append(Message("cropped", {**left_out, "axis": place}))
    return (views[0], views[1]), remarks
