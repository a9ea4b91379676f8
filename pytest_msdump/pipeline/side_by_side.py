"""Usual pairs of one kind, measured by numpy some at a time; see `pipeline.alike`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_msdump.memory_formats.stacked import Stacked
from pytest_msdump.metrics.rows import Rows
from pytest_msdump.metrics.terms import KINDS

if TYPE_CHECKING:
    from pytest_msdump.memory_formats.blocks import Placement
    from pytest_msdump.metrics.terms import Terms
    from pytest_msdump.model.numbers import Numbers
    from pytest_msdump.pipeline.alike import Contents

__all__ = ["SideBySide"]


class SideBySide:
    """Measures pairs of a kind.

    Parameters
    ----------
    rows : Rows
        Does the arithmetic.
    left, right : Stacked
        Bring the elements of a side into rows.
    """

    def __init__(self, rows: Rows, left: Stacked, right: Stacked) -> None:
        self._rows, self._left, self._right = rows, left, right

    @classmethod
    def of(
        cls, terms: Terms, shape: tuple[int, ...], left: Placement | None, right: Placement | None
    ) -> SideBySide | None:
        """Return who measures such pairs; ``None`` where they are too large for it."""
        rows, types = Rows.of(terms, shape), (KINDS[terms[0]], KINDS[terms[1]])
        return None if rows is None else cls(rows, Stacked(types[0], shape, left), Stacked(types[1], shape, right))

    def numbers(self, pairs: Sequence[Contents]) -> Iterator[tuple[int, Numbers] | None]:
        """Yield for each pair what `_sweep.Alike.numbers` returns."""
        for first in range(0, len(pairs), self._rows.together):
            some = pairs[first : first + self._rows.together]
            left = self._left.rows([(content, start) for content, start, _, _ in some])
            right = self._right.rows([(content, start) for _, _, content, start in some])
            yield from self._rows.numbers(left, right)
