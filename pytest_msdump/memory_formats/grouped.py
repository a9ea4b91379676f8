"""Weights of grouped convolutions in FRACTAL_Z: several groups share a block, so that channels fill it.

With G groups of N filters and C channels each, E groups lie side by side, where E is the lesser of G and ``lcm(lcm(C,
16) / C, lcm(N, 16) / N)``. Of E groups, filter n of group e is filter ``e * N + n`` of a weight of E * C channels, of
which it has its own C alone; the others are padding.

References
----------
The vendor's format conversion of grouped weights, corrected: its tool lets groups beyond the first E overwrite each
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.axes import ReshapedView
from pytest_msdump.memory_formats.blocks import Part, Placement, place
from pytest_msdump.memory_formats.held import held
from pytest_msdump.model.tensor import TensorSpec, TensorView

__all__ = ["GroupedPlacement", "GroupedView", "groups_side_by_side", "place_groups", "ungrouped"]

Array: TypeAlias = "npt.NDArray[Any]"
Shape = tuple[int, ...]

# So many elements of the wide weight are held at a time.
_WIDE_ELEMENTS = 2**20


def groups_side_by_side(groups: int, filters: int, channels: int, *, block: int = 16, rows: int = 16) -> int:
    """Return how many groups share blocks of `block` channels and `rows` filters.

    Examples
    --------
    >>> groups_side_by_side(48, 1, 1), groups_side_by_side(4, 16, 16), groups_side_by_side(2, 3, 5)
    (16, 1, 2)
    """
    return min(lcm(lcm(channels, block) // channels, lcm(filters, rows) // filters), groups)


class GroupedView:
    """A grouped weight, filters first, out of the wide one in which E groups lie side by side.

    Parameters
    ----------
    wide : TensorView
        Shape ``(ceil(G / E) * E * N, E * C, *rest)``.
    shape : tuple of int
        ``(G * N, C, *rest)``.
    groups : int
        G.
    together : int
        E.
    """

    def __init__(self, wide: TensorView, shape: tuple[int, ...], *, groups: int, together: int) -> None:
        filters, left_over = divmod(shape[0], groups)
        if left_over:
            raise TensorShapeError(f"{shape[0]} filters cannot be shared by {groups} groups")
        self._wide = wide
        self._shape = shape
        self._filters = filters
        self._together = together

    @property
    def spec(self) -> TensorSpec:
        """What the file holds, with the logical shape."""
        return replace(self._wide.spec, logical_shape=self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        return self._shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._wide.dtype

    @property
    def size(self) -> int:
        """Number of logical elements."""
        return prod(self._shape)

    def read(self, start: int, stop: int) -> Array:
        """Return logical elements `start` to `stop` in C order: of each filter its own group's channels."""
        row = prod(self._shape[1:])
        if start >= stop or not row:
            return self._wide.read(0, 0)
        first, last = start // row, -(-stop // row)
        count = max(1, _WIDE_ELEMENTS // (row * self._together))
        pieces = [self._rows(number, min(number + count, last), row) for number in range(first, last, count)]
        whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return whole[start - first * row : stop - first * row]

    def _rows(self, first: int, last: int, row: int) -> Array:
        """Return whole filters."""
        wide = self._together * row
        read = self._wide.read(first * wide, last * wide).reshape(last - first, self._together, row)
        filters = np.arange(first, last)
        mine: Array = read[filters - first, filters // self._filters % self._together]
        return mine.reshape(-1)

    def blocks(self, block_elements: int) -> Iterator[Array]:
        """Yield all elements, `block_elements` at a time."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return this weight with its axes in another order; reads all of it."""
        return held(self).permuted(axes)

    def close(self) -> None:
        """Give back the file."""
        self._wide.close()


class GroupedPlacement(NamedTuple):
    """Where the wide weight lies, and what it holds.

    `shape` is the grouped weight's, filters and channels first; `together` is how many groups lie side by side; `order`
    is how its axes are asked for.
    """

    placement: Placement
    shape: Shape
    groups: int
    together: int
    order: tuple[int, ...]


def place_groups(memory_format: str, stored: Shape, logical: Shape, letters: str, groups: int) -> GroupedPlacement:
    """Find out where a grouped weight lies; parameters as of `memory_formats.blocks.place`.

    Raises
    ------
    TensorShapeError
        The shapes contradict each other, the format, or the number of groups.
    """
    at = dict(zip(letters, logical, strict=False))
    # Asked before anything is divided: whether these axes and lengths can be at all.
    fits = len(stored) == 4 and sorted(letters) == sorted(MEMORY_FORMATS[memory_format].axes)
    if not fits or len(letters) != len(logical) or min((*stored, *logical, groups)) < 1:
        raise TensorShapeError(f"{memory_format} of stored shape {stored} cannot hold a weight of shape {logical}")
    filters, left_over = divmod(at["N"], groups)
    if left_over or not filters:
        raise TensorShapeError(f"{at['N']} filters cannot be shared by {groups} groups")
    together = groups_side_by_side(groups, filters, at["C"], block=stored[-1], rows=stored[-2])
    # Packs of groups follow each other in memory: as the outermost part of the first stored axis.
    packs = -(-groups // together)
    first, rest = divmod(stored[0], packs)
    if rest:
        raise TensorShapeError(f"{memory_format} of stored shape {stored} cannot hold {packs} packs of groups")
    names = "NC" + "".join(letter for letter in letters if letter not in "NC")
    spatial = tuple(at[letter] for letter in names[2:])
    wide = (together * filters, together * at["C"], *spatial)
    inner = place(memory_format, (first, *stored[1:]), wide, names)
    moved = tuple(Part(part.axis + 1, part.kind, part.size, part.block) for part in inner.parts)
    placement = Placement((packs, *inner.shape), (Part(0, "whole", packs), *moved))
    order = tuple(names.index(letter) for letter in letters)
    return GroupedPlacement(placement, (at["N"], at["C"], *spatial), groups, together, order)


def ungrouped(packed: TensorView, placed: GroupedPlacement) -> TensorView:
    """Take each group's own channels out of the wide weight, and bring the axes to their order."""
    packs, rows, *rest = packed.shape
    wide = ReshapedView(packed, (packs * rows, *rest))
    grouped = GroupedView(wide, placed.shape, groups=placed.groups, together=placed.together)
    return grouped if placed.order == tuple(range(len(placed.order))) else grouped.permuted(placed.order)
