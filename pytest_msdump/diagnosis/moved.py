"""Claims that values are at other places: axes in another order, a device's memory format that nobody undid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np

from pytest_msdump.diagnosis.claim import Array, Trial
from pytest_msdump.diagnosis.pointwise import MovingClaim
from pytest_msdump.diagnosis.sample import Sides, doubles
from pytest_msdump.diagnosis.values import distribution_distance, have_stayed, thinned
from pytest_msdump.errors import TensorShapeError
from pytest_msdump.layouts.axes import ReshapedView
from pytest_msdump.layouts.blocks import Part, Placement, place
from pytest_msdump.layouts.gather import BlockedView
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.text import Message, Parameter

__all__ = ["of_neighbours", "of_other_orders", "of_padding"]

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
class MovedClaim(MovingClaim):
    """One side, read in another order, is the other.

    `moved` is the side that is read through `placement`: its flat elements are taken for stored axes.
    """

    id: str
    sides: Sides
    moved: str
    stored: Shape
    placement: Placement
    order: Shape
    message: Message
    details: Mapping[str, Any]

    @cached_property
    def view(self) -> TensorView:
        """The side that moves, in its other order. One for all blocks: it holds a window of the tensor."""
        return self.opened()

    def opened(self) -> TensorView:
        """Return a view of the side that moves; reads no data."""
        base = self.sides.left if self.moved == "left" else self.sides.right
        flat = base if base.shape == self.stored else ReshapedView(base, self.stored)
        return BlockedView(flat, self.placement, order=self.order)

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and of the one that moves what it has in the other order."""
        return self.trial_of(self.view, start, stop)

    def trial_of(self, view: TensorView, start: int, stop: int) -> Trial:
        """Return a block as `trial` does, from a view of one's own."""
        moved = doubles(view.read(start, stop))
        left, right = self.sides.read(start, stop)
        # What is claimed of the right's places is said as if it were of the left's: the distances are the same.
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
    """Yield the order of axes, and the memory format, that fit best at places all over the tensor."""
    if not sides.is_whole or (sides.held is None and not _may_have_moved(sides)):
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
    """Whether the sample of a large tensor has the same values on both sides, and not at the same places."""
    left, right = thinned(*sides.finite_sample)
    return left.size > 0 and not have_stayed(sides) and distribution_distance(left, right) <= 0.1


def _matching_share(claim: MovedClaim) -> float | None:
    """Share of the places tried, among those where the sides differ, that the claim explains."""
    held = claim.sides.held
    if held is None:
        return _share_of_large(claim)
    base, other = held if claim.moved == "left" else (held[1], held[0])
    flat = np.random.default_rng(0).integers(0, base.size, min(_PLACES_TRIED, base.size))
    moved = doubles(base.reshape(-1)[claim.places(flat)])
    return _share(claim, doubles(other.reshape(-1)[flat]), moved, doubles(base.reshape(-1)[flat]))


