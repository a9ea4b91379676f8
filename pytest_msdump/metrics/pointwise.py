"""Errors of single elements, and what is summed, counted and maximised over them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_msdump.metrics.nonfinite import first_of
from pytest_msdump.metrics.sums import NO_PEAK, ZERO, Peak, Sum, scale_exponent
from pytest_msdump.metrics.values import Array, Differences, Doubles, Positions, Workspace
from pytest_msdump.metrics.worst import Ranking

__all__ = ["NO_ERRORS", "Errors", "Moduli", "Places", "Tolerance", "errors", "no_difference"]


class Tolerance(NamedTuple):
    """What an element may be off: atol + rtol·|r|."""

    rtol: float = 0.0
    atol: float = 0.0


class Places(NamedTuple):
    """Where the elements of a computed array are in the tensor."""

    start: int
    kept: Positions | None = None

    def element(self, place: int) -> int:
        """Return the C-order element number of a place."""
        return self.start + (place if self.kept is None else int(self.kept[place]))


class Moduli(NamedTuple):
    """|x| of every element, and the largest."""

    values: Doubles
    peak: float


class Errors(NamedTuple):
    """Partial result over positions where both sides are finite.

    `absolute` is exact (`exact`, an int) where both sides are integers. `relative` leaves out right = 0 ≠ left, which
    `right_zero` counts; `outside` counts |l−r| > atol + rtol·|r|.
    """

    differing: int = 0
    right_zero: int = 0
    outside: int = 0
    saturated: int = 0
    exact: int = 0
    absolute: Sum = ZERO
    squares: Sum = ZERO
    relative: Sum = ZERO
    right_peak: float = 0.0
    largest: Peak = NO_PEAK
    largest_relative: Peak = NO_PEAK
    first_saturated: int | None = None

    def merge(self, other: Errors) -> Errors:
        """Return the errors of both parts together."""
        return Errors(
            differing=self.differing + other.differing,
            right_zero=self.right_zero + other.right_zero,
            outside=self.outside + other.outside,
            saturated=self.saturated + other.saturated,
            exact=self.exact + other.exact,
            absolute=self.absolute.merge(other.absolute),
            squares=self.squares.merge(other.squares),
            relative=self.relative.merge(other.relative),
            right_peak=max(self.right_peak, other.right_peak),
            largest=self.largest.merge(other.largest),
            largest_relative=self.largest_relative.merge(other.largest_relative),
            first_saturated=first_of(self.first_saturated, other.first_saturated),
        )


NO_ERRORS = Errors()


def no_difference(right_peak: float) -> Errors:
    """Return the errors of a block whose sides are equal bit by bit."""
    return Errors(right_peak=right_peak)


def errors(
    difference: Differences, right: Moduli, tolerance: Tolerance, places: Places, workspace: Workspace
) -> tuple[Errors, list[Ranking]]:
    """Return all errors of a block, and what ranks its elements.

    Parameters
    ----------
    difference : Differences
        |l−r|, at least one element.
    right : Moduli
        |r|.
    tolerance : Tolerance
        For `outside` and the ratios.
    places : Places
        Where the elements are.
    workspace : Workspace
        Buffers to compute in.

    Returns
    -------
    Errors
        Saturation left at 0: it is not the errors' business.
    list of Ranking
        At most two: elements for which nothing is allowed, and the others.
    """
    apart = difference.doubles
    nonzero = np.not_equal(apart, 0.0, out=workspace.mask("nonzero", apart.size))
    differing = int(np.count_nonzero(nonzero))
    largest = _largest(apart if difference.exact is None else difference.exact, places)
    relative, largest_relative, right_zero = _relative(apart, right.values, nonzero, places, workspace)
    # In the buffer that held the relative errors: the fewer buffers, the more of them stay in the cache.
    rankings, outside = _rankings(apart, right.values, tolerance, workspace)
    result = Errors(
        differing=differing,
        right_zero=right_zero,
        outside=outside,
        exact=0 if difference.exact is None else _exact_sum(difference.exact),
        absolute=_total(apart, float(largest.value), workspace),
        squares=_square_total(apart, float(largest.value), workspace),
        relative=relative,
        right_peak=right.peak,
        largest=largest,
        largest_relative=largest_relative,
    )
    return result, rankings


def _largest(values: Array, places: Places) -> Peak:
    place = int(values.argmax())
    value = values[place]
    if value == 0:
        return NO_PEAK
    return Peak(value.item() if isinstance(value, np.generic) else value, places.element(place))


def _total(values: Doubles, peak: float, workspace: Workspace) -> Sum:
    exponent = scale_exponent(peak)
    if exponent:
        values = np.multiply(values, math.ldexp(1.0, -exponent), out=workspace.doubles("scratch", values.size))
    return Sum(float(np.add.reduce(values)), 0.0, exponent)


def _square_total(values: Doubles, peak: float, workspace: Workspace) -> Sum:
    exponent = scale_exponent(peak)
    buffer = workspace.doubles("scratch", values.size)
    if exponent:
        values = np.multiply(values, math.ldexp(1.0, -exponent), out=buffer)
    return Sum(float(np.add.reduce(np.square(values, out=buffer))), 0.0, 2 * exponent)


def _exact_sum(exact: Array) -> int:
    """Sum integers of up to 64 bits (or Python integers) without wrapping."""
    if exact.dtype == object:
        return int(sum(exact.tolist()))
    unsigned = exact.astype(np.uint64, copy=False)
    high = int(np.add.reduce(unsigned >> np.uint64(32)))
    low = int(np.add.reduce(unsigned & np.uint64(0xFFFFFFFF)))
    return (high << 32) + low


def _relative(
    apart: Doubles, right: Doubles, nonzero: Array, places: Places, workspace: Workspace
) -> tuple[Sum, Peak, int]:
    """Return sum and largest of |l−r|/|r|, which is 0 where r = 0, and how often r = 0 ≠ l."""
    ratio = np.divide(apart, right, out=workspace.doubles("ratio", apart.size))
    right_zero = 0
    if not float(right.min()) > 0.0:
        zero = np.equal(right, 0.0, out=workspace.mask("zero", apart.size))
        np.copyto(ratio, 0.0, where=zero)
        right_zero = int(np.count_nonzero(np.logical_and(zero, nonzero, out=zero)))
    largest = _largest(ratio, places)
    return _total(ratio, float(largest.value), workspace), largest, right_zero


def _rankings(apart: Doubles, right: Doubles, tolerance: Tolerance, workspace: Workspace) -> tuple[list[Ranking], int]:
    """Return what ranks the elements, and how many of them are outside the tolerance."""
    if not tolerance.rtol and not tolerance.atol:
        return [Ranking(apart, allowed=False)], int(np.count_nonzero(apart != 0.0))
    allowed = np.multiply(right, tolerance.rtol, out=workspace.doubles("ratio", apart.size))
    np.add(allowed, tolerance.atol, out=allowed)
    nothing = None if tolerance.atol else np.equal(allowed, 0.0)
    ratio = np.divide(apart, allowed, out=allowed)
    if nothing is None or not nothing.any():
        return [Ranking(ratio, allowed=True)], _beyond_one(ratio)
    forbidden = np.where(nothing, apart, 0.0)
    np.copyto(ratio, 0.0, where=nothing)
    rankings = [Ranking(ratio, allowed=True), Ranking(forbidden, allowed=False)]
    return rankings, _beyond_one(ratio) + int(np.count_nonzero(forbidden != 0.0))


def _beyond_one(ratio: Doubles) -> int:
    """Count ratios above 1. A rounded quotient a/b is above 1 exactly if a > b, so nothing is lost by dividing."""
    return int(np.count_nonzero(ratio > 1.0)) if float(ratio.max()) > 1.0 else 0
