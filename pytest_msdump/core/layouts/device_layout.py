"""From stored axes to logical ones: one engine for every row of `facts.memory_formats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS, may_be_padded
from pytest_msdump.core.layouts.axes import ReshapedView
from pytest_msdump.core.layouts.blocks import Part, Placement, format_name, place, stored_shape
from pytest_msdump.core.layouts.converters import Converters, converted
from pytest_msdump.core.layouts.gather import (
    BlockedView,
    GroupedPlacement,
    groups_side_by_side,
    place_groups,
    ungrouped,
)
from pytest_msdump.core.model.tensor import TensorSpec, TensorView

Shape = tuple[int, ...]
Array = npt.NDArray[Any]

# Axis orders that a logical shape of so many axes may be in, the likeliest first.
_ORDERS: Mapping[int, tuple[str, ...]] = {4: ("NCHW", "NHWC", "HWCN", "CHWN"), 5: ("NCDHW", "NDHWC", "DHWCN", "DHWNC")}
# Formats that hold a matrix, whatever its axes are called.
NAMELESS = frozenset({"", "IJ"})


def target(spec: TensorSpec, *, rule_format: str | None, rule_shape: Shape | None) -> tuple[Shape | None, str | None]:
    """Choose the logical shape of a stored tensor and the order of its axes."""
    known = format_name(spec.memory_format)
    wishes = list(_wishes(spec, rule_format, rule_shape))
    if known is None or spec.shape is None or not wishes:
        return wishes[0] if wishes else (None, None)
    for shape, letters in wishes:
        if _placed(spec, known, shape, letters) is not None:
            return shape, letters
    return (None, None) if spec.shape_from and rule_shape is None else wishes[0]


def check_fits(spec: TensorSpec) -> None:
    """Raise `TensorShapeError` where no order of axes makes the stored shape hold the logical one."""
    shape, letters = target(spec, rule_format=None, rule_shape=None)
    known = format_name(spec.memory_format)
    if known is not None and shape is not None and _placed(spec, known, shape, letters) is None:
        raise _refusal(spec, known, shape, letters)


def _wishes(spec: TensorSpec, rule_format: str | None, rule_shape: Shape | None) -> Iterator[tuple[Shape, str | None]]:
    letters = (rule_format or "").upper() or None
    if letters is not None and letters not in {order for orders in _ORDERS.values() for order in orders}:
        letters = None
    known = format_name(spec.memory_format)
    known_shapes = (spec.logical_shape, rule_shape)
    # A rule file may leave lengths open, such as that of the batch.
    shapes = [_without_gaps(spec, known, shape, letters) for shape in known_shapes if shape is not None]
    shapes = [shape for shape in shapes if min(shape, default=0) >= 0]
    if letters is not None:
        yield from ((shape, letters) for shape in shapes if len(letters) == len(shape))
    nameless = known is not None and MEMORY_FORMATS[known].axes in NAMELESS
    for shape in shapes:
        yield from ((shape, order) for order in (() if nameless else _ORDERS.get(len(shape), ())))
        yield shape, None


def _without_gaps(spec: TensorSpec, known: str | None, shape: Shape, letters: str | None) -> Shape:
    """Fill lengths that a rule left open from the stored axes that hold nothing but that axis."""
    if min(shape, default=0) >= 0 or known is None or spec.shape is None or len(letters or "") != len(shape):
        return shape
    entries = MEMORY_FORMATS[known].stored
    whole = dict(zip(entries, spec.shape, strict=True)) if len(entries) == len(spec.shape) else {}
    named = zip(letters or "", shape, strict=True)
    return tuple(whole.get(letter, length) if length < 0 else length for letter, length in named)


def logical(
    view: TensorView,
    *,
    logical_shape: Shape | None = None,
    logical_format: str | None = None,
    converters: Converters | None = None,
) -> TensorView:
    """Undo the memory format that a view's spec names; reads no data, except for a user's converter."""
    spec = view.spec
    if logical_shape is None or min(logical_shape, default=0) < 0:
        logical_shape, logical_format = target(spec, rule_format=logical_format, rule_shape=logical_shape)
    known = format_name(spec.memory_format)
    if converters:
        own = converted(view, known or str(spec.memory_format), logical_shape, logical_format, converters)
        if own is not None:
            return own
    if known is None:
        if logical_shape in (None, view.shape):
            return view
        raise TensorShapeError(
            f"memory format {view.spec.memory_format} has no conversion from stored shape {view.shape} to "
            f"{logical_shape}; write one, convert_X_to_Y.py, and name its folder with -custom"
        )
    if logical_shape is None:
        if may_be_padded(known):
            unfit = f"{spec.shape_from} says {spec.logical_shape}, which does not fit"
            raise TensorShapeError(
                f"{known} of stored shape {view.shape} is padded, and "
                f"{unfit if spec.shape_from else 'its logical shape is unknown'}; give the rule file that knows this "
                "operator (--msdump-fusion), or dump with trans_flag"
            )
        return view
    if 0 in logical_shape or view.size == 0:
        return view
    return _brought(view, known, logical_shape, logical_format)


def _brought(view: TensorView, known: str, shape: Shape, letters: str | None) -> TensorView:
    row = MEMORY_FORMATS[known]
    plain = not may_be_padded(known)
    if known == "ND" or (plain and len(view.shape) != len(row.axes)):
        return _plain(view, shape)
    found: TensorView
    placed = _placed(view.spec, known, shape, letters)
    if placed is None:
        if plain and prod(shape) == view.size:
            return _plain(view, shape)
        raise _refusal(view.spec, known, shape, letters)
    if not isinstance(placed, Placement):
        found = ungrouped(BlockedView(view, placed.placement), placed)
    elif plain:
        # No blocks: the file's own reader knows best how to take axes in another order.
        stored_axes = [part.axis for part in placed.parts]
        order = tuple(stored_axes.index(axis) for axis in range(len(stored_axes)))
        found = view if order == tuple(range(len(order))) else view.permuted(order)
    else:
        found = BlockedView(view, placed)
    return found if found.shape == shape else UnfoldedView(found, shape)


class UnfoldedView(ReshapedView):
    """A tensor whose format knows it by another shape; its axes can still be permuted."""

    def __init__(self, view: TensorView, shape: Shape) -> None:
        super().__init__(view, shape)
        self._known_as = view

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this tensor with its axes in another order; reads no data."""
        shape = tuple(self.shape[axis] for axis in axes)
        known = self._known_as
        long = [axis for axis, length in enumerate(known.shape) if length != 1]
        if [known.shape[axis] for axis in long] != [length for length in self.shape if length != 1]:
            parts = tuple(Part(axis, "whole", length) for axis, length in enumerate(self.shape))
            return BlockedView(self, Placement(self.shape, parts), order=axes)
        # Only axes of length 1 are new or gone: the others move where they are.
        counterpart = dict(zip((axis for axis, length in enumerate(self.shape) if length != 1), long, strict=True))
        ones = [axis for axis in range(len(known.shape)) if axis not in long]
        moved = [counterpart[axis] for axis in axes if axis in counterpart]
        return UnfoldedView(known.permuted((*moved, *ones)), shape)


