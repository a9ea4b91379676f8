"""Sums that neither overflow nor depend on how the data was cut into blocks.

A `Sum` is ``(high + low) · 2**exponent``: `low` holds what rounding took from `high`, the exponent keeps squares of
1e±200 within float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pytest_msdump.core.metrics.values import Doubles, Workspace, inner

# Squares of anything below 2**300, summed over 2**63 elements, still fit float64; and squares of elements so small
# that they underflow beside a largest one of 2**-300 are below its last bit by far.
_SAFE_LOW, _SAFE_HIGH = 2.0**-301, 2.0**300

# 2**-1000 lifts the smallest denormal's partner (2**1000) without overflowing itself.
_FARTHEST = 1000


def scale_exponent(magnitude: float) -> int:
    """Return e such that dividing by ``2**e`` makes `magnitude` safe to square; 0 when it already is."""
    if _SAFE_LOW <= magnitude < _SAFE_HIGH or magnitude == 0.0 or not math.isfinite(magnitude):
        return 0
    return max(-_FARTHEST, min(_FARTHEST, math.frexp(magnitude)[1]))


@dataclass(slots=True, unsafe_hash=True)
class Sum:
    """The number ``(high + low) · 2**exponent``. Like all of this module it is never changed once it is made."""

    high: float = 0.0
    low: float = 0.0
    exponent: int = 0

    @property
    def value(self) -> float:
        """The sum as a float64; infinite when it does not fit one."""
        total = self.high + self.low
        return _ldexp(total, self.exponent) if self.exponent else total

    def merge(self, other: Sum) -> Sum:
        """Return the sum of both."""
        if self.exponent != other.exponent:
            one, another = self.alike(other)
            return one.merge(another)
        high = self.high + other.high
        # Knuth's two-sum: the rounding error of the line above, exactly.
        part = high - self.high
        error = (self.high - (high - part)) + (other.high - part)
        return Sum(high, self.low + other.low + error, self.exponent)

    def alike(self, other: Sum) -> tuple[Sum, Sum]:
        """Return both, written with one exponent."""
        if self.exponent == other.exponent:
            return self, other
        common = _common_exponent(self, other)
        return self.at(common), other.at(common)

    def at(self, exponent: int) -> Sum:
        """Return the same number written with another exponent."""
        if exponent == self.exponent:
            return self
        shift = self.exponent - exponent
        return Sum(_ldexp(self.high, shift), _ldexp(self.low, shift), exponent)

    def divided(self, count: int) -> float:
        """Return the sum divided by `count`, also where the sum itself does not fit float64."""
        quotient = (self.high + self.low) / count
        return _ldexp(quotient, self.exponent) if self.exponent else quotient

    def scaled(self, factor: float) -> Sum:
        """Return the sum times `factor`."""
        return Sum(self.high * factor, self.low * factor, self.exponent)

    @property
    def root(self) -> float:
        """The square root; infinite when it does not fit float64."""
        return root(self.high + self.low, self.exponent)

    def root_of_ratio(self, other: Sum) -> float:
        """Return ``sqrt(self / other)``; infinite when it does not fit float64."""
        return root((self.high + self.low) / (other.high + other.low), self.exponent - other.exponent)


def _common_exponent(a: Sum, b: Sum) -> int:
    """Return the exponent that both sums can be written with; a zero has none of its own."""
    if a.high == 0.0 and a.low == 0.0:
        return b.exponent
    if b.high == 0.0 and b.low == 0.0:
        return a.exponent
    return max(a.exponent, b.exponent)


def root(value: float, exponent: int) -> float:
    """Return ``sqrt(value · 2**exponent)``; infinite when it does not fit float64."""
    if not exponent:
        return math.sqrt(value)
    half, odd = divmod(exponent, 2)
    return _ldexp(math.sqrt(value * 2.0 if odd else value), half)


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


ZERO = Sum()


@dataclass(slots=True, unsafe_hash=True)
class Peak:
    """A maximum and the C-order number of the first element that reached it; ``None`` while nothing exceeded 0."""

    value: float | int = 0
    element: int | None = None

    def merge(self, other: Peak) -> Peak:
        """Return the greater one, the earlier one on ties."""
        if other.element is None or self.element is None:
            return self if other.element is None else other
        if self.value == other.value:
            return self if self.element < other.element else other
        return self if self.value > other.value else other


NO_PEAK = Peak()


# A mean below this part of the root mean square, and a deviation below this part of the largest number, may be wrong by
# more than a billionth: sums are right to 2**-48 of the sum of magnitudes, means to 2**-51 of the largest number.
_MEAN_OF_ROOT_SQUARE = 2.0**-17
DEVIATION_OF_PEAK = 2.0**-20

# Where n·mean² is at most this much of the squared deviations, the sum of squares less it keeps all but six bits.
_MEAN_CANCELS_LITTLE = 64.0


@dataclass(slots=True, unsafe_hash=True)
class Moments:
    """Count, sum, sum of squared deviations from the mean, and range (int for 64-bit integers) of finite numbers."""

    elements: int = 0
    total: Sum = ZERO
    deviations: Sum = ZERO
    minimum: float | int = math.inf
    maximum: float | int = -math.inf

    @property
    def peak(self) -> float:
        """The largest magnitude; 0 when there are no elements."""
        return float(max(-self.minimum, self.maximum)) if self.elements else 0.0

    @property
    def mean(self) -> float:
        """The mean; exact when all elements are the same."""
        return float(self.minimum) if self.minimum == self.maximum else self.total.divided(self.elements)

    @property
    def variance(self) -> Sum:
        """The population variance."""
        return self.deviations.scaled(1.0 / self.elements)

    @property
    def deviation(self) -> float:
        """The population's standard deviation."""
        share, sum_ = 1.0 / self.elements, self.deviations
        return root(sum_.high * share + sum_.low * share, sum_.exponent)

    @property
    def squares(self) -> Sum:
        """The sum of squares, of two terms that are never negative, so that nothing cancels."""
        if not self.elements:
            return self.deviations
        total = self.total.high + self.total.low
        return self.deviations.merge(Sum(total * total * (1.0 / self.elements), 0.0, 2 * self.total.exponent))

    @property
    def is_doubtful(self) -> bool:
        """Whether the mean or the deviation may be wrong by more than a billionth part of itself."""
        if self.elements < 2 or self.minimum == self.maximum:
            return False
        total, deviations = self.total.high + self.total.low, self.deviations.high + self.deviations.low
        of_mean, shift = total * total / self.elements, 2 * self.total.exponent - self.deviations.exponent
        of_mean = _ldexp(of_mean, shift) if shift else of_mean
        is_doubtful_mean = of_mean < _MEAN_OF_ROOT_SQUARE**2 * (of_mean + deviations)
        return is_doubtful_mean or self.deviation < DEVIATION_OF_PEAK * self.peak

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both parts together, after Chan, Golub and LeVeque."""
        if not self.elements or not other.elements:
            return self if self.elements else other
        count = self.elements + other.elements
        minimum, maximum = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        total = self.total.merge(other.total)
        if minimum == maximum:
            return Moments(count, total, ZERO, minimum, maximum)
        a, b = self.total.alike(other.total)
        step = (b.high + b.low) / other.elements - (a.high + a.low) / self.elements
        between = Sum(step * step * (self.elements / count * other.elements), 0.0, 2 * a.exponent)
        deviations = self.deviations.merge(other.deviations).merge(between)
        return Moments(count, total, deviations, minimum, maximum)


EMPTY = Moments()


def downscaled(values: Doubles, peak: float, workspace: Workspace) -> tuple[Doubles, int]:
    """Return values whose squares fit float64, and by which power of two they were divided; `peak` is the largest."""
    exponent = scale_exponent(peak)
    if not exponent:
        return values, 0
    return np.multiply(values, math.ldexp(1.0, -exponent), out=workspace.doubles("scratch", values.size)), exponent


def moments(values: Doubles, minimum: float | int, maximum: float | int, workspace: Workspace) -> Moments:
    """Return the moments of finite `values` (1-D, not empty), whose range is known."""
    count = values.size
    scaled, exponent = downscaled(values, max(-minimum, maximum), workspace)
    if minimum == maximum:
        return Moments(count, Sum(float(scaled[0]) * count, 0.0, exponent), ZERO, minimum, maximum)
    total = float(np.add.reduce(scaled))
    about_mean = total / count * total
    deviations = inner(scaled, scaled) - about_mean
    if not about_mean <= _MEAN_CANCELS_LITTLE * deviations:
        centred = np.subtract(scaled, total / count, out=workspace.doubles("scratch", count))
        deviations = inner(centred, centred)
    return Moments(count, Sum(total, 0.0, exponent), Sum(deviations, 0.0, 2 * exponent), minimum, maximum)


def dot(left: Doubles, right: Doubles, peaks: tuple[float, float], workspace: Workspace) -> Sum:
    """Return Σ l·r of finite elements whose largest magnitudes are `peaks`."""
    exponents = scale_exponent(peaks[0]), scale_exponent(peaks[1])
    if any(exponents):
        left = np.multiply(left, math.ldexp(1.0, -exponents[0]), out=workspace.doubles("scratch", left.size))
        right = right * math.ldexp(1.0, -exponents[1])
    return Sum(inner(left, right), 0.0, sum(exponents))
