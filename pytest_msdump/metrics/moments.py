"""Mean, deviation, range and square sum of one real component of one side, block by block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_msdump.metrics.sums import ZERO, Sum, root, scale_exponent
from pytest_msdump.metrics.values import inner

if TYPE_CHECKING:
    from pytest_msdump.metrics.values import Doubles, Workspace

__all__ = ["EMPTY", "Moments", "dot", "moments"]

# Where n·mean² is at most this much of the squared deviations, the sum of squares less it keeps all but six bits.
_MEAN_CANCELS_LITTLE = 64.0


class Moments(NamedTuple):
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
        high, low, exponent = self.deviations
        factor = 1.0 / self.elements
        return root(high * factor + low * factor, exponent)

    @property
    def squares(self) -> Sum:
        """The sum of squares, out of two terms that are never negative, so that nothing cancels."""
        if not self.elements:
            return self.deviations
        high, low, exponent = self.total
        value = high + low
        mean_square: Sum = tuple.__new__(Sum, (value * value * (1.0 / self.elements), 0.0, 2 * exponent))
        return self.deviations.merge(mean_square)

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


def moments(values: Doubles, minimum: float | int, maximum: float | int, workspace: Workspace) -> Moments:
    """Return the moments of finite `values`, whose range the caller has already seen.

    Parameters
    ----------
    values : ndarray of float64
        1-D, finite, not empty.
    minimum, maximum : float
        Its range.
    workspace : Workspace
        Buffers to compute in.
    """
    count = values.size
    exponent = scale_exponent(max(-minimum, maximum))
    scaled = values
    buffer = workspace.doubles("scratch", count)
    if exponent:
        scaled = np.multiply(values, math.ldexp(1.0, -exponent), out=buffer)
    if minimum == maximum:
        return Moments(count, Sum(float(scaled[0]) * count, 0.0, exponent), ZERO, minimum, maximum)
    total = float(np.add.reduce(scaled))
    about_mean = total / count * total
    deviations = inner(scaled, scaled) - about_mean
    if not about_mean <= _MEAN_CANCELS_LITTLE * deviations:
        centred = np.subtract(scaled, total / count, out=buffer)
        deviations = inner(centred, centred)
    return Moments(count, Sum(total, 0.0, exponent), Sum(deviations, 0.0, 2 * exponent), minimum, maximum)


def dot(left: Doubles, right: Doubles, peaks: tuple[float, float], workspace: Workspace) -> Sum:
    """Return Σ l·r of finite elements whose largest magnitudes are `peaks`."""
    exponents = scale_exponent(peaks[0]), scale_exponent(peaks[1])
    if any(exponents):
        left = np.multiply(left, math.ldexp(1.0, -exponents[0]), out=workspace.doubles("scratch", left.size))
        right = right * math.ldexp(1.0, -exponents[1])
    return Sum(inner(left, right), 0.0, sum(exponents))
