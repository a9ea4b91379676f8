"""Statistics of one tensor as a run saves them, and moments of a pair that need an exact sum."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from pytest_msdump.core.errors import UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.metrics.numpy_kernel import Partial
from pytest_msdump.core.metrics.sums import EMPTY, Moments, Sum, moments, scale_exponent
from pytest_msdump.core.metrics.values import Array, Doubles, Workspace, above, components, inner, is_wide, numbers
from pytest_msdump.core.model.tensor import Statistic, TensorView

DIGESTS = tuple(name for name, fact in STATISTICS.items() if fact.kind == "digest")
# Those that can be of values, where a view does not keep the bytes.
_OF_VALUES = frozenset({"blake2b", "xxh3_128", "xor64_wide"})
_WIDEST = {"f": "<f8", "c": "<c16"}
_BITS_OF_HALF = np.uint32(16)


@dataclass(slots=True)
class Tally:
    """Counts and moments of some blocks."""

    negative: int = 0
    positive: int = 0
    zero: int = 0
    nan: int = 0
    negative_inf: int = 0
    positive_inf: int = 0
    minimum: float | int | None = None
    maximum: float | int | None = None
    finite: Moments = EMPTY
    workspace: Workspace = field(default_factory=Workspace)

    def add(self, block: Array) -> Doubles | None:
        """Add a block of real numbers; return them in float64, until the next one comes, where all are finite."""
        # Numpy computes with 16-bit floats one by one.
        finite = block.astype(np.float32) if block.dtype == np.float16 else block
        if block.dtype.kind == "f" and not (is_finite := np.isfinite(finite)).all():
            self.nan += int(np.count_nonzero(np.isnan(finite)))
            self.negative_inf += int(np.count_nonzero(np.isneginf(finite)))
            self.positive_inf += int(np.count_nonzero(np.isposinf(finite)))
            finite = finite[is_finite]
        if not finite.size:
            return None
        negative, positive = int(np.count_nonzero(finite < 0)), int(np.count_nonzero(finite > 0))
        self.negative += negative
        self.positive += positive
        self.zero += finite.size - negative - positive
        low, high = finite.min().item(), finite.max().item()
        (doubles,) = components(finite, "left", self.workspace)
        self.add_part(low, high, moments(doubles, float(low), float(high), self.workspace))
        return doubles if doubles.size == block.size else None

    def add_part(self, low: float, high: float, part: Moments) -> None:
        """Add the extremes and moments of some finite elements."""
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        self.finite = self.finite.merge(part)

    def values(self, elements: int) -> dict[str, Statistic]:
        """Return the statistics."""
        return {
            "maximum": self.maximum,
            "minimum": self.minimum,
            "mean": self.finite.mean if self.finite.elements else None,
            "l2_norm": self._norm(),
            "count": elements,
            "negative_count": self.negative,
            "positive_count": self.positive,
            "zero_count": self.zero,
            "nan_count": self.nan,
            "negative_inf_count": self.negative_inf,
            "positive_inf_count": self.positive_inf,
        }

    def _norm(self) -> float:
        if self.nan:
            return float("nan")
        if self.negative_inf or self.positive_inf:
            return float("inf")
        return self.finite_norm

    @property
    def finite_norm(self) -> float:
        """The Euclidean norm of the finite elements."""
        return self.finite.squares.root_of_ratio(Sum(1.0))


def statistics_of(
    view: TensorView, *, digests: Sequence[str] = (), block_elements: int = 131072
) -> Mapping[str, Statistic]:
    """Compute what `facts.metrics` lists but for the L1 norm, as a run of MindSpore does on the host, by name."""
    if block_elements < 1:
        raise ValueError(f"block_elements is {block_elements}; it has to be at least 1")
    tally, hashes = Tally(), Digests(digests, view.dtype)
    is_real = DTYPES[view.dtype].kind != "complex"
    with np.errstate(all="ignore"):
        for block in view.blocks(block_elements):
            if is_real:
                tally.add(numbers(block))
            hashes.add(block)
    found: dict[str, Statistic] = tally.values(view.size) if is_real else {"count": view.size}
    return found | hashes.values()


class Digests:
    """Digests of a tensor's bytes by name; UnknownNameError for others."""

    def __init__(self, names: Sequence[str], dtype: str) -> None:
        for name in names:
            if name not in DIGESTS:
                raise UnknownNameError(f"no digest '{name}'; {nearest(name, DIGESTS)}")
        self._dtype = dtype
        made = {name: _new_hash(name) for name in names if name in _OF_VALUES or _has_bytes(dtype)}
        self._hashes = {name: one for name, one in made.items() if one is not None}

    def add(self, block: Array) -> None:
        """Add the next elements."""
        for name, one in self._hashes.items():
            part = block
            if name == "xor64_wide":
                part = block.astype(_WIDEST.get(block.dtype.kind, "<i8"))
            elif self._dtype == "bfloat16":
                # Every bfloat16 is the upper half of the float32 that stands for it.
                part = (np.ascontiguousarray(block).view(np.uint32) >> _BITS_OF_HALF).astype("<u2")
            one.update(np.ascontiguousarray(part, part.dtype.newbyteorder("<")))

    def values(self) -> dict[str, Statistic]:
        """Return the digests, hexadecimal."""
        return {name: one.hexdigest() for name, one in self._hashes.items()}


