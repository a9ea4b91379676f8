"""Claims that queries and keys are turned by other positions, or in other pairs of channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, Sides, doubles
from pytest_msdump.capabilities.diagnosis.orders import OrderClaim
from pytest_msdump.core.text import Message

# Pairs of channels are turned where so many keep their length, to so much.
_SHARE_KEPT, _KEPT = 0.95, 0.02
# Bases that models have; which one shows where the sides pair channels in two ways.
_BASES = (1e4, 5e5, 1e6)
# Angles are the same, or proportional, to so much.
_SAME_ANGLE = 0.02
_FEWEST_TOKENS, _LOOKED_AT = 4, 64
# Heads are not wider.
_WIDEST = 1024


def of_turns(sides: Sides) -> Iterator[OrderClaim]:
    """Yield turns of pairs of channels by token: other positions, another base, or pairs made in another way."""
    if sides.whole is None or len(sides.shape) < 3 or sides.shape[-1] % 2 or sides.shape[-1] > _WIDEST:
        return
    for axis in {len(sides.shape) - 2, len(sides.shape) - 3}:
        moved = [np.moveaxis(side, axis, -2) for side in sides.whole]
        if moved[0].shape[-2] < _FEWEST_TOKENS:
            continue
        # The first tokens of one sequence and head show which of all may be.
        left, right = (np.nan_to_num(doubles(side[(0,) * (side.ndim - 2)][:_LOOKED_AT])) for side in moved)
        for turn in _possible(left, right, sides.spread):
            claimed, code = turn(*(np.nan_to_num(doubles(side)) for side in moved))
            message = Message(code, {"axis": axis, **({"base": turn.base} if turn.base else {})})
            flat = np.moveaxis(claimed, -2, axis).reshape(-1)
            yield OrderClaim("other_turn", sides, message, {"axis": axis}, flat)


class _Turn(NamedTuple):
    """How the right may have been turned: pairs of halves or of neighbours, by any angles, or from a base to a base."""

    is_halved: bool
    base: float | None = None

    def __call__(self, left: Array, right: Array) -> tuple[Array, str]:
        """Return the right, turned, and the sentence."""
        pairs = in_pairs(right, is_halved=self.is_halved)
        if self.base is None:
            products = in_pairs(left, is_halved=self.is_halved) * pairs.conj()
            angles = np.angle(products.sum(tuple(range(products.ndim - 2))))
            return from_pairs(pairs * np.exp(1j * angles), is_halved=self.is_halved), _how(angles)
        tokens, channels = right.shape[-2:]
        turn = np.exp(1j * np.arange(tokens)[:, None] * self.base ** (-np.arange(channels // 2) * 2 / channels))
        plain = from_pairs(pairs / turn, is_halved=self.is_halved)
        claimed = from_pairs(in_pairs(plain, is_halved=not self.is_halved) * turn, is_halved=not self.is_halved)
        return claimed, "turned_in_pairs" if self.is_halved else "turned_in_halves"


def _possible(left: Array, right: Array, spread: float) -> Iterator[_Turn]:
    """Yield the turns that most of some tokens show."""
    for is_halved in (True, False):
        lengths, ours = (np.abs(in_pairs(side, is_halved=is_halved)) for side in (right, left))
        if np.mean(np.abs(ours - lengths) <= _KEPT * lengths + 0.01 * spread) >= _SHARE_KEPT:
            yield _Turn(is_halved)
        for base in _BASES:
            turn = _Turn(is_halved, base)
            if np.mean(np.abs(left - turn(left, right)[0]) <= 0.25 * np.abs(left - right) + 0.01 * spread) > 0.5:
                yield turn


def in_pairs(side: Array, *, is_halved: bool) -> Array:
    """Return each pair of channels as a complex number."""
    half = side.shape[-1] // 2
    real, imaginary = (side[..., :half], side[..., half:]) if is_halved else (side[..., ::2], side[..., 1::2])
    pairs: Array = real + 1j * imaginary
    return pairs


def from_pairs(pairs: Array, *, is_halved: bool) -> Array:
    """Return the channels of pairs."""
    axis = -2 if is_halved else -1
    channels: Array = np.stack((pairs.real, pairs.imag), axis).reshape(*pairs.shape[:-1], -1)
    return channels


def _how(angles: Array) -> str:
    """Return the sentence for angles by token and pair: those of an offset, of another speed, or any."""
    turns = np.exp(1j * angles)
    steps = turns[1:] * turns[:-1].conj()
    if np.abs(turns - turns[:1]).max() <= _SAME_ANGLE:
        return "turned_by_offset"
    is_first_right = np.abs(turns[0] - 1).max() <= _SAME_ANGLE
    if is_first_right and np.abs(steps - steps[:1]).max() <= 2 * _SAME_ANGLE:
        return "turned_by_speed"
    return "turned_by_token"
