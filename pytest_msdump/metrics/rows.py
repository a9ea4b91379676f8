"""Small usual pairs of one kind, measured by numpy side by side, each in a row: a call takes longer than a row does.

The numbers of a row are, bit by bit, those that `measure` finds for the pair alone; a pair of which it does something
else than here is told to have none. A law holds both to the same records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.metrics.kernel import CANCELS_LITTLE, EXACT_KINDS
from pytest_msdump.metrics.row_passes import Errors, Places, Spread, Worst, counts, differing_bits, divergences
from pytest_msdump.metrics.terms import KINDS
from pytest_msdump.metrics.values import STRIP, Array

if TYPE_CHECKING:
    from pytest_msdump.metrics.terms import Terms
    from pytest_msdump.model.numbers import Numbers

__all__ = ["Rows"]

_Index: TypeAlias = tuple[int, ...]

# Five arrays of so many float64 are in use at a time: what a second cache holds.
_ELEMENTS_TOGETHER = 2**14

# As the enumeration in sweep.c has them.
_MAX_ABSOLUTE, _MAX_RELATIVE, _IS_EQUAL, _FIRST_WORST = 1, 2, 8, 16


class Rows:
    """Measures pairs of one kind, as `_sweep.Alike` does.

    Parameters
    ----------
    terms : Terms
        What to measure by.
    shape : tuple of int
        Logical shape of both sides.

    Attributes
    ----------
    together : int
        How many pairs are best measured at a time.
    """

    def __init__(self, terms: Terms, shape: tuple[int, ...]) -> None:
        left, right, rtol, atol, self._maximum, self._worst, self._compares_bits = terms
        self._tolerance = rtol, atol
        self._size = math.prod(shape)
        self._steps = [(math.prod(shape[axis + 1 :]), length) for axis, length in enumerate(shape)]
        self._is_exact = all(DTYPES[KINDS[kind]].kind in EXACT_KINDS for kind in (left, right))
        self.together = max(1, _ELEMENTS_TOGETHER // self._size)

    @classmethod
    def of(cls, terms: Terms, shape: tuple[int, ...]) -> Rows | None:
        """Return who measures such pairs; ``None`` where a row would be so long that `values.inner` cuts it."""
        return cls(terms, shape) if 1 < math.prod(shape) < STRIP else None

    def numbers(self, left: Array, right: Array) -> list[tuple[int, Numbers] | None]:
        """Return for each pair what `_sweep.Alike.numbers` does.

        Parameters
        ----------
        left, right : ndarray
            2-D, contiguous, of the types that `terms` name: the elements of a tensor are a row.
        """
        with np.errstate(all="ignore"):
            return self._numbers(left, right)

    def _numbers(self, left: Array, right: Array) -> list[tuple[int, Numbers] | None]:
        values, size = np.stack((left, right), dtype=np.float64), self._size
        spread = Spread.of(values)
        bits = counts(differing_bits(left, right)) if self._compares_bits else None
        errors = Errors.of(values, bits)
        worst = Worst.of(errors, self._tolerance, self._worst)
        (left_squares, right_squares), peaks = spread.squares, spread.peak
        product = 0.5 * (left_squares + right_squares - errors.squares)
        usual = spread.is_usual & errors.is_usual & worst.is_usual & (peaks[0] < self._maximum)
        usual &= np.abs(product) > CANCELS_LITTLE * (left_squares + right_squares)
        if not usual.any():
            return [None] * len(left)
        mean, deviation = spread.mean, spread.deviation
        # All of them are finite: no peak and no relative error of a usual row is beyond 2**300.
        reals = (
            np.clip(product / (np.sqrt(left_squares) * np.sqrt(right_squares)), -1.0, 1.0),
            errors.largest,
            errors.relative,
            np.sqrt(errors.squares / right_squares),
            mean[0],
            deviation[0],
            mean[1],
            deviation[1],
            errors.total / size,
            np.sqrt(errors.squares / size),
            errors.largest_relative,
            errors.relative / size,
            errors.largest / peaks[1],
            errors.total,
        )
        rows = zip(
            usual.tolist(),
            np.array(reals).T.tolist(),
            errors.differing,
            worst.outside,
            repeat(()) if bits is None else zip(bits, strict=True),
            divergences(values, spread),
            self._indexes(np.array((errors.place, errors.relative_place, *worst.places))),
            worst.elements(left, right),
            strict=False,
        )
        return [self._told(*row) if is_usual else None for is_usual, *row in rows]

    def _told(
        self,
        reals: Sequence[float],
        differing: int,
        outside: int,
        bits: tuple[int, ...],
        divergence: tuple[float, float, float],
        indexes: Sequence[_Index],
        worst: Sequence[tuple[Any, Any, float]],
    ) -> tuple[int, Numbers]:
        """Return the numbers of a pair, in the order of `model.numbers`."""
        cosine, largest, accumulated, distance, *spread, mean, root, relative, mean_relative, normalized, total = reals
        left, right, weighted = divergence
        which, places = _FIRST_WORST * len(worst), []
        if largest:
            which, places = which | _MAX_ABSOLUTE, [indexes[0]]
        if relative:
            which |= _MAX_RELATIVE
            places.append(indexes[1])
        counts = (self._size, self._size, differing, 0, int(total) if self._is_exact else total)
        metrics = (
            cosine if differing else 1.0,
            int(largest) if self._is_exact else largest,
            accumulated,
            distance,
            max(0.0, weighted / left + math.log(right / left)),
            tuple(spread),
            mean,
            root,
            relative,
            mean_relative,
            normalized,
            0,
            0,
            outside,
            *bits,
        )
        elements = chain.from_iterable(zip(indexes[2:], *zip(*worst, strict=True), strict=False)) if worst else ()
        vendor = accumulated, relative, mean_relative
        return which if differing else which | _IS_EQUAL, (*counts, *metrics, *places, *vendor, *elements)

    def _indexes(self, elements: Places) -> list[tuple[_Index, ...]]:
        """Return for each row the logical indexes of some elements of it."""
        rows = elements.T
        axes = [(rows // step % length).tolist() for step, length in self._steps]
        return [tuple(zip(*of_row, strict=True)) for of_row in zip(*axes, strict=True)]
