"""Elements that are larger than all others by orders of magnitude, such as a mask of −1e9, and these others alone.

They leave no trace of the others in a norm, so limits have to hold for the others alone as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import DOMINATING_BINADES, DOMINATING_FROM, DOMINATING_GAP, DOMINATING_ONE_IN
from pytest_msdump.core.metrics.numpy_kernel import Partial
from pytest_msdump.core.metrics.values import Array, Block, Workspace, components, numbers
from pytest_msdump.core.model.tensor import ForwardingView, TensorView

Counts = npt.NDArray[np.int64]

# A binade holds the magnitudes from a power of two to the next one; here it is what float64 has for its exponent.
_BINADES, _NOT_FINITE, _OF_ONE, _MANTISSA = 2**11, 2**11 - 1, 2**10 - 1, 52
_LEAST = _OF_ONE + DOMINATING_FROM
# Bounds lie within the gap, closer to the large elements: what is next to either end is on its own side of it.
_BELOW = 3


class Bounds(NamedTuple):
    """Elements dominate whose magnitudes are no less than this, on both sides."""

    left: float
    right: float


class Gap(NamedTuple):
    """A gap between large elements and all others; a side has up to `elements` of the large ones."""

    above: Bounds
    elements: int


def find_gaps(blocks: Iterable[Block], partial: Partial) -> list[Gap]:
    """Return the gaps below elements that may dominate, the uppermost first; at most two."""
    if not partial.errors.differing or len(partial.left) > 1 or len(partial.right) > 1:
        return []
    peaks = partial.left[0].peak, partial.right[0].peak
    if min(peaks) < 2.0 ** (_LEAST - _OF_ONE):
        return []
    counts = [np.zeros(_BINADES, np.int64) for _ in peaks]
    tops = [math.frexp(peak)[1] - 1 + _OF_ONE for peak in peaks]
    workspace = Workspace()
    for _, left, right in blocks:
        places = [_binades(block, side, workspace) for side, block in (("left", left), ("right", right))]
        finite = (places[0] != _NOT_FINITE) & (places[1] != _NOT_FINITE)
        for found, place in zip(counts, places, strict=True):
            found += np.bincount(place[finite], minlength=_BINADES)
        if not any(_may_have_gap(found, top) for found, top in zip(counts, tops, strict=True)):
            return []
    sides = [_gaps_of(found) for found in counts]
    if not any(sides):
        return []
    left_gaps, right_gaps = (side or other for side, other in zip(sides, reversed(sides), strict=True))
    # Where one side has fewer levels of large elements, its lowest meets all of the other's that are left.
    count = max(len(left_gaps), len(right_gaps))
    met = (
        (left_gaps[min(level, len(left_gaps) - 1)], right_gaps[min(level, len(right_gaps) - 1)])
        for level in range(count)
    )
    return [
        Gap(Bounds(2.0 ** (a - _OF_ONE), 2.0 ** (b - _OF_ONE)), min(int(counts[0][a:].sum()), int(counts[1][b:].sum())))
        for a, b in met
    ]


def is_share(elements: int, of: int) -> bool:
    """Whether so many elements are enough for the others to be judged apart."""
    return elements * DOMINATING_ONE_IN >= of


def is_nothing(others: Partial, dtype: str) -> bool:
    """Whether the others of the right side, of this type, are all 0 or subnormal: no error is relative to these."""
    fact = DTYPES[dtype]
    normal = math.ldexp(fact.smallest, fact.mantissa) if fact.smallest and fact.mantissa is not None else 0.0
    return all(part.peak < normal or not part.peak for part in others.right)


def others_of(left: TensorView, right: TensorView, above: Bounds) -> tuple[TensorView, TensorView]:
    """Return both sides without the elements that dominate, which are NaN on both: places stay what they were."""
    pair = _RestPair(left, right, above)
    return _Others(left, pair), _Others(right, pair)


class _RestPair:
    """Both sides, of which the last range that was read is kept: the two views of the others read in turn."""

    def __init__(self, left: TensorView, right: TensorView, above: Bounds) -> None:
        self._sides, self._above = (left, right), above
        self._range, self._dominates = (0, 0), np.zeros(0, np.bool_)

    def dominates(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Return where in this range elements dominate."""
        if self._range != (start, stop):
            with np.errstate(invalid="ignore"):
                blocks = [np.abs(numbers(view.read(start, stop)).astype(np.float64)) for view in self._sides]
            self._dominates = (blocks[0] >= self._above.left) & (blocks[1] >= self._above.right)
            self._range = (start, stop)
        return self._dominates

    def permuted(self, axes: tuple[int, ...]) -> _RestPair:
        left, right = (view.permuted(axes) for view in self._sides)
        return _RestPair(left, right, self._above)


class _Others(ForwardingView):
    """One side without what dominates (a `model.tensor.TensorView`); integers become float64, which has a NaN."""

    def __init__(self, view: TensorView, pair: _RestPair) -> None:
        super().__init__(view)
        self._pair = pair

    @property
    def size(self) -> int:
        return self._view.size

    @property
    def dtype(self) -> str:
        return self._view.dtype if DTYPES[self._view.dtype].kind == "float" else "float64"

    def read(self, start: int, stop: int) -> Array:
        dominates = self._pair.dominates(start, stop)
        block = numbers(self._view.read(start, stop))
        values = block.astype(block.dtype if block.dtype.kind == "f" else np.float64)
        values[dominates] = np.nan
        return values

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return the same elements with the axes in another order."""
        return _Others(self._view.permuted(axes), self._pair.permuted(axes))


def _binades(block: Array, side: str, workspace: Workspace) -> Counts:
    """Return the binade of each element."""
    # A signalling NaN is a NaN.
    with np.errstate(invalid="ignore"):
        (values,) = components(numbers(block), side, workspace)
    return np.abs(values, out=values).view(np.int64) >> _MANTISSA


def _may_have_gap(counts: Counts, top: int) -> bool:
    """Whether some of the elements that are not counted yet may leave a gap; `top` is the binade of the largest one."""
    held = [top, *(int(one) for one in np.flatnonzero(counts)[::-1] if one < top)][: DOMINATING_BINADES + 1]
    return len(held) <= DOMINATING_BINADES or any(one - other >= DOMINATING_GAP for one, other in pairwise(held))


def _gaps_of(counts: Counts) -> list[int]:
    """Return the binades in which the bounds lie, the uppermost first."""
    held = [int(one) for one in np.flatnonzero(counts)[::-1]][: DOMINATING_BINADES + 1]
    return [one - _BELOW for one, other in pairwise(held) if one >= _LEAST and one - other >= DOMINATING_GAP]
