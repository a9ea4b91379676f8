"""What a diagnosis looks at first: whole blocks of both sides from all over the tensor, or all of a small one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from pytest_msdump.diagnosis.claim import Array, Slack
from pytest_msdump.dtypes import coarser
from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.tensor import TensorView

__all__ = ["BLOCK_ELEMENTS", "Sides", "doubles"]

BLOCK_ELEMENTS = 131072
_SAMPLE_BLOCKS = 32
_SAMPLE_BLOCK_ELEMENTS = 4096
# Tensors of up to so many elements are held whole where places, and not only values, matter.
_HELD_ELEMENTS = 2**21

_MANTISSA_BITS = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    "float8_e4m3fn": 3,
    "float8_e4m3fnuz": 3,
    "float8_e4m3b11fnuz": 3,
    "hifloat8": 1,
    "float8_e5m2": 2,
    "float8_e5m2fnuz": 2,
    "float8_e8m0": 0,
}


def doubles(block: Array) -> Array:
    """Return a block of real numbers in float64, a copy of its own."""
    if block.dtype.kind == "b":
        return np.not_equal(block.view(np.uint8), 0).astype(np.float64)
    return to_double(block)


@dataclass(frozen=True)
class Sides:
    """Both tensors of a pair, of one shape, with what all claims ask of them."""

    left: TensorView
    right: TensorView

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return self.left.shape

    @property
    def size(self) -> int:
        """Number of elements that can be read."""
        return self.left.size

    @cached_property
    def is_whole(self) -> bool:
        """Whether all elements of the shape can be read; of a part, only values can be judged and no places."""
        return self.left.size == self.right.size == prod(self.shape)

    @cached_property
    def are_integers(self) -> bool:
        """Whether the left holds whole numbers by its type."""
        return DTYPES[self.left.dtype].kind in ("integer", "bool")

    @cached_property
    def rounding(self) -> Slack:
        """What the coarser of both types, and a computation in it, may do to a number: a few units of its last bit."""
        name = coarser(self.left.dtype, self.right.dtype)
        bits = _MANTISSA_BITS.get(name)
        # Integers are rounded to whole numbers, up or down.
        relative, absolute = (0.0, 1.0) if bits is None else (4 * 2.0 ** -(bits + 1), 1.0 if self.are_integers else 0.0)
        return Slack(relative, absolute)

    @cached_property
    def agreeing(self) -> Slack:
        """Where sides are claimed to agree, some noise is allowed."""
        return Slack(0.02, 0.01 * self.spread)

    @cached_property
    def spread(self) -> float:
        """Root mean square of the right side's sample."""
        right = self.sample[1]
        right = right[np.isfinite(right)]
        with np.errstate(all="ignore"):
            return float(np.sqrt(np.mean(np.square(right)))) if right.size else 0.0

    @cached_property
    def sample_ranges(self) -> tuple[tuple[int, int], ...]:
        """Ranges of elements all over the tensor, its ends included; one range when that is all of it."""
        if self.size <= _SAMPLE_BLOCKS * _SAMPLE_BLOCK_ELEMENTS:
            return ((0, self.size),)
        starts = np.linspace(0, self.size - _SAMPLE_BLOCK_ELEMENTS, _SAMPLE_BLOCKS).astype(int).tolist()
        return tuple((start, start + _SAMPLE_BLOCK_ELEMENTS) for start in starts)

    @cached_property
    def sample(self) -> tuple[Array, Array]:
        """Both sides of the sample in float64, NaN and Inf included."""
        pairs = [self.read(start, stop) for start, stop in self.sample_ranges]
        return np.concatenate([left for left, _ in pairs]), np.concatenate([right for _, right in pairs])

    @cached_property
    def finite_sample(self) -> tuple[Array, Array]:
        """The elements of the sample where both sides are finite."""
        left, right = self.sample
        keep = np.isfinite(left) & np.isfinite(right)
        return left[keep], right[keep]

    @cached_property
    def held(self) -> tuple[Array, Array] | None:
        """Both sides whole, in their own types and shape; ``None`` for large tensors and for parts of tensors."""
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
