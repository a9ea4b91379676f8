"""From stored axes to logical ones: one engine for every row of `facts.memory_formats`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.axes import ReshapedView
from pytest_msdump.memory_formats.blocks import Part, Placement, format_name, place
from pytest_msdump.memory_formats.custom import converted
from pytest_msdump.memory_formats.gather import BlockedView
from pytest_msdump.memory_formats.grouped import GroupedView, groups_side_by_side
from pytest_msdump.memory_formats.held import held
from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["NAMELESS", "Converters", "completed", "is_device_format", "logical", "target"]

Shape = tuple[int, ...]
Converters = Mapping[tuple[str, str], Callable[..., Any]]

# Axis orders that a logical shape of so many axes may be in, the likeliest first.
_ORDERS: Mapping[int, tuple[str, ...]] = {
    4: ("NCHW", "NHWC", "HWCN", "CHWN"),
    5: ("NCDHW", "NDHWC", "DHWCN", "DHWNC"),
}
# Formats that hold a matrix, whatever its axes are called.
NAMELESS = frozenset({"", "IJ"})


def is_device_format(name: str | None) -> bool:
    """Tell whether a memory format has blocks, so that stored and logical shape differ in rank or padding.

    Examples
    --------
    >>> is_device_format("NC1HWC0"), is_device_format("FracZ"), is_device_format("NHWC"), is_device_format(None)
    (True, True, False, False)
    """
    known = format_name(name)
    return known is None or any(len(token) == 2 for entry in MEMORY_FORMATS[known].stored for token in entry.split())


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


def _wishes(spec: TensorSpec, rule_format: str | None, rule_shape: Shape | None) -> Iterator[tuple[Shape, str | None]]:
    letters = (rule_format or "").upper() or None
    if letters is not None and letters not in {order for orders in _ORDERS.values() for order in orders}:
        letters = None
    for shape in (spec.logical_shape, rule_shape):
        if shape is not None and letters is not None and len(letters) == len(shape):
            yield shape, letters
    known = format_name(spec.memory_format)
    nameless = known is not None and MEMORY_FORMATS[known].axes in NAMELESS
    for shape in (spec.logical_shape, rule_shape):
        if shape is not None:
            yield from ((shape, order) for order in (() if nameless else _ORDERS.get(len(shape), ())))
            yield shape, None


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
        Shape without padding; by default the header's.
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
    if logical_shape is None:
        logical_shape, logical_format = target(spec, rule_format=logical_format, rule_shape=None)
    known = format_name(spec.memory_format)
    own = converted(view, known or str(spec.memory_format), logical_shape, logical_format, converters or {})
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
    if known == "ND" or (not is_device_format(known) and len(view.shape) != len(row.axes)):
        return _plain(view, shape)
    placed = _placed(view.spec, known, shape, letters)
    if placed is None:
        if not is_device_format(known) and prod(shape) == view.size:
            return _plain(view, shape)
        # Asked again for the sentence that says what does not fit.
        full, order = completed(shape, letters) if row.axes not in NAMELESS else (shape, "")
        place(known, view.shape, full, order)
        raise TensorShapeError(f"{known} of stored shape {view.shape} cannot hold a tensor of shape {shape}")
    found: TensorView = BlockedView(view, placed.placement)
    if placed.groups > 1:
        found = _ungrouped(found, placed)
    return found if found.shape == shape else _Unfolded(found, shape)


class _Unfolded(ReshapedView):
    """A tensor whose format knows it by other axes; in another order it is read whole."""

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this tensor with its axes in another order."""
        return held(self).permuted(axes)


def _plain(view: TensorView, shape: Shape) -> TensorView:
    """Give a tensor in a plain format the shape that its header or rule says, where that is no more than a name."""
    if shape == view.shape:
        return view
    same_but_ones = [length for length in shape if length != 1] == [length for length in view.shape if length != 1]
    told_by_header = shape == view.spec.logical_shape and prod(shape) == view.size
    return ReshapedView(view, shape) if same_but_ones or told_by_header else view