def _plain(view: TensorView, shape: Shape) -> TensorView:
    """Give a tensor in a plain format the shape of its header, or one that differs in axes of length 1 only."""
    if shape == view.shape:
        return view
    same_but_ones = [length for length in shape if length != 1] == [length for length in view.shape if length != 1]
    is_in_header = shape == view.spec.logical_shape and prod(shape) == view.size
    return UnfoldedView(view, shape) if same_but_ones or is_in_header else view


@lru_cache(maxsize=1024)
def _placed(spec: TensorSpec, known: str, shape: Shape, letters: str | None) -> Placement | GroupedPlacement | None:
    """Return how a logical shape lies in a stored one; ``None`` when it does not."""
    if spec.shape is None or min(shape, default=1) < 0:
        return None
    try:
        return _place(spec, known, shape, letters)
    except TensorShapeError:
        return None


def _place(spec: TensorSpec, known: str, shape: Shape, letters: str | None) -> Placement | GroupedPlacement:
    row = MEMORY_FORMATS[known]
    full, order = (shape, "") if row.axes in NAMELESS else completed(shape, letters)
    if row.is_grouped and spec.groups > 1:
        return place_groups(known, spec.shape or (), full, order, spec.groups)
    return place(known, spec.shape or (), full, order)


def _refusal(spec: TensorSpec, known: str, shape: Shape, letters: str | None) -> TensorShapeError:
    try:
        _place(spec, known, shape, letters)
    except TensorShapeError as error:
        return error
    return TensorShapeError(f"{known} of stored shape {spec.shape} cannot hold a tensor of shape {shape}")


