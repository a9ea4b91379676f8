"""A block's elements as numbers, and the differences of two blocks: exact for integers, else in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.model.tensor import TensorView

Array: TypeAlias = npt.NDArray[Any]
Doubles: TypeAlias = npt.NDArray[np.float64]
Positions: TypeAlias = npt.NDArray[np.intp]

# BLAS libraries divide products of more than 10,000 elements among threads, which collapse when other jobs run.
STRIP = 8192

# All integers of so many bits are numbers of float64, and so is what is left of a longer one without its lowest bits.
_EXACT_BITS, _LOWEST_BITS = 53, 2**11 - 1


# Number of the first element, and the elements of both sides.
Block: TypeAlias = tuple[int, Array, Array]


class Blocks:
    """Both sides, read block by block each time they are iterated over."""

    def __init__(self, left: TensorView, right: TensorView, block_elements: int) -> None:
        self._left, self._right, self._step = left, right, block_elements

    def __iter__(self) -> Iterator[Block]:
        size = self._left.size
        for start in range(0, size, self._step):
            stop = min(start + self._step, size)
            yield start, self._left.read(start, stop), self._right.read(start, stop)


class Workspace:
    """Buffers that every block uses again."""

    def __init__(self) -> None:
        self._doubles: dict[str, Doubles] = {}
        self._masks: dict[str, npt.NDArray[np.bool_]] = {}

    def doubles(self, name: str, count: int) -> Doubles:
        """Return the first `count` elements of a float64 buffer, which are not initialised."""
        buffer = self._doubles.get(name)
        if buffer is None or buffer.size < count:
            buffer = self._doubles[name] = np.empty(count, np.float64)
        return buffer if buffer.size == count else buffer[:count]

    def mask(self, name: str, count: int) -> npt.NDArray[np.bool_]:
        """Return the first `count` elements of a bool buffer."""
        buffer = self._masks.get(name)
        if buffer is None or buffer.size < count:
            buffer = self._masks[name] = np.empty(count, np.bool_)
        return buffer if buffer.size == count else buffer[:count]


class Differences(NamedTuple):
    """|l−r| of every element in float64; `whole` where that is exact because both sides are integers of up to 32 bits.

    `wide` holds it exactly where a side is an integer of 64 bits and the other one an integer, too.
    """

    doubles: Doubles
    whole: bool = False
    wide: Array | None = None

    @property
    def exact(self) -> Array | None:
        """|l−r| in integers; ``None`` where a side has none."""
        return self.doubles.astype(np.int64) if self.whole else self.wide


def numbers(block: Array) -> Array:
    """Return a contiguous block to compute with; bools become 0 and 1, whatever byte they were saved as."""
    contiguous = np.ascontiguousarray(block)
    if contiguous.dtype.kind == "b":
        return np.not_equal(contiguous.view(np.uint8), 0).view(np.uint8)
    return contiguous


def components(block: Array, name: str, workspace: Workspace) -> tuple[Doubles, ...]:
    """Return the real components of a block in float64: one, or real and imaginary part."""
    real = workspace.doubles(name, block.size)
    if block.dtype.kind != "c":
        np.copyto(real, block)
        return (real,)
    np.copyto(real, block.real)
    imaginary = workspace.doubles(f"{name} imaginary", block.size)
    np.copyto(imaginary, block.imag)
    return real, imaginary


def inner(left: Doubles, right: Doubles) -> float:
    """Return Σ l·r of two contiguous arrays, in one thread."""
    if left.size < STRIP:
        return float(np.dot(left, right))
    whole = left.size - left.size % STRIP
    total = float(np.dot(left[whole:], right[whole:])) if whole < left.size else 0.0
    if whole:
        strips = np.matmul(left[:whole].reshape(-1, 1, STRIP), right[:whole].reshape(-1, STRIP, 1))
        total += float(np.add.reduce(strips, axis=None))
    return total


def magnitudes(parts: tuple[Doubles, ...]) -> Doubles:
    """Return |x| in the buffer of the first component."""
    if len(parts) == 1:
        return np.abs(parts[0], out=parts[0])
    # np.abs of complex arrays may differ in the last bit between an array's body and its tail.
    return np.hypot(parts[0], parts[1], out=parts[0])


def differences(left: Array, right: Array, parts: tuple[tuple[Doubles, ...], tuple[Doubles, ...]]) -> Differences:
    """Return |l−r|, exactly 0 where equal; `parts` are `components`, of which the first of the left is overwritten."""
    buffer = parts[0][0]
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        if max(left.dtype.itemsize, right.dtype.itemsize) <= 4:
            return Differences(np.abs(np.subtract(parts[0][0], parts[1][0], out=buffer), out=buffer), whole=True)
        wide = _integer_differences(left, right)
        np.copyto(buffer, wide, casting="unsafe")
        return Differences(buffer, wide=wide)
    real = _real_differences(left, right, (parts[0][0], parts[1][0]), buffer)
    if len(parts[0]) == len(parts[1]) == 1:
        return Differences(np.abs(real, out=buffer))
    imaginary = _imaginary_differences(parts[0][1:], parts[1][1:])
    return Differences(np.hypot(real, imaginary, out=buffer))


def _real_differences(left: Array, right: Array, parts: tuple[Doubles, Doubles], buffer: Doubles) -> Doubles:
    if is_wide(left):
        high, low = _two_doubles(left)
        return np.add(np.subtract(high, parts[1], out=buffer), low, out=buffer)
    if is_wide(right):
        high, low = _two_doubles(right)
        return np.subtract(np.subtract(parts[0], high, out=buffer), low, out=buffer)
    return np.subtract(parts[0], parts[1], out=buffer)


def _imaginary_differences(left: tuple[Doubles, ...], right: tuple[Doubles, ...]) -> Doubles:
    """Return the difference of the imaginary parts, of which one side may have none."""
    if left and right:
        return left[0] - right[0]
    return left[0] if left else right[0]


def is_wide(block: Array) -> bool:
    """Whether these are integers of 64 bits, which float64 does not hold exactly."""
    return block.dtype.kind in "iu" and block.dtype.itemsize == 8


def above(block: Array, lowest: int) -> npt.NDArray[np.uint64]:
    """Return x − `lowest` of 64-bit integers of which none is lower, exactly."""
    # Modular arithmetic gives the true distance, which fits 64 bits without sign.
    found: npt.NDArray[np.uint64] = block.view(np.uint64) - np.uint64(lowest % 2**64)
    return found


def _two_doubles(block: Array) -> tuple[Doubles, Doubles]:
    """Split 64-bit integers into two float64 that hold them exactly, the second one 0 where the first one does."""
    number = block.dtype.type
    sign = block >> number(_EXACT_BITS)
    # Of a negative number below it all bits of the sign are set.
    fits = (sign == 0) | (sign == number(-1)) if block.dtype.kind == "i" else sign == 0
    low = np.where(fits, number(0), block & number(_LOWEST_BITS))
    return (block - low).astype(np.float64), low.astype(np.float64)


def _integer_differences(left: Array, right: Array) -> Array:
    """Return |l−r| as uint64, or as Python integers where nothing else holds it."""
    common = _common_integers(left, right)
    if common is None:
        unbounded: Array = np.abs(left.astype(object) - right.astype(object))
        return unbounded
    a, b = common
    # The true distance of two 64-bit integers fits 64 bits without sign; modular arithmetic gives just that.
    forward = a.view(np.uint64) - b.view(np.uint64)
    return np.where(a >= b, forward, np.uint64(0) - forward)


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
