"""Mean and deviation of a side, worked out exactly where the sums of the first pass are not enough.

A sum of float64 is right to some 50 bits of the largest term. Where terms cancel nearly all of each other (the largest
numbers of a type with both signs, the output of a normalisation), what is left of these bits is less than a mean should
have; and where a range is very narrow beside the numbers, as of large 64-bit integers, so is what is left for the
deviation. Such sides are few, and their elements are read once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from pytest_msdump.metrics.kernel import Partial
from pytest_msdump.metrics.moments import Moments
from pytest_msdump.metrics.sums import Sum, scale_exponent
from pytest_msdump.metrics.values import Array, Doubles, above, inner, is_wide, numbers

__all__ = ["exact_total", "with_exact_moments"]

_Block: TypeAlias = tuple[int, Array, Array]
_Parts: TypeAlias = tuple[Moments, ...]

# A mean below so much of the root mean square, and a deviation below so much of the largest number, may be off by more
# than a billionth part: sums are right to 2**-48 of the sum of magnitudes, means to 2**-51 of the largest number.
_MEAN_OF_ROOT_SQUARE = 2.0**-17
_DEVIATION_OF_PEAK = 2.0**-20

# Larger numbers are lowered by so many powers of two, exactly, and added up by themselves: no sum may overflow.
_LARGE, _LOWERING = 2.0**500, 600


def with_exact_moments(partial: Partial, blocks: Iterable[_Block]) -> Partial:
    """Return what was found, with means and deviations that hold.

    Parameters
    ----------
    partial : Partial
        Of all blocks.
    blocks : iterable of (int, ndarray, ndarray)
        The blocks once more.
    """
    sides = partial.left, partial.right
    sought = [
        (side, part, _Exact(found))
        for side, parts in enumerate(sides)
        for part, found in enumerate(parts)
        if _is_doubtful(found)
    ]
    if not sought:
        return partial
    everything_finite = partial.finite == partial.elements
    for _, left, right in blocks:
        both = numbers(left), numbers(right)
        kept = None if everything_finite else np.isfinite(both[0]) & np.isfinite(both[1])
        for side, part, exact in sought:
            block = both[side]
            if block.dtype.kind == "c":
                block = block.imag if part else block.real
            exact.add(block if kept is None else block[kept])
    told = {(side, part): exact.moments() for side, part, exact in sought}
    left_parts, right_parts = (
        tuple([told.get((side, part), found) for part, found in enumerate(parts)]) for side, parts in enumerate(sides)
    )
    return partial._replace(left=left_parts, right=right_parts)


def _is_doubtful(found: Moments) -> bool:
    """Whether a mean or a deviation may be wrong by more than a billionth part of itself."""
    if found.elements < 2 or found.minimum == found.maximum:
        return False
    high, low, exponent = found.total
    total = high + low
    mean_squares = Sum(total * total / found.elements, 0.0, 2 * exponent)
    return (
        mean_squares.root_of_ratio(found.squares) < _MEAN_OF_ROOT_SQUARE
        or found.deviation < _DEVIATION_OF_PEAK * found.peak
    )


class _Exact:
    """The total of a side exactly, and squared deviations from a number near its mean, block by block."""

    def __init__(self, near: Moments) -> None:
        self._near = near
        self._exponent = scale_exponent(near.peak)
        mean = min(max(near.mean, near.minimum), near.maximum)
        # Of integers an integer, so that deviations from it are exact.
        self._centre = int(mean) if isinstance(near.minimum, int) else mean
        self._total, self._squares = Fraction(), Sum()

    def add(self, block: Array) -> None:
        """Add finite elements of a block."""
        if not block.size:
            return
        if is_wide(block):
            self._total += int(np.add.reduce(block >> block.dtype.type(32))) << 32
            self._total += int(np.add.reduce(block & block.dtype.type(0xFFFFFFFF)))
            apart = _distances(block, int(self._centre)).astype(np.float64)
        else:
            values = block.astype(np.float64)
            self._total += exact_total(values)
            scale = math.ldexp(1.0, -self._exponent)
            apart = values * scale - self._centre * scale
        self._squares = self._squares.merge(Sum(inner(apart, apart), 0.0, 0))

    def moments(self) -> Moments:
        """Return the moments of all elements that were added."""
        near, total = self._near, self._total
        exponent = 0 if isinstance(near.minimum, int) else self._exponent
        # Σ(x − c)² is n·(mean − c)² more than the squared deviations.
        beside = (total - near.elements * Fraction(self._centre)) / Fraction(2) ** exponent
        deviations = self._squares.merge(Sum(-float(beside * beside / near.elements)))
        return Moments(
            near.elements,
            _sum_of(total),
            Sum(max(deviations.high + deviations.low, 0.0), 0.0, 2 * exponent),
            near.minimum,
            near.maximum,
        )


def _sum_of(total: Fraction) -> Sum:
    """Return a sum that has more digits of a total than float64, of any magnitude."""
    exponent = total.numerator.bit_length() - total.denominator.bit_length() if total else 0
    scaled = total / Fraction(2) ** exponent
    high = float(scaled)
    return Sum(high, float(scaled - Fraction(high)), exponent)


def _distances(block: Array, centre: int) -> Array:
    """Return |x − c| of 64-bit integers, exactly."""
    return np.where(block >= block.dtype.type(centre), above(block, centre), np.uint64(0) - above(block, centre))


def exact_total(values: Doubles) -> Fraction:
    """Return the sum of finite numbers without any rounding.

    References
    ----------
    Rump, Ogita, Oishi, "Accurate floating-point summation, part I", 2008: added to a number so large that their sum
    cannot exceed it, and taken off again, elements lose their lower bits, and what is left of them adds up exactly.

    Examples
    --------
    >>> exact_total(np.array([1e300, 1.0, -1e300]))
    Fraction(1, 1)
    """
    total, size = Fraction(), values.size
    if not size:
        return total
    large = np.abs(values) >= _LARGE
    if large.any():
        total = exact_total(values[large] * 2.0**-_LOWERING) * 2**_LOWERING
        values = np.where(large, 0.0, values)
    rest, added = values, np.empty(size)
    while largest := max(-float(np.minimum.reduce(rest)), float(np.maximum.reduce(rest))):
        beyond = math.ldexp(1.0, math.frexp(largest)[1] + size.bit_length())
        np.add(rest, beyond, out=added)
        np.subtract(added, beyond, out=added)
        total += Fraction(float(np.add.reduce(added)))
        rest = rest - added
    return total
