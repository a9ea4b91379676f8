"""Claims about values at their own places: scaled, sign-flipped, shifted by a constant, clipped, flushed to zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.localising.diagnosis_claim import LEFT_OPEN, Array, Fit, Slack, Trial, inner
from pytest_msdump.localising.diagnosis_sample import Sides
from pytest_msdump.text import Message

__all__ = ["MovingClaim", "PointwiseClaim", "inside_range", "of_mapped_values"]

# Estimates need no more elements than these; what they say is held against all of them.
_ESTIMATED_FROM = 20000
# A factor this near to -1 is a sign flip with some noise.
_NEAR_MINUS_ONE = 0.02
# A value is flushed when so little of it is left.
_FLUSHED = 0.1
# A factor is the same everywhere when groups of elements have theirs within this share of its distance from 1.
_UNEVEN = 0.03
_FEWEST_IN_GROUP = 16
# What stops at a value is at that value, and not merely nearer to it; and something is left that is not there.
_BESIDE_THE_END = 0.15
_FEWEST_INSIDE = 4


@dataclass(frozen=True)
class PointwiseClaim:
    """The left is a function of the right, element by element."""

    id: str
    sides: Sides
    function: Callable[[Array], Array]
    message: Message
    details: Mapping[str, Any]
    rounding: Slack
    agreeing: Slack
    most: str = "high"
    left_open: float = LEFT_OPEN

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides and what is claimed of it."""
        left, right = self.sides.read(start, stop)
        return Trial(left, self.function(right), right)

    def evidence(self, fit: Fit) -> Message:
        """Return what the left is, and how much of the difference that explains."""
        return Message("explains_share", {"why": self.message, "share": 1 - fit.unexplained})


class MovingClaim:
    """What claims share by which elements stand at other places."""

    sides: Sides
    message: Message

    @property
    def rounding(self) -> Slack:
        """What the data types may do to a number."""
        return self.sides.rounding

    @property
    def most(self) -> str:
        """Nothing but the fit limits how sure it is."""
        return "high"

    @property
    def left_open(self) -> float:
        """The usual share."""
        return LEFT_OPEN

    @property
    def agreeing(self) -> Slack:
        """How near elements are that the claim does not change."""
        return self.sides.agreeing

    def evidence(self, fit: Fit) -> Message:
        """Return what moved, and how much of the difference that explains."""
        return Message("explains_share", {"why": self.message, "share": 1 - fit.unexplained})


def of_mapped_values(sides: Sides) -> Iterator[PointwiseClaim]:
    """Yield what the sample makes worth a look."""
    left, right = sides.finite_sample
    if left.size < 4:
        return
    inside = inside_range(sides, left)
    some_left, some_right = left[inside][:: _step(left)], right[inside][:: _step(left)]
    for found in (_scaled(sides, some_left, some_right), _offset(sides, some_left, some_right)):
        if found is not None:
            yield found
    yield from _clipped(sides, left, right)
    flushed = _flushed(sides, left, right)
    if flushed is not None:
        yield flushed


def _step(values: Array) -> int:
    return max(1, values.size // _ESTIMATED_FROM)


def inside_range(sides: Sides, left: Array) -> Array:
    """Which elements of the left are not at the ends of their type, where they say nothing of a factor."""
    fact = DTYPES[sides.left.dtype]
    if fact.kind == "integer" and fact.native:
        bounds = np.iinfo(fact.native)
        inside: Array = (left > bounds.min) & (left < bounds.max)
        return inside if inside.sum() >= 0.2 * inside.size else np.ones(left.size, bool)
    if fact.maximum is not None:
        return np.abs(left) < fact.maximum
    return np.ones(left.size, bool)


def _rounded_like(sides: Sides, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Let a claim of integers be whole and in their range, as the left has to be."""
    fact = DTYPES[sides.left.dtype]
    if fact.kind != "integer" or not fact.native:
        return function
    bounds = np.iinfo(fact.native)
    return lambda right: np.clip(np.rint(function(right)), bounds.min, bounds.max)


def _scaled(sides: Sides, left: Array, right: Array) -> PointwiseClaim | None:
    """A factor: the median of the quotients, weighted by |right|, then the least squares of those near to it."""
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
        message = Message("left_is_minus_right")
        return PointwiseClaim("sign_flipped", sides, np.negative, message, {}, sides.rounding, sides.agreeing)
    function = _rounded_like(sides, lambda block: factor * block)
    message, details = Message("left_is_scaled", {"factor": factor}), {"factor": factor}
    is_even = np.count_nonzero(near) >= 0.9 * near.size and _is_even(left, right, factor)
    most = "high" if is_even else "medium"
    return PointwiseClaim("scaled", sides, function, message, details, sides.rounding, sides.agreeing, most)


def _is_even(left: Array, right: Array, factor: float) -> bool:
    """Whether small and large, negative and positive, early and late elements have the same factor.

    A curve (tanh, say) is near to a line, and a gain that changes along the tensor is near to its mean.
    """
    return all(_agrees(left[group], right[group], factor, factor - 1) for group in _groups(right))


def _groups(right: Array) -> Iterator[Array]:
    """Yield small, middling, large and largest elements; negative and positive ones; each quarter of the tensor."""
    size = np.abs(right)
    thirds = np.quantile(size, (1 / 3, 2 / 3, 0.95))
    yield from (size <= thirds[0], (size > thirds[0]) & (size <= thirds[1]), size > thirds[1], size >= thirds[2])
    yield from (right < 0, right > 0)
    place = np.arange(right.size) * 4 // max(1, right.size)
    yield from (place == quarter for quarter in range(4))


def _agrees(left: Array, right: Array, factor: float, change: float) -> bool:
    """Whether a group's own factor is that of all, but for chance and a small share of what the factor changes."""
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
    """A constant: the median difference, then the mean of those near to it."""
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
    groups = _groups(right)
    is_even = all(_agrees(difference[group], ones[group], constant, constant) for group in groups)
    most = "high" if is_even else "medium"
    return PointwiseClaim("offset", sides, function, message, details, sides.rounding, sides.agreeing, most)


def _clipped(sides: Sides, left: Array, right: Array) -> Iterator[PointwiseClaim]:
    """Ends that the left stops at: its own extremes, or, with noise, what it has where the right is most extreme."""
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
    is_largest = high == _type_maximum(sides.left.dtype)
    largest = Message("largest_of_type", {"dtype": sides.left.dtype}) if is_largest else None
    ends = "at_both_ends" if len(details) == 2 else "below" if "low" in details else "above"
    message = Message(f"left_stops_{ends}", {**details, "largest": largest})

    def clip(block: Array) -> Array:
        return np.clip(block, low, high)

    own = (sides.rounding, sides.agreeing)
    return PointwiseClaim("clipped", sides, clip, message, details, *own, left_open=_BESIDE_THE_END)


def _type_maximum(dtype: str) -> float | None:
    fact = DTYPES[dtype]
    if fact.kind == "integer" and fact.native:
        return float(np.iinfo(fact.native).max)
    return fact.maximum


def _flushed(sides: Sides, left: Array, right: Array) -> PointwiseClaim | None:
    """The size below which nearly all of the left is 0 and above which nearly nothing is."""
    there = right != 0
    size, gone = np.abs(right[there]), np.abs(left[there]) <= _FLUSHED * np.abs(right[there])
    largest = size[gone].max(initial=0.0)
    # Most of what is smaller than the largest that is gone has to be gone, too.
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
    return PointwiseClaim("flushed_to_zero", sides, flush, message, details, sides.rounding, Slack(0.02, 0.5 * bound))
