"""What numbers a block holds, and how far two blocks are apart: exactly for integers, in float64 for the rest."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "Differences",
    "Doubles",
    "Positions",
    "Workspace",
    "components",
    "differences",
    "magnitudes",
    "numbers",
]

Array: TypeAlias = npt.NDArray[Any]
Doubles: TypeAlias = npt.NDArray[np.float64]
Positions: TypeAlias = npt.NDArray[np.intp]

_LOW_HALF = 0xFFFFFFFF
_TWO_32 = 4294967296.0


class Workspace:
    """Buffers that are used again for every block, so that memory does not grow with the tensor."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def take(self, name: str, count: int, dtype: str) -> Array:
        """Return the first `count` elements of the buffer `name`; their values are whatever was left there."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < count or buffer.dtype != dtype:
            buffer = self._buffers[name] = np.empty(count, dtype)
        return buffer[:count]

    def doubles(self, name: str, count: int) -> Doubles:
        """Return a float64 buffer."""
        return self.take(name, count, "float64")

    def mask(self, name: str, count: int) -> npt.NDArray[np.bool_]:
        """Return a bool buffer."""
        return self.take(name, count, "bool")


class Differences(NamedTuple):
    """|l−r| of every element: in float64, and exactly where both sides are integers (else ``None``)."""

    doubles: Doubles
    exact: Array | None = None


def numbers(block: Array) -> Array:
    """Return a block in a type to compute with: bools become 0 and 1, whatever byte they were saved as."""
    contiguous = np.ascontiguousarray(block)
    if contiguous.dtype.kind == "b":
        return np.not_equal(contiguous.view(np.uint8), 0).view(np.uint8)
    return contiguous


def components(block: Array, name: str, workspace: Workspace) -> tuple[Doubles, ...]:
    """Return the real components of a block in float64: one, or real and imaginary part."""
    parts = (block.real, block.imag) if block.dtype.kind == "c" else (block,)
    buffers = tuple(workspace.doubles(f"{name} {place}", block.size) for place in range(len(parts)))
    for buffer, part in zip(buffers, parts, strict=True):
        np.copyto(buffer, part)
    return buffers


def magnitudes(parts: tuple[Doubles, ...]) -> Doubles:
    """Return |x|, the modulus of complex numbers, in the place of the first component."""
    if len(parts) == 1:
        return np.abs(parts[0], out=parts[0])
    # np.abs of complex arrays may differ in the last bit between an array's body and its tail.
    return np.hypot(parts[0], parts[1], out=parts[0])


def differences(left: Array, right: Array, parts: tuple[tuple[Doubles, ...], tuple[Doubles, ...]]) -> Differences:
    """Return |l−r| of two blocks of finite elements.

    Parameters
    ----------
    left, right : ndarray
        As `numbers` gives them.
    parts : tuple of tuple of ndarray
        What `components` makes of each. The first of the left side is overwritten by the result.

    Returns
    -------
    Differences
        0 exactly where the values are equal, also between a 64-bit integer and a float.
    """
    buffer = parts[0][0]
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        exact = _integer_differences(left, right)
        np.copyto(buffer, exact, casting="unsafe")
        return Differences(buffer, exact)
    real = _real_differences(left, right, (parts[0][0], parts[1][0]), buffer)
    if len(parts[0]) == len(parts[1]) == 1:
        return Differences(np.abs(real, out=buffer))
    imaginary = _imaginary_differences(parts[0][1:], parts[1][1:])
    return Differences(np.hypot(real, imaginary, out=buffer))


def _real_differences(left: Array, right: Array, parts: tuple[Doubles, Doubles], buffer: Doubles) -> Doubles:
    if _is_wide(left):
        high, low = _halves(left)
        return np.add(np.subtract(high, parts[1], out=buffer), low, out=buffer)
    if _is_wide(right):
        high, low = _halves(right)
        return np.subtract(np.subtract(parts[0], high, out=buffer), low, out=buffer)
    return np.subtract(parts[0], parts[1], out=buffer)


def _imaginary_differences(left: tuple[Doubles, ...], right: tuple[Doubles, ...]) -> Doubles:
    """Return the difference of the imaginary parts, of which one side may have none."""
    if left and right:
        return left[0] - right[0]
    return left[0] if left else right[0]


def _is_wide(block: Array) -> bool:
    return block.dtype.kind in "iu" and block.dtype.itemsize == 8


def _halves(block: Array) -> tuple[Doubles, Doubles]:
    """Split 64-bit integers into two float64 that hold them exactly.

    Where l = high + low is near r, high − r is exact (Sterbenz), so (high − r) + low is 0 only if l = r.
    """
    low = block & block.dtype.type(_LOW_HALF)
    high = (block >> block.dtype.type(32)).astype(np.float64)
    return high * _TWO_32, low.astype(np.float64)


def _integer_differences(left: Array, right: Array) -> Array:
    """Return |l−r| as int64, as uint64, or as Python integers where nothing else holds it."""
    if max(left.dtype.itemsize, right.dtype.itemsize) <= 4:
        narrow: Array = np.abs(left.astype(np.int64) - right.astype(np.int64))
        return narrow
    common = _common_integers(left, right)
    if common is None:
        wide: Array = np.abs(left.astype(object) - right.astype(object))
        return wide
    a, b = common
    # The true distance of two 64-bit integers fits 64 bits without sign; modular arithmetic gives just that.
    forward = a.view(np.uint64) - b.view(np.uint64)
    distance: Array = np.where(a >= b, forward, np.uint64(0) - forward)
    return distance


def _common_integers(left: Array, right: Array) -> tuple[Array, Array] | None:
    """Return both blocks in one 64-bit type that holds all of their values, if there is one."""
    for target, other in ((np.int64, "u"), (np.uint64, "i")):
        bound = np.iinfo(target)
        if all(_fits(block, other, bound) for block in (left, right)):
            return left.astype(target), right.astype(target)
    return None


def _fits(block: Array, other_kind: str, bound: np.iinfo[Any]) -> bool:
    """Whether all values fit; only blocks of the other kind of integer have to be looked at."""
    if block.dtype.kind != other_kind:
        return True
    if other_kind == "i":
        return bool(block.min() >= 0)
    return bool(block.max() <= bound.max)
