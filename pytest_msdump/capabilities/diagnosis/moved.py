"""Claims that values are at other places: axes in another order, a device's memory format, a shift, padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import prod

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, Claim, Sides, Trial, doubles
from pytest_msdump.capabilities.diagnosis.values import distribution_distance, have_stayed, thinned
from pytest_msdump.core.layouts.axes import ReshapedView
from pytest_msdump.core.layouts.blocks import Part, Placement, stored_shape
from pytest_msdump.core.layouts.gather import BlockedView
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message, Parameter

Shape = tuple[int, ...]

# All orders of more axes than these are too many to try.
_MOST_AXES = 5
_PLACES_TRIED = 2048
_NAMES: Mapping[Shape, str] = {(0, 2, 3, 1): "NHWC", (0, 3, 1, 2): "NCHW", (2, 3, 1, 0): "HWCN", (1, 2, 3, 0): "CHWN"}
# Formats that can fill their blocks without padding, with the lengths of block that occur.
_FORMATS = (
    ("NC1HWC0", "NCHW", (16, 32, 8, 4)),
    ("NDC1HWC0", "NCDHW", (16, 32)),
    ("C1HWNC0", "NCHW", (16,)),
    ("FRACTAL_NZ", "", (16, 32)),
    ("FRACTAL_Z", "NCHW", (16,)),
)


@dataclass(frozen=True)
class MovedClaim(Claim):
    """One side, read in another order, is the other."""

    moved: str
    stored: Shape
    placement: Placement
    order: Shape

    @cached_property
    def view(self) -> TensorView:
        """The side that moves, in its other order; one view for all blocks, since it keeps a window in memory."""
        return self.open_view()

    def open_view(self) -> TensorView:
        """Return a new view of the side that moves; reads no data."""
        base = self.sides.left if self.moved == "left" else self.sides.right
        flat = base if base.shape == self.stored else ReshapedView(base, self.stored)
        return BlockedView(flat, self.placement, order=self.order)

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and of the one that moves in its other order."""
        return self.trial_of(self.view, start, stop)

    def trial_of(self, view: TensorView, start: int, stop: int) -> Trial:
        """Return a block as `trial` does, from this view."""
        moved = doubles(view.read(start, stop))
        left, right = self.sides.read(start, stop)
        # If the left moves, the sides swap: the distances are the same.
        return Trial(left, moved, right) if self.moved == "right" else Trial(right, moved, left)

    def places(self, flat: Array) -> Array:
        """Return which stored element of the side that moves stands at each flat place of its other order."""
        shape = tuple(self.placement.shape[axis] for axis in self.order)
        indexes = np.unravel_index(flat, shape)
        at = {axis: indexes[position] for position, axis in enumerate(self.order)}
        found = np.zeros_like(flat)
        for part in self.placement.parts:
            index = at[part.axis]
            step = (
                index // part.block if part.kind == "outer" else index % part.block if part.kind == "inner" else index
            )
            found = found * part.size + step
        return found


def of_other_orders(sides: Sides) -> Iterator[MovedClaim]:
    """Yield the order of axes and the memory format that fit best at random places."""
    if not sides.is_whole or (sides.whole is None and not _may_have_moved(sides)):
        return
    for family in (_axis_orders(sides), _formats(sides)):
        best, share = None, 0.5
        for claim in family:
            found = _matching_share(claim)
            if found is not None and found > share:
                best, share = claim, found
        if best is not None:
            yield best


def _may_have_moved(sides: Sides) -> bool:
    """Whether the sample of a large tensor has the same values on both sides, but not at the same places."""
    left, right = thinned(*sides.finite_sample)
    return left.size > 0 and not have_stayed(sides) and distribution_distance(left, right) <= 0.1


def _matching_share(claim: MovedClaim) -> float | None:
    """Return the share of differing places that the claim explains, among those tried."""
    whole = claim.sides.whole
    if whole is None:
        return _share_of_large(claim)
    base, other = whole if claim.moved == "left" else (whole[1], whole[0])
    flat = np.random.default_rng(0).integers(0, base.size, min(_PLACES_TRIED, base.size))
    moved = doubles(base.reshape(-1)[claim.places(flat)])
    return _share(claim, doubles(other.reshape(-1)[flat]), moved, doubles(base.reshape(-1)[flat]))


