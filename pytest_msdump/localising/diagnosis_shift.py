"""Claims that values moved to a neighbouring place, or that padding was taken for values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from pytest_msdump.localising.diagnosis_claim import Array, Trial
from pytest_msdump.localising.diagnosis_pointwise import MovingClaim
from pytest_msdump.localising.diagnosis_sample import Sides, doubles
from pytest_msdump.text import Message

__all__ = ["PaddedClaim", "ShiftClaim", "of_neighbours", "of_padding"]

Shape = tuple[int, ...]

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
