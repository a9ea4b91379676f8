"""What rounding does to one tensor: scale, clipped values, and the error that its own quantisation adds."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_BITS = re.compile(r"(u?)int([0-9]{1,2})")
# A quantisation whose own error is so many times that of a scale that fits is wrong, from this error on.
_TIMES, _LEAST = 4.0, 0.02
# From these shares on: of values that are clipped, of the squared error that comes from them.
_CLIPPED, _FROM_CLIPPING = 1e-3, 0.5
# Steps that are so many times those of a scale that fits.
_COARSE = 3.0
# An error that is one shift or one factor in all but this share of its square, from so large a shift (steps) on.
_ONE_REASON, _SHIFT, _FACTOR = 0.1, 1.0, 0.03
# A range as long as that of the values is in the wrong place.
_AS_LONG = 0.6
# Steps are of one size, to so much of one.
_EVEN = 0.02
# So much of the spread of floats may codes leave open that stand for them.
_LOOSE = 0.03


class Grid(NamedTuple):
    """The numbers that a tensor may be: ``scale × (code − zero point)``, code from `low` to `high`."""

    scale: float
    zero_point: float
    low: int
    high: int

    @property
    def reach(self) -> tuple[float, float]:
        """The smallest and the largest number."""
        return ((self.low - self.zero_point) * self.scale, (self.high - self.zero_point) * self.scale)

    def rounded(self, values: Array) -> Array:
        """Return values as the grid has them."""
        codes = np.clip(np.rint(values / self.scale + self.zero_point), self.low, self.high)
        return np.asarray((codes - self.zero_point) * self.scale)


class Figures(NamedTuple):
    """What is known of one quantisation.

    `own` is the error that it adds, relative to the values; `why` the code of what stands out, ``"rounded"`` where
    nothing does; `is_wrong` says that a scale that fits the values would do better by far.
    """

    own: float
    why: str
    is_wrong: bool
    scale: float | None = None
    zero_point: float | None = None
    clipped: float = 0.0
    reaches: float | None = None
    times: float | None = None
    levels: int | None = None
    of_levels: int | None = None


def limits_of(dtype: str) -> tuple[int, int] | None:
    """Return the smallest and the largest code of an integer type."""
    match = _BITS.fullmatch(dtype)
    if match is None or int(match[2]) > 16:
        return None
    bits = int(match[2])
    return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def grid_of(codes: Array, values: Array, limits: tuple[int, int]) -> Grid | None:
    """Return the grid that makes numbers of codes; ``None`` where there is none for the whole tensor."""
    first, last = int(np.argmin(codes)), int(np.argmax(codes))
    span = codes[last] - codes[first]
    if span <= 0 or not np.isfinite(values).all() or (scale := (values[last] - values[first]) / span) <= 0:
        return None
    zero = codes[first] - values[first] / scale
    if np.abs(values - scale * (codes - zero)).max() > _EVEN * scale:
        return None
    return Grid(float(scale), float(np.rint(zero)), *limits)


def fitted_grid(codes: Array, exact: Array, limits: tuple[int, int]) -> Grid | None:
    """Return the grid that brings codes nearest to what they stand for, judged by those that are not clipped."""
    inner = (codes > limits[0]) & (codes < limits[1])
    one, other = codes[inner], exact[inner]
    if one.size < 8 or np.ptp(one) == 0:
        return None
    slope, middle = np.polyfit(one, other, 1)
    left = float(np.var(other - slope * one - middle))
    if left > _LOOSE * float(np.var(other)) and left > (slope / 2) ** 2:
        return None
    return None if slope <= 0 else Grid(float(slope), float(np.rint(-middle / slope)), *limits)


def error(values: Array, exact: Array, channels: Array | None = None) -> float:
    """Return how far values are apart, relative to them: of all, or of the middle channel if that is more."""
    apart, size = float(np.sum((values - exact) ** 2)), float(np.sum(exact**2))
    found = float(np.sqrt(apart / size)) if size else 0.0
    if channels is None:
        return found
    number = int(channels.max(initial=0)) + 1
    sizes = np.bincount(channels.astype(np.int64), exact**2, number)
    apart_of = np.bincount(channels.astype(np.int64), (values - exact) ** 2, number)
    is_used = sizes > 0
    if not is_used.any():
        return found
    return max(found, float(np.median(np.sqrt(apart_of[is_used] / sizes[is_used]))))


def figures_of(
    given: Array,
    values: Array,
    exact: Array,
    grid: Grid | None,
    channels: Array | None = None,
    needed: tuple[float, float] | None = None,
) -> Figures:
    """Return what a quantisation makes `values` of what it is `given`, where floats are `exact` and need a range."""
    own, size = error(values, given, channels), float(np.sqrt(np.mean(given**2))) if given.size else 0.0
    if grid is None or not size:
        return Figures(own, "rounded", is_wrong=False)
    steps = grid.high - grid.low
    needed = needed or (min(float(exact.min()), 0.0), max(float(exact.max()), 0.0))
    fit = (needed[1] - needed[0]) / steps or grid.scale
    best = Grid(fit, float(np.rint(grid.low - needed[0] / fit)), grid.low, grid.high)
    low, high = grid.reach
    beyond = (given < low - grid.scale / 2) | (given > high + grid.scale / 2)
    apart = values - given
    total = float(np.sum(apart**2)) or 1.0
    clipped = float(np.mean(beyond))
    fitting = best.rounded(given)
    whole, at_best = error(values, given), error(fitting, given)
    is_wrong = whole > _LEAST and whole > _TIMES * at_best
    is_wrong |= own > _LEAST and own > _TIMES * error(fitting, given, channels) and whole > _TIMES / 2 * at_best
    if is_wrong and float(np.sum(apart[beyond] ** 2)) > _FROM_CLIPPING * total:
        # What went wrong before may bring values that sound ranges do not hold.
        is_wrong = error(grid.rounded(exact), exact) > _TIMES * error(best.rounded(exact), exact)
    known: dict[str, Any] = {"scale": grid.scale, "zero_point": grid.zero_point, "clipped": clipped}
    levels = max(int(min(2 * _usual(given, channels) / grid.scale, (needed[1] - needed[0]) / grid.scale, steps)), 1)
    is_clipping = clipped > _CLIPPED and float(np.sum(apart[beyond] ** 2)) > _FROM_CLIPPING * total
    shift = float(np.mean(apart))
    factor = float(np.dot(values, given) / np.dot(given, given))
    if is_wrong and is_clipping:
        above, below = needed[1] - high, low - needed[0]
        reaches, limit = (needed[1], high) if above >= below else (needed[0], low)
        times = (needed[1] - needed[0]) / (high - low)
        if times < 1 / _AS_LONG:
            return Figures(own, "misplaced", True, reaches=reaches, times=times, **known)
        times = reaches / limit if limit * reaches > 0 else times
        return Figures(own, "clipped", True, reaches=reaches, times=times, **known)
    if is_wrong and abs(shift) > _SHIFT * grid.scale and float(np.sum((apart - shift) ** 2)) < _ONE_REASON * total:
        return Figures(own, "shifted", True, reaches=shift, **known)
    if is_wrong and abs(factor - 1) > _FACTOR and float(np.sum((values - factor * given) ** 2)) < _ONE_REASON * total:
        return Figures(own, "factor", True, times=factor, **known)
    if is_wrong and grid.scale > _COARSE * fit:
        return Figures(own, "coarse", True, levels=levels, of_levels=steps, **known)
    is_outlying = own > _LEAST * 4 and levels * 8 < steps
    why = "outlying" if is_outlying else "rounded"
    reach = max(abs(needed[0]), abs(needed[1]))
    more: dict[str, Any] = {"reaches": reach, "levels": levels, "of_levels": steps} if is_outlying else {}
    return Figures(own, "unlike" if is_wrong else why, is_wrong, **known, **more)


def weight_error(values: Array, shape: tuple[int, ...], axis: int) -> float | None:
    """Return what rounding to their steps adds to dequantised weights, relative to them, in the middle channel."""
    if values.size != np.prod(shape) or len(shape) < 2:
        return None
    rows = np.moveaxis(values.reshape(shape), axis, 0).reshape(shape[axis], -1)
    steps = [np.diff(np.unique(row)) for row in rows]
    found = [
        float(np.min(gaps[gaps > 1e-3 * gaps.max()])) / np.sqrt(12 * np.mean(row**2))
        for gaps, row in zip(steps, rows, strict=True)
        if gaps.size and np.any(row)
    ]
    return float(np.median(found)) if found else None


def _usual(values: Array, channels: Array | None) -> float:
    """Return the largest value of the middle channel."""
    if channels is None:
        return float(np.percentile(np.abs(values), 99))
    largest = np.zeros(int(channels.max(initial=0)) + 1)
    np.maximum.at(largest, channels.astype(np.int64), np.abs(values))
    return float(np.median(largest))
