"""The elements with the largest errors, found in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.detailing.elements import Elements

__all__ = ["Top", "by_absolute", "by_relative"]

# What is of a higher class goes first, whatever its size.
_ONE_NAN, _NUMBER, _UNDEFINED, _EQUAL, _BOTH_NAN = 4, 3, 2, 1, 0

Keys = tuple[npt.NDArray[np.int8], npt.NDArray[Any]]


def by_absolute(elements: Elements) -> Keys:
    """Rank by absolute error: NaN on one side, then by size, then NaN on both sides."""
    return _ranked(elements.absolute, elements.both_nan)


def by_relative(elements: Elements) -> Keys:
    """Rank by relative error: between those above 0 and those of 0 come elements without one, by absolute error."""
    classes, size = _ranked(elements.relative, elements.both_nan)
    equal = elements.absolute == 0
    apart = elements.undefined
    if apart.any():
        absolute = elements.absolute.astype(np.float64)
        size = np.where(apart, np.where(np.isnan(absolute), np.inf, absolute), size)
    return np.where(apart, np.int8(_UNDEFINED), np.where(equal, np.int8(_EQUAL), classes)), size


def _ranked(errors: npt.NDArray[Any], both_nan: npt.NDArray[np.bool_]) -> Keys:
    classes = np.full(errors.size, _NUMBER, np.int8)
    if errors.dtype.kind != "f":
        # Python's own integers: beyond 64 bits they are so large that a float tells them apart well enough.
        return classes, errors.astype(np.float64) if errors.dtype == object else errors
    nan = np.isnan(errors)
    if not nan.any():
        return classes, errors
    classes[nan] = _ONE_NAN
    classes[both_nan] = _BOTH_NAN
    return classes, np.where(nan, 0.0, errors)


class Top:
    """The first `count` elements in a ranking; of equal ones, those with higher numbers."""

    def __init__(self, count: int, rank: Callable[[Elements], Keys]) -> None:
        self._count = count
        self._rank = rank
        self._found: Elements | None = None
        self._last: tuple[Any, Any] | None = None

    def add(self, elements: Elements) -> None:
        """Look at more elements, with higher numbers than those before."""
        classes, size = self._rank(elements)
        if self._last is not None:
            last_class, last_size = self._last
            same = classes == last_class
            beyond = np.flatnonzero((classes > last_class) | (same & (size > last_size)))
            # Of those that are as large as the last one, no more can get in than there is room for.
            equal = np.flatnonzero(same & (size == last_size))[-self._count :]
            places = np.concatenate([beyond, equal])
            if not places.size:
                return
            elements = elements.take(places)
        self._found = self._best(elements if self._found is None else self._found.with_more(elements))
        if self._found.size == self._count:
            classes, size = self._rank(self._found)
            self._last = classes[-1], size[-1]

    def _best(self, elements: Elements) -> Elements:
        classes, size = self._rank(elements)
        order = np.lexsort((elements.index, size, classes))
        return elements.take(order[::-1][: self._count])

    @property
    def elements(self) -> Elements | None:
        """The largest first; ``None`` when there was nothing to look at."""
        return self._found
