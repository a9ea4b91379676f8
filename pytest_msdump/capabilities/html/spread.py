"""Where and for which values two tensors differ, as small arrays for drawings."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.metrics.values import Blocks
from pytest_msdump.core.model.record import AxisErrors, Histogram, MagnitudeErrors, Spread, ValueCounts
from pytest_msdump.core.model.tensor import TensorView

_BLOCK_ELEMENTS = 1 << 18

# Powers of ten; what is beyond counts with the last of them.
_LOWEST, _HIGHEST = -40, 40
_MOST_PLACES = 64
_MAP_CELLS = 32
_VALUE_PARTS = 40
# The greatest number of four digits that fits float64; larger sums are drawn as this.
_MOST = 1.797e308

_Floats = npt.NDArray[np.float64]


class _Sums:
    """Sums over all elements seen so far."""

    def __init__(self, shape: tuple[int, ...], low: float, high: float) -> None:
        decades = _HIGHEST - _LOWEST + 1
        self.counts = np.zeros(decades, np.int64)
        self.seen = np.zeros(decades, np.int64)
        self.sums = np.zeros(decades)
        self.largest = np.zeros(decades)
        self.axis = min(1, len(shape) - 1)
        self.length = shape[self.axis]
        self.inner = math.prod(shape[self.axis + 1 :])
        self.step = -(-self.length // _MOST_PLACES)
        self.along = np.zeros(-(-self.length // self.step))
        # Values are counted where their range has a width that float64 holds.
        self.range = (low, high) if low < high and math.isfinite(high - low) else None
        self.values = np.zeros((2, _VALUE_PARTS), np.int64)
        # The map has the two longest axes; of a vector, the only one.
        longest = sorted(range(len(shape)), key=lambda axis: (-shape[axis], -axis))[:2]
        self.axes = tuple(sorted(longest))
        self.insides = [math.prod(shape[axis + 1 :]) for axis in self.axes]
        self.rows, self.columns = [1, *(shape[axis] for axis in self.axes)][-2:]
        self.cells = (min(self.rows, _MAP_CELLS), min(self.columns, _MAP_CELLS))
        self.map = np.zeros(self.cells[0] * self.cells[1])
        self.mapped = np.zeros(self.map.size, np.int64)

    def add(self, left: _Floats, right: _Floats, start: int) -> None:
        """Add a block that begins at element `start`; positions with NaN or Inf are left out."""
        finite = np.isfinite(left) & np.isfinite(right)
        places = start + np.flatnonzero(finite)
        left, right = left[finite], right[finite]
        with np.errstate(over="ignore"):
            error = np.minimum(np.abs(left - right), np.finfo(np.float64).max)
            self.counts += np.bincount(_decade(error[error > 0]), minlength=self.counts.size)
            known = right != 0
            magnitude = _decade(np.abs(right[known]))
            self.seen += np.bincount(magnitude, minlength=self.seen.size)
            self.sums += np.bincount(magnitude, weights=error[known], minlength=self.sums.size)
            np.maximum.at(self.largest, magnitude, error[known])
            index = places // self.inner % self.length // self.step
            self.along += np.bincount(index, weights=error, minlength=self.along.size)
            down = places // self.insides[0] % self.rows * self.cells[0] // self.rows
            across = places // self.insides[-1] % self.columns * self.cells[1] // self.columns
            cell = down * self.cells[1] + across
            self.map += np.bincount(cell, weights=error, minlength=self.map.size)
            self.mapped += np.bincount(cell, minlength=self.mapped.size)
            if self.range is not None:
                for counts, values in zip(self.values, (left, right), strict=True):
                    counts += np.histogram(values, _VALUE_PARTS, self.range)[0]

    def spread(self) -> Spread | None:
        """Return the arrays; ``None`` where all of them are empty."""
        histogram, magnitude, axis = None, None, None
        if self.counts.any():
            low, high = _span(self.counts)
            histogram = Histogram(low + _LOWEST, tuple(int(n) for n in self.counts[low:high]))
        if self.seen.any():
            low, high = _span(self.seen)
            mean = self.sums[low:high] / np.maximum(self.seen[low:high], 1)
            magnitude = MagnitudeErrors(low + _LOWEST, _short(mean), _short(self.largest[low:high]))
        if self.along.size > 1:
            axis = AxisErrors(self.axis, self.step, _short(self.along))
        heat = (self.map / np.maximum(self.mapped, 1)).reshape(self.cells)
        values = None
        if self.range is not None:
            values = ValueCounts(*self.range, *(tuple(map(int, counts)) for counts in self.values))
        if heat.size > 1:
            return Spread(histogram, magnitude, axis, tuple(map(_short, heat)), self.axes, values)
        found = Spread(histogram, magnitude, axis, values=values)
        return None if found == Spread() else found


def spread(left: TensorView, right: TensorView) -> Spread | None:
    """Return how the error of a pair is spread, by the left side's shape; ``None`` for complex and empty tensors."""
    shape = tuple(left.shape) or (1,)
    if not left.size or left.size != right.size:
        return None
    low, high = math.inf, -math.inf
    blocks = Blocks(left, right, _BLOCK_ELEMENTS)
    for _, one, other in blocks:
        if "c" in (one.dtype.kind, other.dtype.kind):
            return None
        both = np.stack([to_double(one), to_double(other)])
        both = both[:, np.isfinite(both).all(axis=0)]
        low, high = min(low, *both.min(axis=1, initial=low)), max(high, *both.max(axis=1, initial=high))
    found = _Sums(shape, float(low), float(high))
    for start, one, other in blocks:
        found.add(to_double(one), to_double(other), start)
    return found.spread()


def _decade(values: _Floats) -> npt.NDArray[np.int64]:
    power = np.floor(np.log10(values)).astype(np.int64)
    return np.clip(power, _LOWEST, _HIGHEST) - _LOWEST


def _span(counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    found = np.flatnonzero(counts)
    return int(found[0]), int(found[-1]) + 1


def _short(values: _Floats) -> tuple[float, ...]:
    """Round to four digits, which are enough to draw."""
    return tuple([float(f"{min(value, _MOST):.4g}") for value in values])
