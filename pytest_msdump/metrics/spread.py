"""Where and for which values two tensors differ, as small arrays for drawings: one pass, bounded memory."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.model.record import AxisErrors, Histogram, MagnitudeErrors, Spread
from pytest_msdump.model.tensor import TensorView

__all__ = ["spread"]

_BLOCK_ELEMENTS = 1 << 18

# Powers of ten that float64 has; what is beyond counts with the last of them.
_LOWEST, _HIGHEST = -40, 40
_MOST_PLACES = 64
_MAP_CELLS = 16
# The greatest number of four digits that float64 has; sums beyond it are drawn as this.
_MOST = 1.797e308

_Floats = npt.NDArray[np.float64]


class _Sums:
    """Sums over all elements seen so far."""

    def __init__(self, shape: tuple[int, ...]) -> None:
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
        # The last two axes are what a person pictures; of a vector, the one.
        self.rows, self.columns = (shape[-2], shape[-1]) if len(shape) > 1 else (1, shape[-1])
        self.cells = (min(self.rows, _MAP_CELLS), min(self.columns, _MAP_CELLS))
        self.map = np.zeros(self.cells[0] * self.cells[1])
        self.mapped = np.zeros(self.map.size, np.int64)

    def add(self, left: _Floats, right: _Floats, start: int) -> None:
        """Take in a block that begins at element `start`; pairs with NaN or Inf are left out."""
        finite = np.isfinite(left) & np.isfinite(right)
        places = start + np.flatnonzero(finite)
        left, right = left[finite], right[finite]
        with np.errstate(over="ignore"):
            error = np.minimum(np.abs(left - right), np.finfo(np.float64).max)
        differs = error > 0
        self.counts += np.bincount(_decade(error[differs]), minlength=self.counts.size)
        known = right != 0
        magnitude = _decade(np.abs(right[known]))
        self.seen += np.bincount(magnitude, minlength=self.seen.size)
        with np.errstate(over="ignore"):
            self.sums += np.bincount(magnitude, weights=error[known], minlength=self.sums.size)
        np.maximum.at(self.largest, magnitude, error[known])
        index = places // self.inner % self.length // self.step
        with np.errstate(over="ignore"):
            self.along += np.bincount(index, weights=error, minlength=self.along.size)
        down = places // self.columns % self.rows * self.cells[0] // self.rows
        across = places % self.columns * self.cells[1] // self.columns
        cell = down * self.cells[1] + across
        with np.errstate(over="ignore"):
            self.map += np.bincount(cell, weights=error, minlength=self.map.size)
        self.mapped += np.bincount(cell, minlength=self.mapped.size)

    def spread(self) -> Spread | None:
        """The small arrays; ``None`` where each of them would be empty."""
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
        found = Spread(histogram, magnitude, axis, tuple(map(_short, heat)) if heat.size > 1 else ())
        return None if found == Spread() else found


def spread(left: TensorView, right: TensorView) -> Spread | None:
    """Return how the error of a pair is spread.

    Parameters
    ----------
    left, right : TensorView
        Of one size; read block by block. The shape is the left one's.

    Returns
    -------
    Spread, optional
        `axis` is along the second axis (of a vector, the first), `heat` has at most 16 by 16 cells. ``None`` for a
        tensor without elements, and for complex ones.

    Raises
    ------
    TensorFileError
        A file turned out unreadable on the way.
    """
    shape = tuple(left.shape) or (1,)
    if not left.size or left.size != right.size:
        return None
    found = _Sums(shape)
    for start in range(0, left.size, _BLOCK_ELEMENTS):
        stop = min(left.size, start + _BLOCK_ELEMENTS)
        one, other = np.asarray(left.read(start, stop)), np.asarray(right.read(start, stop))
        if "c" in (one.dtype.kind, other.dtype.kind):
            return None
        found.add(to_double(one), to_double(other), start)
    return found.spread()


def _decade(values: _Floats) -> npt.NDArray[np.int64]:
    """The place of each positive value's power of ten."""
    power = np.floor(np.log10(values)).astype(np.int64)
    return np.clip(power, _LOWEST, _HIGHEST) - _LOWEST


def _span(counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    """The first place that counts, and the one behind the last."""
    found = np.flatnonzero(counts)
    return int(found[0]), int(found[-1]) + 1


def _short(values: _Floats) -> tuple[float, ...]:
    """Four digits are enough to draw."""
    return tuple([float(f"{min(value, _MOST):.4g}") for value in values])
