"""Claims that queries and keys are turned by other positions, or in other pairs of channels."""

from __future__ import annotations

from collections.abc import Iterator

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


def of_turns(sides: Sides) -> Iterator[OrderClaim]:
    """Yield turns of pairs of channels by token: other positions, another base, or pairs made in another way."""
    if sides.whole is None or len(sides.shape) < 3 or sides.shape[-1] % 2:
        return
    left, right = (np.nan_to_num(doubles(side)) for side in sides.whole)
    for axis in {len(sides.shape) - 2, len(sides.shape) - 3}:
        moved = [np.moveaxis(side, axis, -2) for side in (left, right)]
        if moved[0].shape[-2] < 4:
            continue
        for is_halved in (True, False):
            ours, theirs = (in_pairs(side, is_halved=is_halved) for side in moved)
            lengths = np.abs(theirs)
            is_kept = np.abs(np.abs(ours) - lengths) <= _KEPT * lengths + 0.01 * sides.spread
            if np.mean(is_kept) < _SHARE_KEPT:
                continue
            others = tuple(range(ours.ndim - 2))
            angles = np.angle((ours * theirs.conj()).sum(others))
            claimed = from_pairs(theirs * np.exp(1j * angles), is_halved=is_halved)
            yield _turned(sides, Message(_how(angles), {"axis": axis}), claimed, axis)
        steps = np.arange(moved[0].shape[-2])[:, None]
        for base in _BASES:
            turn = np.exp(1j * steps * base ** (-np.arange(sides.shape[-1] // 2) * 2 / sides.shape[-1]))
            for is_halved in (True, False):
                plain = from_pairs(in_pairs(moved[1], is_halved=is_halved) / turn, is_halved=is_halved)
                claimed = from_pairs(in_pairs(plain, is_halved=not is_halved) * turn, is_halved=not is_halved)
                code = "turned_in_pairs" if is_halved else "turned_in_halves"
                yield _turned(sides, Message(code, {"axis": axis, "base": base}), claimed, axis)


def _turned(sides: Sides, message: Message, claimed: Array, axis: int) -> OrderClaim:
    flat = np.moveaxis(claimed, -2, axis).reshape(-1)
    return OrderClaim("other_turn", sides, message, {"axis": axis}, flat)


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
