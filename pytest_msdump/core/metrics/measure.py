"""The streaming loop: both sides block by block, and a second time for the KL divergence, which needs their ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from ctypes import CDLL
from types import MappingProxyType

import numpy as np

from pytest_msdump.core import ports
from pytest_msdump.core.facts.metrics import NORM_METRICS
from pytest_msdump.core.metrics.c_kernel import CompiledDivergence, CompiledSums
from pytest_msdump.core.metrics.coarser import CoarserValues
from pytest_msdump.core.metrics.definitions import Totals, define, unravel, vendor_numbers
from pytest_msdump.core.metrics.dominated import find_gaps, is_nothing, is_share, others_of
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.metrics.numpy_kernel import (
    NO_DIVERGENCE,
    NOTHING,
    Partial,
    Span,
    Task,
    divergence_of_block,
    measure_block,
)
from pytest_msdump.core.metrics.pointwise import NO_CLASSES
from pytest_msdump.core.metrics.rankings import Tolerance
from pytest_msdump.core.metrics.slices import Grid, grid_of
from pytest_msdump.core.metrics.values import Array, Block, Blocks, Workspace
from pytest_msdump.core.model.comparison import Comparison, Dominated, Nonfinite, WorstElement
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message

# Blocks of a large tensor stay in a core's second cache from reading to measuring; a tensor of up to `_HELD_ELEMENTS`
# is read once for both passes.
_BLOCK_ELEMENTS, _HELD_ELEMENTS = 2**16, 2**18

_NO_NONFINITE = Nonfinite()

# Half as many would let the buffers stay in a smaller cache, but numpy's calls then take longer than that saves.
_TILE_ELEMENTS = 2**16


def measure(
    left: TensorView,
    right: TensorView,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    block_elements: int | None = None,
    worst: int = 5,
    without: Mapping[str, str] = MappingProxyType({}),
    slice_axis: int | None = None,
    units: bool = True,
) -> Comparison:
    """Measure two tensors of one logical shape: by every metric of `facts.metrics`, but for those in `without`.

    The tolerance is for `allclose` and for the ratio of the `worst` elements. `block_elements` are held at a time: by
    default all of a tensor of up to 262,144, and 65,536 of a larger one. Only the last bits of sums depend on it.
    `worst_slice_error` is of slices along `slice_axis`, by default the second axis. Without `units` nothing is measured
    in units of the last place, which spares a seventh of the time. Without `kl_divergence` the data is read once. Other
    metrics than counts are taken over the positions where both sides are finite. ValueError where the shapes differ, a
    tolerance is negative or not finite, or `block_elements` is below 1.

    Sums are taken in float64; integers are compared, and their |l−r| summed, exactly. Where relative errors leave
    elements out (right = 0 ≠ left) `Comparison.right_zero_mismatch` counts them, and `Comparison.vendor` has the
    vendor's numbers, which count them as 0.
    """
    shape, size = left.shape, left.size
    if shape != right.shape:
        raise ValueError(f"cannot measure shape {shape} against {right.shape}: bring both to one shape first")
    if block_elements is None:
        block_elements = size if 0 < size <= _HELD_ELEMENTS else _BLOCK_ELEMENTS
    if block_elements < 1:
        raise ValueError(f"block_elements is {block_elements}; it has to be at least 1")
    if not (0.0 <= rtol < math.inf and 0.0 <= atol < math.inf):
        raise ValueError(f"rtol is {rtol} and atol is {atol}; both have to be finite and not negative")
    grid: Grid | Message | None = None
    if size and "worst_slice_error" not in without:
        grid = grid_of(shape, slice_axis)
    slices = grid if isinstance(grid, Grid) else None
    task = Task(left.dtype, right.dtype, Tolerance(rtol, atol), worst, slices, units)
    blocks: Blocks | tuple[Block] = (
        ((0, left.read(0, size), right.read(0, size)),)
        if 0 < size <= block_elements
        else Blocks(left, right, block_elements)
    )
    library, workspace = choose_kernel().library, Workspace()
    coarser = CoarserValues(task.left), CoarserValues(task.right)
    partial = _measured_once(blocks, task, library, workspace, coarser)
    divergence = None if "kl_divergence" in without else _second_pass(blocks, partial, library, workspace)
    kinds = coarser[0].found(partial.left), coarser[1].found(partial.right)
    no_slices = grid if isinstance(grid, Message) else None
    dominated = _dominated(left, right, blocks, partial, block_elements, without)
    return _comparison(Totals(task, partial, shape, divergence, without, no_slices), kinds, dominated)


def _dominated(
    left: TensorView,
    right: TensorView,
    blocks: Iterable[Block],
    whole: Partial,
    block_elements: int,
    without: Mapping[str, str],
) -> Iterator[Dominated]:
    """Yield what dominates all other elements, with the metrics of these alone."""
    # A mask may be −Inf in places and −1e9 in others: together they are its share.
    infinite = whole.classes.inf_both
    for gap in find_gaps(blocks, whole):
        near = max(whole.right[0].minimum, whole.right[0].maximum, key=abs)
        if not is_share(gap.elements + infinite, whole.finite + infinite):
            yield Dominated("outliers", gap.elements, near, gap.above, {})
            continue
        others = others_of(left, right, gap.above)
        task = Task(others[0].dtype, others[1].dtype, worst=0, units=False)
        found = _measured_once(Blocks(*others, block_elements), task, choose_kernel().library, Workspace())
        elements = whole.finite - found.finite
        if not is_share(elements + infinite, whole.finite + infinite):
            continue
        if is_nothing(found, task.right):
            yield Dominated("dominated_zeros", elements, near, gap.above, {})
            continue
        measured = define(Totals(task, found, left.shape, without=without))
        apart = {metric: one for metric, one in measured.items() if metric in NORM_METRICS and one.applies}
        yield Dominated("dominated", elements, near, gap.above, apart)


def _tiles(start: int, left: Array, right: Array) -> Iterator[Block]:
    """Cut a block into tiles: numpy's passes want less at a time than reading does."""
    for tile in range(0, left.size, _TILE_ELEMENTS):
        yield start + tile, left[tile : tile + _TILE_ELEMENTS], right[tile : tile + _TILE_ELEMENTS]


