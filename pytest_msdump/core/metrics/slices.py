"""Which elements of a tensor are one channel, and sums of squares of each: one bad channel shows in no other number."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.pointwise import Places
from pytest_msdump.core.metrics.rankings import Moduli
from pytest_msdump.core.metrics.sums import root, scale_exponent
from pytest_msdump.core.metrics.values import Doubles, inner
from pytest_msdump.core.model.comparison import SliceGap
from pytest_msdump.core.model.tensor import Sketch
from pytest_msdump.core.text import Message

# Of channels.
DEFAULT_AXIS = 1
# The distance of fewer elements is rather that of one of them. More slices would not stay in the cache.
_LEAST_ELEMENTS, _MOST_GROUPS = 16, 65536
# A slice that is smaller than this beside the others counts as if it were so large.
_LEAST_NORM = 1e-3
_NEARLY = 1 - 1e-9
# Sketches keep no more norms, each as a float32 of that of the tensor: rounded, and summed in another order.
_MOST_NORMS, _KEPT, _TINIEST = 256, 2.0**-23, 2.0**-126


class Grid(NamedTuple):
    """Where the slices along an axis are: a row of `row` elements, one behind the other in C order, has one of each."""

    step: int
    unit: int
    row: int
    groups: int
    rows: int

    def sizes(self) -> Doubles:
        """Return the number of elements of each group."""
        found = np.full(self.groups, float(self.unit * self.rows))
        found[-1] = (self.row - (self.groups - 1) * self.unit) * self.rows
        return found


def grid_of(shape: tuple[int, ...], axis: int | None) -> Grid | Message:
    """Return the slices of a tensor with elements, or why `worst_slice_error` does not apply to it."""
    rank, size = len(shape), math.prod(shape)
    if axis is None:
        if rank < 2:
            return Message("no_channels")
        axis = DEFAULT_AXIS
    if axis >= rank:
        return Message("no_such_axis", {"axis": axis, "n": rank})
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    step = -(-length // _MOST_GROUPS)
    if step * size // length < _LEAST_ELEMENTS:
        parameters = {"axis": axis, "n": size // length, "least": _LEAST_ELEMENTS}
        return Message("slices_too_small", parameters)
    row = length * inner
    return Grid(step, step * inner, row, length // step, size // row)


class SliceSums(NamedTuple):
    """Σ|l−r|² and Σ|r|² of each group, of which `exponents` powers of two were taken out."""

    apart: Doubles
    right: Doubles
    exponents: tuple[int, int] = (0, 0)

    def merge(self, other: SliceSums) -> SliceSums:
        """Return the sums of both parts together."""
        if self.exponents == other.exponents:
            return SliceSums(self.apart + other.apart, self.right + other.right, self.exponents)
        apart, of_apart = _plus((self.apart, self.exponents[0]), (other.apart, other.exponents[0]))
        right, of_right = _plus((self.right, self.exponents[1]), (other.right, other.exponents[1]))
        return SliceSums(apart, right, (of_apart, of_right))

    def worst(self, grid: Grid, dtypes: tuple[str, str]) -> tuple[float, int]:
        """Return the largest relative distance, and the number of the slice, of a group of them the first."""
        sizes = grid.sizes()
        share = _least_norm(dtypes) ** 2 / float(sizes.sum())
        least = np.maximum(self.right, float(self.right.sum()) * share * sizes)
        # Where a group's least is 0 beside the largest ones, so is all of it.
        ratios = np.divide(self.apart, least, out=np.zeros(grid.groups), where=least > 0.0)
        most = float(ratios.max())
        # The first one, also where the same numbers were added up in another order.
        place = int((ratios >= most * _NEARLY).argmax())
        return root(most, self.exponents[0] - self.exponents[1]), place * grid.step


def _least_norm(dtypes: tuple[str, str]) -> float:
    fact = DTYPES[coarser(*dtypes)]
    mantissa = (DTYPES[fact.component] if fact.component else fact).mantissa
    return max(_LEAST_NORM, 0.0 if mantissa is None else 2.0 ** -(mantissa + 1))


def _plus(one: tuple[Doubles, int], other: tuple[Doubles, int]) -> tuple[Doubles, int]:
    """Add numbers that are multiples of powers of two. Zeros have none of their own."""
    exponent = max((part[1] for part in (one, other) if part[0].any()), default=0)
    return np.ldexp(one[0], one[1] - exponent) + np.ldexp(other[0], other[1] - exponent), exponent


def sums_of(grid: Grid, apart: Moduli | None, right: Moduli, places: Places, size: int) -> SliceSums:
    """Return the sums of a block of `size` elements, of which those at `places` are finite."""
    found, exponents = [], []
    for moduli in (apart, right):
        if moduli is None:
            found.append(np.zeros(grid.groups))
            exponents.append(0)
            continue
        exponent = scale_exponent(moduli.peak)
        values = moduli.values * math.ldexp(1.0, -exponent) if exponent else moduli.values
        if places.kept is not None:
            everywhere = np.zeros(size)
            everywhere[places.kept] = values
            values = everywhere
        found.append(_squares(grid, values, places.start))
        exponents.append(2 * exponent)
    return SliceSums(found[0], found[1], (exponents[0], exponents[1]))


def _squares(grid: Grid, values: Doubles, start: int) -> Doubles:
    """Return the sums of squares of each group in a block."""
    found, size = np.zeros(grid.groups), values.size
    # Neighbours of one group are a run. Rows or runs that are whole are added up at once.
    length = grid.row if grid.unit == 1 else grid.unit
    head = min(-start % length, size)
    whole = head + (size - head) // length * length
    body = values[head:whole].reshape(-1, length)
    if grid.unit == 1:
        np.einsum("ij,ij->j", body, body, out=found)
        found[start % length :][:head] += np.square(values[:head])
        found[: size - whole] += np.square(values[whole:])
    elif grid.step == 1:
        # Half the time of einsum.
        each = np.matmul(body[:, None, :], body[:, :, None]).ravel()
        ends = [inner(part, part) for part in (values[:head], values[whole:])]
        runs = np.concatenate((ends[:1], each, ends[1:]))
        groups = (-(-start // length) - 1 + np.arange(runs.size)) % grid.groups
        found += np.bincount(groups, weights=runs, minlength=grid.groups)
    else:
        groups = np.minimum(np.arange(start, start + size) % grid.row // grid.unit, grid.groups - 1)
        found += np.bincount(groups, weights=np.square(values), minlength=grid.groups)
    return found


def sketched_grid(shape: tuple[int, ...], dtype: str) -> Grid | None:
    """Return the slices along the default axis whose norms a sketch has; ``None`` where there are no slices."""
    grid = grid_of(shape, None) if math.prod(shape) else None
    if not isinstance(grid, Grid):
        return None
    fact = DTYPES.get(dtype)
    parts = 2 if fact is not None and fact.kind == "complex" else 1
    return grid._replace(unit=parts * grid.unit, row=parts * grid.row)


def norm_count(grid: Grid) -> int:
    """Return how many norms a sketch has: of neighbouring groups together, so that they are few."""
    return -(-grid.groups // _together(grid))


def norms_of(grid: Grid, squares: Doubles, exponent: int = 0) -> Doubles:
    """Return the norms, of the sums of squares of each group, of which powers of two were taken out."""
    return np.ldexp(np.sqrt(_folded(grid, squares)), exponent // 2)


def least_error(grid: Grid, left: Sketch, right: Sketch, dtypes: tuple[str, str]) -> SliceGap | None:
    """Return a lower bound of `worst_slice_error` by the norms of slices, which both sides have."""
    if not right.norm or left.slices is None or right.slices is None:
        return None
    with np.errstate(all="ignore"):
        one, other, sizes = left.slices / right.norm, right.slices / right.norm, grid.sizes()
        floors = _least_norm(dtypes) ** 2 / float(sizes.sum()) * _folded(grid, sizes)
        squares, step = np.square(other * (1.0 + _KEPT) + _TINIEST), _together(grid)
        # The error of each slice is relative to the larger one of its norm and its floor.
        most = np.maximum(squares, floors) if step == 1 else squares + floors
        ratios = (np.abs(one - other) - _KEPT * (one + other) - _TINIEST) / np.sqrt(most)
    place = int(ratios.argmax())
    last = grid.row * grid.step // grid.unit if place == ratios.size - 1 else (place + 1) * step * grid.step
    norms = float(left.slices[place]), float(right.slices[place])
    return SliceGap(max(0.0, float(ratios[place])), place * step * grid.step, last - 1, *norms)


def _together(grid: Grid) -> int:
    return -(-grid.groups // _MOST_NORMS)


def _folded(grid: Grid, numbers: Doubles) -> Doubles:
    return np.add.reduceat(numbers, np.arange(0, grid.groups, _together(grid)))
