"""Statistics of one tensor as a run saves them."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from pytest_msdump.capabilities.statistics.hashing import Xxh64, has_compiled_hashes
from pytest_msdump.core.errors import UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.metrics.sums import EMPTY, Moments, Sum, moments
from pytest_msdump.core.metrics.values import Array, Doubles, Workspace, components, numbers
from pytest_msdump.core.model.tensor import Statistic, TensorView

DIGESTS = tuple(name for name, fact in STATISTICS.items() if fact.kind == "digest")
# Those that can be of values, where a view does not keep the bytes.
_OF_VALUES = frozenset({"blake2b", "xxh3_128", "xxh64", "xor64_wide"})
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
    if name == "xxh64":
        return Xxh64()
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
    if has_compiled_hashes():
        return "xxh64"
    return "blake2b" if _xxhash() is None else "xxh3_128"


def _has_bytes(dtype: str) -> bool:
    """Whether the values of a view give the bytes of the run."""
    fact = DTYPES[dtype]
    return dtype == "bfloat16" or np.dtype(fact.native).itemsize * 8 == fact.bits
