"""Moments of a pair whose sums cancelled: from exact totals, in one more pass. Few pairs need it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pytest_msdump.core.metrics.numpy_kernel import Partial
from pytest_msdump.core.metrics.sums import DEVIATION_OF_PEAK, Moments, Sum, scale_exponent
from pytest_msdump.core.metrics.values import Array, Block, Doubles, above, inner, is_wide, numbers

# Larger numbers are divided by a power of two, exactly, and added up by themselves, so that no sum overflows.
_LARGE, _LOWERING = 2.0**500, 600

# Two float64 buffers of this size stay in a core's second cache.
_TILE_ELEMENTS = 2**15


def with_exact_moments(partial: Partial, blocks: Iterable[Block]) -> Partial:
    """Return the sums with exact moments in the place of doubtful ones."""
    sides = [list(partial.left), list(partial.right)]
    doubtful = [
        (side, part, _ExactMoments(found))
        for side, parts in enumerate(sides)
        for part, found in enumerate(parts)
        if found.is_doubtful
    ]
    everything_finite = partial.finite == partial.elements
    for _, left, right in blocks:
        both = numbers(left), numbers(right)
        kept = None if everything_finite else np.isfinite(both[0]) & np.isfinite(both[1])
        for side, part, exact in doubtful:
            block = both[side]
            if block.dtype.kind == "c":
                block = block.imag if part else block.real
            exact.add(block if kept is None else block[kept])
    for side, part, exact in doubtful:
        sides[side][part] = exact.moments()
    return partial._replace(left=tuple(sides[0]), right=tuple(sides[1]))


class _ExactMoments:
    """The exact total of a component, and where needed its squared deviations from a number near the mean."""

    def __init__(self, near: Moments) -> None:
        self._near = near
        self._exponent = scale_exponent(near.peak)
        mean = min(max(near.mean, near.minimum), near.maximum)
        # For integers an integer, so that deviations from it are exact.
        self._centre = int(mean) if isinstance(near.minimum, int) else mean
        self._total = Fraction()
        self._squares = Sum() if near.deviation < DEVIATION_OF_PEAK * near.peak else None

    def add(self, block: Array) -> None:
        """Add finite elements of a block."""
        for start in range(0, block.size, _TILE_ELEMENTS):
            tile = block[start : start + _TILE_ELEMENTS]
            if self._squares is not None:
                apart = self._apart(tile)
                self._squares = self._squares.merge(Sum(inner(apart, apart)))
            if is_wide(tile):
                self._total += int(np.add.reduce(tile >> tile.dtype.type(32))) << 32
                self._total += int(np.add.reduce(tile & tile.dtype.type(0xFFFFFFFF)))
            else:
                self._total += exact_total(tile.astype(np.float64))

    def _apart(self, tile: Array) -> Doubles:
        """Return how far elements are from the centre, scaled so that their squares fit float64."""
        if is_wide(tile):
            centre = int(self._centre)
            apart = above(tile, centre)
            return np.where(tile >= tile.dtype.type(centre), apart, np.uint64(0) - apart).astype(np.float64)
        scale = math.ldexp(1.0, -self._exponent)
        scaled: Doubles = tile.astype(np.float64) * scale
        return np.subtract(scaled, self._centre * scale, out=scaled)

    def moments(self) -> Moments:
        near, total = self._near, self._total
        # A `Sum` takes a total of any magnitude, and has more digits than float64.
        exponent = total.numerator.bit_length() - total.denominator.bit_length() if total else 0
        scaled = total / Fraction(2) ** exponent
        high = float(scaled)
        found = replace(near, total=Sum(high, float(scaled - Fraction(high)), exponent))
        if self._squares is None:
            return found
        exponent = 0 if isinstance(near.minimum, int) else self._exponent
        # Σ(x − c)² is n·(mean − c)² more than the squared deviations.
        beside = (total - near.elements * Fraction(self._centre)) / Fraction(2) ** exponent
        deviations = self._squares.merge(Sum(-float(beside * beside / near.elements)))
        return replace(found, deviations=Sum(max(deviations.high + deviations.low, 0.0), 0.0, 2 * exponent))


def exact_total(values: Doubles) -> Fraction:
    """Return the sum of finite numbers without any rounding, and overwrite them.

    Adding a number that no sum of the elements exceeds, and subtracting it again, leaves their upper bits, which add up
    exactly (Rump, Ogita, Oishi, "Accurate floating-point summation, part I", 2008).

    >>> exact_total(np.array([1e300, 1.0, -1e300]))
    Fraction(1, 1)
    """
    total, size = Fraction(), values.size
    added = np.empty(size)
    while size and (largest := max(-float(np.minimum.reduce(values)), float(np.maximum.reduce(values)))):
        if largest >= _LARGE:
            large = np.abs(values) >= _LARGE
            total += exact_total(values[large] * 2.0**-_LOWERING) * 2**_LOWERING
            values[large] = 0.0
            continue
        beyond = math.ldexp(1.0, math.frexp(largest)[1] + size.bit_length())
        np.add(values, beyond, out=added)
        np.subtract(added, beyond, out=added)
        total += Fraction(float(np.add.reduce(added)))
        np.subtract(values, added, out=values)
    return total
