"""From stored axes to logical ones: one engine for every row of `facts.memory_formats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.axes import ReshapedView
from pytest_msdump.memory_formats.blocks import Part, Placement, format_name, place
from pytest_msdump.model.tensor import TensorSpec, TensorView

if TYPE_CHECKING:
    from pytest_msdump.memory_formats.grouped import GroupedPlacement

__all__ = ["NAMELESS", "Converters", "check_fits", "completed", "is_device_format", "logical", "target"]

Shape = tuple[int, ...]
Converters = Mapping[tuple[str, str], Callable[..., Any]]

# Axis orders that a logical shape of so many axes may be in, the likeliest first.
_ORDERS: Mapping[int, tuple[str, ...]] = {
    4: ("NCHW", "NHWC", "HWCN", "CHWN"),
    5: ("NCDHW", "NDHWC", "DHWCN", "DHWNC"),
}
# Formats that hold a matrix, whatever its axes are called.
NAMELESS = frozenset({"", "IJ"})


@lru_cache(maxsize=256)
def is_device_format(name: str | None) -> bool:
    """Tell whether a memory format has blocks, so that stored and logical shape differ in rank or padding.

    Examples
    --------
    >>> is_device_format("NC1HWC0"), is_device_format("FracZ"), is_device_format("NHWC"), is_device_format(None)
    (True, True, False, False)
    """
    known = format_name(name)
    return known is None or any(len(token) == 2 for entry in MEMORY_FORMATS[known].stored for token in entry.split())


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=1024)
def target(spec: TensorSpec, *, rule_format: str | None, rule_shape: Shape | None) -> tuple[Shape | None, str | None]:
    """Choose the logical shape of a stored tensor and the order of its axes.

    Parameters
    ----------
    spec : TensorSpec
        What the dump says; `logical_shape` is the header's.
    rule_format, rule_shape
        What a rule file says of the original tensor.

    Returns
    -------
    shape, letters
        The first that the stored shape can hold: the header's shape in the rule's order, the rule's shape, the header's
        in the usual orders. Where several orders fit, NCHW (NCDHW) goes first. ``(None, None)`` when nobody tells a
        shape; when none fits, the best guess, so that the refusal can name it.
    """
    known = format_name(spec.memory_format)
    wishes = list(_wishes(spec, rule_format, rule_shape))
    if known is None or spec.shape is None or not wishes:
        return wishes[0] if wishes else (None, None)
    for shape, letters in wishes:
        if _placed(spec, known, shape, letters) is not None:
            return shape, letters
    return wishes[0]


def check_fits(spec: TensorSpec) -> None:
    """Refuse a stored shape that cannot hold the logical one, whatever the order of its axes.

    Raises
    ------
    TensorShapeError
        It cannot; the text says what would have to be there.
    """
    shape, letters = target(spec, rule_format=None, rule_shape=None)
    known = format_name(spec.memory_format)
    if known is not None and shape is not None and _placed(spec, known, shape, letters) is None:
        raise _refusal(spec, known, shape, letters)


def _wishes(spec: TensorSpec, rule_format: str | None, rule_shape: Shape | None) -> Iterator[tuple[Shape, str | None]]:
    letters = (rule_format or "").upper() or None
    if letters is not None and letters not in {order for orders in _ORDERS.values() for order in orders}:
        letters = None
    known = format_name(spec.memory_format)
    told = (spec.logical_shape, rule_shape)
    # A rule file may leave lengths open, such as that of the batch.
    shapes = [_without_gaps(spec, known, shape, letters) for shape in told if shape is not None]
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
    """Undo a tensor's memory format; reads no data (but for a user's converter, which gets all of it).

    Parameters
    ----------
    view : TensorView
        In stored axes; its `spec` names the memory format.
    logical_shape : tuple of int, optional
        Shape without padding; by default the header's, also for lengths below 0, which nobody knows.
    logical_format : str, optional
        What its axes are, e.g. ``"NHWC"``; found out by `target` by default.
    converters : mapping, optional
        (from, to) → a user's function; it wins over ours.

    Returns
    -------
    TensorView
        Of the logical shape. A tensor in a plain format whose shape nobody contradicts comes back as it is.

    Raises
    ------
    TensorShapeError
        The format and the shapes contradict each other, the format is unknown, or nothing tells the logical shape.
    """
    spec = view.spec
    if logical_shape is None or min(logical_shape, default=0) < 0:
        logical_shape, logical_format = target(spec, rule_format=logical_format, rule_shape=logical_shape)
    known = format_name(spec.memory_format)
    if converters:
        from pytest_msdump.memory_formats.custom import converted

        own = converted(view, known or str(spec.memory_format), logical_shape, logical_format, converters)
        if own is not None:
            return own
    if known is None:
        return _of_unknown_format(view, logical_shape)
    if logical_shape is None:
        if is_device_format(known):
            raise TensorShapeError(
                f"{known} of stored shape {view.shape} is padded, and nothing tells its logical shape; give the rule "
                "file that knows this operator (--msdump-fusion), or dump with trans_flag"
            )
        return view
    if 0 in logical_shape or view.size == 0:
        return view
    return _brought(view, known, logical_shape, logical_format)


def _of_unknown_format(view: TensorView, logical_shape: Shape | None) -> TensorView:
    if logical_shape in (None, view.shape):
        return view
    raise TensorShapeError(
        f"memory format {view.spec.memory_format} has no conversion from stored shape {view.shape} to {logical_shape}; "
        "write one, convert_X_to_Y.py, and name its folder with -custom"
    )


def _brought(view: TensorView, known: str, shape: Shape, letters: str | None) -> TensorView:
    row = MEMORY_FORMATS[known]
    plain = not is_device_format(known)
    if known == "ND" or (plain and len(view.shape) != len(row.axes)):
        return _plain(view, shape)
    found: TensorView
    placed = _placed(view.spec, known, shape, letters)
    if placed is None:
        if plain and prod(shape) == view.size:
            return _plain(view, shape)
        raise _refusal(view.spec, known, shape, letters)
    from pytest_msdump.memory_formats.gather import BlockedView

    if not isinstance(placed, Placement):
        from pytest_msdump.memory_formats.grouped import ungrouped

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
    """A tensor under another shape than its format knows it by, whose axes can still change places."""

    def __init__(self, view: TensorView, shape: Shape) -> None:
        super().__init__(view, shape)
        self._known_as = view

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this tensor with its axes in another order; reads no data."""
        from pytest_msdump.memory_formats.gather import BlockedView

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
    """Give a tensor in a plain format the shape that its header or rule says, where that is no more than a name."""
    if shape == view.shape:
        return view
    same_but_ones = [length for length in shape if length != 1] == [length for length in view.shape if length != 1]
    told_by_header = shape == view.spec.logical_shape and prod(shape) == view.size
    return UnfoldedView(view, shape) if same_but_ones or told_by_header else view


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
        from pytest_msdump.memory_formats.grouped import place_groups

        return place_groups(known, spec.shape or (), full, order, spec.groups)
    return place(known, spec.shape or (), full, order)


def _refusal(spec: TensorSpec, known: str, shape: Shape, letters: str | None) -> TensorShapeError:
    """Say what does not fit."""
    try:
        _place(spec, known, shape, letters)
    except TensorShapeError as error:
        return error
    return TensorShapeError(f"{known} of stored shape {spec.shape} cannot hold a tensor of shape {shape}")


def completed(shape: Shape, letters: str | None) -> tuple[Shape, str]:
    """Name the axes of a shape; a shorter one is filled up with axes of length 1 that were left out."""
    if letters is not None:
        return shape, letters
    if len(shape) >= 5:
        return shape, "NCDHW"
    if len(shape) == 1:
        return (1, *shape, 1, 1), "NCHW"
    return (*shape, *(1,) * (4 - len(shape))), "NCHW"
