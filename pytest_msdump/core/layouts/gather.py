"""A tensor in a device's memory format, read as its logical one: in windows that a bounded piece of the file covers.

A window is a run of the logical order: some leading indexes fixed, a range of the next axis, all of the rest. What it
needs of the stored axes is a box, which is read in runs as long as the stored order allows, brought to the logical
order by one transposing copy, and cut where padding begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product
from math import lcm, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.core.layouts.axes import ReshapedView
from pytest_msdump.core.layouts.blocks import Move, Part, Placement, held, place
from pytest_msdump.core.model.tensor import ForwardingView, TensorView
from pytest_msdump.core.pages import SMALL_BYTES, pages

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

# So many bytes of stored elements are held for a window, twice as many where one block is no less; its logical copy
# takes at most as many again.
WINDOW_BYTES = 2**23

# Asking a file once more costs as much time as reading so many elements that are not needed.
_ELEMENTS_PER_READ = 4096


class _Window(NamedTuple):
    """Logical elements `start` to `stop`: `prefix` indexes, then `low` to `high` of the next axis, then all."""

    start: int
    stop: int
    prefix: Shape
    low: int
    high: int


class BlockedView(ForwardingView):
    """The logical elements of a stored tensor, without padding."""

    def __init__(
        self, view: TensorView, placement: Placement, *, order: Shape | None = None, window_elements: int | None = None
    ) -> None:
        self._order = placement.order if order is None else order
        super().__init__(view, tuple(placement.shape[axis] for axis in self._order))
        self._placement = placement
        fact = DTYPES.get(view.dtype)
        # A type that the table does not know may take 8 bytes.
        element_bytes = DTYPES[fact.native].bits // 8 if fact is not None and fact.native else 8
        self._limit = window_elements or WINDOW_BYTES // element_bytes
        self._is_usual = order is None
        self._held: tuple[_Window, Array] | None = None
        self._all: Array | None = None

    def read(self, start: int, stop: int) -> Array:
        """Return logical elements `start` to `stop` in C order."""
        if start == 0 and self._is_usual and stop == self.size and self._placement.stored_elements <= self._limit:
            if self._all is None:
                self._all = self._whole()
            return self._all
        pieces: list[Array] = []
        while start < stop:
            if self._held is None or not self._held[0].start <= start < self._held[0].stop:
                window = self._around(start)
                # Let go of the last window before the next is made.
                self._held = None
                self._held = (window, self._gathered(window))
            window, values = self._held
            end = min(stop, window.stop)
            pieces.append(values[start - window.start : end - window.start])
            start = end
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else self._view.read(0, 0)

    def permuted(self, axes: Shape) -> TensorView:
        """Return this tensor with its logical axes in another order; reads no data."""
        order = tuple(self._order[axis] for axis in axes)
        return BlockedView(self._view, self._placement, order=order, window_elements=self._limit)

    @cached_property
    def _strides(self) -> Shape:
        return tuple(prod(self._placement.sizes[number + 1 :]) for number in range(len(self._placement.sizes)))

    @cached_property
    def _steps(self) -> Shape:
        """How many logical elements one step of each axis is."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def _whole(self) -> Array:
        axes, moves = self._placement.whole
        stored = self._view.read(0, self._placement.stored_elements).reshape(self._placement.sizes).transpose(axes)
        if len(moves) == 1 and stored.nbytes <= SMALL_BYTES:
            # One copy in logical order fills all of it.
            whole: Array = stored[moves[0].stored].flatten()
            return whole
        return _copied(stored, moves, self.shape)

    def _around(self, element: int) -> _Window:
        """Choose the window that has an element: as many leading indexes fixed as the limit needs."""
        prefix: Shape = ()
        for axis, length in enumerate(self.shape):
            index = element // self._steps[axis] % length
            block = max((part.block for part in self._placement.parts if part.axis == self._order[axis]), default=1)
            first = index // block * block
            unit = prod(stop - start for start, stop in self._box(prefix, first, first + 1))
            if unit <= 2 * self._limit or axis == len(self.shape) - 1:
                # Whole blocks, as many as fit.
                width = max(1, self._limit // max(1, unit)) * block
                low = index // width * width
                high = min(low + width, self.shape[axis])
                start = sum(at * step for at, step in zip(prefix, self._steps, strict=False))
                step = self._steps[axis]
                return _Window(start + low * step, start + high * step, prefix, low, high)
            prefix = (*prefix, index)
        return _Window(0, 1, (), 0, 1)

    def _box(self, prefix: Shape, low: int, high: int) -> list[tuple[int, int]]:
        """Return the range of each stored axis that holds a window. Places in a block are always taken whole."""
        wanted = {self._order[place]: (index, index + 1) for place, index in enumerate(prefix)}
        if len(prefix) < len(self._order):
            wanted[self._order[len(prefix)]] = (low, high)
        box = []
        for part in self._placement.parts:
            first, last = wanted.get(part.axis, (0, self._placement.shape[part.axis]))
            if part.kind == "inner":
                first, last = 0, part.size
            elif part.kind == "outer":
                first, last = first // part.block, -(-last // part.block)
            box.append((first, last))
        return box

    def _gathered(self, window: _Window) -> Array:
        box = self._box(window.prefix, window.low, window.high)
        stored = self._read_box(box).reshape([last - first for first, last in box])
        axes = [number for axis in self._order for number in self._placement.parts_of(axis)]
        ranges = [self._wanted(window, place, box) for place in range(len(self._order))]
        moves = self._placement.moves(self._order, ranges)
        return _copied(stored.transpose(axes), moves, [high - low for low, high in ranges])

    def _wanted(self, window: _Window, place: int, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return which of the elements of a logical axis that were read belong to the window."""
        if place < len(window.prefix):
            low, high = window.prefix[place], window.prefix[place] + 1
        elif place == len(window.prefix):
            low, high = window.low, window.high
        else:
            low, high = 0, self.shape[place]
        parts, places = self._placement.parts, self._placement.parts_of(self._order[place])
        # The first part is the outer or the whole one; an axis that is one block only begins at 0.
        first = places[0] if places else None
        begin = 0 if first is None or parts[first].kind == "inner" else box[first][0] * parts[first].block
        return low - begin, high - begin

    def _read_box(self, box: Sequence[tuple[int, int]]) -> Array:
        """Read a box of the stored axes, in as few runs as pays; may return the buffer of the view below."""
        axis, run = self._level(box)
        first = box[axis][0] * self._strides[axis] if box else 0
        inside = (slice(None), *(slice(*ends) for ends in box[axis + 1 :]))
        lengths = (-1, *self._placement.sizes[axis + 1 :])
        steps = [
            [index * stride for index in range(*ends)] for ends, stride in zip(box[:axis], self._strides, strict=False)
        ]
        count = prod(map(len, steps))
        out: Array | None = None
        for number, offsets in enumerate(product(*steps)):
            start = first + sum(offsets)
            piece = self._view.read(start, start + run).reshape(lengths)[inside]
            if count == 1:
                return piece
            if out is None:
                out = np.empty((count, *piece.shape), piece.dtype)
            out[number] = piece
        return self._view.read(0, 0) if out is None else out

    def _level(self, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Choose the stored axis of which a range is one run, and its length; axes behind it are read whole and cut."""
        if not box:
            return 0, 1
        inmost = len(box) - 1
        while inmost > 0 and box[inmost] == (0, self._placement.sizes[inmost]):
            inmost -= 1
        best, least = inmost, None
        for axis in range(inmost + 1):
            run = (box[axis][1] - box[axis][0]) * self._strides[axis]
            cost = prod(last - first for first, last in box[:axis]) * (_ELEMENTS_PER_READ + run)
            if (run <= self._limit or axis == inmost) and (least is None or cost < least):
                best, least = axis, cost
        return best, (box[best][1] - box[best][0]) * self._strides[best]


def _copied(stored: Array, moves: Iterable[Move], shape: Sequence[int]) -> Array:
    """Return elements in logical order, in memory of their own, as what was read may be a buffer; without padding."""
    out = pages(prod(shape), stored.dtype)
    logical = out.reshape(shape)
    for move in moves:
        source = stored[move.stored]
        # Axes are only divided, so that this is a view.
        logical[move.logical].reshape(source.shape)[...] = source
    return out


# -- Grouped weights: in FRACTAL_Z several groups share a block, so that channels fill it ------------------------------

# So many elements of the wide weight are held at a time.
_WIDE_ELEMENTS = 2**20


def groups_side_by_side(groups: int, filters: int, channels: int, *, block: int = 16, rows: int = 16) -> int:
    """Return how many groups share blocks of `block` channels and `rows` filters."""
    return min(lcm(lcm(channels, block) // channels, lcm(filters, rows) // filters), groups)


class GroupedView(ForwardingView):
    """A grouped weight of shape ``(G * N, C, *rest)``, filters first."""

    def __init__(self, wide: TensorView, shape: Shape, *, groups: int, together: int) -> None:
        filters, left_over = divmod(shape[0], groups)
        if left_over:
            raise TensorShapeError(f"{shape[0]} filters cannot be shared by {groups} groups")
        super().__init__(wide, shape)
        self._filters = filters
        self._together = together

    def read(self, start: int, stop: int) -> Array:
        """Return logical elements `start` to `stop` in C order: of each filter its own group's channels."""
        row = prod(self.shape[1:])
        if start >= stop or not row:
            return self._view.read(0, 0)
        first, last = start // row, -(-stop // row)
        count = max(1, _WIDE_ELEMENTS // (row * self._together))
        pieces = [self._rows(number, min(number + count, last), row) for number in range(first, last, count)]
        whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return whole[start - first * row : stop - first * row]

    def _rows(self, first: int, last: int, row: int) -> Array:
        wide = self._together * row
        read = self._view.read(first * wide, last * wide).reshape(last - first, self._together, row)
        filters = np.arange(first, last)
        mine: Array = read[filters - first, filters // self._filters % self._together]
        return mine.reshape(-1)

    def permuted(self, axes: Shape) -> TensorView:
        """Return this weight with its axes in another order; reads all of it."""
        return held(self).permuted(axes)


class GroupedPlacement(NamedTuple):
    """Where the wide weight lies, and what it holds."""

    placement: Placement
    shape: Shape
    groups: int
    together: int
    order: Shape


def place_groups(memory_format: str, stored: Shape, logical: Shape, letters: str, groups: int) -> GroupedPlacement:
    """Find out where a grouped weight lies; parameters as of `layouts.blocks.place`, which raises the same."""
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
