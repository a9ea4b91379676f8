"""Diagnoses of all values together: the same at other places, one value everywhere, or nothing in common."""

from __future__ import annotations

import numpy as np

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.localising.diagnosis_claim import Array, Diagnosis, inner
from pytest_msdump.localising.diagnosis_sample import Sides
from pytest_msdump.text import Message

__all__ = ["constant", "distribution_distance", "have_stayed", "permuted", "thinned", "unrelated"]

# With fewer values than these, two tensors may hold the same ones by chance.
_FEWEST_VALUES = 16
_FEWEST_UNRELATED = 64
_SORTED = 16384
# The sorted sides are apart by at most this share of what two samples of one distribution are.
_NEARER_THAN_CHANCE = 0.1
# Above this correlation elements hardly moved: noise alone may do as much.
_MOVED = 0.9
# Correlation allowed to what has nothing in common: a little, and what chance makes of so many elements.
_CORRELATION, _CHANCE = 0.01, 2.8


def constant(sides: Sides) -> Diagnosis | None:
    """Tell of a left side that is one value everywhere."""
    left, right = sides.finite_sample
    if left.size < 4 or left.min() != left.max() or right.min() == right.max():
        return None
    value = left[0]
    for start, stop in sides.ranges():
        if not np.all(sides.read(start, stop)[0] == value):
            return None
    said = {"value": float(value), "low": float(right.min()), "high": float(right.max())}
    evidence = Message("left_is_constant", said)
    return Diagnosis("constant", "high" if sides.size >= 8 else "medium", evidence, {"value": float(value)})


def permuted(sides: Sides) -> Diagnosis | None:
    """Tell of the same values at other places: by digests that do not depend on order, or else by sorting."""
    left, right = thinned(*sides.finite_sample)
    if left.size < 16 or min(_distinct(left), _distinct(right)) < _FEWEST_VALUES:
        return None
    if distribution_distance(left, right) > 0.02 + 2.0 * np.sqrt(2.0 / left.size):
        return None
    if _digests_agree(sides):
        evidence = Message("same_values_elsewhere", {"n": sides.size})
        return Diagnosis("permuted", "high", evidence, {"exact": True})
    return _permuted_with_noise(sides)


def thinned(left: Array, right: Array) -> tuple[Array, Array]:
    """Leave out elements that statistics do not need."""
    step = max(1, left.size // _SORTED)
    return left[::step], right[::step]


def _distinct(values: Array) -> int:
    return int(np.unique(values[: 2**14]).size)


def distribution_distance(left: Array, right: Array) -> float:
    """Return the greatest distance of the two distribution functions (Kolmogorov and Smirnov)."""
    left, right = np.sort(left), np.sort(right)
    both = np.concatenate([left, right])
    shares = (np.searchsorted(side, both, side="right") / side.size for side in (left, right))
    return float(np.max(np.abs(next(shares) - next(shares))))


def _digests_agree(sides: Sides) -> bool:
    totals = [[np.uint64(0), np.uint64(0)], [np.uint64(0), np.uint64(0)]]
    with np.errstate(over="ignore"):
        for start, stop in sides.ranges():
            for number, block in enumerate(sides.read(start, stop)):
                for way, digest in enumerate(_digest(block)):
                    totals[number][way] += digest
    return totals[0] == totals[1]


def _digest(block: Array) -> tuple[np.uint64, np.uint64]:
    """Return two sums of scrambled bits, which no order changes; minus zero counts as zero."""
    bits = (block + 0.0).view(np.uint64)
    digests = []
    for factor, shift in ((0x9E3779B97F4A7C15, 29), (0xC2B2AE3D27D4EB4F, 31)):
        mixed = bits * np.uint64(factor)
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
        digests.append(np.add.reduce(mixed, dtype=np.uint64))
    return digests[0], digests[1]


def _permuted_with_noise(sides: Sides) -> Diagnosis | None:
    """Sort both sides: noise moves sorted values far less than drawing them anew would."""
    if sides.held is None or sides.size < 256:
        return None
    left, right = (to_double(side.reshape(-1)) for side in sides.held)
    if not (np.isfinite(left).all() and np.isfinite(right).all()) or have_stayed(sides):
        return None
    halves = np.random.default_rng(0).permutation(right)
    one, other = np.sort(halves[: right.size // 2]), np.sort(halves[right.size - right.size // 2 :])
    # Two samples of half the size are apart by the square root of two times as much.
    chance = float(np.mean(_central(np.abs(one - other)))) / np.sqrt(2.0)
    apart = float(np.mean(_central(np.abs(np.sort(left) - np.sort(right)))))
    if not chance > 0 or apart > _NEARER_THAN_CHANCE * chance:
        return None
    evidence = Message("sorted_alike", {"apart": apart, "chance": float(chance)})
    return Diagnosis("permuted", "high", evidence, {"exact": False}, 0.01 * apart / chance)


def have_stayed(sides: Sides) -> bool:
    """Whether most elements, or their sizes, are where they were: by ranks, which a few outliers do not change."""
    left, right = thinned(*sides.finite_sample)
    pairs = ((left, right), (np.abs(left), np.abs(right)))
    return any(abs(_correlation(_ranks(one), _ranks(other))) > _MOVED for one, other in pairs)


def _central(values: Array) -> Array:
    """Leave the extremes out, which decide everything where tails are long."""
    edge = values.size // 100
    return values[edge : values.size - edge]


def unrelated(sides: Sides) -> Diagnosis | None:
    """Tell of sides that have nothing in common; sure only where their values are distributed differently, too."""
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
    """Whether means or deviations tell the two apart: what they do not, another order or seed may have made."""
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
    """Pearson's, 0 where one side is constant."""
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
