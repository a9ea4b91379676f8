"""Statistics and sketches of PyTorch's tensors, computed on the device that they are on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from pytest_msdump.capabilities.record.sketching import decoded_blocks
from pytest_msdump.capabilities.record.torch_tensors import array_of, is_elsewhere, plain_numbers
from pytest_msdump.capabilities.statistics.count_sketch import (
    BUCKETS,
    ROWS,
    SEEDS,
    TURNS,
    add_rows,
    chunk_turn,
    sketch_blocks,
    tables,
)
from pytest_msdump.core.dtypes.arrays import array_to_save
from pytest_msdump.core.metrics.c_kernel import SketchTables
from pytest_msdump.core.metrics.slices import Grid, SliceSums, norms_of, sketched_grid
from pytest_msdump.core.metrics.sums import Moments, Sum, scale_exponent
from pytest_msdump.core.model.tensor import Sketch, Statistic
from pytest_msdump.metrics.statistics import Tally


def sketch_of_tensor(
    tensor: Any, *, buckets: int = BUCKETS, digests: Sequence[str] = ()
) -> tuple[dict[str, Statistic], Sketch]:
    """Return what `metrics.count_sketch.sketch_blocks` does of a tensor."""
    if is_elsewhere(tensor) and str(tensor.dtype) != "torch.uint64":
        try:
            return sketch_by_torch(tensor, buckets=buckets)
        except (NotImplementedError, RuntimeError, TypeError):
            pass
    values, logical = array_to_save(array_of(tensor))
    blocks, dtype = decoded_blocks(values, logical)
    return sketch_blocks(blocks, dtype, values.shape, buckets=buckets, digests=digests)


def sketch_by_torch(tensor: Any, *, buckets: int = BUCKETS) -> tuple[dict[str, Statistic], Sketch]:
    """Return the same by operations of PyTorch, on the tensor's device."""
    import torch

    plain = plain_numbers(tensor)
    flat = (torch.view_as_real(plain) if plain.is_complex() else plain).reshape(-1)
    signed = _tables(flat.device, buckets)
    sums, tally, length = flat.new_zeros(buckets, dtype=torch.float64), Tally(), ROWS * buckets
    grid = sketched_grid(tuple(plain.shape), str(plain.dtype).removeprefix("torch."))
    slices = SliceSums(np.zeros(0), np.zeros(grid.groups if grid else 0))
    # Signs begin anew after `TURNS` chunks; those of a step are 8 MiB of float64.
    step = TURNS * ROWS * min(SEEDS)
    for start in range(0, flat.numel(), step):
        piece = flat[start : start + step]
        first, chunks = start // length, -(-piece.numel() // length)
        values = flat.new_zeros(chunks * length, dtype=torch.float64)
        exponent = _describe(values[: piece.numel()].copy_(piece), piece, tally)
        if grid is not None:
            slices = slices.merge(_slices(values[: piece.numel()], start, grid, exponent))
        made = flat.new_zeros((chunks, 2 * buckets), dtype=torch.float64)
        add_rows(values.view(chunks, ROWS, buckets), signed, first, made)
        drawn = [chunk_turn(signed.chunks, number, buckets) for number in range(first, first + chunks)]
        turns, signs = torch.tensor(drawn, dtype=torch.float64).to(flat.device).split(1, 1)
        places = (torch.arange(buckets, device=flat.device) - turns.long()) % buckets
        sums += ((made[:, :buckets] + made[:, buckets:]).gather(1, places) * signs).sum(0)
    found = tally.values(plain.numel())
    names = {"count"} if plain.is_complex() else found.keys() - {"negative_count", "positive_count"}
    is_known = grid is not None and tally.finite.elements == flat.numel()
    norms = norms_of(grid, slices.right, slices.exponents[1]) if grid and is_known else None
    return {name: found[name] for name in found if name in names}, Sketch(sums.cpu().numpy(), tally.finite_norm, norms)


@cache
def _tables(device: Any, buckets: int) -> SketchTables:
    """Return the tables with the signs on a device."""
    import torch

    found = tables(buckets)
    return found._replace(signs=torch.from_numpy(found.signs).to(device))


def _slices(values: Any, start: int, grid: Grid, exponent: int) -> SliceSums:
    """Return the sums of squares of slices, of elements from `start` on, of which a power of two is taken out."""
    import torch

    places = torch.arange(start, start + values.numel(), device=values.device).remainder_(grid.row)
    groups = places.div_(grid.unit, rounding_mode="floor").clamp_(max=grid.groups - 1)
    squares = (values * math.ldexp(1.0, -exponent)).square_()
    found = values.new_zeros(grid.groups).index_add_(0, groups, squares).cpu().numpy()
    return SliceSums(np.zeros(0), found, (0, 2 * exponent))


def _describe(values: Any, piece: Any, tally: Tally) -> int:
    """Add elements, given as float64, to the statistics, and put zeros where they are not finite."""
    import torch

    finite, low, high = values, *(number.item() for number in values.aminmax())
    if not math.isfinite(low + high):
        tally.nan += int(values.isnan().sum())
        tally.negative_inf += int(values.isneginf().sum())
        tally.positive_inf += int(values.isposinf().sum())
        finite = values[values.isfinite()]
        values.nan_to_num_(0.0, 0.0, 0.0)
        if not finite.numel():
            return 0
        low, high = (number.item() for number in finite.aminmax())
    elif not piece.dtype.is_floating_point:
        low, high = (int(number) for number in (piece if piece.dtype == torch.int64 else values).aminmax())
    tally.zero += finite.numel() - int(finite.count_nonzero())
    exponent = scale_exponent(float(max(-low, high)))
    if exponent:
        finite = finite * math.ldexp(1.0, -exponent)
    total, squares = float(finite.sum()), float(finite.dot(finite))
    deviations = max(squares - total / finite.numel() * total, 0.0)
    sums = Sum(total, 0.0, exponent), Sum(deviations, 0.0, 2 * exponent)
    tally.add_part(low, high, Moments(finite.numel(), *sums, float(low), float(high)))
    return exponent
