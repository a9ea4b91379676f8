"""Claims about values at their own places: scaled, sign-flipped, shifted by a constant, clipped, flushed to zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, Claim, Sides, Slack, Trial, inner
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.dtypes.low_precision import byte_table
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.text import Message

# Numbers of claims are estimated from so many elements, and then compared with all.
_ESTIMATED_FROM = 20000
# A factor this near to -1 is a sign flip with some noise.
_NEAR_MINUS_ONE = 0.02
# A value is flushed when so little of it is left.
_FLUSHED = 0.1
# A factor is the same everywhere if that of each group is within this share of its distance from 1.
_UNEVEN = 0.03
_FEWEST_IN_GROUP = 16
# A clipped element is at the end, and not merely nearer to it; and some elements are not there.
_BESIDE_THE_END = 0.15
_FEWEST_INSIDE = 4


@dataclass(frozen=True)
class PointwiseClaim(Claim):
    """The left is a function of the right, element by element."""

    function: Callable[[Array], Array]

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and the function of the right."""
        left, right = self.sides.read(start, stop)
        return Trial(left, self.function(right), right)


def of_mapped_values(sides: Sides) -> Iterator[PointwiseClaim]:
    """Yield claims of a factor, a constant, ends or flushing that the sample suggests."""
    left, right = sides.finite_sample
    if left.size < 4:
        return
    inside = _inside_range(sides, left)
    some_left, some_right = left[inside][:: _stride(left)], right[inside][:: _stride(left)]
    for found in (_scaled(sides, some_left, some_right), _offset(sides, some_left, some_right)):
        if found is not None:
            yield found
    yield from _clipped(sides, left, right)
    flushed = _flushed(sides, left, right)
    if flushed is not None:
        yield flushed