def _share_of_large(claim: MovedClaim) -> float | None:
    """Return the same from two short ranges: a large tensor is not read for each of many orders."""
    length = min(512, claim.sides.size // 2)
    # Not the claim's own view: those of all claims together would keep much of the tensor in memory.
    view = claim.open_view()
    trials = [claim.trial_of(view, start, start + length) for start in (0, claim.sides.size // 2)]
    parts = [np.concatenate(side) for side in zip(*trials, strict=True)]
    return _share(claim, *parts)


def _share(claim: MovedClaim, other: Array, moved: Array, base: Array) -> float | None:
    with np.errstate(all="ignore"):
        drift = np.abs(other - base)
        differing = drift > claim.rounding.of(base)
        near = np.abs(other - moved) <= np.maximum(0.25 * drift, claim.rounding.of(moved))
    count = np.count_nonzero(differing)
    return float(np.count_nonzero(near & differing) / count) if count >= 4 else None


def _axis_orders(sides: Sides) -> Iterator[MovedClaim]:
    shape = tuple(length for length in sides.shape if length != 1)
    kept = tuple(axis for axis, length in enumerate(sides.shape) if length != 1)
    if not 2 <= len(shape) <= _MOST_AXES:
        return
    placement = Placement(shape, tuple(Part(axis, "whole", length) for axis, length in enumerate(shape)))
    for order in permutations(range(len(shape))):
        if order == tuple(range(len(shape))):
            continue
        turned = tuple(shape[axis] for axis in order)
        for moved in ("right", "left"):
            # With equal lengths the other side's orders are the inverses of these.
            if moved == "left" and turned == shape:
                continue
            axes = [kept[axis] for axis in order]
            name = _NAMES.get(order) if len(sides.shape) == 4 else None
            parameters: dict[str, Parameter] = {
                "side": "left" if moved == "right" else "right",
                "other": moved,
                "axes": tuple(axes),
                "name": Message("name_in_brackets", {"name": name}) if name else None,
            }
            message, details = Message("axes_in_other_order", parameters), {"axes": axes, "of": moved}
            yield MovedClaim("transposed", sides, message, details, moved, shape, placement, order)


def _formats(sides: Sides) -> Iterator[MovedClaim]:
    """Yield device formats whose blocks the shape fills without padding."""
    for name, letters, blocks in _FORMATS:
        if len(letters) not in (0, len(sides.shape)) or len(sides.shape) < 2:
            continue
        for block in blocks:
            stored, placement = stored_shape(name, sides.shape, letters, {"C": block, "J": block})
            # Not with padding, nor where one block is the whole axis: then nothing has moved.
            if prod(stored) != sides.size or sides.shape[1 if letters else -1] == block:
                continue
            order = tuple(range(len(placement.shape)))
            for moved in ("left", "right"):
                parameters = {"side": moved, "memory_format": name, "block": block}
                message = Message("still_in_memory_format", parameters)
                details = {"memory_format": name, "block": block, "of": moved}
                yield MovedClaim("memory_format", sides, message, details, moved, stored, placement, order)


# Rows are padded to multiples of these (a device's blocks), or by the width of a kernel's border.
_MULTIPLES = (8, 16, 32, 64, 128)
_BORDERS = (1, 2, 3, 4)


@dataclass(frozen=True)
class ShiftClaim(Claim):
    """left[i] = right[i - steps] along axes, or i - flat in the flat order."""

    steps: Mapping[int, int]
    flat: int = 0
    rolled: bool = False

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and the right shifted."""
        left, right = self.sides.read(start, stop)
        claimed = np.zeros(left.size)
        inside = self._inside(start, stop)
        self._fill(claimed, inside, start, self._distance(1))
        if self.rolled:
            # The number of steps once around; only one axis is ever rolled.
            length = self.sides.shape[next(iter(self.steps))] if self.steps else self.sides.size
            self._fill(claimed, ~inside, start, self._distance(1 - length))
        return Trial(left, claimed, right)

    def _distance(self, steps: int) -> int:
        shape = self.sides.shape
        return steps * (self.flat + sum(by * prod(shape[axis + 1 :]) for axis, by in self.steps.items()))

    def _inside(self, start: int, stop: int) -> Array:
        places = np.arange(start, stop)
        if not self.steps:
            return (places >= self.flat) & (places < self.sides.size + self.flat)
        inside = np.ones(places.size, bool)
        for axis, by in self.steps.items():
            index = places // prod(self.sides.shape[axis + 1 :]) % self.sides.shape[axis]
            inside &= (index >= by) & (index < self.sides.shape[axis] + by)
        return inside

    def _fill(self, claimed: Array, chosen: Array, start: int, distance: int) -> None:
        """Fill the chosen elements of a block with those of the right so many places before them."""
        if not chosen.any():
            return
        wanted = np.flatnonzero(chosen) + start - distance
        first = int(wanted[0])
        claimed[chosen] = doubles(self.sides.right.read(first, int(wanted[-1]) + 1))[wanted - first]


def of_neighbours(sides: Sides) -> Iterator[ShiftClaim]:
    """Yield shifts by one: of the flat order, along each axis, and, where a border of 0 is left, along the last two."""
    if not sides.is_whole:
        return
    axes = [axis for axis, length in enumerate(sides.shape) if length >= 3]
    ways: list[int | None] = [None, *(axes if len(sides.shape) > 1 else ())]
    for by, axis, rolled in product((1, -1), ways, (False, True)):
        way = "before" if by == 1 else "behind"
        message = Message(f"flat_shift_{way}") if axis is None else Message(f"axis_shift_{way}", {"axis": axis})
        steps = {} if axis is None else {axis: by}
        flat = by if axis is None else 0
        yield ShiftClaim("shifted_by_one", sides, message, {"axis": axis, "by": by}, steps, flat, rolled)
    if len(axes) >= 2 and sides.whole is not None:
        yield from _diagonal(sides, axes[-2:], sides.whole)


def _diagonal(sides: Sides, axes: list[int], whole: tuple[Array, Array]) -> Iterator[ShiftClaim]:
    """Yield shifts of both spatial axes at once that leave a border of 0 in the left: padding at one end only."""
    for steps in product((1, -1), repeat=2):
        ends = [(axis, 0 if by == 1 else -1) for axis, by in zip(axes, steps, strict=True)]
        borders, others = ([side.take(end, axis) for axis, end in ends] for side in whole)
        if not any(border.any() for border in borders) and all(other.any() for other in others):
            code = "border_of_zeros_first" if steps == (1, 1) else "border_of_zeros"
            message = Message(code, {"axes": tuple(axes)})
            details = {"axes": axes, "by": list(steps)}
            yield ShiftClaim("padding", sides, message, details, dict(zip(axes, steps, strict=True)))


@dataclass(frozen=True)
class PaddedClaim(Claim):
    """The left is the beginning of the right with each row of `row` elements padded to `padded` by 0."""

    row: int
    padded: int

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and the right with padded rows."""
        left, right = self.sides.read(start, stop)
        places = np.arange(start, stop)
        rows, columns = places // self.padded, places % self.padded
        inside = columns < self.row
        wanted = (rows * self.row + columns)[inside]
        claimed = np.zeros(places.size)
        if wanted.size:
            first, last = int(wanted[0]), int(wanted[-1]) + 1
            claimed[inside] = doubles(self.sides.right.read(first, last))[wanted - first]
        return Trial(left, claimed, right)


def of_padding(sides: Sides) -> Iterator[PaddedClaim]:
    """Yield rows of every axis but the first, padded to a device's blocks or by a border."""
    if not sides.is_whole or not sides.size:
        return
    for axis in range(1, len(sides.shape)):
        length, inner = sides.shape[axis], prod(sides.shape[axis + 1 :])
        lengths = {-(-length // multiple) * multiple for multiple in _MULTIPLES} | {length + more for more in _BORDERS}
        for padded in sorted(lengths - {length}):
            # The tensor has to hold the padding of the first rows.
            if 2 * padded * inner <= sides.size:
                message = Message("axis_is_padded", {"axis": axis, "n": length, "m": padded})
                details = {"axis": axis, "length": length, "padded": padded}
                yield PaddedClaim("padding", sides, message, details, length * inner, padded * inner)
