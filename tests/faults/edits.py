"""Changes of one tensor's values or of one file's bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from faults.trials import Array, Change


def put(value: float, where: int | Callable[[Array], Any] = 0) -> Change:
    """Return a change of one element: the given one in C order, or where a function of the array says."""

    def change(array: Array) -> Array:
        array = array.copy()
        array.flat[where if isinstance(where, int) else int(where(array))] = value
        return array

    return change


def at(value: int) -> Change:
    """Return a change of a 0-d integer."""
    return lambda array: np.array(value, array.dtype)


def flipped(bit: int, where: Callable[[Array], Any]) -> Change:
    """Return a change of one bit of the element that `where` finds."""

    def change(array: Array) -> Array:
        bits = array.view(np.uint32).copy()
        bits.flat[int(where(array))] ^= np.uint32(1 << bit)
        return bits.view(array.dtype)

    return change


def largest(array: Array) -> Any:
    return np.abs(array).argmax()


def typical(array: Array) -> Any:
    return np.argsort(np.abs(array), axis=None)[array.size * 3 // 4]


def one_channel_zero(array: Array) -> Array:
    array = array.copy()
    array[:, 3] = 0
    return array


def as_float16(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32)


def as_bfloat16(array: Array) -> Array:
    return (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def header_says(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's header that keeps its length."""

    def change(data: bytes) -> bytes:
        assert data.count(old) == 1
        assert len(old) == len(new)
        return data.replace(old, new)

    return change
