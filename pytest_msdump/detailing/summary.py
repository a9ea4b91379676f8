"""The few numbers of a whole tensor: smallest and largest errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_msdump.detailing.cells import joined
from pytest_msdump.detailing.elements import Elements
from pytest_msdump.detailing.style import Style
from pytest_msdump.detailing.tables import error_cells

__all__ = ["NOTHING_SEEN", "Extent", "Extents", "extents_of"]

Number = Any


@dataclass(frozen=True, slots=True)
class Extent:
    """Smallest and largest error; ``None`` while there was none that means anything. NaN goes before every number."""

    least: Number = None
    most: Number = None

    def merge(self, other: Extent) -> Extent:
        """Return the extent of both parts."""
        if self.least is None or other.least is None:
            return other if self.least is None else self
        both = (self.least, other.least, self.most, other.most)
        if any(number != number for number in both):
            return Extent(math.nan, math.nan)
        return Extent(min(both[:2]), max(both[2:]))


@dataclass(frozen=True, slots=True)
class Extents:
    """Both errors over the elements seen so far."""

    count: int = 0
    absolute: Extent = Extent()
    relative: Extent = Extent()
    of_truths: bool = False

    def merge(self, other: Extents) -> Extents:
        """Return the extents of both parts."""
        return replace(
            other,
            count=self.count + other.count,
            absolute=self.absolute.merge(other.absolute),
            relative=self.relative.merge(other.relative),
        )

    def lines(self, style: Style) -> list[tuple[str, str]]:
        """Return titles and numbers: ``-`` of what means nothing, ``nan`` of an empty tensor."""
        named = (("Absolute", self.absolute), ("Relative", self.relative))
        return [
            (f"{word}{kind}Error", self._text(number, style))
            for kind, extent in named
            for word, number in (("Min", extent.least), ("Max", extent.most))
        ]

    def _text(self, number: Number, style: Style) -> str:
        if not self.count:
            return "nan"
        if number is None or self.of_truths:
            return "-"
        array = np.array([number], dtype=None if isinstance(number, float) else object)
        return joined([error_cells(array, style)], 1).decode("ascii")


NOTHING_SEEN = Extents()


def extents_of(elements: Elements) -> Extents:
    """Return the extents of some elements."""
    defined = elements.relative[~elements.undefined]
    return Extents(elements.size, _extent(elements.absolute), _extent(defined), elements.of_truths)


def _extent(errors: Any) -> Extent:
    if not errors.size:
        return Extent()
    least, most = errors.min(), errors.max()
    return Extent(*(number.item() if isinstance(number, np.generic) else number for number in (least, most)))
