"""Count sketches: a few numbers of a tensor that give its distance from another one, with an interval.

A sketch is linear: the sketch of a difference is the difference of the sketches, and the Euclidean norm of a sketch
estimates that of the tensor (Charikar, Chen and Farach-Colton, 2002; Thorup and Zhang, 2012). Element i goes to one
bucket with one sign, which depend on i alone, so blocks of any size, numpy, the compiled kernel and a framework's own
operations give the same numbers. The construction adds whole rows of elements to whole rows of buckets: bucket and sign
of the elements in a row are drawn together, of the rows apart, and each sixteen rows are turned and signed once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from pytest_msdump.capabilities.statistics.tensor_statistics import Digests, Tally
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.c_kernel import CompiledSketch, SketchTables
from pytest_msdump.core.metrics.pointwise import Places
from pytest_msdump.core.metrics.rankings import Moduli
from pytest_msdump.core.metrics.slices import Grid, SliceSums, norm_count, norms_of, sketched_grid, sums_of
from pytest_msdump.core.metrics.values import Array, Doubles, numbers
from pytest_msdump.core.model.comparison import Interval
from pytest_msdump.core.model.tensor import Sketch, Statistic, Statistics, TensorView

# By buckets: a seed under which seventeen kinds of differences were estimated within the interval.
SEEDS = {1024: 4, 4096: 3}
BUCKETS = 1024

# Rows of as many elements as buckets make a chunk; after some chunks signs begin anew.
ROWS, TURNS = 16, 64
_SIGNS = 1 << 16
# Chunks that numpy adds up together, while they stay in the caches.
_AT_ONCE = 8
_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_STREAM = 0xD1342543DE82EF95

# The interval: three standard deviations, and more where few buckets hold most of the difference.
_DEVIATIONS, _FEW, _WIDEST = 3.0, 4.5, 0.4
# Buckets of a tensor whose norm is that of 64 elements or more lie within a few percent of it: sums in which three
# quarters cancel do not happen.
_FEW_ELEMENTS, _FARTHEST = 8.0, 2.0


@cache
def tables(buckets: int) -> SketchTables:
    """Return the tables of a sketch with so many buckets, a key of `SEEDS`."""
    seed = SEEDS[buckets]
    first, chunks, turns, places = (_mixed(_mixed(seed * _STREAM + stream)) for stream in (1, 2, 4, 5))
    words = _SIGNS // 64 + (TURNS + 1) * buckets // 64
    drawn = np.array([_mixed(first + number * _GOLDEN) for number in range(words)], "<u8")
    bits = np.unpackbits(drawn.view(np.uint8), bitorder="little")
    return SketchTables(
        1.0 - 2.0 * bits.astype(np.float64),
        np.array([((_mixed(turns + row * _GOLDEN) >> 32) * buckets) >> 32 for row in range(ROWS)], np.int64),
        np.array([_mixed(places + row * _GOLDEN) % _SIGNS for row in range(ROWS)], np.int64),
        chunks,
    )


@lru_cache(maxsize=4096)
def chunk_turn(start: int, chunk: int, buckets: int) -> tuple[int, float]:
    """Return by how many buckets a chunk is turned, and its sign; `start` is `SketchTables.chunks`."""
    drawn = _mixed(start + chunk * _GOLDEN)
    return ((drawn >> 32) * buckets) >> 32, -1.0 if drawn & 1 else 1.0


def add_rows(rows: Any, tables: SketchTables, first: int, made: Any) -> Any:
    """Add whole chunks (chunks × 16 × buckets), the first of which has this number, to `made` (chunks × 2 · buckets).

    None lies beyond a multiple of 64. Numpy's arrays or PyTorch's tensors, of which the signs then are one, too.
    """
    chunks, _, buckets = rows.shape
    for row, (turn, place) in enumerate(zip(tables.turns.tolist(), tables.places.tolist(), strict=True)):
        begin = first % TURNS * buckets + place
        signs = tables.signs[begin : begin + chunks * buckets].reshape(chunks, buckets)
        made[:, turn : turn + buckets] += rows[:, row] * signs
    return made


def _mixed(number: int) -> int:
    """Return splitmix64's output for a state (Steele, Lea and Flood, 2014)."""
    number = (number + _GOLDEN) & _WORD
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _WORD
    return number ^ (number >> 31)


