"""KL divergence: both sides made into distributions by their range, so it takes a second pass over the data.

References
----------
Ascend "Accuracy Comparison Tool", algorithm 4: ``(x − min) / (max − min)`` (or x itself when constant), not below the
machine epsilon of float32, divided by its sum; then Σ P·ln(P/Q) with P = left. Scale and shift leave it as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_msdump.metrics.sums import ZERO, Sum
from pytest_msdump.metrics.values import Array, Doubles, Workspace, above, components, inner, is_wide, numbers

__all__ = ["NO_DIVERGENCE", "Divergence", "Span", "divergence_of_block"]

_EPSILON = 2.0**-23

# Between these widths neither sums overflow nor does anything underflow before dividing.
_NARROW, _WIDE = 2.0**-300, 2.0**300


class Span(NamedTuple):
    """The range of one side over the positions where both sides are finite."""

    minimum: float | int
    maximum: float | int

    @property
    def width(self) -> float:
        """How far the range reaches; infinite when float64 cannot hold it."""
        return float(self.maximum - self.minimum)


class Divergence(NamedTuple):
    """Sums of p, of q, and of p·ln(p/q) before p and q are divided by their sums."""

    left: Sum = ZERO
    right: Sum = ZERO
    weighted: Sum = ZERO

    def merge(self, other: Divergence) -> Divergence:
        """Return the sums of both parts together."""
        return Divergence(*(a.merge(b) for a, b in zip(self, other, strict=True)))

    @property
    def value(self) -> float:
        """Σ P·ln(P/Q) in nats: ``Σ p·ln(p/q) / Σp + ln(Σq / Σp)``."""
        left, right = self.left.value, self.right.value
        # Never negative by Gibbs' inequality; rounding alone could make it so.
        return max(0.0, self.weighted.value / left + math.log(right / left))


NO_DIVERGENCE = Divergence()


def divergence_of_block(
    left: Array, right: Array, spans: tuple[Span, Span], everything_finite: bool, workspace: Workspace
) -> Divergence:
    """Return the sums of one block of real numbers, taken where both sides are finite."""
    a, b = _above(left, spans[0], "left", workspace), _above(right, spans[1], "right", workspace)
    if not everything_finite:
        kept = np.isfinite(a) & np.isfinite(b)
        a, b = a[kept], b[kept]
        if not a.size:
            return NO_DIVERGENCE
    _normalise(a, spans[0].width)
    _normalise(b, spans[1].width)
    sums = float(np.add.reduce(a)), float(np.add.reduce(b))
    np.divide(a, b, out=b)
    np.log(b, out=b)
    return Divergence(Sum(sums[0]), Sum(sums[1]), Sum(inner(a, b)))


def _above(block: Array, span: Span, name: str, workspace: Workspace) -> Doubles:
    """Return how far elements are above the lowest of their side; NaN and Inf stay what they are."""
    block = numbers(block)
    if is_wide(block):
        block = above(block, int(span.minimum))
        return components(block, name, workspace)[0]
    values = components(block, name, workspace)[0]
    return np.subtract(values, span.minimum, out=values)


def _normalise(values: Doubles, width: float) -> None:
    """Replace distances from the lowest element by their place in the range, in place."""
    if width == 0.0:
        # A constant side is an even distribution whatever its value: its sum is divided out again.
        values.fill(1.0)
        return
    least = _EPSILON
    if _NARROW <= width <= _WIDE:
        # Dividing by the sum later on makes dividing by the width needless.
        least *= width
    elif math.isinf(1.0 / width):
        np.divide(values, width, out=values)
    else:
        np.multiply(values, 1.0 / width, out=values)
    np.maximum(values, least, out=values)