class _Placed:
    """A placement that holds a tensor, and how its groups lie."""

    def __init__(self, placement: Placement, letters: str, groups: int = 1, together: int = 1) -> None:
        self.placement = placement
        self.letters = letters
        self.groups = groups
        self.together = together
        self.shape: Shape = ()


def _placed(spec: TensorSpec, known: str, shape: Shape, letters: str | None) -> _Placed | None:
    """Return how a logical shape lies in a stored one; ``None`` when it does not."""
    row = MEMORY_FORMATS[known]
    if spec.shape is None or min(shape, default=1) < 0:
        return None
    full, order = (shape, "") if row.axes in NAMELESS else completed(shape, letters)
    try:
        if row.is_grouped and spec.groups > 1:
            return _grouped(known, spec.shape, full, order, spec.groups)
        return _Placed(place(known, spec.shape, full, order), order)
    except TensorShapeError:
        return None


def completed(shape: Shape, letters: str | None) -> tuple[Shape, str]:
    """Name the axes of a shape; a shorter one is filled up with axes of length 1 that were left out."""
    if letters is not None:
        return shape, letters
    if len(shape) >= 5:
        return shape, "NCDHW"
    if len(shape) == 1:
        return (1, *shape, 1, 1), "NCHW"
    return (*shape, *(1,) * (4 - len(shape))), "NCHW"


def _grouped(known: str, stored_axes: Shape, shape: Shape, letters: str, groups: int) -> _Placed:
    """Place the wide weight in which groups lie side by side; axes in order filters, channels, the rest."""
    at = dict(zip(letters, shape, strict=True))
    if at["N"] % groups:
        raise TensorShapeError(f"{at['N']} filters cannot be shared by {groups} groups")
    filters = at["N"] // groups
    together = groups_side_by_side(groups, filters, at["C"], block=stored_axes[-1], rows=stored_axes[-2])
    rest = [letter for letter in letters if letter not in "NC"]
    packs = -(-groups // together)
    # The packs follow each other in memory like a depth: as the outermost part of the first stored axis.
    wide = (packs * together * filters, together * at["C"], *(at[letter] for letter in rest))
    placement = _packed(known, stored_axes, wide, packs, "NC" + "".join(rest))
    found = _Placed(placement, letters, groups, together)
    found.shape = (at["N"], at["C"], *(at[letter] for letter in rest))
    return found


def _packed(known: str, stored_axes: Shape, wide: Shape, packs: int, letters: str) -> Placement:
    """Return the placement of a wide weight whose packs of filters lie behind each other."""
    one = (wide[0] // packs, *wide[1:])
    first, rest = divmod(stored_axes[0], packs)
    if rest:
        raise TensorShapeError(f"{known} of stored shape {stored_axes} cannot hold {packs} packs of groups")
    inner = place(known, (first, *stored_axes[1:]), one, letters)
    return _with_packs(inner, packs)


def _with_packs(inner: Placement, packs: int) -> Placement:
    moved = tuple(Part(part.axis + 1, part.kind, part.size, part.block) for part in inner.parts)
    return Placement((packs, *inner.shape), (Part(0, "whole", packs), *moved))


def _ungrouped(packed: TensorView, placed: _Placed) -> TensorView:
    """Take each group's own channels out of the wide weight, and bring the axes to their order."""
    packs, rows, *rest = packed.shape
    wide = ReshapedView(packed, (packs * rows, *rest))
    grouped: TensorView = GroupedView(wide, placed.shape, groups=placed.groups, together=placed.together)
    names = "NC" + "".join(letter for letter in placed.letters if letter not in "NC")
    order = tuple(names.index(letter) for letter in placed.letters)
    return grouped if order == tuple(range(len(order))) else grouped.permuted(order)