def _share_of_large(claim: MovedClaim) -> float | None:
    """The same from two short runs: a large tensor is not read for each of many orders."""
    length = min(512, claim.sides.size // 2)
    # Not the claim's own view: those of all claims together would hold much of the tensor.
    view = claim.opened()
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
    """Every order of the axes that are longer than 1, of either side."""
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
            yield _turned(sides, moved, shape, placement, order, axes)


def _turned(sides: Sides, moved: str, shape: Shape, placement: Placement, order: Shape, axes: list[int]) -> MovedClaim:
    other = "left" if moved == "right" else "right"
    name = _NAMES.get(order) if len(sides.shape) == 4 else None
    told = Message("name_in_brackets", {"name": name}) if name else None
    said: dict[str, Parameter] = {"side": other, "other": moved, "axes": tuple(axes), "name": told}
    message = Message("axes_in_other_order", said)
    details: dict[str, Any] = {"axes": axes, "of": moved}
    return MovedClaim("transposed", sides, moved, shape, placement, order, message, details)


def _formats(sides: Sides) -> Iterator[MovedClaim]:
    """Device formats whose blocks the shape fills without padding."""
    for name, letters, blocks in _FORMATS:
        if len(letters) not in (0, len(sides.shape)) or len(sides.shape) < 2:
            continue
        for block in blocks:
            stored = _stored_shape(name, sides.shape, block)
            if stored is None or prod(stored) != sides.size:
                continue
            try:
                placement = place(name, stored, sides.shape, letters)
            except TensorShapeError:
                continue
            order = tuple(range(len(placement.shape)))
            for moved in ("left", "right"):
                said = {"side": moved, "memory_format": name, "block": block}
                message = Message("still_in_memory_format", said)
                details = {"memory_format": name, "block": block, "of": moved}
                yield MovedClaim("memory_format", sides, moved, stored, placement, order, message, details)


def _stored_shape(name: str, shape: Shape, block: int) -> Shape | None:
    """Shape of the stored axes; ``None`` where blocks would need padding, or where one block is all there is."""
    *front, rows, columns = shape
    if name == "FRACTAL_NZ":
        fits = rows % 16 == 0 and columns % block == 0 and columns > block
        return (*front, columns // block, rows // 16, 16, block) if fits else None
    channels = shape[1]
    if channels % block or channels == block:
        return None
    spatial = shape[2:]
    if name == "NC1HWC0":
        return (shape[0], channels // block, *spatial, block)
    if name == "NDC1HWC0":
        return (shape[0], spatial[0], channels // block, *spatial[1:], block)
    if name == "C1HWNC0":
        return (channels // block, *spatial, shape[0], block)
    return (channels // block * prod(spatial), shape[0] // 16, 16, block) if shape[0] % 16 == 0 else None


# -- Claims that values moved to a neighbouring place, or that padding was taken for values --------------------------


# Rows are padded to multiples of these (a device's blocks), or by the width of a kernel's border.
_MULTIPLES = (8, 16, 32, 64, 128)
_BORDERS = (1, 2, 3, 4)


@dataclass(frozen=True)
class _OfNeighbours(MovingClaim):
    """What the claims of this module share."""

    id: str
    sides: Sides
    message: Message
    details: Mapping[str, Any]


@dataclass(frozen=True)
class ShiftClaim(_OfNeighbours):
    """left[i] = right[i - steps], along axes; what has no such neighbour is 0, or, if `rolled`, from the other end.

    No steps: by one place of the flat order.
    """

    steps: Mapping[int, int]
    flat: int = 0
    rolled: bool = False

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides and what is claimed of it."""
        left, right = self.sides.read(start, stop)
        claimed = np.zeros(left.size)
        inside = self._inside(start, stop)
        self._fill(claimed, inside, start, self._distance(1))
        if self.rolled:
            self._fill(claimed, ~inside, start, self._distance(1 - self._length))
        return Trial(left, claimed, right)

    @property
    def _length(self) -> int:
        """How many steps lead once around; only one axis is ever rolled."""
        return self.sides.shape[next(iter(self.steps))] if self.steps else self.sides.size

    def _distance(self, steps: int) -> int:
        """How many flat places elements move in so many steps."""
        shape = self.sides.shape
        return steps * (self.flat + sum(by * prod(shape[axis + 1 :]) for axis, by in self.steps.items()))

    def _inside(self, start: int, stop: int) -> Array:
        """Which elements have a neighbour."""
        places = np.arange(start, stop)
        if not self.steps:
            return (places >= self.flat) & (places < self.sides.size + self.flat)
        inside = np.ones(places.size, bool)
        for axis, by in self.steps.items():
            index = places // prod(self.sides.shape[axis + 1 :]) % self.sides.shape[axis]
            inside &= (index >= by) & (index < self.sides.shape[axis] + by)
        return inside

    def _fill(self, claimed: Array, chosen: Array, start: int, distance: int) -> None:
        """Claim of the chosen elements of a block what the right has so many places before them."""
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
    if len(axes) >= 2 and sides.held is not None:
        yield from _diagonal(sides, axes[-2:])


def _diagonal(sides: Sides, axes: list[int]) -> Iterator[ShiftClaim]:
    """Both spatial axes at once, when the border that this leaves is 0 in the left: padding at one end only."""
    held = sides.held
    if held is None:
        return
    for steps in product((1, -1), repeat=2):
        borders = [held[0].take(0 if by == 1 else -1, axis) for axis, by in zip(axes, steps, strict=True)]
        others = [held[1].take(0 if by == 1 else -1, axis) for axis, by in zip(axes, steps, strict=True)]
        if not any(border.any() for border in borders) and all(other.any() for other in others):
            code = "border_of_zeros_first" if steps == (1, 1) else "border_of_zeros"
            message = Message(code, {"axes": tuple(axes)})
            details = {"axes": axes, "by": list(steps)}
            yield ShiftClaim("padding", sides, message, details, dict(zip(axes, steps, strict=True)))


@dataclass(frozen=True)
class PaddedClaim(_OfNeighbours):
    """The left is the beginning of the right with each row of `row` elements padded to `padded`."""

    row: int
    padded: int

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block; the padding is claimed to be 0."""
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
            # The padding of the first rows has to be inside.
            if 2 * padded * inner <= sides.size:
                message = Message("axis_is_padded", {"axis": axis, "n": length, "m": padded})
                details = {"axis": axis, "length": length, "padded": padded}
                yield PaddedClaim("padding", sides, message, details, length * inner, padded * inner)
