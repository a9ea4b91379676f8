"""Claims that the right, rounded to a lower precision, is the left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pytest_msdump.dtypes.low_precision import byte_table
from pytest_msdump.localising.diagnosis_claim import Array, Slack, Trial, inner
from pytest_msdump.localising.diagnosis_pointwise import PointwiseClaim, inside_range
from pytest_msdump.localising.diagnosis_sample import Sides
from pytest_msdump.text import Message

__all__ = ["RoundingClaim", "of_rounding", "to_bfloat16", "to_float8"]

# A grid of an 8-bit integer type has so many values, a coarse one fewer; with less than this a step proves nothing.
_MOST_LEVELS = 256
_FEWEST_LEVELS = 5
_TRIED = 8192


class RoundingClaim(PointwiseClaim):
    """A claim whose result is exact but for ties: an element has to be at its place on the grid, not near to it."""

    def trial(self, start: int, stop: int) -> Trial:
        """Let elements that the grid holds anyway out: they are equal whatever was done."""
        left, right = self.sides.read(start, stop)
        return Trial(left, self._nearest(left, right), right)

    def _nearest(self, left: Array, right: Array) -> Array:
        """Round; an element that lies in the middle may have gone either way."""
        up, down = (self.function(right * (1 + sign * 2.0**-21)) for sign in (1, -1))
        claimed = self.function(right)
        return np.where((left == up) | (left == down), left, claimed)


def of_rounding(sides: Sides) -> Iterator[PointwiseClaim]:
    """Yield every grid that holds the left's sample and not the right's."""
    left, right = sides.finite_sample
    if left.size < 4:
        return
    thin = max(1, left.size // _TRIED)
    some_left, some_right = left[::thin], right[::thin]
    for name, function in _GRIDS.items():
        off_left = np.count_nonzero(np.abs(function(some_left) - some_left) > 1e-6 * np.abs(some_left))
        off_right = np.count_nonzero(function(some_right) != some_right)
        if off_left <= 0.01 * some_left.size and off_right >= 0.05 * some_right.size:
            yield _claim(sides, function, name)
    grid = _step(left[inside_range(sides, left)])
    if grid is not None and grid > 1.001 * (_step(right) or 0.0) and not (sides.are_integers and grid <= 1):
        yield _on_steps(sides, grid, float(left.min()), float(left.max()))


def _claim(sides: Sides, function: Callable[[Array], Array], grid: str) -> RoundingClaim:
    # Where nothing was to be rounded, the sides have to be equal; a hair is for the arithmetic that made the grid.
    hair = Slack(1e-6, 0.0)
    return RoundingClaim(
        "rounded", sides, function, Message("left_is_rounded", {"grid": grid}), {"grid": grid}, hair, hair
    )


def _on_steps(sides: Sides, step: float, low: float, high: float) -> RoundingClaim:
    def rounded(block: Array) -> Array:
        return np.clip(np.rint(block / step) * step, low, high)

    message = Message("left_is_in_steps", {"step": step})
    # The left's own type rounded the steps once more.
    own = Slack(sides.rounding.relative, 0.01 * step)
    return RoundingClaim("rounded", sides, rounded, message, {"grid": "steps", "step": step}, own, own)


def _step(values: Array) -> float | None:
    """Return the step of an even grid that holds all values; ``None`` when they are on none of few levels."""
    if np.unique(values[:_TRIED]).size > _MOST_LEVELS:
        return None
    levels = np.unique(values)
    if not _FEWEST_LEVELS <= levels.size <= _MOST_LEVELS:
        return None
    step = float(np.min(np.diff(levels)))
    if step <= 0:
        return None
    number = np.rint(levels / step)
    if not number.any():
        return None
    step = inner(number, levels) / inner(number, number)
    number = np.rint(levels / step)
    off = np.abs(levels - number * step)
    return step if np.all(off <= 0.02 * step + 2.0**-11 * np.abs(levels)) else None


def to_bfloat16(block: Array) -> Array:
    """Round to the nearest bfloat16, ties to even."""
    bits = block.astype(np.float32).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded: Array = ((bits + half) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return rounded


def _cut_to_bfloat16(block: Array) -> Array:
    bits = block.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    cut: Array = bits.view(np.float32).astype(np.float64)
    return cut


def _to_float16(block: Array) -> Array:
    with np.errstate(over="ignore"):
        rounded: Array = block.astype(np.float16).astype(np.float64)
    return rounded


def to_float8(block: Array, name: str) -> Array:
    """Round to the nearest number of an 8-bit type; what is beyond its largest becomes that."""
    table = byte_table(name)[:, 0].astype(np.float64)
    grid = np.unique(table[np.isfinite(table)])
    place = np.searchsorted((grid[1:] + grid[:-1]) / 2, block)
    rounded: Array = grid[place]
    return rounded


_GRIDS: dict[str, Callable[[Array], Array]] = {
    "float16": _to_float16,
    "bfloat16": to_bfloat16,
    "bfloat16, towards zero": _cut_to_bfloat16,
    "float8_e4m3fn": lambda block: to_float8(block, "float8_e4m3fn"),
    "float8_e5m2": lambda block: to_float8(block, "float8_e5m2"),
    "hifloat8": lambda block: to_float8(block, "hifloat8"),
}
