"""The stage before two tensors meet: each side from its stored axes to those that its original model gave it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import NamedTuple, NoReturn

from pytest_msdump.errors import MsdumpError, TensorShapeError
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.facts.operators import VIEW_TYPES
from pytest_msdump.layouts.axes import ReshapedView, known_axes, meet
from pytest_msdump.layouts.blocks import Placement
from pytest_msdump.layouts.converters import Converters
from pytest_msdump.layouts.device_layout import logical, target
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.tensor import TensorRef, TensorSpec, TensorView

__all__ = ["Course", "course_of", "logical_views", "views_as_told", "views_that_meet"]

# Rule files say one of these; which of them the right side was saved in, only its shape tells.
_CHANNELS_MOVE = {"NHWC": "NCHW", "NCHW": "NHWC"}

# Stands for all that does more than undo blocks.
_OTHERWISE = Placement((), ())


def logical_views(
    left: TensorView, right: TensorView, transform: Transform, converters: Converters | None = None
) -> tuple[TensorView, TensorView, Transform]:
    """Undo the memory format of both sides; reads no data.

    Parameters
    ----------
    left, right : TensorView
        As they were opened, in stored axes.
    transform : Transform
        `left_logical_shape` and `left_logical_format` are what a rule file says of the original.
    converters : mapping, optional
        A user's own conversions; they win over ours.

    Returns
    -------
    tuple
        Both sides without padding, and the transform that is left to be done. Where the right side turns out to have
        the left's dimensions with the channels at the other end (a rule file speaks of the framework, a reference may
        come from another one), the left is brought to its order, unless the user named the right side's.

    Raises
    ------
    TensorShapeError
        A memory format and the shapes contradict each other, or nothing tells the logical shape.
    """
    course = None if converters else course_of(left.spec, left.shape, right.spec, right.shape, transform)
    if course is not None:
        return _undone(left, course.left), _undone(right, course.right), course.transform
    return _logical_views(left, right, transform, converters)


def views_that_meet(
    left: TensorView, right: TensorView, transform: Transform
) -> tuple[TensorView, TensorView, Transform] | None:
    """Undo the memory format of both sides where that is all that two whole tensors need to meet.

    Returns
    -------
    tuple or None
        As `logical_views`, of one shape; ``None`` where there is more to do, or something to say.
    """
    course = course_of(left.spec, left.shape, right.spec, right.shape, transform)
    if course is None or not course.meet:
        return None
    return _undone(left, course.left), _undone(right, course.right), course.transform


class Course(NamedTuple):
    """How the tensors of a kind lie in their stored axes, ``None`` without blocks, and what is left to be done then.

    Where they do not `meet`, there is more to do.
    """

    left: Placement | None
    right: Placement | None
    transform: Transform
    meet: bool


class _NeedsValuesError(Exception):
    """Something is made by reading a tensor, and this is none."""


class _Outline:
    """A tensor that nobody reads (a `model.tensor.TensorView`): whatever is decided, is decided by these."""

    def __init__(self, spec: TensorSpec, shape: tuple[int, ...]) -> None:
        self.spec, self.shape = spec, shape
        self.dtype, self.size = spec.dtype or "", prod(shape)

    def read(self, start: int, stop: int) -> NoReturn:  # noqa: ARG002 - as every view
        """Refuse."""
        raise _NeedsValuesError

    def blocks(self, block_elements: int) -> NoReturn:  # noqa: ARG002 - as above
        """Refuse."""
        raise _NeedsValuesError

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return something that is not this."""
        return _Outline(self.spec, tuple(self.shape[axis] for axis in axes))

    def close(self) -> None:
        """Do nothing."""


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=1024)
def course_of(
    left: TensorSpec,
    left_shape: tuple[int, ...],
    right: TensorSpec,
    right_shape: tuple[int, ...],
    transform: Transform,
) -> Course | None:
    """Return what makes logical tensors of two kinds of tensors; needs no numpy.

    Parameters
    ----------
    left, right : TensorSpec
        What views of them tell.
    left_shape, right_shape : tuple of int
        Their stored shapes.
    transform : Transform
        As for `logical_views`.

    Returns
    -------
    Course or None
        ``None`` where more is to be done than to undo blocks, which is decided each time.
    """
    sides = _Outline(left, left_shape), _Outline(right, right_shape)
    try:
        left_met, right_met, rest = _logical_views(*sides, transform, None)
    except (TensorShapeError, _NeedsValuesError):
        return None
    steps = _step(sides[0], left_met), _step(sides[1], right_met)
    if steps[0] is _OTHERWISE or steps[1] is _OTHERWISE:
        return None
    return Course(*steps, rest, _are_met(left_met, right_met, rest))