def completed(shape: Shape, letters: str | None) -> tuple[Shape, str]:
    """Name the axes of a shape; a short one gets the axes of length 1 that were left out."""
    if letters is not None:
        return shape, letters
    if len(shape) >= 5:
        return shape, "NCDHW"
    if len(shape) == 1:
        return (1, *shape, 1, 1), "NCHW"
    return (*shape, *(1,) * (4 - len(shape))), "NCHW"


def stored(
    array: Array,
    memory_format: str,
    *,
    logical_format: str = "",
    c0: int | None = None,
    groups: int = 1,
    padding: float = 0,
) -> Array:
    """Bring an array from its logical axes to a memory format."""
    known = format_name(memory_format)
    if known is None:
        raise TensorShapeError(f"memory format {memory_format} is not known")
    row = MEMORY_FORMATS[known]
    full, letters = (array.shape, "") if row.axes in NAMELESS else completed(array.shape, logical_format or None)
    blocks = {} if c0 is None else {"C": c0, "J": c0}
    if row.is_grouped and groups > 1:
        return _stored_groups(array.reshape(full), known, letters, blocks, groups, padding)
    shape, placement = stored_shape(known, full, letters, blocks)
    return _filled(array.reshape(placement.shape), placement, padding).reshape(shape)


def _filled(array: Array, placement: Placement, padding: float) -> Array:
    """Pad each axis to whole blocks, split it, and bring the pieces to the stored order."""
    numbers = [placement.parts_of(axis) for axis in placement.order]
    sizes = [[placement.parts[number].size for number in own] for own in numbers]
    missing = [(0, prod(own) - length) for own, length in zip(sizes, placement.shape, strict=True)]
    padded = np.pad(array, missing, constant_values=padding)
    pieces = padded.reshape([size for own in sizes for size in own])
    # The pieces stand by logical axis: where each stored axis is among them.
    order = np.argsort([number for own in numbers for number in own])
    return np.ascontiguousarray(pieces.transpose(order))


def _stored_groups(
    array: Array, known: str, letters: str, blocks: Mapping[str, int], groups: int, padding: float
) -> Array:
    names = "NC" + "".join(letter for letter in letters if letter not in "NC")
    weight = array.transpose([letters.index(letter) for letter in names])
    count, channels, *rest = weight.shape
    if count % groups:
        raise TensorShapeError(f"{count} filters cannot be shared by {groups} groups")
    filters = count // groups
    lengths = {**MEMORY_FORMATS[known].default_blocks, **blocks}
    together = groups_side_by_side(groups, filters, channels, block=lengths["C"], rows=lengths["N"])
    packs = -(-groups // together)
    wide = np.full((packs * together, filters, together, channels, *rest), padding, weight.dtype)
    group = np.arange(groups)
    wide[group, :, group % together] = weight.reshape(groups, filters, channels, *rest)
    parts = [
        stored(pack, known, logical_format=names, c0=lengths["C"], padding=padding)
        for pack in wide.reshape(packs, together * filters, together * channels, *rest)
    ]
    return np.concatenate(parts)
