"""Classes (NaN, Inf) and errors of a block's elements, counted, summed and maximised with numpy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.metrics.rankings import Moduli, RankedCandidate, Ranking, Scores, Tolerance, rank
from pytest_msdump.core.metrics.sums import NO_PEAK, ZERO, Peak, Sum, downscaled
from pytest_msdump.core.metrics.values import Array, Differences, Doubles, Positions, Workspace, inner

_NAN = 100


class Classes(NamedTuple):
    """Counts as in `Nonfinite`; `first_…` are C-order numbers, `left_only` where only the left is NaN or Inf."""

    nan_both: int = 0
    nan_left: int = 0
    nan_right: int = 0
    inf_both: int = 0
    inf_left: int = 0
    inf_right: int = 0
    mismatch: int = 0
    left_only: int = 0
    first_mismatch: int | None = None
    first_nonfinite: int | None = None
    first_left_only: int | None = None

    def merge(self, other: Classes) -> Classes:
        """Return the counts of both parts together."""
        counts = (a + b for a, b in zip(self[:8], other[:8], strict=True))
        return Classes(*counts, *(first_of(a, b) for a, b in zip(self[8:], other[8:], strict=True)))


NO_CLASSES = Classes()


def first_of(a: int | None, b: int | None) -> int | None:
    """Return the lower of two element numbers, either of which may be absent."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def classify(block: Array) -> npt.NDArray[np.int8]:
    """Return the class of every element: 0 finite, NaN, or which Inf (of which parts and signs, when complex)."""
    if block.dtype.kind == "c":
        real, imaginary = classify(block.real), classify(block.imag)
        either: npt.NDArray[np.int8] = real + np.int8(3) * imaginary
        either[(real == _NAN) | (imaginary == _NAN)] = _NAN
        return either
    codes = np.zeros(block.size, np.int8)
    if block.dtype.kind == "f":
        codes[np.isposinf(block)] = 1
        codes[np.isneginf(block)] = 2
        codes[np.isnan(block)] = _NAN
    return codes


def split_classes(left: Array, right: Array, start: int) -> tuple[Classes, Positions]:
    """Count the classes of a block pair, and return the places within it where both sides are finite."""
    a, b = classify(left), classify(right)
    differ = a != b
    nan_left, nan_right = a == _NAN, b == _NAN
    inf_left, inf_right = (a != 0) & ~nan_left, (b != 0) & ~nan_right
    left_only = (a != 0) & (b == 0)
    finite = (a == 0) & (b == 0)
    classes = Classes(
        _count(nan_left & nan_right),
        _count(nan_left & ~nan_right),
        _count(nan_right & ~nan_left),
        _count(inf_left & ~differ),
        _count(inf_left & differ),
        _count(inf_right & differ),
        _count(differ),
        _count(left_only),
        first_place(differ, start),
        first_place(~finite, start),
        first_place(left_only, start),
    )
    return classes, np.flatnonzero(finite)


def _count(mask: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))


def first_place(mask: npt.NDArray[np.bool_], start: int) -> int | None:
    """Return the number of the first element that a mask has, of a block that begins at `start`."""
    place = int(mask.argmax())
    return start + place if mask[place] else None


# As many integers of 32 bits without sign have a sum that float64 holds.
_EXACT_STRIP = 2**21


class Places(NamedTuple):
    """Where the elements of a computed array are in the tensor."""

    start: int
    kept: Positions | None = None

    def element(self, place: int) -> int:
        """Return the C-order element number of a place."""
        return self.start + (place if self.kept is None else int(self.kept[place]))

    def elements(self, places: Positions) -> list[int]:
        """Return the C-order element numbers of some places."""
        found: list[int] = ((places if self.kept is None else self.kept[places]) + self.start).tolist()
        return found