def _are_met(left: TensorView, right: TensorView, transform: Transform) -> bool:
    if left.shape != right.shape:
        return False
    try:
        return meet(left, right, transform) == (left, right)
    except MsdumpError:
        return False


def _step(before: TensorView, after: TensorView) -> Placement | None:
    """Return how the logical tensor lies in the stored one; ``None`` where both are one."""
    if after is before:
        return None
    from pytest_msdump.layouts.gather import BlockedView

    placement = after.placement_in(before) if isinstance(after, BlockedView) else None
    return _OTHERWISE if placement is None else placement


def _undone(view: TensorView, placement: Placement | None) -> TensorView:
    if placement is None:
        return view
    from pytest_msdump.layouts.gather import BlockedView

    return BlockedView(view, placement)


def _logical_views(
    left: TensorView, right: TensorView, transform: Transform, converters: Converters | None
) -> tuple[TensorView, TensorView, Transform]:
    right_shape, right_format = target(right.spec, rule_format=None, rule_shape=None)
    if right_shape is None and may_be_padded(right.spec.memory_format):
        # Padded, and nothing of its own tells by how much: the tensor it is paired with does, on either side.
        right_shape, right_format = target(left.spec, rule_format=None, rule_shape=None)
    right = logical(right, logical_shape=right_shape, logical_format=right_format, converters=converters)
    shape, axes = target(left.spec, rule_format=transform.left_logical_format, rule_shape=transform.left_logical_shape)
    if shape is None and may_be_padded(left.spec.memory_format):
        shape, axes = right.shape, transform.right_format
    left = logical(left, logical_shape=shape, logical_format=axes, converters=converters)
    if axes is None or known_axes(axes) is None or transform.left_format is not None:
        return left, right, transform
    if transform.right_format is not None:
        return left, right, replace(transform, left_format=axes)
    if transform.left_logical_format is None:
        return left, right, transform
    return _turned(left, right, axes), right, transform


def _turned(left: TensorView, right: TensorView, axes: str) -> TensorView:
    """Move the left side's channels when the right side has them at the other end, and only then fits."""
    other = _CHANNELS_MOVE.get(axes.upper())
    if other is None or len(left.shape) != len(axes) or left.shape == right.shape:
        return left
    order = tuple(axes.upper().index(letter) for letter in other)
    fits = tuple(left.shape[axis] for axis in order) == right.shape
    return left.permuted(order) if fits else left


def views_as_told(
    pair: Pair, left: TensorView, right: TensorView, transform: Transform
) -> tuple[TensorView, TensorView]:
    """Give outputs of view operators the shape that a graph tells, where their files' own shapes do not meet.

    Parameters
    ----------
    pair : Pair
        Who they are: `spec.logical_shape` is what the graph of the run tells.
    left, right : TensorView
        Without memory formats.
    transform : Transform
        What is left to be done; where the user says how axes lie, nothing is guessed.

    Returns
    -------
    tuple of TensorView
        The same values in C order; as they were where that does not help.

    References
    ----------
    MindSpore 2.10 on CPU writes what Reshape and Flatten put out with the shape of their input.
    """
    if left.shape == right.shape or transform.transpose is not None or transform.reshape:
        return left, right
    left_told, right_told = _as_told(pair.left, left), _as_told(pair.right, right)
    for one, other in ((left_told, right), (left, right_told), (left_told, right_told)):
        if one.shape == other.shape:
            return one, other
    return left, right


def _as_told(ref: TensorRef, view: TensorView) -> TensorView:
    told = ref.spec.logical_shape
    is_view = ref.key.io == "output" and ref.key.op.op_type in VIEW_TYPES
    if told is None or not is_view or may_be_padded(view.spec.memory_format) or prod(told) != view.size:
        return view
    return ReshapedView(view, told)
