"""Whether all values of a tensor are of a coarser type than the one that it is stored in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.sums import Moments
from pytest_msdump.core.metrics.values import Array

# Bits of the mantissa that a type keeps, coarsest first. TF32 has those of float16 and the range of float32.
_KEPT_BITS = {"bfloat16": 7, "float16": 10, "float32": 23}
# How a wide type is stored: as which integers, and with how many bits of mantissa.
_STORED: dict[str, tuple[Any, int]] = {"float32": (np.uint32, 23), "float64": (np.uint64, 52)}

# Whole numbers, masks, constants and fixed-point values need few bits as well. But of a grid with even steps only the
# largest exponent needs all bits that a type keeps; numbers that were rounded to the type need them at any exponent.
_FEWEST_MANTISSAS, _FEWEST_EXPONENTS = 8, 3
_MOST_EXPONENT_BITS, _MANTISSA_BITS = 11, 10
# Nearly all tensors are ruled out by their first element, and most others by their first ones.
_FIRST = 64


class CoarserValues:
    """Finds out whether all values of a float32 or float64 tensor are of a coarser type."""

    def __init__(self, dtype: str) -> None:
        self._open = _DROPPED.get(dtype, ())
        self._stored: Any = None
        if self._open:
            self._stored, self._mantissa = _STORED[dtype]
        # Exponents, and first bits of mantissas, of values that need all bits of the coarsest type that is left.
        self._seen: tuple[Array, Array] | None = None
        self._is_certain = False

    def add(self, block: Array) -> None:
        """Add the next elements, in the side's own type."""
        if not self._open or not block.size:
            return
        bits = block.view(self._stored)
        if bits.item(0) & self._open[-1][1]:
            self._open = ()
            return
        self._rule_out(bits[:_FIRST])
        if self._open and bits.size > _FIRST:
            self._rule_out(bits)
        if self._open and not self._is_certain:
            self._gather(block, bits)

    def found(self, moments: Sequence[Moments]) -> str | None:
        """Return the coarsest type that holds all values, a key of `facts.dtypes.VALUE_KINDS`."""
        if not self._open or not self._is_certain:
            return None
        peak = max((max(-part.minimum, part.maximum) for part in moments), default=0.0)
        if peak > (DTYPES["float32"].maximum or 0.0):
            return None
        name = self._open[0][0]
        return "tf32" if name == "float16" and peak > (DTYPES["float16"].maximum or 0.0) else name

    def _rule_out(self, bits: Array) -> None:
        together = int(np.bitwise_or.reduce(bits))
        left = tuple([one for one in self._open if not together & one[1]])
        if len(left) < len(self._open):
            self._open, self._seen, self._is_certain = left, None, False

    def _gather(self, block: Array, bits: Array) -> None:
        """Note values that need the last bit of the coarsest type that is left; NaN and Inf need none."""
        chosen = np.abs(block[(bits & self._stored(self._open[0][1] + 1)) != 0])
        chosen = chosen[np.isfinite(chosen)].view(self._stored)
        if self._seen is None:
            self._seen = np.zeros(2**_MOST_EXPONENT_BITS, bool), np.zeros(2**_MANTISSA_BITS, bool)
        exponents, mantissas = self._seen
        exponents[chosen >> self._stored(self._mantissa)] = True
        first_bits = self._stored(self._mantissa - _MANTISSA_BITS)
        mantissas[(chosen >> first_bits) & self._stored(2**_MANTISSA_BITS - 1)] = True
        self._is_certain = bool(exponents.sum() >= _FEWEST_EXPONENTS and mantissas.sum() >= _FEWEST_MANTISSAS)


# Of each wide type, the coarser ones with a mask of the bits that they do not have.
_DROPPED = {
    dtype: tuple((name, 2 ** (mantissa - kept) - 1) for name, kept in _KEPT_BITS.items() if kept < mantissa)
    for dtype, (_, mantissa) in _STORED.items()
}
