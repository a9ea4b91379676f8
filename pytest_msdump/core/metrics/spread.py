"""Where and for which values two tensors differ, as small arrays for drawings; values that are of a coarser type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.sums import Moments
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


Array = npt.NDArray[Any]

# Bits of the mantissa that a type keeps, coarsest first. TF32 has those of float16 and the range of float32.
_KEPT_BITS = {"bfloat16": 7, "float16": 10, "float32": 23}
# How a wide type is stored: as which integers, and with how many bits of mantissa.
_STORED: dict[str, tuple[Any, int]] = {"float32": (np.uint32, 23), "float64": (np.uint64, 52)}

# Whole numbers, masks, constants and fixed-point values need few bits as well. But of a grid with even steps only the
# largest exponent needs all bits that a type keeps; numbers that were rounded to the type need them at any exponent.
_FEWEST_MANTISSAS, _FEWEST_EXPONENTS = 8, 3
_MOST_EXPONENT_BITS, _MANTISSA_BITS = 11, 10
# Nearly all tensors are ruled out by their first element, and most others by their first ones.
_FIRST = 64


class CoarserValues:
    """Finds out whether all values of a float32 or float64 tensor are of a coarser type."""

    def __init__(self, dtype: str) -> None:
        self._open = _DROPPED.get(dtype, ())
        self._stored: Any = None
        if self._open:
            self._stored, self._mantissa = _STORED[dtype]
        # Exponents, and first bits of mantissas, of values that need all bits of the coarsest type that is left.
        self._seen: tuple[Array, Array] | None = None
        self._is_certain = False

    def add(self, block: Array) -> None:
        """Add the next elements, in the side's own type."""
        if not self._open or not block.size:
            return
        bits = block.view(self._stored)
        if bits.item(0) & self._open[-1][1]:
            self._open = ()
            return
        self._rule_out(bits[:_FIRST])
        if self._open and bits.size > _FIRST:
            self._rule_out(bits)
        if self._open and not self._is_certain:
            self._gather(block, bits)

    def found(self, moments: Sequence[Moments]) -> str | None:
        """Return the coarsest type that holds all values, a key of `facts.dtypes.VALUE_KINDS`."""
        if not self._open or not self._is_certain:
            return None
        peak = max((max(-part.minimum, part.maximum) for part in moments), default=0.0)
        if peak > (DTYPES["float32"].maximum or 0.0):
            return None
        name = self._open[0][0]
        return "tf32" if name == "float16" and peak > (DTYPES["float16"].maximum or 0.0) else name

    def _rule_out(self, bits: Array) -> None:
        together = int(np.bitwise_or.reduce(bits))
        left = tuple([one for one in self._open if not together & one[1]])
        if len(left) < len(self._open):
            self._open, self._seen, self._is_certain = left, None, False

    def _gather(self, block: Array, bits: Array) -> None:
        """Note values that need the last bit of the coarsest type that is left; NaN and Inf need none."""
        chosen = np.abs(block[(bits & self._stored(self._open[0][1] + 1)) != 0])
        chosen = chosen[np.isfinite(chosen)].view(self._stored)
        if self._seen is None:
            self._seen = np.zeros(2**_MOST_EXPONENT_BITS, bool), np.zeros(2**_MANTISSA_BITS, bool)
        exponents, mantissas = self._seen
        exponents[chosen >> self._stored(self._mantissa)] = True
        first_bits = self._stored(self._mantissa - _MANTISSA_BITS)
        mantissas[(chosen >> first_bits) & self._stored(2**_MANTISSA_BITS - 1)] = True
        self._is_certain = bool(exponents.sum() >= _FEWEST_EXPONENTS and mantissas.sum() >= _FEWEST_MANTISSAS)


# Of each wide type, the coarser ones with a mask of the bits that they do not have.
_DROPPED = {
    dtype: tuple((name, 2 ** (mantissa - kept) - 1) for name, kept in _KEPT_BITS.items() if kept < mantissa)
    for dtype, (_, mantissa) in _STORED.items()
}