class CountSketch:
    """A count sketch of a tensor, and its statistics. Its elements come in C order, in blocks of any size."""

    def __init__(self, buckets: int = BUCKETS, grid: Grid | None = None) -> None:
        self._buckets, self._grid = buckets, grid
        self._tables = tables(buckets)
        self._sums: Doubles = np.zeros(buckets)
        # One chunk: rows begin at any bucket, so it is twice as long, and folded at the end.
        self._chunk: Doubles = np.zeros(2 * buckets)
        self._elements = 0
        self._tally = Tally()
        none = np.zeros(grid.groups if grid else 0)
        self._slices = SliceSums(none, none)
        self._compiled: CompiledSketch | None = None

    def add(self, block: Array) -> None:
        """Add the next elements, of the type that the elements before them have."""
        if not self._elements:
            self._compiled = CompiledSketch.of(block, self._tables, self._sums, self._chunk, self._grid)
        if self._compiled is not None:
            self._compiled.add(block, self._elements)
            self._elements += block.size
            return
        # Numpy converts float16 slowly: once is enough.
        block = block.astype(np.float32) if block.dtype == np.float16 else numbers(block)
        with np.errstate(all="ignore"):
            values = self._tally.add(block)
        if values is None:
            values = block.astype(np.float64)
            values[~np.isfinite(values)] = 0.0
        elif self._grid is not None:
            moduli = Moduli(values, float(max(-(self._tally.minimum or 0), self._tally.maximum or 0)))
            found = sums_of(self._grid, None, moduli, Places(self._elements), values.size)
            self._slices = self._slices.merge(found)
        length = ROWS * self._buckets
        while values.size:
            chunk, place = divmod(self._elements, length)
            chunks = 0 if place else min(values.size // length, _AT_ONCE, TURNS - chunk % TURNS)
            added = chunks * length or min(values.size, self._buckets - place % self._buckets)
            if chunks:
                rows = values[:added].reshape(chunks, ROWS, self._buckets)
                made = add_rows(rows, self._tables, chunk, np.zeros((chunks, 2 * self._buckets)))
                for number, one in enumerate(made, chunk):
                    self._fold(one, number, self._sums)
            else:
                self._add_to_row(values[:added], chunk, *divmod(place, self._buckets))
            self._elements += added
            values = values[added:]

    def _add_to_row(self, values: Doubles, chunk: int, row: int, place: int) -> None:
        signs = chunk % TURNS * self._buckets + int(self._tables.places[row]) + place
        begin = int(self._tables.turns[row]) + place
        self._chunk[begin : begin + values.size] += values * self._tables.signs[signs : signs + values.size]
        if row == ROWS - 1 and place + values.size == self._buckets:
            self._fold(self._chunk, chunk, self._sums)
            self._chunk[:] = 0.0

    def _fold(self, made: Doubles, chunk: int, sums: Doubles) -> None:
        """Add one chunk to the buckets, turned and signed."""
        turn, sign = chunk_turn(self._tables.chunks, chunk, self._buckets)
        folded = sign * (made[: self._buckets] + made[self._buckets :])
        sums[turn:] += folded[: self._buckets - turn]
        sums[:turn] += folded[self._buckets - turn :]

    def values(self) -> Doubles:
        """Return the buckets, of the elements that were added until now."""
        summed: Doubles = self._sums.copy()
        self._fold(self._chunk, self._elements // (ROWS * self._buckets), summed)
        return summed

    def statistics(self) -> dict[str, Statistic]:
        """Return what `tensor_statistics` computes, but for the counts of negative and positive elements."""
        values = self._tally.values(self._elements) if self._compiled is None else self._compiled.statistics()
        return {name: value for name, value in values.items() if name not in ("negative_count", "positive_count")}

    def sketch(self) -> Sketch:
        """Return what is kept of the tensor."""
        if self._compiled is not None:
            finite, norm, sums = self._compiled.finite, self._compiled.finite_norm, (self._compiled.squares, 0)
        else:
            finite, norm = self._tally.finite.elements, self._tally.finite_norm
            sums = self._slices.right, self._slices.exponents[1]
        is_known = self._grid is not None and finite == self._elements
        return Sketch(self.values(), norm, norms_of(self._grid, *sums) if self._grid and is_known else None)


def sketch_of(
    view: TensorView, *, buckets: int = BUCKETS, digests: Sequence[str] = (), block_elements: int = 131072
) -> Statistics:
    """Compute statistics, digests and the sketch of a tensor in one pass, as `statistics_of` does.

    Complex numbers have `count` and digests only beside the sketch, which is of both their parts.
    """
    blocks = view.blocks(block_elements)
    values, sketch = sketch_blocks(blocks, view.dtype, view.shape, buckets=buckets, digests=digests)
    return Statistics(values, digits=None, sketch=sketch)


def sketch_blocks(
    blocks: Iterable[Array],
    dtype: str,
    shape: tuple[int, ...] = (),
    *,
    buckets: int = BUCKETS,
    digests: Sequence[str] = (),
) -> tuple[dict[str, Statistic], Sketch]:
    """Compute the same of blocks in C order that follow each other; slices have norms where the `shape` is given."""
    made, hashes, elements = CountSketch(buckets, sketched_grid(shape, dtype)), Digests(digests, dtype), 0
    is_complex = DTYPES[dtype].kind == "complex"
    for block in blocks:
        hashes.add(block)
        made.add(np.ascontiguousarray(block).view(block.real.dtype) if is_complex else block)
        elements += block.size
    values: dict[str, Statistic] = {"count": elements} if is_complex else made.statistics()
    return values | hashes.values(), made.sketch()


def packed(sketch: Sketch) -> Doubles:
    """Return a sketch as it is saved: the buckets, and behind them two norms of slices, as float32, in each number."""
    if sketch.slices is None or not math.isfinite(sketch.norm):
        return sketch.buckets
    norms = np.zeros(-(-sketch.slices.size // 2) * 2, "<f4")
    norms[: sketch.slices.size] = sketch.slices / (sketch.norm or 1.0)
    return np.concatenate([sketch.buckets, norms.view("<f8")])


def unpacked(
    values: Doubles, norm: float, shape: tuple[int, ...], dtype: str, *, peak: float = math.inf
) -> Sketch | None:
    """Return the sketch that was saved of such a tensor; ``None`` where it cannot be one."""
    grid = sketched_grid(shape, dtype)
    count = 0 if grid is None else norm_count(grid)
    size = values.size if values.size in SEEDS else values.size - -(-count // 2)
    if size not in SEEDS or not np.isfinite(values).all():
        return None
    slices: Doubles = values[size:].astype("<f8").view("<f4")[:count].astype(np.float64)
    if not ((slices >= 0.0) & (slices <= 1.0)).all():
        return None
    buckets = values[:size].copy()
    length = float(np.max(np.abs(buckets), initial=0.0))
    length *= float(np.sqrt(np.square(buckets / (length or 1.0)).sum()))
    if norm >= _FEW_ELEMENTS * peak and not norm / _FARTHEST <= length <= norm * _FARTHEST:
        return None
    return Sketch(buckets, norm, slices * norm if slices.size else None)


def distance(left: Doubles, right: Doubles) -> Interval:
    """Return the Euclidean norm of the difference of two tensors, by the buckets of their sketches."""
    difference = left - right
    peak = float(np.max(np.abs(difference), initial=0.0))
    if not peak:
        return Interval(0.0, 0.0, 0.0)
    squares = np.square(difference / peak)
    total = float(squares.sum())
    share = total * total / float(np.square(squares).sum())
    width = max(_DEVIATIONS * math.sqrt(2.0 / left.size), min(_WIDEST, _FEW / share))
    norm = peak * math.sqrt(total)
    return Interval(norm, norm / math.sqrt(1.0 + width), norm / math.sqrt(1.0 - width))


def metrics_of(left: Sketch, right: Sketch) -> dict[str, Interval]:
    """Return the metrics that sketches give: the relative Euclidean distance and the cosine, where they are defined."""
    # Norms alone are a bound, too.
    least = abs(left.norm - right.norm)
    apart = distance(left.buckets, right.buckets)
    apart = Interval(*(max(least, one) for one in apart))
    found: dict[str, Interval] = {}
    if right.norm or not left.norm:
        # Two tensors of zeros are equal, though 0 / 0 is nothing.
        found["relative_euclidean_distance"] = Interval(*(one / (right.norm or 1.0) for one in apart))
    if left.norm and right.norm and (ratio := left.norm / right.norm):
        gap, ends = least / right.norm, [one / right.norm for one in apart]
        # No square of them, which may overflow.
        value, high, low = (max(-1.0, 1.0 - (end - gap) * ((end + gap) / (2.0 * ratio))) for end in ends)
        found["cosine_similarity"] = Interval(value, low, high)
    return found
