"""The view of shards as the one tensor that they were cut from. Memory is bounded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.shards.model import Segment, ShardLayout, TokenRuns, segments_of
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec, TensorView
from pytest_msdump.core.text import Message, Parameter

Array = npt.NDArray[Any]

# Sums of shards, by kind of their type: those of integers are exact.
_SUMMED_AS = {"f": np.float64, "c": np.complex128}


class _Box(NamedTuple):
    """Elements side by side in the whole: of one index of each axis before `axis`, `low` to `high` along it."""

    prefix: tuple[int, ...]
    axis: int
    low: int
    high: int


class ShardedView(TensorView):
    """Shards as the tensor that they were cut from (a `model.tensor.TensorView`).

    Parameters
    ----------
    views : sequence of TensorView
        The shards in their logical shapes, in the order of ``layout.grid``.
    layout : ShardLayout
        How the tensor lies on its mesh.

    Raises
    ------
    TensorShapeError
        The shards' shapes or types do not make one tensor.

    Notes
    -----
    A read asks each shard for one range of rows, so where the outermost axis is cut it reads what it returns and no
    more. Shards that are to be added are added in float64.
    """

    def __init__(self, views: Sequence[TensorView], layout: ShardLayout) -> None:
        self._views, self._layout = tuple(views), layout
        # An axis of length 1 in front makes a whole tensor a box like any other, a 0-d one included.
        self._grid = (1, *layout.grid[:-1])
        lengths = self._lengths()
        self._segments = (
            (Segment(0, 1, 0, 0),),
            *(
                segments_of(
                    dim, local, layout.lengths if any(cut.packed for cut in dim.cuts) else (), pick=layout.pick or 0
                )
                for dim, local in zip(layout.dims, lengths[1:], strict=True)
            ),
        )
        self._starts = tuple([segment.start for segment in axis] for axis in self._segments)
        self._by_part = tuple(
            tuple(tuple(one for one in axis if one.part == part) for part in range(parts))
            for axis, parts in zip(self._segments, self._grid, strict=True)
        )
        self._local = lengths
        self._whole = tuple(sum(segment.length for segment in axis) for axis in self._segments)
        self._native = self._views[0].read(0, 0).dtype
        self._sum = np.dtype(_SUMMED_AS.get(self._native.kind, self._native))

    @property
    def spec(self) -> TensorSpec:
        """What the first shard is, with the shape of the whole."""
        trailing = sum(view.spec.trailing_bytes for view in self._views)
        spec = replace(self._views[0].spec, shape=self.shape, logical_shape=self.shape)
        return replace(spec, memory_format=None, trailing_bytes=trailing)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole tensor."""
        return self._whole[1:]

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` in C order of `shape`: 1-D, native."""
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"elements {start} to {stop} of shards asked for, together they have {self.size}")
        out = np.empty(stop - start, self._native)
        place = 0
        for box in self._boxes(start, stop):
            shape = (box.high - box.low, *self._whole[box.axis + 1 :])
            count = prod(shape)
            self._fill(out[place : place + count].reshape(shape), box)
            place += count
        return out

    def shards_at(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the shards that an element of the whole is made of."""
        parts = [self._find(axis, place)[0] for axis, place in enumerate((0, *index))]
        return tuple(self._numbers(parts))

    def permuted(self, axes: tuple[int, ...]) -> ShardedView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data."""
        order = tuple(axis % len(self.shape) for axis in axes)
        grid = np.arange(len(self._views)).reshape(self._layout.grid)
        moved = grid.transpose(*order, len(order)).ravel()
        layout = replace(self._layout, dims=tuple(self._layout.dims[axis] for axis in order))
        return ShardedView([self._views[number].permuted(order) for number in moved], layout)

    def close(self) -> None:
        """Close all shards."""
        for view in self._views:
            view.close()

    def _lengths(self) -> tuple[tuple[int, ...], ...]:
        """Return the lengths of the parts of each axis; refuse shards that disagree about them."""
        dims, first = self._layout.dims, self._views[0]
        said: dict[str, Parameter] = {"dims": self._layout.text, "shape": first.shape}
        if len(first.shape) != len(dims) or any(
            dim.name == "1" and length != 1 for dim, length in zip(dims, first.shape, strict=True)
        ):
            raise TensorShapeError(Message("shards_of_other_rank", said))
        if self._layout.grid[-1] > 1 and first.dtype == "bool":
            raise TensorShapeError(Message("shards_not_added", {"dtype": first.dtype}))
        lengths = [[-1] * parts for parts in self._grid]
        for number, view in enumerate(self._views):
            parts = np.unravel_index(number, (*self._grid, self._layout.grid[-1]))[:-1]
            shape = (1, *view.shape)
            fits = view.dtype == first.dtype and len(shape) == len(lengths)
            for axis, part in enumerate(map(int, parts)):
                if fits and lengths[axis][part] in (-1, shape[axis]):
                    lengths[axis][part] = shape[axis]
                else:
                    fits = False
            if not fits:
                said |= {"other": view.shape, "dtypes": (first.dtype, view.dtype)}
                raise TensorShapeError(Message("shards_do_not_fit", said))
        return tuple(map(tuple, lengths))

    def _boxes(self, start: int, stop: int) -> Iterator[_Box]:
        """Cut a range into boxes, each as large as it can be."""
        inner = [prod(self._whole[axis + 1 :]) for axis in range(len(self._whole))]
        while start < stop:
            axis = next(axis for axis, step in enumerate(inner) if start % step == 0 and start + step <= stop)
            step = inner[axis]
            prefix = tuple(start // inner[outer] % self._whole[outer] for outer in range(axis))
            low = start // step % self._whole[axis]
            high = min(self._whole[axis], low + (stop - start) // step)
            yield _Box(prefix, axis, low, high)
            start += (high - low) * step

    def _fill(self, target: Array, box: _Box) -> None:
        """Fill one box: read the rows that each shard has of it, and put them where they belong."""
        found = [self._find(axis, place) for axis, place in enumerate(box.prefix)]
        outer, row = [part for part, _ in found], 0
        for (part, place), axis in zip(found, range(box.axis), strict=True):
            row = row * self._local[axis][part] + place
        trailing, every = range(box.axis + 1, len(self._grid)), slice(None)
        for rows in self._overlapping(box):
            length = self._local[box.axis][rows.part]
            begin = row * length + rows.local
            band = target[rows.start - box.low : rows.start - box.low + rows.length]
            for parts in product(*(range(self._grid[axis]) for axis in trailing)):
                shape = [self._local[axis][part] for axis, part in zip(trailing, parts, strict=True)]
                step = prod(shape)
                numbers = self._numbers([*outer, rows.part, *parts])
                values = self._read(numbers, begin * step, (begin + rows.length) * step).reshape(rows.length, *shape)
                pieces = [self._by_part[axis][part] for axis, part in zip(trailing, parts, strict=True)]
                for segments in product(*pieces):
                    there = (every, *(slice(one.start, one.start + one.length) for one in segments))
                    here = (every, *(slice(one.local, one.local + one.length) for one in segments))
                    # A sum in float64 may be beyond the type of its terms.
                    with np.errstate(over="ignore", invalid="ignore"):
                        band[there] = values[here]

    def _overlapping(self, box: _Box) -> Iterator[Segment]:
        """Yield what each part has of a box along its axis."""
        segments = self._segments[box.axis]
        for one in segments[bisect_right(self._starts[box.axis], box.low) - 1 :]:
            if one.start >= box.high:
                return
            low, high = max(one.start, box.low), min(one.start + one.length, box.high)
            yield Segment(low, high - low, one.part, one.local + low - one.start)

    def _find(self, axis: int, place: int) -> tuple[int, int]:
        """Return the part that holds an index of an axis, and its index there."""
        segment = self._segments[axis][bisect_right(self._starts[axis], place) - 1]
        return segment.part, segment.local + place - segment.start

    def _numbers(self, parts: Sequence[int]) -> range:
        number = 0
        for part, count in zip(parts, self._grid, strict=True):
            number = number * count + part
        added = self._layout.grid[-1]
        return range(number * added, (number + 1) * added)

    def _read(self, numbers: range, start: int, stop: int) -> Array:
        first = self._views[numbers[0]].read(start, stop)
        if len(numbers) == 1:
            return first
        total = first.astype(self._sum)
        for number in numbers[1:]:
            total += self._views[number].read(start, stop)
        return total


# The view of the tokens that are to be compared: without padding, and through all steps of a sequence.


def begins_with_tokens(views: Sequence[TensorView], tokens: TokenRuns) -> bool:
    """Whether tensors of all steps are of one kind and begin with the dimensions of the ids."""
    axes = len(tokens.shapes[0])
    kinds = {(view.dtype, view.shape[axes:]) for view in views}
    return len(kinds) == 1 and [view.shape[:axes] for view in views] == [*tokens.shapes]


class TokenView(TensorView):
    """The tokens of tensors that are to be compared, one after the other along the first axis.

    Parameters
    ----------
    views : sequence of TensorView
        The tensor of each step; one where all tokens are in one.
    tokens : TokenRuns
        Which tokens, and their order.
    """

    def __init__(self, views: Sequence[TensorView], tokens: TokenRuns) -> None:
        self._views, self._tokens, self._axes = tuple(views), tokens, len(tokens.shapes[0])
        self._rest = views[0].shape[self._axes :]
        # Where each run begins among the tokens compared, and each step among all.
        self._starts = [0, *accumulate(length for _, length in tokens.runs)]
        self._steps = [0, *accumulate(map(prod, tokens.shapes))]

    @property
    def spec(self) -> TensorSpec:
        """What the first file holds, with the shape of what is compared."""
        return replace(self._views[0].spec, shape=self.shape, logical_shape=self.shape, memory_format=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of tokens, and the dimensions behind them."""
        return self._starts[-1], *self._rest

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` in C order."""
        out = np.empty(stop - start, self._views[0].read(0, 0).dtype)
        width, place = prod(self._rest), start
        while place < stop:
            run = bisect_right(self._starts, place // width) - 1
            until = min(stop, self._starts[run + 1] * width)
            first = self._tokens.runs[run][0]
            step = self._step_of(first)
            shift = (first - self._steps[step] - self._starts[run]) * width
            out[place - start : until - start] = self._views[step].read(place + shift, until + shift)
            place = until
        return out

    def source_of(self, index: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """Return of which step's tensor an element is, and its index there."""
        run = bisect_right(self._starts, index[0]) - 1
        token = self._tokens.runs[run][0] + index[0] - self._starts[run]
        step = self._step_of(token)
        there = np.unravel_index(token - self._steps[step], self._tokens.shapes[step])
        return step, (*map(int, there), *index[1:])

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Return these tokens with the axes behind them in another order; tokens stay the first axis."""
        order = tuple(axis % len(self.shape) for axis in axes)
        if order[0]:
            raise TensorShapeError(Message("tokens_come_first"))
        inner = (*range(self._axes), *(axis + self._axes - 1 for axis in order[1:]))
        return TokenView([view.permuted(inner) for view in self._views], self._tokens)

    def close(self) -> None:
        """Close the tensors of all steps."""
        for view in self._views:
            view.close()

    def _step_of(self, token: int) -> int:
        return bisect_right(self._steps, token) - 1
