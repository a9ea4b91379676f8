"""NaN and Inf: classes of their own, counted on both sides, and taken out of the way of the finite metrics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.metrics.values import Array, Positions

__all__ = ["NO_CLASSES", "Classes", "classify", "first_of", "split_classes"]

_NAN = 100


class Classes(NamedTuple):
    """Counts of one or more blocks; the `first_…` are C-order element numbers. As `model.comparison.Nonfinite`.

    `left_only` counts positions where only the left side is NaN or Inf.
    """

    nan_both: int = 0
    nan_left: int = 0
    nan_right: int = 0
    inf_both: int = 0
    inf_left: int = 0
    inf_right: int = 0
    mismatch: int = 0
    left_only: int = 0
    first_mismatch: int | None = None
    first_nonfinite: int | None = None
    first_left_only: int | None = None

    def merge(self, other: Classes) -> Classes:
        """Return the counts of both parts together."""
        if other is NO_CLASSES or other == NO_CLASSES:
            return self
        counts = (a + b for a, b in zip(self[:8], other[:8], strict=True))
        return Classes(*counts, *(first_of(a, b) for a, b in zip(self[8:], other[8:], strict=True)))


NO_CLASSES = Classes()


def first_of(a: int | None, b: int | None) -> int | None:
    """Return the lower of two element numbers, either of which may be absent."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def classify(block: Array) -> npt.NDArray[np.int8]:
    """Return the class of every element: 0 finite, NaN, or which Inf (of which parts and signs, when complex)."""
    if block.dtype.kind == "c":
        real, imaginary = classify(block.real), classify(block.imag)
        either: npt.NDArray[np.int8] = real + np.int8(3) * imaginary
        either[(real == _NAN) | (imaginary == _NAN)] = _NAN
        return either
    codes = np.zeros(block.size, np.int8)
    if block.dtype.kind == "f":
        codes[np.isposinf(block)] = 1
        codes[np.isneginf(block)] = 2
        codes[np.isnan(block)] = _NAN
    return codes


def split_classes(left: Array, right: Array, start: int) -> tuple[Classes, Positions]:
    """Count the classes of a block pair that begins at element `start`, and say where both sides are finite.

    Returns
    -------
    Classes
        The counts.
    ndarray of int
        Places within the block that hold a finite number on both sides.
    """
    a, b = classify(left), classify(right)
    differ = a != b
    nan_left, nan_right = a == _NAN, b == _NAN
    inf_left, inf_right = (a != 0) & ~nan_left, (b != 0) & ~nan_right
    left_only = (a != 0) & (b == 0)
    finite = (a == 0) & (b == 0)
    classes = Classes(
        _count(nan_left & nan_right),
        _count(nan_left & ~nan_right),
        _count(nan_right & ~nan_left),
        _count(inf_left & ~differ),
        _count(inf_left & differ),
        _count(inf_right & differ),
        _count(differ),
        _count(left_only),
        _first(differ, start),
        _first(~finite, start),
        _first(left_only, start),
    )
    return classes, np.flatnonzero(finite)


def _count(mask: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))


def _first(mask: npt.NDArray[np.bool_], start: int) -> int | None:
    place = int(mask.argmax())
    return start + place if mask[place] else None
