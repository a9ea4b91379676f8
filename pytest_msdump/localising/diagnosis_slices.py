"""Which part of a tensor is wrong while the rest agrees: one channel, row or batch entry, or a border of zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from pytest_msdump.localising.diagnosis_claim import Array, Diagnosis, Trial
from pytest_msdump.localising.diagnosis_pointwise import PointwiseClaim
from pytest_msdump.localising.diagnosis_sample import Sides
from pytest_msdump.text import Message, Parameter

__all__ = ["BorderClaim", "of_border", "one_slice"]

# Share of the squared differences that has to lie in the slice, of its elements that have to differ, and of all others
# that may.
_CONCENTRATED = 0.98
_DIFFERING = 0.5
_DIFFERING_OUTSIDE = 0.1
_FEWEST_IN_SLICE = 4
# The mean squared difference of the slice is at least so many times that of the rest: noise there is 20 times smaller.
_STANDS_OUT = 400.0


def one_slice(sides: Sides) -> Diagnosis | None:
    """Return the one slice that is wrong, when there is one: found in all elements, not in a sample."""
    shape = sides.shape
    if not sides.is_whole or len(shape) < 2 or sides.size < 16 or not _may_be_concentrated(sides):
        return None
    with np.errstate(all="ignore"):
        profiles = _profiles(sides, sides.ranges())
    total = float(next(iter(profiles.values())).sum()) if profiles else 0.0
    if not 0 < total < np.inf:
        return None
    at = {
        axis: int(profile.argmax())
        for axis, profile in profiles.items()
        if profile.max() >= _CONCENTRATED * total and shape[axis] > 1
    }
    return _slice_diagnosis(sides, at, total) if at else None


def _may_be_concentrated(sides: Sides) -> bool:
    """Whether the sample leaves it open; differences all over the tensor need no further look."""
    with np.errstate(all="ignore"):
        profiles = _profiles(sides, sides.sample_ranges)
    totals = [float(profile.sum()) for profile in profiles.values()]
    if not totals or not totals[0] > 0:
        return True
    return any(profile.max() >= 0.9 * total for profile, total in zip(profiles.values(), totals, strict=True))


def _profiles(sides: Sides, ranges: Iterator[tuple[int, int]] | tuple[tuple[int, int], ...]) -> dict[int, Array]:
    """Return, for each axis longer than 1, the squared differences summed by index."""
    shape = sides.shape
    axes = [axis for axis, length in enumerate(shape) if length > 1 and sides.size // length >= _FEWEST_IN_SLICE]
    found = {axis: np.zeros(shape[axis]) for axis in axes}
    for start, stop in ranges:
        left, right = sides.read(start, stop)
        squared = np.square(left - right)
        squared[~np.isfinite(squared)] = 0.0
        if not squared.any():
            continue
        places = np.arange(start, stop)
        for axis in axes:
            index = places // prod(shape[axis + 1 :]) % shape[axis]
            found[axis] += np.bincount(index, squared, shape[axis])
    return found


def _slice_diagnosis(sides: Sides, at: Mapping[int, int], total: float) -> Diagnosis | None:
    """Look at the slice alone: its elements have to differ as a whole, not one of them."""
    inside = np.zeros(0)
    count = differing = outside_differing = 0
    for start, stop in sides.ranges():
        chosen = _chosen(sides.shape, at, start, stop)
        left, right = sides.read(start, stop)
        distance = np.abs(left - right)
        distance[~np.isfinite(distance)] = 0.0
        apart = distance > np.maximum(sides.rounding.of(right), 0.02 * np.abs(right))
        count += int(chosen.sum())
        differing += int(np.count_nonzero(apart & chosen))
        outside_differing += int(np.count_nonzero(apart & ~chosen))
        inside = np.concatenate(
            [inside, np.array([np.sum(np.square(distance[chosen])), np.sum(distance[chosen] ** 4)])]
        )
    energy, fourth = float(inside[0::2].sum()), float(inside[1::2].sum())
    rest = sides.size - count
    if count < _FEWEST_IN_SLICE or energy < _CONCENTRATED * total or rest < count or not fourth > 0:
        return None
    # How many elements share the difference: all of them would make it `count`, one alone 1.
    taking_part = energy * energy / fourth
    stands_out = (energy / count) >= _STANDS_OUT * max(total - energy, 0.0) / rest
    concentrated = differing >= _DIFFERING * count and taking_part >= max(3.0, 0.05 * count) and stands_out
    if not concentrated or outside_differing > _DIFFERING_OUTSIDE * rest:
        return None
    parts = tuple(Message("index_of_axis", {"index": index, "axis": axis}) for axis, index in at.items())
    said: dict[str, Parameter] = {"share": energy / total, "parts": parts, "n": differing, "m": count, "rest": rest}
    evidence = Message("only_slice_differs", said)
    if outside_differing:
        evidence = Message("slice_differs_most", {**said, "k": outside_differing})
    high = count >= 8 and outside_differing <= 0.02 * rest
    details = {"index": {str(axis): index for axis, index in at.items()}}
    return Diagnosis("one_slice", "high" if high else "medium", evidence, details, 1 - energy / total)


def _chosen(shape: tuple[int, ...], at: Mapping[int, int], start: int, stop: int) -> Array:
    places = np.arange(start, stop)
    chosen = np.ones(places.size, bool)
    for axis, index in at.items():
        chosen &= places // prod(shape[axis + 1 :]) % shape[axis] == index
    return chosen


class BorderClaim(PointwiseClaim):
    """The left is 0 outside a box and the right inside it."""

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides and what is claimed of it."""
        left, right = self.sides.read(start, stop)
        places = np.arange(start, stop)
        kept = np.ones(places.size, bool)
        for axis, (first, last) in self.details["inside"].items():
            index = places // prod(self.sides.shape[int(axis) + 1 :]) % self.sides.shape[int(axis)]
            kept &= (index >= first) & (index < last)
        return Trial(left, np.where(kept, right, 0.0), right)


def of_border(sides: Sides) -> Iterator[BorderClaim]:
    """Yield the border of the left that is 0 where the right is not: two slices of an axis or more, or two axes."""
    if sides.held is None or not sides.shape:
        return
    left, right = sides.held
    inside: dict[str, tuple[int, int]] = {}
    slices = 0
    for axis, length in enumerate(sides.shape):
        others = tuple(other for other in range(len(sides.shape)) if other != axis)
        there, wanted = (np.flatnonzero((side != 0).any(axis=others)) for side in (left, right))
        if not there.size or not wanted.size or (wanted[0] >= there[0] and wanted[-1] <= there[-1]):
            continue
        first, last = (
            int(there[0]) if wanted[0] < there[0] else 0,
            int(there[-1]) + 1 if wanted[-1] > there[-1] else length,
        )
        inside[str(axis)] = (first, last)
        slices += first + length - last
    if slices >= 2:
        parts = tuple(
            Message("range_of_axis", {"first": first, "last": last - 1, "axis": axis})
            for axis, (first, last) in inside.items()
        )
        message = Message("zero_but_inside", {"parts": parts})
        details = {"inside": inside}
        yield BorderClaim("padding", sides, np.asarray, message, details, sides.rounding, sides.agreeing)