def _new_hash(name: str) -> Any:
    """Return a hash; ``None`` where the package that it needs is not installed."""
    if name == "blake2b":
        return hashlib.blake2b(digest_size=16, usedforsecurity=False)
    if name == "crc32":
        return _Crc32()
    if name in ("xor64", "xor64_wide"):
        return _Xor64()
    if name != "xxh3_128":
        return hashlib.new(name, usedforsecurity=False)
    return None if _xxhash() is None else _xxhash().xxh3_128()


class _Crc32:
    """A CRC-32 with the methods of a hash."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Any) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


class _Xor64:
    """The XOR of all words of 8 bytes, the last one filled with zeros, with the methods of a hash."""

    def __init__(self) -> None:
        self._value, self._bytes = np.uint64(0), 0

    def update(self, data: Array) -> None:
        before = self._bytes % 8
        self._bytes += data.nbytes
        padded = bytes(before) + data.tobytes() + bytes(-self._bytes % 8)
        self._value ^= np.bitwise_xor.reduce(np.frombuffer(padded, "<u8"), initial=0)

    def hexdigest(self) -> str:
        return f"{int(self._value):016x}"


@cache
def _xxhash() -> Any:
    try:
        return import_module("xxhash")
    except ImportError:
        return None


def quick_digest() -> str:
    """Return the fastest digest that this installation has."""
    return "blake2b" if _xxhash() is None else "xxh3_128"


def _has_bytes(dtype: str) -> bool:
    """Whether the values of a view give the bytes of the run."""
    fact = DTYPES[dtype]
    return dtype == "bfloat16" or np.dtype(fact.native).itemsize * 8 == fact.bits


_Block: TypeAlias = tuple[int, Array, Array]

# A mean below this part of the root mean square, and a deviation below this part of the largest number, may be wrong by
# more than a billionth: sums are right to 2**-48 of the sum of magnitudes, means to 2**-51 of the largest number.
_MEAN_OF_ROOT_SQUARE = 2.0**-17
_DEVIATION_OF_PEAK = 2.0**-20

# Larger numbers are divided by a power of two, exactly, and added up by themselves, so that no sum overflows.
_LARGE, _LOWERING = 2.0**500, 600

# Two float64 buffers of this size stay in a core's second cache.
_TILE_ELEMENTS = 2**15


def with_exact_moments(partial: Partial, blocks: Iterable[_Block]) -> Partial:
    """Return the sums with exact moments where those of the first pass may be wrong; these read the blocks again."""
    sides = [list(partial.left), list(partial.right)]
    doubtful = [
        (side, part, _ExactMoments(found))
        for side, parts in enumerate(sides)
        for part, found in enumerate(parts)
        if _has_doubtful_mean(found) or _has_doubtful_deviation(found)
    ]
    if not doubtful:
        return partial
    everything_finite = partial.finite == partial.elements
    for _, left, right in blocks:
        both = numbers(left), numbers(right)
        kept = None if everything_finite else np.isfinite(both[0]) & np.isfinite(both[1])
        for side, part, exact in doubtful:
            block = both[side]
            if block.dtype.kind == "c":
                block = block.imag if part else block.real
            exact.add(block if kept is None else block[kept])
    for side, part, exact in doubtful:
        sides[side][part] = exact.moments()
    return partial._replace(left=tuple(sides[0]), right=tuple(sides[1]))


def _has_doubtful_mean(found: Moments) -> bool:
    """Whether the mean may be wrong by more than a billionth part of itself."""
    if found.elements < 2 or found.minimum == found.maximum:
        return False
    high, low, exponent = found.total
    mean_squares = Sum((high + low) ** 2 / found.elements, 0.0, 2 * exponent)
    return mean_squares.root_of_ratio(found.squares) < _MEAN_OF_ROOT_SQUARE


def _has_doubtful_deviation(found: Moments) -> bool:
    """Whether the deviation may be wrong by more than a billionth part of itself."""
    if found.elements < 2 or found.minimum == found.maximum:
        return False
    return found.deviation < _DEVIATION_OF_PEAK * found.peak


class _ExactMoments:
    """The exact total of a component, and where needed its squared deviations from a number near the mean."""

    def __init__(self, near: Moments) -> None:
        self._near = near
        self._exponent = scale_exponent(near.peak)
        mean = min(max(near.mean, near.minimum), near.maximum)
        # For integers an integer, so that deviations from it are exact.
        self._centre = int(mean) if isinstance(near.minimum, int) else mean
        self._total = Fraction()
        self._squares = Sum() if _has_doubtful_deviation(near) else None

    def add(self, block: Array) -> None:
        """Add finite elements of a block."""
        for start in range(0, block.size, _TILE_ELEMENTS):
            tile = block[start : start + _TILE_ELEMENTS]
            if self._squares is not None:
                apart = self._apart(tile)
                self._squares = self._squares.merge(Sum(inner(apart, apart)))
            if is_wide(tile):
                self._total += int(np.add.reduce(tile >> tile.dtype.type(32))) << 32
                self._total += int(np.add.reduce(tile & tile.dtype.type(0xFFFFFFFF)))
            else:
                self._total += exact_total(tile.astype(np.float64))

    def _apart(self, tile: Array) -> Doubles:
        """Return how far elements are from the centre, scaled so that their squares fit float64."""
        if is_wide(tile):
            centre = int(self._centre)
            apart = above(tile, centre)
            return np.where(tile >= tile.dtype.type(centre), apart, np.uint64(0) - apart).astype(np.float64)
        scale = math.ldexp(1.0, -self._exponent)
        scaled: Doubles = tile.astype(np.float64) * scale
        return np.subtract(scaled, self._centre * scale, out=scaled)

    def moments(self) -> Moments:
        near, total = self._near, self._total
        # A `Sum` takes a total of any magnitude, and has more digits than float64.
        exponent = total.numerator.bit_length() - total.denominator.bit_length() if total else 0
        scaled = total / Fraction(2) ** exponent
        high = float(scaled)
        found = near._replace(total=Sum(high, float(scaled - Fraction(high)), exponent))
        if self._squares is None:
            return found
        exponent = 0 if isinstance(near.minimum, int) else self._exponent
        # Σ(x − c)² is n·(mean − c)² more than the squared deviations.
        beside = (total - near.elements * Fraction(self._centre)) / Fraction(2) ** exponent
        deviations = self._squares.merge(Sum(-float(beside * beside / near.elements)))
        return found._replace(deviations=Sum(max(deviations.high + deviations.low, 0.0), 0.0, 2 * exponent))


def exact_total(values: Doubles) -> Fraction:
    """Return the sum of finite numbers without any rounding, and overwrite them.

    Adding a number that no sum of the elements exceeds, and subtracting it again, leaves their upper bits, which add up
    exactly (Rump, Ogita, Oishi, "Accurate floating-point summation, part I", 2008).

    >>> exact_total(np.array([1e300, 1.0, -1e300]))
    Fraction(1, 1)
    """
    total, size = Fraction(), values.size
    added = np.empty(size)
    while size and (largest := max(-float(np.minimum.reduce(values)), float(np.maximum.reduce(values)))):
        if largest >= _LARGE:
            large = np.abs(values) >= _LARGE
            total += exact_total(values[large] * 2.0**-_LOWERING) * 2**_LOWERING
            values[large] = 0.0
            continue
        beyond = math.ldexp(1.0, math.frexp(largest)[1] + size.bit_length())
        np.add(values, beyond, out=added)
        np.subtract(added, beyond, out=added)
        total += Fraction(float(np.add.reduce(added)))
        np.subtract(values, added, out=values)
    return total


_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def order_free_sums(block: Array) -> Array:
    """Return two sums of a well-spread 64-bit number for each element of a contiguous block: the same in any order."""
    # The two components of a complex number stay together: the second is spread before it is added.
    words = block.view(np.uint8).reshape(block.size, -1)
    padded = np.zeros((block.size, -(-words.shape[1] // 8) * 8), np.uint8)
    padded[:, : words.shape[1]] = words
    sums = []
    for seed in _SEEDS:
        bits = np.full(block.size, seed, np.uint64)
        for column in padded.view("<u8").T:
            # The finaliser of splitmix64.
            bits = bits ^ column.astype(np.uint64)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = bits ^ (bits >> np.uint64(31))
        sums.append(bits.sum(dtype=np.uint64))
    return np.array(sums)