def _stride(values: Array) -> int:
    return max(1, values.size // _ESTIMATED_FROM)


def _inside_range(sides: Sides, left: Array) -> Array:
    """Return which elements of the left are not at the ends of their type, where they show no factor."""
    fact = DTYPES[sides.left.dtype]
    if fact.kind == "integer" and fact.native:
        bounds = np.iinfo(fact.native)
        inside: Array = (left > bounds.min) & (left < bounds.max)
        return inside if inside.sum() >= 0.2 * inside.size else np.ones(left.size, bool)
    if fact.maximum is not None:
        return np.abs(left) < fact.maximum
    return np.ones(left.size, bool)


def _rounded_like(sides: Sides, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the function with its values rounded and clipped to the left's type if that is integer."""
    fact = DTYPES[sides.left.dtype]
    if fact.kind != "integer" or not fact.native:
        return function
    bounds = np.iinfo(fact.native)
    return lambda right: np.clip(np.rint(function(right)), bounds.min, bounds.max)


def _scaled(sides: Sides, left: Array, right: Array) -> PointwiseClaim | None:
    """Return a factor: the median of the quotients, weighted by |right|, then the least squares of those near to it."""
    there = right != 0
    left, right = left[there], right[there]
    if left.size < 4:
        return None
    with np.errstate(all="ignore"):
        factor = _weighted_median(left / right, np.abs(right))
        near = np.abs(left - factor * right) <= 0.25 * np.abs(left - right) + sides.rounding.of(left)
        weight = inner(right[near], right[near])
        if np.count_nonzero(near) >= 4 and weight > 0:
            factor = inner(left[near], right[near]) / weight
    if not np.isfinite(factor) or factor == 0:
        return None
    if abs(factor + 1) <= _NEAR_MINUS_ONE:
        return PointwiseClaim("sign_flipped", sides, Message("left_is_minus_right"), {}, np.negative)
    function = _rounded_like(sides, lambda block: factor * block)
    message, details = Message("left_is_scaled", {"factor": factor}), {"factor": factor}
    # A curve such as tanh is near to a line, and a gain that changes along the tensor is near to its mean.
    is_even = np.count_nonzero(near) >= 0.9 * near.size and all(
        _agrees(left[group], right[group], factor, factor - 1) for group in _groups(right)
    )
    most = "high" if is_even else "medium"
    return PointwiseClaim("scaled", sides, message, details, function, most=most)


def _groups(right: Array) -> Iterator[Array]:
    """Yield small, middling, large and largest elements; negative and positive ones; each quarter of the tensor."""
    size = np.abs(right)
    thirds = np.quantile(size, (1 / 3, 2 / 3, 0.95))
    yield from (size <= thirds[0], (size > thirds[0]) & (size <= thirds[1]), size > thirds[1], size >= thirds[2])
    yield from (right < 0, right > 0)
    place = np.arange(right.size) * 4 // max(1, right.size)
    yield from (place == quarter for quarter in range(4))


def _agrees(left: Array, right: Array, factor: float, change: float) -> bool:
    """Whether a group's factor is that of all, but for chance and a small share of `change`."""
    weight = inner(right, right)
    if left.size < _FEWEST_IN_GROUP or not weight > 0:
        return True
    own = inner(left, right) / weight
    chance = float(np.sqrt(inner(np.square(left - factor * right), np.square(right)))) / weight
    return abs(own - factor) <= _UNEVEN * abs(change) + 4 * chance


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    running = np.cumsum(weights[order])
    return float(values[order][min(values.size - 1, int(np.searchsorted(running, running[-1] / 2)))])


def _offset(sides: Sides, left: Array, right: Array) -> PointwiseClaim | None:
    """Return a constant: the median difference, then the mean of those near to it."""
    difference = left - right
    if difference.size < 4:
        return None
    constant = float(np.median(difference))
    near = np.abs(difference - constant) <= 0.25 * abs(constant)
    if not np.isfinite(constant) or constant == 0 or np.count_nonzero(near) < 4:
        return None
    if not sides.are_integers:
        constant = float(np.mean(difference[near]))
    function = _rounded_like(sides, lambda block: block + constant)
    message = Message("left_is_offset", {"sign": "+" if constant > 0 else "-", "constant": abs(constant)})
    details = {"offset": constant}
    ones = np.ones(difference.size)
    is_even = all(_agrees(difference[group], ones[group], constant, constant) for group in _groups(right))
    return PointwiseClaim("offset", sides, message, details, function, most="high" if is_even else "medium")


def _clipped(sides: Sides, left: Array, right: Array) -> Iterator[PointwiseClaim]:
    """Yield ends that the left stops at: its extremes, or, with noise, its values where the right is most extreme."""
    count = min(max(8, right.size // 500), right.size - 1)
    lowest, highest = np.argpartition(right, count)[:count], np.argpartition(right, -count)[-count:]
    guesses = (
        (float(left.min()), float(left.max())),
        (float(np.median(left[lowest])), float(np.median(left[highest]))),
    )
    for low, high in dict.fromkeys(guesses):
        beyond_low = np.count_nonzero(right < low) >= 3
        beyond_high = np.count_nonzero(right > high) >= 3
        inside = np.count_nonzero((right >= low) & (right <= high)) >= _FEWEST_INSIDE
        if low <= high and inside and (beyond_low or beyond_high):
            yield _clip(sides, low if beyond_low else -np.inf, high if beyond_high else np.inf)


def _clip(sides: Sides, low: float, high: float) -> PointwiseClaim:
    details = {name: end for name, end in (("low", low), ("high", high)) if np.isfinite(end)}
    fact = DTYPES[sides.left.dtype]
    is_integer = fact.kind == "integer" and fact.native
    is_largest = high == (float(np.iinfo(fact.native).max) if is_integer else fact.maximum)
    largest = Message("largest_of_type", {"dtype": sides.left.dtype}) if is_largest else None
    ends = "at_both_ends" if len(details) == 2 else "below" if "low" in details else "above"
    message = Message(f"left_stops_{ends}", {**details, "largest": largest})
    clip = partial(np.clip, a_min=low, a_max=high)
    return PointwiseClaim("clipped", sides, message, details, clip, left_open=_BESIDE_THE_END)


def _flushed(sides: Sides, left: Array, right: Array) -> PointwiseClaim | None:
    """Return the size below which nearly all of the left is 0 and above which nearly nothing is."""
    there = right != 0
    size, gone = np.abs(right[there]), np.abs(left[there]) <= _FLUSHED * np.abs(right[there])
    largest = size[gone].max(initial=0.0)
    # Most elements that are smaller than the largest that is gone have to be gone, too.
    if not gone.any() or gone.all() or np.count_nonzero(gone) < 0.5 * np.count_nonzero(size <= 0.5 * largest):
        return None
    order = np.argsort(size, kind="stable")
    kept = np.cumsum(np.where(gone[order], 1, -1))
    best = int(np.argmax(kept))
    bound = float(size[order][best])
    details = {"below": bound}
    message = Message("small_values_are_zero", {"bound": bound})

    def flush(block: Array) -> Array:
        return np.where(np.abs(block) <= bound, 0.0, block)

    # Just above the bound an element that is 0 in the left has to count against the claim.
    return PointwiseClaim("flushed_to_zero", sides, message, details, flush, own_agreeing=Slack(0.02, 0.5 * bound))


# An 8-bit integer type has so many values, a coarse grid fewer; with fewer than this a step proves nothing.
_MOST_LEVELS = 256
_FEWEST_LEVELS = 5
_TRIED = 8192


class RoundingClaim(PointwiseClaim):
    """A claim that is exact but for ties: an element has to be on the grid, not near to it."""

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block with the right rounded; an element in the middle may have gone either way."""
        left, right = self.sides.read(start, stop)
        up, down = (self.function(right * (1 + sign * 2.0**-21)) for sign in (1, -1))
        return Trial(left, np.where((left == up) | (left == down), left, self.function(right)), right)


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
            message = Message("left_is_rounded", {"grid": name})
            # Where nothing had to be rounded, the sides are equal but for the arithmetic that made the grid.
            own = Slack(1e-6, 0.0)
            yield RoundingClaim("rounded", sides, message, {"grid": name}, function, own_rounding=own, own_agreeing=own)
    step = _grid_step(left[_inside_range(sides, left)])
    if step is not None and step > 1.001 * (_grid_step(right) or 0.0) and not (sides.are_integers and step <= 1):
        message, details = Message("left_is_in_steps", {"step": step}), {"grid": "steps", "step": step}
        # The left's own type rounded the steps once more.
        own = Slack(sides.rounding.relative, 0.01 * step)
        rounded = partial(_in_steps, step=step, low=float(left.min()), high=float(left.max()))
        yield RoundingClaim("rounded", sides, message, details, rounded, own_rounding=own, own_agreeing=own)


def _in_steps(block: Array, step: float, low: float, high: float) -> Array:
    return np.clip(np.rint(block / step) * step, low, high)


def _grid_step(values: Array) -> float | None:
    """Return the step of an even grid of few levels that holds all values; ``None`` if there is none."""
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


def _cut_to_bfloat16(block: Array) -> Array:
    bits = block.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    cut: Array = bits.view(np.float32).astype(np.float64)
    return cut


def to_float8(block: Array, name: str) -> Array:
    """Round to the nearest number of an 8-bit type; numbers beyond its largest become that."""
    table = byte_table(name)[:, 0].astype(np.float64)
    grid = np.unique(table[np.isfinite(table)])
    place = np.searchsorted((grid[1:] + grid[:-1]) / 2, block)
    return grid[place]


_GRIDS: dict[str, Callable[[Array], Array]] = {
    **{name: partial(rounded_to, name=name) for name in ("float16", "bfloat16")},
    "bfloat16, towards zero": _cut_to_bfloat16,
    **{name: partial(to_float8, name=name) for name in ("float8_e4m3fn", "float8_e5m2", "hifloat8")},
}