class Errors(NamedTuple):
    """Sums, counts and maxima of |l−r| and |l−r|/|r| over positions where both sides are finite.

    `exact` is Σ|l−r| as an int where both sides are integers. `relative` leaves out elements with right = 0 ≠ left,
    which `right_zero` counts, and elements of which one side is 0 and the other next to it, which `near_zero` counts.
    `outside` counts |l−r| > atol + rtol·|r|. `units` is Σ|l−r| in units of the last place of r, `above_1` and
    `above_32` count elements that are further apart; `underflow` those with left = 0 ≠ right that are not next to 0.
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
    near_zero: int = 0
    units: Sum = ZERO
    above_1: int = 0
    above_32: int = 0
    underflow: int = 0

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
            near_zero=self.near_zero + other.near_zero,
            units=self.units.merge(other.units),
            above_1=self.above_1 + other.above_1,
            above_32=self.above_32 + other.above_32,
            underflow=self.underflow + other.underflow,
        )


NO_ERRORS = Errors()


class Zeros(NamedTuple):
    """The left side, and up to which magnitude the other side of a 0 counts as 0."""

    left: Array
    near: float


def errors(
    difference: Differences,
    right: Moduli,
    tolerance: Tolerance,
    places: Places,
    workspace: Workspace,
    *,
    zeros: Zeros,
    unequal: int | None = None,
    last: RankedCandidate | None = None,
) -> tuple[Errors, list[Ranking]]:
    """Return all errors of a block but saturation, and at most two rankings of its elements.

    `difference` are |l−r|, at least one element, `right` |r|. `zeros` says which elements have no relative error though
    a side is 0; `unequal` how many elements differ if no right one is 0 (0 and −0 are equal, but their bits differ).
    Elements that are no worse than `last` need no ranking.
    """
    apart = difference.doubles
    largest = _largest(apart if difference.wide is None else difference.wide, places)
    quotients = _relative(apart, right.values, zeros, places, workspace)
    if unequal is None or quotients.zeros is not None:
        nonzero = np.not_equal(apart, 0.0, out=workspace.mask("nonzero", apart.size))
        unequal = int(np.count_nonzero(nonzero))
    right_zero = 0
    if quotients.zeros is not None:
        right_zero = int(np.count_nonzero(np.logical_and(quotients.zeros, nonzero, out=quotients.zeros)))
        right_zero -= quotients.near_right
    relative = _total(quotients.values, float(quotients.largest.value), workspace)
    scores = Scores(apart, right, float(largest.value), float(quotients.largest.value), right_zero + quotients.near)
    # In the buffer of the relative errors: fewer buffers stay in the cache.
    rankings, outside = rank(scores, tolerance, last, workspace)
    result = Errors(
        differing=unequal,
        right_zero=right_zero,
        outside=unequal if outside is None else outside,
        exact=_exact_sum(difference),
        absolute=_total(apart, float(largest.value), workspace),
        squares=_square_total(apart, float(largest.value), workspace),
        relative=relative,
        right_peak=right.peak,
        largest=largest,
        largest_relative=quotients.largest,
        near_zero=quotients.near,
    )
    return result, rankings


def _largest(values: Array, places: Places) -> Peak:
    place = int(values.argmax())
    value = values[place]
    if value == 0:
        return NO_PEAK
    return Peak(value.item() if isinstance(value, np.generic) else value, places.element(place))


def _total(values: Doubles, peak: float, workspace: Workspace) -> Sum:
    scaled, exponent = downscaled(values, peak, workspace)
    return Sum(float(np.add.reduce(scaled)), 0.0, exponent)


def _square_total(values: Doubles, peak: float, workspace: Workspace) -> Sum:
    scaled, exponent = downscaled(values, peak, workspace)
    return Sum(inner(scaled, scaled), 0.0, 2 * exponent)


def _exact_sum(difference: Differences) -> int:
    """Sum integers without wrapping or rounding; 0 for others."""
    if difference.whole:
        strips = range(0, difference.doubles.size, _EXACT_STRIP)
        return sum(int(np.add.reduce(difference.doubles[start : start + _EXACT_STRIP])) for start in strips)
    exact = difference.wide
    if exact is None:
        return 0
    if exact.dtype == object:
        return int(sum(exact.tolist()))
    unsigned = exact.astype(np.uint64, copy=False)
    high = int(np.add.reduce(unsigned >> np.uint64(32)))
    low = int(np.add.reduce(unsigned & np.uint64(0xFFFFFFFF)))
    return (high << 32) + low


class _Quotients(NamedTuple):
    """|l−r|/|r|, 0 where r = 0 and where l is 0 and r next to it; `zeros` is where r = 0, ``None`` if nowhere.

    `near` counts elements of which one side is 0 and the other next to it, `near_right` those of them with r = 0.
    """

    values: Doubles
    largest: Peak
    zeros: npt.NDArray[np.bool_] | None
    near: int = 0
    near_right: int = 0


def _relative(apart: Doubles, right: Doubles, zeros: Zeros, places: Places, workspace: Workspace) -> _Quotients:
    ratio = np.divide(apart, right, out=workspace.doubles("ratio", apart.size))
    largest = _largest(ratio, places)
    # Where l = 0 ≠ r it is 1. Whatever is divided by 0 is NaN or infinite, and the largest if it is there.
    if largest.value < 1.0:
        return _Quotients(ratio, largest, None)
    zero = None
    if not math.isfinite(largest.value):
        zero = np.equal(right, 0.0, out=workspace.mask("zero", apart.size))
        np.copyto(ratio, 0.0, where=zero)
    near = np.flatnonzero((apart <= zeros.near) & (apart != 0.0))
    near = near[(right[near] == 0.0) | (zeros.left[near] == 0)]
    ratio[near] = 0.0
    near_right = int(np.count_nonzero(right[near] == 0.0))
    return _Quotients(ratio, _largest(ratio, places), zero, near.size, near_right)


class Unit(NamedTuple):
    """The unit of the last place of a number: `epsilon` times the power of two below it, which is at least `normal`."""

    normal: float
    epsilon: float


# The bits of a float64 that say which power of two is below it. What is left of these without them is 2 divided by that
# power, exactly.
_EXPONENT = np.int64(0x7FF0000000000000)


def in_units(apart: Doubles, right: Doubles, unit: Unit, workspace: Workspace) -> tuple[Sum, int, int]:
    """Return Σ|l−r| in units of the last place of r, and how many elements are more than 1 and 32 of them apart."""
    distance = workspace.doubles("ratio", apart.size)
    bits = distance.view(np.int64)
    np.bitwise_and(right.view(np.int64), _EXPONENT, out=bits)
    np.maximum(bits, np.float64(unit.normal).view(np.int64), out=bits)
    np.subtract(_EXPONENT, bits, out=bits)
    np.multiply(apart, distance, out=distance)
    step, mask = 2.0 * unit.epsilon, workspace.mask("zero", apart.size)
    above = [int(np.count_nonzero(np.greater(distance, count * step, out=mask))) for count in (1, 32)]
    return Sum(float(np.add.reduce(distance)) / step), above[0], above[1]