def _measured_once(
    blocks: Iterable[Block],
    task: Task,
    library: CDLL | None,
    workspace: Workspace,
    coarser: tuple[CoarserValues, CoarserValues] | None = None,
) -> Partial:
    """Measure all blocks, with numpy where the compiled kernel cannot."""
    total, compiled = NOTHING, CompiledSums(task, library)
    for start, left, right in blocks:
        if coarser is not None:
            coarser[0].add(left)
            coarser[1].add(right)
        if not compiled.add(left, right, start):
            total = _measured(total, (start, left, right), task, workspace)
    if (partial := compiled.partial()) is not NOTHING:
        total = partial if total is NOTHING else total.merge(partial, task.worst)
    if [part for part in (*total.left, *total.right) if part.is_doubtful]:
        total = ports.load("pytest_msdump.core.metrics.exact_moments").with_exact_moments(total, blocks)
    return total


def _measured(total: Partial, block: Block, task: Task, workspace: Workspace) -> Partial:
    """Add one block, measured with numpy."""
    with np.errstate(all="ignore"):
        for start, a, b in _tiles(*block):
            last = total.worst[-1] if len(total.worst) == task.worst > 0 else None
            found = measure_block(a, b, start, task, workspace, last)
            total = found if total is NOTHING else total.merge(found, task.worst)
    return total


def _second_pass(blocks: Iterable[Block], partial: Partial, library: CDLL | None, workspace: Workspace) -> float | None:
    """Return the KL divergence; ``None`` where it needs no pass, or where no pass would help."""
    if not partial.errors.differing or len(partial.left) > 1 or len(partial.right) > 1:
        return None
    (left,), (right,) = partial.left, partial.right
    spans = Span(left.minimum, left.maximum), Span(right.minimum, right.maximum)
    if math.isinf(left.maximum - left.minimum) or math.isinf(right.maximum - right.minimum):
        return None
    everything_finite = left.elements == partial.elements
    compiled: CompiledDivergence | None = None
    total = NO_DIVERGENCE
    for start, left_block, right_block in blocks:
        if not start:
            compiled = CompiledDivergence.of(library, left_block, right_block, spans, everything_finite)
        if compiled is not None:
            compiled.add(left_block, right_block)
            continue
        with np.errstate(all="ignore"):
            for _, a, b in _tiles(start, left_block, right_block):
                found = divergence_of_block(a, b, spans, everything_finite, workspace)
                total = found if total is NO_DIVERGENCE else total.merge(found)
    return total.value if compiled is None else compiled.sums().value


def _comparison(totals: Totals, coarser: tuple[str | None, str | None], dominated: Iterable[Dominated]) -> Comparison:
    task, partial, shape = totals.task, totals.partial, totals.shape
    classes, errors = partial.classes, partial.errors
    error_sum = errors.exact if totals.exact else errors.absolute.value
    nonfinite = _NO_NONFINITE
    if errors.saturated or classes != NO_CLASSES:
        nonfinite = Nonfinite(
            *classes[:6],
            errors.saturated,
            classes.mismatch,
            None if classes.first_mismatch is None else unravel(classes.first_mismatch, shape),
            None if classes.first_nonfinite is None else unravel(classes.first_nonfinite, shape),
        )
    return Comparison(
        elements=partial.elements,
        finite=partial.finite,
        differing=errors.differing + classes.mismatch,
        right_zero_mismatch=errors.right_zero,
        near_zero=errors.near_zero,
        measurements=define(totals),
        nonfinite=nonfinite,
        worst=tuple(
            [
                WorstElement(
                    unravel(element.element, shape),
                    bool(element.left) if task.left == "bool" else element.left,
                    bool(element.right) if task.right == "bool" else element.right,
                    element.ratio,
                )
                for element in partial.worst
            ]
        ),
        rtol=task.tolerance.rtol,
        atol=task.tolerance.atol,
        absolute_error_sum=error_sum if totals.finite and error_sum < math.inf else None,
        vendor=vendor_numbers(totals),
        coarser=coarser,
        dominated=tuple(dominated),
    )
