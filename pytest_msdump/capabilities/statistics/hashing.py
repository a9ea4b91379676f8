"""Digests of bytes: XXH64, and sums that are the same for elements in any order; by the compiled kernel, or without."""

from __future__ import annotations

import sys
from ctypes import CDLL
from typing import Any

import numpy as np

from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.metrics.values import Array

_WORD = (1 << 64) - 1
_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_STRIPE = 32
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_BLOCK_ELEMENTS = 2**18


def has_compiled_hashes() -> bool:
    """Whether hashes run at the speed of memory. Without the kernel XXH64 is some hundred times slower."""
    return _library() is not None


class Xxh64:
    """XXH64 with the methods of a hash.

    References
    ----------
    `xxHash's specification <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>`_.

    >>> Xxh64().hexdigest()
    'ef46db3751d8e999'
    """

    def __init__(self, seed: int = 0) -> None:
        one, two = _PRIMES[:2]
        self._seed, self._bytes, self._rest = seed, 0, b""
        self._lanes = np.array(
            [(seed + one + two) & _WORD, (seed + two) & _WORD, seed, (seed - one) & _WORD], np.uint64
        )

    def update(self, data: Any) -> None:
        """Add bytes: a contiguous array or bytes."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
        self._bytes += raw.size
        if self._rest:
            missing = _STRIPE - len(self._rest)
            self._rest += raw[:missing].tobytes()
            raw = raw[missing:]
            if len(self._rest) < _STRIPE:
                return
            self._add(np.frombuffer(self._rest, np.uint8))
        whole = raw.size // _STRIPE * _STRIPE
        self._add(raw[:whole])
        self._rest = raw[whole:].tobytes()

    def hexdigest(self) -> str:
        """Return the digest of what was added until now."""
        one, two, three, four, five = _PRIMES
        lanes, rest = self._lanes.tolist(), self._rest
        value = self._seed + five
        if self._bytes >= _STRIPE:
            value = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
            for lane in lanes:
                value = (value ^ _round(0, lane)) * one + four
        value = (value + self._bytes) & _WORD
        while len(rest) >= 8:
            value = _rotated(value ^ _round(0, int.from_bytes(rest[:8], "little")), 27) * one + four & _WORD
            rest = rest[8:]
        if len(rest) >= 4:
            value = _rotated(value ^ int.from_bytes(rest[:4], "little") * one & _WORD, 23) * two + three & _WORD
            rest = rest[4:]
        for byte in rest:
            value = _rotated(value ^ byte * five & _WORD, 11) * one & _WORD
        value = (value ^ value >> 33) * two & _WORD
        value = (value ^ value >> 29) * three & _WORD
        return f"{value ^ value >> 32:016x}"

    def _add(self, stripes: Array) -> None:
        library = _library()
        if library is not None:
            library.msdump_xxh64(self._lanes.ctypes.data, stripes.ctypes.data, stripes.size // _STRIPE)
            return
        lanes = self._lanes.tolist()
        for words in np.frombuffer(stripes.tobytes(), "<u8").reshape(-1, 4).tolist():
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        self._lanes[:] = lanes


def order_free_sums(values: Array) -> Array:
    """Return two sums of a well-spread 64-bit number for each element of a contiguous array: the same in any order."""
    sums = np.zeros(2, np.uint64)
    if (library := _library()) is not None and values.itemsize in (1, 2, 4, 8):
        library.msdump_order_free(values.ctypes.data, values.size, values.itemsize, sums.ctypes.data)
        return sums
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK_ELEMENTS):
        sums += _sums_of_block(flat[start : start + _BLOCK_ELEMENTS])
    return sums


def _sums_of_block(block: Array) -> Array:
    # The two components of a complex number stay together: the second is spread before it is added.
    words = block.view(np.uint8).reshape(block.size, -1)
    padded = np.zeros((block.size, -(-words.shape[1] // 8) * 8), np.uint8)
    padded[:, : words.shape[1]] = words
    sums = []
    for seed in _SEEDS:
        bits = np.full(block.size, seed, np.uint64)
        for column in padded.view("<u8").T:
            bits = _mixed(bits ^ column.astype(np.uint64))
        sums.append(bits.sum(dtype=np.uint64))
    return np.array(sums)


def _mixed(bits: Array) -> Array:
    """Return what the finaliser of splitmix64 makes of numbers."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ (bits >> np.uint64(31))
    return mixed


def drawn(key: int, start: int, count: int) -> Array:
    """Return `count` numbers from 0 to 1 of the stream of splitmix64 that begins at `key`, from number `start` on."""
    places = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    bits = _mixed(np.uint64(key) + places * np.uint64(_SEEDS[0]))
    numbers: Array = (bits >> np.uint64(11)).astype(np.float64)
    numbers *= 2.0**-53
    return numbers


def noisy_copy(values: Array, key: int, scale: float) -> Array | None:
    """Return each x of a contiguous array as x + x · scale · (`drawn` - ½), rounded once, a copy.

    Zeros stay, and so does what is not finite or would become so. ``None`` where the kernel cannot do it.
    """
    library = _library()
    if library is None or values.dtype not in ("<f4", "<f8"):
        return None
    made = np.empty_like(values)
    library.msdump_noise(values.ctypes.data, values.itemsize, values.size, 0, key, scale, made.ctypes.data)
    return made


def _library() -> CDLL | None:
    return choose_kernel().library if sys.byteorder == "little" else None


def _rotated(value: int, by: int) -> int:
    value &= _WORD
    return (value << by | value >> 64 - by) & _WORD


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _PRIMES[1], 31) * _PRIMES[0] & _WORD
