"""Changes of one tensor's values: arrays in, arrays out. A change that cannot be made here raises `NotHereError`."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from campaign.trials import Array, NotHereError

# A tensor's values, what decides by chance, and how large the change is to be.
Edit = Callable[[Array, Random, float], Array]


def only(holds: object) -> None:
    """Go on only where this holds."""
    if not holds:
        raise NotHereError


def only_floats(values: Array, count: int = 1) -> None:
    """Go on only with real floating point numbers, so many of them, not all zero."""
    only(values.dtype.kind == "f" and values.size >= count)


def largest(values: Array) -> int:
    """Where the largest finite number is, in C order."""
    only_floats(values)
    flat = np.where(np.isfinite(values), np.abs(values), -1).reshape(-1)
    return int(flat.argmax())


def typical(values: Array) -> int:
    """Where the number is whose size three of four do not reach, in C order."""
    only_floats(values)
    return int(np.argsort(np.abs(values), axis=None)[values.size * 3 // 4])


def anywhere(values: Array, rng: Random) -> int:
    """A place, in C order."""
    only(values.size)
    return rng.randrange(values.size)


def size_of(values: Array) -> float:
    """Root of the mean square of the finite numbers."""
    only_floats(values)
    finite = values[np.isfinite(values)].astype(np.float64)
    only(finite.size)
    scale = float(np.abs(finite).max())
    return scale * math.sqrt(float(np.square(finite / scale).mean())) if scale else 1.0


# -- all elements ------------------------------------------------------------------------------------------------------


def scaled(values: Array, _: Random, size: float) -> Array:
    only_floats(values)
    return (values.astype(np.float64) * (1 + size)).astype(values.dtype)


def shifted(values: Array, _: Random, size: float) -> Array:
    step = size * size_of(values)
    return (values.astype(np.float64) + step).astype(values.dtype)


def noisy(values: Array, rng: Random, size: float) -> Array:
    step = size * size_of(values)
    noise = np.random.default_rng(rng.randrange(2**32)).standard_normal(values.shape)
    return (values.astype(np.float64) + step * noise).astype(values.dtype)


def negated(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    return -values


def all_zero(values: Array, _: Random, __: float) -> Array:
    return np.zeros_like(values)


def constant(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    return np.full_like(values, values.reshape(-1)[0] if values.size else 0)


def at_random(values: Array, rng: Random, _: float) -> Array:
    only_floats(values)
    made = np.random.default_rng(rng.randrange(2**32)).standard_normal(values.shape)
    return (made * size_of(values)).astype(values.dtype)


def as_float16(values: Array, _: Random, __: float) -> Array:
    only(values.dtype == np.float32 or values.dtype == np.float64)
    return values.astype(np.float16).astype(values.dtype)


def as_bfloat16(values: Array, _: Random, __: float) -> Array:
    only(values.dtype == np.float32)
    return (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def clipped(values: Array, _: Random, size: float) -> Array:
    only_floats(values, 2)
    limit = float(np.abs(values.reshape(-1)[largest(values)].astype(np.float64))) * (1 - min(size, 0.999))
    return np.clip(values, -limit, limit).astype(values.dtype)


def without_negatives(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    return np.maximum(values, 0)


def absolute(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    return np.abs(values)


def quantised(values: Array, _: Random, size: float) -> Array:
    only_floats(values)
    step = max(size * size_of(values), 1e-30)
    return (np.round(values.astype(np.float64) / step) * step).astype(values.dtype)


def zeros_to_minus_zeros(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    return np.where(values == 0, -values, values)


# -- some elements -----------------------------------------------------------------------------------------------------


def one_off(values: Array, rng: Random, size: float) -> Array:
    only_floats(values)
    values = values.copy()
    at = anywhere(values, rng)
    values.flat[at] = values.flat[at] * (1 + size)
    return values


def largest_off(values: Array, _: Random, size: float) -> Array:
    values, at = values.copy(), largest(values)
    values.flat[at] = values.flat[at] * (1 + size)
    return values


def typical_plus(values: Array, _: Random, size: float) -> Array:
    values, at = values.copy(), typical(values)
    values.flat[at] += np.asarray(size * size_of(values), values.dtype)
    return values


def put(value: float) -> Edit:
    """Put one number anywhere."""

    def change(values: Array, rng: Random, _: float) -> Array:
        only_floats(values)
        values = values.copy()
        values.flat[anywhere(values, rng)] = value
        return values

    return change


def flipped(bit: int, where: Callable[[Array], int]) -> Edit:
    """Flip one bit, counted from the sign bit, of the element that `where` finds."""

    def change(values: Array, _: Random, __: float) -> Array:
        at = where(values)
        width = 8 * values.dtype.itemsize
        only(bit < width)
        bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").copy()
        bits.flat[at] ^= bits.dtype.type(1 << (width - 1 - bit if bit >= 0 else -1 - bit))
        return bits.view(values.dtype)

    return change


def any_bit(values: Array, rng: Random, _: float) -> Array:
    only(values.size)
    data = bytearray(values.tobytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    if values.dtype == np.bool_:
        data = bytearray(int(byte == 0) if byte > 1 else byte for byte in data)
    return np.frombuffer(bytes(data), values.dtype).reshape(values.shape)


def saturated(values: Array, rng: Random, _: float) -> Array:
    only_floats(values)
    values = values.copy()
    values.flat[anywhere(values, rng)] = np.finfo(values.dtype).max
    return values


def integer_off(values: Array, rng: Random, _: float) -> Array:
    only(values.dtype.kind in "iu" and values.size)
    values = values.copy()
    at = anywhere(values, rng)
    values.flat[at] = int(values.flat[at]) + (1 if values.flat[at] < np.iinfo(values.dtype).max else -1)
    return values


def bool_flipped(values: Array, rng: Random, _: float) -> Array:
    only(values.dtype == np.bool_ and values.size)
    values = values.copy()
    at = anywhere(values, rng)
    values.flat[at] = not values.flat[at]
    return values


def one_complex_part(values: Array, rng: Random, _: float) -> Array:
    only(values.dtype.kind == "c" and values.size)
    values = values.copy()
    at = anywhere(values, rng)
    values.flat[at] = np.conj(values.flat[at]) + 1j
    return values


# -- parts of a tensor -------------------------------------------------------------------------------------------------


def _channel(values: Array, rng: Random) -> Any:
    only_floats(values, 2)
    only(values.ndim >= 2 and values.shape[1] > 1)
    return (slice(None), rng.randrange(values.shape[1]))


def one_channel_zero(values: Array, rng: Random, _: float) -> Array:
    values, at = values.copy(), _channel(values, rng)
    values[at] = 0
    return values


def one_channel_scaled(values: Array, rng: Random, size: float) -> Array:
    values, at = values.copy(), _channel(values, rng)
    values[at] = values[at] * (1 + size)
    return values


def channels_swapped(values: Array, rng: Random, _: float) -> Array:
    _, at = _channel(values, rng)
    values = values.copy()
    values[:, [at - 1, at]] = values[:, [at, at - 1]]
    return values


def first_part_copied(values: Array, rng: Random, _: float) -> Array:
    only_floats(values, 2)
    only(values.ndim and values.shape[0] > 1)
    values = values.copy()
    values[rng.randrange(1, values.shape[0])] = values[0]
    return values


def last_part_zero(values: Array, _: Random, size: float) -> Array:
    only_floats(values, 2)
    flat = values.copy().reshape(-1)
    flat[flat.size - max(1, int(flat.size * min(size, 1))) :] = 0
    return flat.reshape(values.shape)


def padding_wrong(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    only(values.ndim >= 2 and values.shape[-1] > 1)
    values = values.copy()
    values[..., -1] = 0
    return values


# -- order of elements -------------------------------------------------------------------------------------------------


def rolled(values: Array, _: Random, __: float) -> Array:
    only(values.size > 1)
    return np.roll(values, 1)


def reversed_first(values: Array, _: Random, __: float) -> Array:
    only(values.ndim and values.shape[0] > 1)
    return values[::-1].copy()


def permuted(values: Array, rng: Random, _: float) -> Array:
    only(values.size > 1)
    flat = values.reshape(-1)
    return flat[np.random.default_rng(rng.randrange(2**32)).permutation(flat.size)].reshape(values.shape)


def sorted_values(values: Array, _: Random, __: float) -> Array:
    only_floats(values, 2)
    return np.sort(values, axis=None).reshape(values.shape)


def equal_axes_swapped(values: Array, _: Random, __: float) -> Array:
    same = [
        (one, other)
        for one in range(values.ndim)
        for other in range(one + 1, values.ndim)
        if values.shape[one] == values.shape[other] > 1
    ]
    only(same)
    return values.swapaxes(*same[-1]).copy()


def channels_last_in_place(values: Array, _: Random, __: float) -> Array:
    only(values.ndim == 4)
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1)).reshape(values.shape)


def bytes_swapped(values: Array, _: Random, __: float) -> Array:
    only(values.dtype.itemsize > 1)
    return values.byteswap()


# -- shapes and types --------------------------------------------------------------------------------------------------


def transposed(values: Array, _: Random, __: float) -> Array:
    only(values.ndim >= 2 and values.shape != values.shape[::-1])
    return np.ascontiguousarray(values.transpose())


def row_more(values: Array, _: Random, __: float) -> Array:
    only(values.ndim and values.size)
    return np.concatenate([values, values[:1]])


def row_less(values: Array, _: Random, __: float) -> Array:
    only(values.ndim and values.size)
    return values[:-1]


def nothing_left(values: Array, _: Random, __: float) -> Array:
    only(values.ndim and values.size)
    return values[:0]


def as_float64(values: Array, _: Random, __: float) -> Array:
    only(values.dtype == np.float32)
    return values.astype(np.float64)


def as_integers(values: Array, _: Random, __: float) -> Array:
    only_floats(values)
    only(np.isfinite(values).all() and np.abs(values.astype(np.float64)).max(initial=0) < 2**31)
    return values.astype(np.int32)


def as_objects(values: Array, _: Random, __: float) -> Array:
    return values.astype(object)


def as_complex(values: Array, _: Random, __: float) -> Array:
    only(values.dtype == np.float32 or values.dtype == np.float64)
    return values.astype(np.complex64 if values.dtype == np.float32 else np.complex128)
