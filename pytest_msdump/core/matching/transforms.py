"""How the right tensor of a pair is brought to the left one's shape, where both sides may order or merge axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType

from pytest_msdump.core.model.tensor import Transform, refines
from pytest_msdump.core.text import Message, Parameter

Axes = tuple[int, ...]
Shape = tuple[int, ...]

# Axes of the right side that bring it to the left one's order, by number of axes: channels to the front, to the end.
_LAYOUTS: Mapping[int, tuple[Axes, ...]] = {4: ((0, 3, 1, 2), (0, 2, 3, 1)), 5: ((0, 4, 1, 2, 3), (0, 2, 3, 4, 1))}


def fitting_orders(left: Shape, right: Shape) -> list[Axes | None]:
    """Return the orders of the right side's axes, ``None`` for its own, in which it has the left one's shape."""
    found: list[Axes | None] = [None] if left == right else []
    if len(left) == len(right):
        found += [axes for axes in _LAYOUTS.get(len(left), ()) if tuple(right[axis] for axis in axes) == left]
    return found


def transform_between(
    shapes: Sequence[Shape | None],
    formats: Transform,
    *,
    is_viewed: bool = False,
    name: str = "",
    moved: Mapping[int, set[Axes | None]] = MappingProxyType({}),
) -> Transform | Message:
    """Return how a right tensor is brought to a left one's shape, or why it cannot be; `shapes` are both, if known.

    A tensor that is viewed may have its shape before or behind the view. `moved` are orders that others of the dump
    have, by number of axes: they decide where several orders fit.
    """
    left, right = shapes
    if left is None or right is None:
        return replace(formats, reshape=is_viewed)
    said: dict[str, Parameter] = {"scope": name, "left": left, "right": right}
    if formats.left_format != formats.right_format and len(left) == len(right) == len("NCHW"):
        left, right = (
            _in_order(shape, name or "NCHW")
            for shape, name in ((left, formats.left_format), (right, formats.right_format))
        )
        fitting: list[Axes | None] = [None] if left == right else []
    elif formats.left_format or formats.right_format:
        fitting = [None] if left == right else []
    else:
        fitting = fitting_orders(left, right)
    if len(fitting) > 1 and moved.get(len(left)):
        fitting = [axes for axes in fitting if axes in moved[len(left)]]
    elif None in fitting:
        fitting = [None]
    if len(fitting) == 1:
        axes = fitting[0]
        return replace(formats, reshape=is_viewed) if axes is None else replace(formats, transpose=axes)
    if not fitting and (refines(left, right) or (is_viewed and prod(left) == prod(right))):
        return replace(formats, reshape=True)
    return Message("scope_layout_unknown" if fitting else "scope_shapes_differ", said)


def _in_order(shape: Shape, letters: str) -> Shape:
    """Return a 4-D shape in the order of NCHW."""
    return tuple(shape[letters.upper().index(axis)] for axis in "NCHW")
