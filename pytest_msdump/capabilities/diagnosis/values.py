"""Diagnoses of all values together: the same at other places, one value everywhere, or nothing in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, FactorClaim, Sides, inner
from pytest_msdump.capabilities.statistics.hashing import order_free_sums
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.model.record import Diagnosis
from pytest_msdump.core.text import Message, Parameter

# With fewer values than these, two tensors may hold the same ones by chance.
_FEWEST_VALUES = 16
_FEWEST_UNRELATED = 64
_SORTED = 16384
# The sorted sides are apart by at most this share of what two samples of one distribution are.
_NEARER_THAN_CHANCE = 0.1
# Above this correlation elements hardly moved: noise alone may do as much.
_MOVED = 0.9
# Correlation of unrelated sides: a little, and what chance makes of so many elements.
_CORRELATION, _CHANCE = 0.01, 2.8


def constant(sides: Sides) -> Diagnosis | None:
    """Diagnose a left side that is one value everywhere."""
    left, right = sides.finite_sample
    if left.size < 4 or left.min() != left.max() or right.min() == right.max():
        return None
    value = left[0]
    for start, stop in sides.ranges():
        if not np.all(sides.read(start, stop)[0] == value):
            return None
    parameters = {"value": float(value), "low": float(right.min()), "high": float(right.max())}
    evidence = Message("left_is_constant", parameters)
    return Diagnosis("constant", "high" if sides.size >= 8 else "medium", evidence, {"value": float(value)})


def permuted(sides: Sides) -> Diagnosis | None:
    """Diagnose the same values at other places: by digests that do not depend on order, or else by sorting."""
    left, right = thinned(*sides.finite_sample)
    if left.size < 16 or min(np.unique(side[: 2**14]).size for side in (left, right)) < _FEWEST_VALUES:
        return None
    if distribution_distance(left, right) > 0.02 + 2.0 * np.sqrt(2.0 / left.size):
        return None
    if _digests_agree(sides):
        evidence = Message("same_values_elsewhere", {"n": sides.size})
        return Diagnosis("permuted", "high", evidence, {"exact": True})
    return _permuted_with_noise(sides)


def thinned(left: Array, right: Array) -> tuple[Array, Array]:
    """Return as many elements of both as statistics need."""
    step = max(1, left.size // _SORTED)
    return left[::step], right[::step]


def distribution_distance(left: Array, right: Array) -> float:
    """Return the greatest distance of the two distribution functions (Kolmogorov and Smirnov)."""
    left, right = np.sort(left), np.sort(right)
    both = np.concatenate([left, right])
    shares = (np.searchsorted(side, both, side="right") / side.size for side in (left, right))
    return float(np.max(np.abs(next(shares) - next(shares))))


def _digests_agree(sides: Sides) -> bool:
    totals = np.zeros((2, 2), np.uint64)
    for start, stop in sides.ranges():
        # Minus zero counts as zero.
        totals += [order_free_sums(block + 0.0) for block in sides.read(start, stop)]
    return bool((totals[0] == totals[1]).all())


def _permuted_with_noise(sides: Sides) -> Diagnosis | None:
    """Sort both sides: noise moves sorted values far less than drawing them anew would."""
    if sides.whole is None or sides.size < 256:
        return None
    left, right = (to_double(side.reshape(-1)) for side in sides.whole)
    if not (np.isfinite(left).all() and np.isfinite(right).all()) or have_stayed(sides):
        return None
    halves = np.random.default_rng(0).permutation(right)
    one, other = np.sort(halves[: right.size // 2]), np.sort(halves[right.size - right.size // 2 :])
    # Two samples of half the size are further apart by the square root of two.
    chance = float(np.mean(_central(np.abs(one - other)))) / np.sqrt(2.0)
    apart = float(np.mean(_central(np.abs(np.sort(left) - np.sort(right)))))
    if not chance > 0 or apart > _NEARER_THAN_CHANCE * chance:
        return None
    evidence = Message("sorted_alike", {"apart": apart, "chance": float(chance)})
    return Diagnosis("permuted", "high", evidence, {"exact": False}, 0.01 * apart / chance)


def have_stayed(sides: Sides) -> bool:
    """Whether most elements, or their sizes, did not move: by ranks, which a few outliers do not change."""
    left, right = thinned(*sides.finite_sample)
    pairs = ((left, right), (np.abs(left), np.abs(right)))
    return any(abs(_correlation(_ranks(one), _ranks(other))) > _MOVED for one, other in pairs)


def _central(values: Array) -> Array:
    """Leave out the extremes, which would decide everything in long tails."""
    edge = values.size // 100
    return values[edge : values.size - edge]


def unrelated(sides: Sides) -> Diagnosis | None:
    """Diagnose sides that have nothing in common; sure only if their distributions differ as well."""
    left, right = thinned(*sides.finite_sample)
    if left.size < _FEWEST_UNRELATED or left.min() == left.max() or right.min() == right.max():
        return None
    bound = _CORRELATION + _CHANCE / np.sqrt(left.size)
    correlation = _correlation(_ranks(left), _ranks(right))
    if abs(correlation) > bound:
        return None
    sizes = ((np.abs(left), np.abs(right)), (left, np.abs(right)), (np.abs(left), right))
    if any(abs(_correlation(_ranks(one), _ranks(other))) > bound for one, other in sizes):
        return None
    if abs(_agreement(sides)) > bound:
        return None
    apart = distribution_distance(left, right)
    differently = apart > 0.1 + 1.5 * np.sqrt(2.0 / left.size) and _moments_differ(left, right)
    code = "ranks_uncorrelated" if differently else "ranks_uncorrelated_alike"
    evidence = Message(code, {"correlation": correlation})
    details = {"rank_correlation": correlation, "distribution_distance": apart}
    return Diagnosis("unrelated", "high" if differently else "medium", evidence, details, 0.0)


def _moments_differ(left: Array, right: Array) -> bool:
    """Whether means or deviations differ; if not, another order or seed may have made the difference."""
    deviations = float(left.std()), float(right.std())
    means = abs(float(left.mean()) - float(right.mean()))
    return means > 0.2 * max(deviations) or min(deviations) < 0.8 * max(deviations)


def _ranks(values: Array) -> Array:
    """Return the place of each value in the sorted order; equal ones share theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Array = (ends - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks


def _correlation(left: Array, right: Array) -> float:
    """Return Pearson's correlation, 0 if one side is constant."""
    left, right = left - left.mean(), right - right.mean()
    size = float(np.sqrt(inner(left, left) * inner(right, right)))
    return inner(left, right) / size if size > 0 else 0.0


def _agreement(sides: Sides) -> float:
    """Return over all elements how often both are above their medians together, as a correlation."""
    left, right = sides.finite_sample
    middle_left, middle_right = float(np.median(left)), float(np.median(right))
    count = above_left = above_right = both = 0
    for start, stop in sides.ranges():
        one, other = sides.read(start, stop)
        one_above, other_above = one > middle_left, other > middle_right
        count += one.size
        above_left += int(np.count_nonzero(one_above))
        above_right += int(np.count_nonzero(other_above))
        both += int(np.count_nonzero(one_above & other_above))
    shares = above_left / count, above_right / count
    size = float(np.sqrt(shares[0] * (1 - shares[0]) * shares[1] * (1 - shares[1])))
    return (both / count - shares[0] * shares[1]) / size if size > 0 else 0.0


# The share of squared differences that has to be in the slice, of its elements that have to differ, and of all others
# that may.
_CONCENTRATED = 0.98
_DIFFERING = 0.5
_DIFFERING_OUTSIDE = 0.1
_FEWEST_IN_SLICE = 4
# The mean squared difference of the slice is so many times that of the rest, where noise is 20 times smaller.
_STANDS_OUT = 400.0


def one_slice(sides: Sides) -> Diagnosis | None:
    """Diagnose the one slice that is wrong, by all elements and not a sample."""
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
    """Whether the sample does not show differences all over the tensor."""
    with np.errstate(all="ignore"):
        profiles = _profiles(sides, sides.sample_ranges)
    totals = [float(profile.sum()) for profile in profiles.values()]
    if not totals or not totals[0] > 0:
        return True
    return any(profile.max() >= 0.9 * total for profile, total in zip(profiles.values(), totals, strict=True))


def _profiles(sides: Sides, ranges: Iterable[tuple[int, int]]) -> dict[int, Array]:
    """Return for each axis longer than 1 the squared differences summed by index."""
    shape = sides.shape
    axes = [axis for axis, length in enumerate(shape) if length > 1 and sides.size // length >= _FEWEST_IN_SLICE]
    found = {axis: np.zeros(shape[axis]) for axis in axes}
    for start, stop in ranges:
        left, right = sides.read(start, stop)
        squared = np.square(left - right)
        squared[~np.isfinite(squared)] = 0.0
        if not squared.any():
            continue
        for axis in axes:
            found[axis] += np.bincount(_index_of(shape, axis, start, stop), squared, shape[axis])
    return found


def _slice_diagnosis(sides: Sides, at: Mapping[int, int], total: float) -> Diagnosis | None:
    """Look at the slice alone: its elements have to differ as a whole, not one of them."""
    energy = fourth = 0.0
    count = differing = outside_differing = 0
    for start, stop in sides.ranges():
        chosen = np.ones(stop - start, bool)
        for axis, index in at.items():
            chosen &= _index_of(sides.shape, axis, start, stop) == index
        left, right = sides.read(start, stop)
        distance = np.abs(left - right)
        distance[~np.isfinite(distance)] = 0.0
        apart = distance > np.maximum(sides.rounding.of(right), 0.02 * np.abs(right))
        count += int(chosen.sum())
        differing += int(np.count_nonzero(apart & chosen))
        outside_differing += int(np.count_nonzero(apart & ~chosen))
        energy += float(np.sum(np.square(distance[chosen])))
        fourth += float(np.sum(distance[chosen] ** 4))
    rest = sides.size - count
    if count < _FEWEST_IN_SLICE or energy < _CONCENTRATED * total or rest < count or not fourth > 0:
        return None
    # How many elements share the difference: `count` if all do equally, 1 if one has all of it.
    taking_part = energy * energy / fourth
    stands_out = (energy / count) >= _STANDS_OUT * max(total - energy, 0.0) / rest
    concentrated = differing >= _DIFFERING * count and taking_part >= max(3.0, 0.05 * count) and stands_out
    if not concentrated or outside_differing > _DIFFERING_OUTSIDE * rest:
        return None
    parts = tuple(Message("index_of_axis", {"index": index, "axis": axis}) for axis, index in at.items())
    numbers: dict[str, Parameter] = {"share": energy / total, "parts": parts, "n": differing, "m": count, "rest": rest}
    evidence = Message("only_slice_differs", numbers)
    if outside_differing:
        evidence = Message("slice_differs_most", {**numbers, "k": outside_differing})
    high = count >= 8 and outside_differing <= 0.02 * rest
    details = {"index": {str(axis): index for axis, index in at.items()}}
    return Diagnosis("one_slice", "high" if high else "medium", evidence, details, 1 - energy / total)


def _index_of(shape: tuple[int, ...], axis: int, start: int, stop: int) -> Array:
    return np.arange(start, stop) // prod(shape[axis + 1 :]) % shape[axis]


def of_border(sides: Sides) -> Iterator[FactorClaim]:
    """Yield the border of the left that is 0 where the right is not, if it is two slices or more."""
    if sides.whole is None or not sides.shape:
        return
    left, right = sides.whole
    kept = np.ones(sides.shape)
    inside: dict[str, tuple[int, int]] = {}
    slices = 0
    for axis, length in enumerate(sides.shape):
        others = tuple(other for other in range(len(sides.shape)) if other != axis)
        there, wanted = (np.flatnonzero((side != 0).any(axis=others)) for side in (left, right))
        if not there.size or not wanted.size or (wanted[0] >= there[0] and wanted[-1] <= there[-1]):
            continue
        first = int(there[0]) if wanted[0] < there[0] else 0
        last = int(there[-1]) + 1 if wanted[-1] > there[-1] else length
        inside[str(axis)] = (first, last)
        np.moveaxis(kept, axis, 0)[:first] = np.moveaxis(kept, axis, 0)[last:] = 0
        slices += first + length - last
    if slices >= 2:
        parts = tuple(
            Message("range_of_axis", {"first": first, "last": last - 1, "axis": axis})
            for axis, (first, last) in inside.items()
        )
        message = Message("zero_but_inside", {"parts": parts})
        yield FactorClaim("padding", sides, message, {"inside": inside}, kept.reshape(-1))
