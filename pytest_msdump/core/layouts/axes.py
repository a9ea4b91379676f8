"""Bring the right side of a pair to the left's shape, or say which line of TOML would."""

from __future__ import annotations

from collections import Counter
from math import factorial, prod

from pytest_msdump.core.errors import TensorShapeError, UnknownNameError, nearest
from pytest_msdump.core.model.describe import counted
from pytest_msdump.core.model.tensor import ForwardingView, TensorView, Transform, refines
from pytest_msdump.core.text import Message, Parameter

FORMATS = ("NCHW", "NHWC", "HWCN", "CHWN")

# Which permutation to name first when dimensions repeat and several fit: channels last to channels first, and back.
_USUAL = ((1, 0), (2, 0, 1), (1, 2, 0), (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 0, 1), (0, 4, 1, 2, 3), (0, 2, 3, 4, 1))

Shape = tuple[int, ...]


def known_axes(name: str) -> tuple[int, ...] | None:
    """Return the axes that bring a 4-D tensor of this axis order to NCHW; ``None`` where it is not in `FORMATS`."""
    letters = name.upper()
    return tuple(letters.index(axis) for axis in "NCHW") if letters in FORMATS else None


def axes_to_nchw(name: str) -> tuple[int, ...]:
    """Return the same for a name that a user has written; raise `UnknownNameError` for an unknown one."""
    axes = known_axes(name)
    if axes is None:
        raise UnknownNameError(f"unknown axis order '{name}' of 4-D tensors; {nearest(name.upper(), FORMATS)}")
    return axes


class ReshapedView(ForwardingView):
    """A tensor with the same values in C order under another shape."""

    def __init__(self, view: TensorView, shape: Shape) -> None:
        if prod(shape) != view.size:
            raise TensorShapeError(
                f"{view.shape} holds {counted(prod(view.shape), 'element')} and cannot be reshaped to {shape}"
            )
        super().__init__(view, shape)

    @property
    def view(self) -> TensorView:
        """The tensor in its own shape."""
        return self._view

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Refuse any but the identity: formats and `transpose` come before `reshape`."""
        if axes == tuple(range(len(self.shape))):
            return self
        raise TensorShapeError(f"axes {list(axes)} after a reshape to {self.shape}; transpose first, then reshape")


def meet(left: TensorView, right: TensorView, transform: Transform) -> tuple[TensorView, TensorView]:
    """Bring two tensors to one logical shape; reads no data."""
    if transform.left_format is not None or transform.right_format is not None:
        left_format = (transform.left_format or "NCHW").upper()
        right_format = (transform.right_format or "NCHW").upper()
        left_axes, right_axes = axes_to_nchw(left_format), axes_to_nchw(right_format)
        if left_format != right_format:
            left, right = _to_nchw(left, left_axes), _to_nchw(right, right_axes)
    applied = None
    if transform.transpose is not None:
        applied = _permutation(transform.transpose, right.shape)
        right = right.permuted(applied)
    shapes = left.shape, right.shape
    if shapes[0] == shapes[1]:
        return left, right
    if left.size == right.size and (transform.reshape or refines(*shapes)):
        return left, ReshapedView(right, shapes[0])
    raise TensorShapeError(explain_shapes(*shapes, applied=applied))


def _to_nchw(view: TensorView, axes: tuple[int, ...]) -> TensorView:
    if len(view.shape) != len(axes) or axes == tuple(range(len(axes))):
        return view
    return view.permuted(axes)


def _permutation(axes: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    """Return `axes` without negative ones, for a tensor of this shape."""
    rank = len(shape)
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if sorted(counted) != list(range(rank)):
        raise TensorShapeError(
            f"`transpose = {list(axes)}` does not permute the right side's {rank} axes {shape}; "
            f"name each of 0 to {rank - 1} once"
            if rank
            else f"`transpose = {list(axes)}` on a right side without axes; leave it out"
        )
    return counted


def explain_shapes(left_shape: Shape, right_shape: Shape, *, applied: tuple[int, ...] | None = None) -> Message:
    """Say why two shapes differ, and which line of TOML would bring them together."""
    both: dict[str, Parameter] = {"left": left_shape, "right": right_shape}
    counts = prod(left_shape), prod(right_shape)
    if counts[0] != counts[1]:
        other = [axis for axis, lengths in enumerate(zip(left_shape, right_shape, strict=False)) if len({*lengths}) > 1]
        if len(left_shape) == len(right_shape) > 1 and len(other) == 1 and 0 not in (*left_shape, *right_shape):
            is_last = other[0] == len(left_shape) - 1
            return Message("last_length_differs" if is_last else "one_length_differs", {**both, "axis": other[0]})
        return Message("element_counts_differ", {**both, "n": counts[0], "m": counts[1]})
    if sorted(left_shape) == sorted(right_shape):
        return Message("dimensions_reordered", {**both, "remedy": _transposes(left_shape, right_shape, applied)})
    return Message("grouped_differently", {**both, "n": counts[0]})


def _transposes(left: Shape, right: Shape, applied: tuple[int, ...] | None) -> Message:
    """Name the TOML line(s) for shapes of equal dimensions in another order."""
    axes = next(
        (usual for usual in _USUAL if len(usual) == len(left) and tuple(right[axis] for axis in usual) == left), None
    ) or _first_fit(left, right)
    message = Message("transpose_once", {"axes": axes})
    if applied is not None:
        line = tuple(applied[axis] for axis in axes)
        message = Message("transpose_instead", {"axes": line, "applied": applied})
    if prod(factorial(count) for length, count in Counter(left).items() if length != 1) > 1:
        return Message("other_orders_fit", {"why": message})
    return message


def _first_fit(left: Shape, right: Shape) -> tuple[int, ...]:
    """Give each left axis the first unused right axis of its length."""
    unused = list(range(len(right)))
    axes = []
    for length in left:
        axis = next(axis for axis in unused if right[axis] == length)
        unused.remove(axis)
        axes.append(axis)
    return tuple(axes)
