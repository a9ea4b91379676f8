"""Claims that slices of an axis are others of the right's: heads, q, k and v, halves of a head in another order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, Claim, Sides, Trial, doubles
from pytest_msdump.capabilities.diagnosis.text import ATTENTION
from pytest_msdump.core.text import Message, Parameter

# Slices are told apart by so many of their elements; all of more slices are not compared with each other.
_LOOKED_AT, _TRIED, _MOST_SLICES = 48, 16, 2048
_FEWEST_SLICES, _MOST_NAMED = 4, 16
# A slice is another one's when it is nearer to that by so much; this share of all may be left out for the first look.
_NEARER, _UNFOUND = 0.05, 0.02
_PLACES_TRIED, _SHARE_TRIED = 512, 0.9


@dataclass(frozen=True)
class OrderClaim(Claim):
    """The left is what the right becomes in another order; `claimed` holds it all, flat."""

    claimed: Array

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and the right in its other order."""
        left, right = self.sides.read(start, stop)
        return Trial(left, self.claimed[start:stop], right)


def of_slices(sides: Sides) -> Iterator[OrderClaim]:
    """Yield orders of slices along each axis."""
    if sides.whole is None:
        return
    left, right = sides.whole
    for axis, length in enumerate(sides.shape):
        if not _FEWEST_SLICES <= length <= _MOST_SLICES or sides.size // length < 2:
            continue
        ours, theirs = (_some_of_each(side, axis) for side in (left, right))
        found = _origins(ours, theirs)
        own = None if found is None else _origins(theirs, theirs)
        if found is None or own is None or np.array_equal(found, own):
            continue
        message = _named(found, own, axis)
        if message is not None:
            yield OrderClaim(
                "other_order", sides, message, {"axis": axis}, doubles(right.take(found, axis).reshape(-1))
            )


def _some_of_each(side: Array, axis: int) -> Array:
    """Return the same elements of each slice, a row for each."""
    turned = np.moveaxis(side, axis, 0)
    count = side.size // side.shape[axis]
    chosen = np.unique(np.random.default_rng(0).integers(0, count, 2 * _LOOKED_AT))
    places: Any = (slice(None), *np.unravel_index(chosen, turned.shape[1:]))
    return np.nan_to_num(doubles(turned[places]))


def _origins(left: Array, right: Array) -> Array | None:
    """Return for each slice of the left the first of the right that equals it; ``None`` if not all were found."""
    some = np.random.default_rng(0).permutation(len(left))[:_TRIED]
    return None if _nearest(left[some], right) is None else _nearest(left, right)


def _nearest(left: Array, right: Array) -> Array | None:
    squares = np.einsum("ij,ij->i", right, right)
    distances = squares - 2 * np.einsum("ik,jk->ij", left, right) + np.einsum("ij,ij->i", left, left)[:, None]
    origins: Array = distances.argmin(axis=1)
    nearest = distances[np.arange(len(left)), origins]
    return origins if np.count_nonzero(nearest <= _NEARER * squares[origins]) >= (1 - _UNFOUND) * len(left) else None


def _named(origins: Array, own: Array, axis: int) -> Message | None:
    """Return what an order is called that software makes; ``None`` for any other. `own` is which of the right equal."""
    count = len(origins)
    width, blocks = _blocks(origins)
    said: dict[str, Parameter] = {"axis": axis, "width": width}
    if len(np.unique(origins)) < count:
        how = _repeated(blocks), _repeated(own[::width] // width)
        return Message(f"heads_in_{how[0]}", said) if set(how) == {"row", "turn"} else None
    moved = np.flatnonzero(blocks != np.arange(len(blocks)))
    if len(moved) == 2:
        code = "blocks_exchanged" if width > 1 else "slices_exchanged"
        return Message(code, {**said, "a": int(moved[0]), "b": int(moved[1])})
    if np.array_equal(blocks, np.arange(len(blocks)) ^ 1):
        return Message("halves_exchanged", {**said, "width": 2 * width})
    for outer, first, second, inner in _factors(count):
        if not np.array_equal(origins, exchanged(outer, first, second, inner)):
            continue
        if inner == 1 and 2 in (first, second):
            return Message("pairs_to_halves" if second == 2 else "halves_to_pairs", {**said, "width": count // outer})
        if inner > 1 and outer == 1:
            code = "parts_by_head" if 3 in (first, second) else "blocks_regrouped"
            return Message(code, {**said, "width": inner, "a": first, "b": second})
    if width > 1 and len(blocks) <= _MOST_NAMED:
        return Message("blocks_in_order", {**said, "order": tuple(map(int, blocks))})
    return None


def _blocks(origins: Array) -> tuple[int, Array]:
    """Return how many slices moved as one, and the order of these blocks; slices that all stayed are one block each."""
    for width in reversed(divisors(len(origins))[:-1]):
        rows = origins.reshape(-1, width)
        if (rows[:, 0] % width == 0).all() and (rows == rows[:, :1] + np.arange(width)).all():
            break
    return width, rows[:, 0] // width


def _repeated(blocks: Array) -> str:
    """Return how equal blocks follow each other: each several times in a row, all in turn, or neither."""
    # The first of equal blocks stands for all of them.
    each, times = list(dict.fromkeys(blocks.tolist())), len(blocks) // len(np.unique(blocks))
    if times > 1 and np.array_equal(blocks, np.repeat(each, times)):
        return "row"
    return "turn" if times > 1 and np.array_equal(blocks, np.tile(each, times)) else ""


def _factors(count: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield all ways to write a number as four factors, those in the middle above 1; the fewest outer ones last."""
    for outer in reversed(divisors(count)):
        for first in divisors(count // outer)[1:]:
            for second in divisors(count // outer // first)[1:]:
                yield outer, first, second, count // outer // first // second


def exchanged(outer: int, first: int, second: int, inner: int) -> Array:
    """Return the order of (outer, first, second, inner) read as (outer, second, first, inner)."""
    places = np.arange(outer * first * second * inner).reshape(outer, first, second, inner)
    flat: Array = places.swapaxes(1, 2).reshape(-1)
    return flat


def divisors(number: int) -> list[int]:
    """Return the divisors of a number, the least first."""
    return [one for one in range(1, number + 1) if number % one == 0]


def of_joined_heads(sides: Sides, operator: str) -> Iterator[OrderClaim]:
    """Yield (…, heads, tokens, width) of attention that was joined as if it were (…, tokens, heads, width)."""
    # A matrix in a device's blocks of 16 looks the same.
    if sides.whole is None or len(sides.shape) < 2 or not re.search(ATTENTION, operator, re.IGNORECASE):
        return
    *outer, tokens, channels = sides.shape
    left, right = (side.reshape(-1) for side in sides.whole)
    some = np.random.default_rng(0).integers(0, sides.size, _PLACES_TRIED)
    for heads in divisors(channels)[1:-1] if tokens > 1 else ():
        lengths = prod(outer), heads, tokens, channels // heads
        sequence, head, token, channel = np.unravel_index(some, lengths)
        origins = ((sequence * tokens + token) * heads + head) * lengths[3] + channel
        claimed, ours = doubles(right[origins]), doubles(left[some])
        if np.mean(np.abs(ours - claimed) <= _NEARER * (np.abs(claimed) + sides.spread)) < _SHARE_TRIED:
            continue
        parts = doubles(right).reshape(lengths[0], tokens, heads, -1)
        message = Message("heads_not_joined", {"n": heads, "width": lengths[3]})
        yield OrderClaim("other_order", sides, message, {"heads": heads}, parts.swapaxes(1, 2).reshape(-1))
