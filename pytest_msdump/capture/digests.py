"""Digests of inputs and weights, by which two runs can tell whether they were given the same numbers.

A digest has two halves: ``EXACT/VALUES``. The first is of type, shape and elements in their order; the second of the
elements whatever their order, so that two frameworks whose axes are arranged differently agree in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capture.stored import stored

__all__ = ["digest", "digests"]

_BLOCK_ELEMENTS = 2**18
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def digest(array: Any) -> str:
    """Return the digest of one array.

    Parameters
    ----------
    array : array or RawArray
        As `DumpWriter.write` takes it.

    Examples
    --------
    >>> first = digest(np.arange(6, dtype="float32").reshape(2, 3))
    >>> turned = digest(np.arange(6, dtype="float32").reshape(2, 3).T)
    >>> first == turned, first.split("/")[1] == turned.split("/")[1]
    (False, True)
    """
    values, logical = stored(array)
    flat = values.reshape(-1)
    exact = hashlib.sha256(f"{logical or values.dtype.newbyteorder('<').str}{values.shape}".encode())
    sums = [0, 0]
    for start in range(0, flat.size, _BLOCK_ELEMENTS):
        block = np.ascontiguousarray(flat[start : start + _BLOCK_ELEMENTS])
        block = block.astype(block.dtype.newbyteorder("<"), copy=False)
        exact.update(block.tobytes())
        sums = [total + _mixed(block, seed) for total, seed in zip(sums, _SEEDS, strict=True)]
    order_free = "".join(f"{total % 2**64:016x}" for total in sums)
    return f"{exact.hexdigest()[:32]}/{order_free}"


def digests(arrays: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the digests of arrays by name; a text is a digest already."""
    return {name: array if isinstance(array, str) else digest(array) for name, array in (arrays or {}).items()}


def _mixed(block: npt.NDArray[Any], seed: int) -> int:
    """Sum of a well-spread 64-bit number for each element: the same in any order."""
    # Two components of a complex number stay together: the second is spread before it is added.
    words = block.view(np.uint8).reshape(block.size, -1)
    padded = np.zeros((block.size, -(-words.shape[1] // 8) * 8), np.uint8)
    padded[:, : words.shape[1]] = words
    mixed = np.full(block.size, seed, np.uint64)
    for column in padded.view("<u8").T:
        mixed = _spread(mixed ^ column.astype(np.uint64))
    return int(mixed.sum(dtype=np.uint64))


def _spread(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: npt.NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return spread
