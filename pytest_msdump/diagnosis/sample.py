"""Both sides of a pair as diagnoses read them: a sample of blocks from all over the tensor first, then all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes import coarser
from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorView

Array = npt.NDArray[Any]

BLOCK_ELEMENTS = 131072
_SAMPLE_BLOCKS = 32
_SAMPLE_BLOCK_ELEMENTS = 4096
# Tensors of up to so many elements are read whole if places, and not only values, matter.
_HELD_ELEMENTS = 2**21

_MANTISSA_BITS = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"), 3),
    "hifloat8": 1,
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 2),
    "float8_e8m0": 0,
}


class Slack(NamedTuple):
    """How far two numbers may be apart and still be the same: a share of their size, and an absolute part."""

    relative: float
    absolute: float

    def of(self, values: Array) -> Array:
        """Return the allowed distance of each value."""
        allowed: Array = self.relative * np.abs(values) + self.absolute
        return allowed


def doubles(block: Array) -> Array:
    """Return a copy of a block of real numbers in float64."""
    if block.dtype.kind == "b":
        return np.not_equal(block.view(np.uint8), 0).astype(np.float64)
    return to_double(block)


@dataclass(frozen=True)
class Sides:
    """Both tensors of a pair, of one logical shape."""

    left: TensorView
    right: TensorView

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return self.left.shape

    @property
    def size(self) -> int:
        """The number of elements that can be read."""
        return self.left.size

    @cached_property
    def is_whole(self) -> bool:
        """Whether all elements of the shape can be read; in a part, places mean nothing."""
        return self.left.size == self.right.size == prod(self.shape)

    @cached_property
    def are_integers(self) -> bool:
        """Whether the left's type is integer or bool."""
        return DTYPES[self.left.dtype].kind in ("integer", "bool")

    @cached_property
    def rounding(self) -> Slack:
        """The error of the coarser type and of a computation in it: a few units of its last bit."""
        name = coarser(self.left.dtype, self.right.dtype)
        bits = _MANTISSA_BITS.get(name)
        # Integers are rounded to whole numbers, up or down.
        relative, absolute = (0.0, 1.0) if bits is None else (4 * 2.0 ** -(bits + 1), 1.0 if self.are_integers else 0.0)
        return Slack(relative, absolute)

    @cached_property
    def agreeing(self) -> Slack:
        """How near the sides have to be where a claim says that they agree: some noise is allowed."""
        return Slack(0.02, 0.01 * self.spread)

    @cached_property
    def spread(self) -> float:
        """The root mean square of the right side's sample."""
        right = self.sample[1]
        right = right[np.isfinite(right)]
        with np.errstate(all="ignore"):
            return float(np.sqrt(np.mean(np.square(right)))) if right.size else 0.0

    @cached_property
    def sample_ranges(self) -> tuple[tuple[int, int], ...]:
        """Ranges of elements all over the tensor, its ends included; one range for a small tensor."""
        if self.size <= _SAMPLE_BLOCKS * _SAMPLE_BLOCK_ELEMENTS:
            return ((0, self.size),)
        starts = np.linspace(0, self.size - _SAMPLE_BLOCK_ELEMENTS, _SAMPLE_BLOCKS).astype(int).tolist()
        return tuple((start, start + _SAMPLE_BLOCK_ELEMENTS) for start in starts)

    @cached_property
    def sample(self) -> tuple[Array, Array]:
        """The sample of both sides in float64, NaN and Inf included."""
        pairs = [self.read(start, stop) for start, stop in self.sample_ranges]
        return np.concatenate([left for left, _ in pairs]), np.concatenate([right for _, right in pairs])

    @cached_property
    def finite_sample(self) -> tuple[Array, Array]:
        """The sample where both sides are finite."""
        left, right = self.sample
        keep = np.isfinite(left) & np.isfinite(right)
        return left[keep], right[keep]

    @cached_property
    def whole(self) -> tuple[Array, Array] | None:
        """Both sides in memory, in their own types and shape; ``None`` for large tensors and parts of tensors."""
        if not self.is_whole or self.size > _HELD_ELEMENTS:
            return None
        left, right = (view.read(0, view.size).copy().reshape(self.shape) for view in (self.left, self.right))
        return left, right

    def read(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return elements `start` to `stop` of both sides in float64."""
        return doubles(self.left.read(start, stop)), doubles(self.right.read(start, stop))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges that cover all elements, a block at a time."""
        for start in range(0, self.size, BLOCK_ELEMENTS):
            yield start, min(start + BLOCK_ELEMENTS, self.size)
