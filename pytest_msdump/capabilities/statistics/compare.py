"""Compare a pair by statistics, since at least one of its tensors was not saved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.capabilities.statistics.count_sketch import SEEDS, metrics_of, sketch_of, unpacked
from pytest_msdump.capabilities.statistics.limits import PROOFS, judge_statistics, statistic_name
from pytest_msdump.capabilities.statistics.tensor_statistics import DIGESTS, statistics_of
from pytest_msdump.core import ports
from pytest_msdump.core.compare.align import axis_letters, logical_views
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.errors import TensorFileError, TensorShapeError
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.layouts.axes import ReshapedView, meet
from pytest_msdump.core.layouts.device_layout import logical
from pytest_msdump.core.limits.resolve import refuse_other_limits, resolve_pair
from pytest_msdump.core.metrics.slices import DEFAULT_AXIS, Grid, least_error, sketched_grid
from pytest_msdump.core.model.comparison import Interval, Limits, SliceGap
from pytest_msdump.core.model.record import Record, record_of
from pytest_msdump.core.model.tensor import (
    Pair,
    Sketch,
    Statistic,
    Statistics,
    TensorRef,
    TensorSpec,
    TensorView,
    Transform,
)
from pytest_msdump.core.text import Message

if TYPE_CHECKING:
    import numpy.typing as npt

    from pytest_msdump.core.limits.policy import Policy

_SIDES = ("left", "right")


class _Both(NamedTuple):
    """Statistics of both sides, the number of elements they are of, a remark, and the metrics that sketches give."""

    left: Statistics
    right: Statistics
    elements: int | None
    note: Message | None = None
    intervals: Mapping[str, Interval] = MappingProxyType({})
    slices: Grid | None = None
    letters: str | None = None


class _UnsavedTensor:
    """A tensor that was not saved, as its row describes it: it has a shape, and cannot be read."""

    def __init__(
        self, spec: TensorSpec, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...] | None = None
    ) -> None:
        self.spec = spec
        self.dtype = dtype
        self.shape = shape
        # Where its axes are among those of the tensor whose elements were sketched.
        self.axes = axes or tuple(range(len(shape)))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        raise NotImplementedError

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        raise NotImplementedError

    def permuted(self, axes: tuple[int, ...]) -> _UnsavedTensor:
        shape, from_axes = (tuple(known[axis] for axis in axes) for known in (self.shape, self.axes))
        return _UnsavedTensor(self.spec, self.dtype, shape, from_axes)

    def close(self) -> None:
        """Nothing is open."""


def compare_by_statistics(pair: Pair, policy: Policy, roots: tuple[Path, ...]) -> Record | None:
    """Judge a pair by statistics: a table's, or those of the tensor that was saved; ``None`` where both were saved."""
    # Statistics of a device's memory format include its padding: those of the other side are then taken as if it were
    # padded with as many zeros, which is what devices pad with.
    refs = (pair.left, pair.right)
    if not any(ref.is_unseen for ref in refs):
        return None
    if pair.transform.piece is not None or pair.transform.crop is not None:
        raise TensorShapeError(Message("statistics_of_part"))
    for ref in refs:
        if ref.sketch is not None and math.isnan(ref.sketch.norm):
            raise _damaged(ref)
    with ExitStack() as stack:
        opened = [None if ref.is_unseen else stack.enter_context(closing(open_view(ref))) for ref in refs]
        dtypes = _dtypes(pair, opened)
        both = _aligned(pair, opened, dtypes)
    if policy.limits is not None and both.elements is not None:
        refuse_other_limits(policy.limits, pair, both.elements)
    has_golden = pair.golden is not None or pair.third is not None
    ratios: dict[str, Interval] = {}
    for step in ports.steps("estimated") if has_golden else ():
        ratios |= step.function(pair, _distance, dtypes)
    intervals = {**both.intervals, **ratios}
    shape = (both.elements,) if ratios and pair.golden and both.elements is not None else None
    note = None if ratios or not has_golden else Message("golden_not_judged")
    limits = resolve_pair(policy, pair, dtypes, both.note, note, golden=shape)
    verdict, checks, comparison = judge_statistics(
        both.left,
        both.right,
        limits,
        left_dtype=dtypes[0],
        right_dtype=dtypes[1],
        elements=both.elements,
        unseen=tuple(side for side, ref in zip(_SIDES, refs, strict=True) if ref.is_unseen),
        intervals=intervals,
        slices=_slices(both, limits, dtypes),
        overflows=[entry.sentence for entry in pair.left.overflows],
        right_overflows=[entry.sentence for entry in pair.right.overflows],
    )
    left_spec, right_spec = (ref.spec if view is None else view.spec for ref, view in zip(refs, opened, strict=True))
    specs = replace(left_spec, dtype=dtypes[0]), replace(right_spec, dtype=dtypes[1])
    record = record_of(pair, verdict, limits, specs=specs, roots=roots)
    return replace(
        record,
        left=record.left._replace(row=_row(both.left)),
        right=record.right._replace(row=_row(both.right)),
        checks=checks,
        statistics=replace(comparison, left=_numbers(both.left), right=_numbers(both.right), note=both.note),
    )


def _distance(pair: Pair) -> Interval | None:
    """Return an estimate of the relative Euclidean distance of a pair, if sketches give one."""
    with ExitStack() as stack:
        refs = (pair.left, pair.right)
        opened = [None if ref.is_unseen else stack.enter_context(closing(open_view(ref))) for ref in refs]
        return _aligned(pair, opened, _dtypes(pair, opened)).intervals.get("relative_euclidean_distance")


def _row(side: Statistics) -> int | None:
    """Return the line of the table; ``None`` for numbers computed from the tensor itself."""
    return None if side.source is None else side.source.part


def _numbers(side: Statistics) -> Statistics:
    return Statistics(side.values, side.digits)


def _dtypes(pair: Pair, opened: Sequence[TensorView | None]) -> tuple[str, str]:
    """Return the data types; a table without one has the other side's."""
    left, right = (
        ref.spec.dtype if view is None else view.dtype
        for ref, view in zip((pair.left, pair.right), opened, strict=True)
    )
    known = left or right
    if known is None:
        raise TensorShapeError(f"{pair.left.key.address}: neither table has the data type, so no limits can be chosen")
    return left or known, right or known


def _aligned(pair: Pair, opened: Sequence[TensorView | None], dtypes: tuple[str, str]) -> _Both:
    """Return the statistics of both sides, of equally many elements."""
    refs = (pair.left, pair.right)
    padded = [ref.is_unseen and may_be_padded(ref.spec.memory_format) for ref in refs]
    views = [
        view or (None if ref.spec.shape is None else _UnsavedTensor(ref.spec, dtype, ref.spec.shape))
        for view, ref, dtype in zip(opened, refs, dtypes, strict=True)
    ]
    left, right = views
    if left is None or right is None:
        return _of_unknown_shape(refs, views)
    is_stored_alike = (left.spec.memory_format, left.spec.shape) == (right.spec.memory_format, right.spec.shape)
    if any(padded) and not is_stored_alike:
        return _padded_alike(refs, left, right, padded)
    if not any(padded):
        met_left, met_right, transform = logical_views(left, right, pair.transform)
        joined = meet(met_left, met_right, transform)
        letters = axis_letters(left, joined[0].shape, transform)
    else:
        joined = left, right
        met_left, met_right = left, right
        letters = None
    # What a table says no type of may be another one of the same bytes.
    known = {ref.spec.dtype if view is None else view.dtype for ref, view in zip(refs, opened, strict=True)}
    is_as_stored = met_left is left and met_right is right and pair.transform == Transform()
    same_bytes = is_as_stored and len(known) == 1
    found = _sketched(refs, joined, with_digests=same_bytes)
    if isinstance(found, _Both):
        values, both = (found.left, found.right), found._replace(elements=met_left.size, letters=letters)
        if any(padded):
            both = both._replace(slices=None)
    else:
        values = _values(refs, (met_left, met_right), with_digests=same_bytes)
        both = _Both(*values, met_left.size, found)
    _check_counts(*values)
    return both


def _sketched(
    refs: tuple[TensorRef, TensorRef], views: tuple[TensorView, TensorView], *, with_digests: bool
) -> _Both | Message | None:
    """Return both sides with sketches; why they say nothing of each other, or ``None`` where a side has none."""
    sketches = [_saved_sketch(ref) if ref.is_unseen else None for ref in refs]
    orders = [_order(view) for view, ref in zip(views, refs, strict=True) if ref.is_unseen]
    known = [sketch for sketch in sketches if sketch is not None]
    if len(known) < len(orders):
        return None
    if None in orders or orders[0] != orders[-1]:
        return Message("sketches_of_two_orders")
    sizes = [sketch.buckets.size for sketch in known]
    tables = [_without(_table(ref), () if with_digests else DIGESTS) for ref in refs]
    found = [replace(table, sketch=sketch) for table, sketch in zip(tables, sketches, strict=True)]
    for side, view in enumerate(views):
        if not refs[side].is_unseen:
            other = found[1 - side].values
            digests = [name for name in DIGESTS if name in other]
            axes = orders[0] or ()
            read = view.permuted(tuple(sorted(range(len(axes)), key=axes.__getitem__)))
            found[side] = _checked(refs[side], view, sketch_of(read, buckets=sizes[0], digests=digests))
    left, right = found
    if sizes[0] != sizes[-1]:
        return _Both(left, right, None, Message("sketches_of_two_sizes", {"left": sizes[0], "right": sizes[-1]}))
    if left.sketch is None or right.sketch is None:
        return _Both(left, right, None)
    # Slices lie along an axis of the tensor as it was sketched.
    are_alike = orders[0] == tuple(range(len(views[0].shape))) and all(
        view.shape == ref.spec.shape for view, ref in zip(views, refs, strict=True) if ref.is_unseen
    )
    grids = {sketched_grid(view.shape, view.dtype) if are_alike else None for view in views}
    slices = grids.pop() if len(grids) == 1 else None
    return _Both(left, right, None, intervals=metrics_of(left.sketch, right.sketch), slices=slices)


def _slices(both: _Both, limits: Limits, dtypes: tuple[str, str]) -> SliceGap | None:
    """Return what the norms of slices say of `worst_slice_error`, if they are of the axis that its limit is for."""
    left, right, axis = both.left.sketch, both.right.sketch, limits.slice_axis
    if axis is None and both.letters is not None and "C" in both.letters:
        axis = both.letters.index("C")
    if both.slices is None or left is None or right is None or axis not in (None, DEFAULT_AXIS):
        return None
    return least_error(both.slices, left, right, dtypes)


def _saved_sketch(ref: TensorRef) -> Sketch | None:
    """Return a tensor's sketch, which is read where it was saved; TensorFileError where that is none."""
    known = _table(ref).sketch
    if known is not None or ref.sketch is None:
        return known
    with closing(open_view(ref.sketch.buckets)) as view:
        found = None
        if view.dtype == "float64" and view.size <= 2 * max(SEEDS):
            ends = [
                abs(one) for name in ("maximum", "minimum") if isinstance(one := _table(ref).values.get(name), float)
            ]
            found = unpacked(
                view.read(0, view.size),
                ref.sketch.norm,
                ref.spec.shape or (),
                ref.spec.dtype or "",
                peak=max(ends) if len(ends) == 2 else math.inf,
            )
        if found is None:
            raise _damaged(ref)
        return found


def _damaged(ref: TensorRef) -> TensorFileError:
    return TensorFileError(f"{ref.source.path}: the sketch of {ref.key.address} is damaged; record it again")


def _order(view: TensorView) -> tuple[int, ...] | None:
    """Return the order in which a tensor's axes were sketched; ``None`` where a reshape has mixed them."""
    if isinstance(view, _UnsavedTensor):
        return view.axes
    if isinstance(view, ReshapedView) and isinstance(view.view, _UnsavedTensor):
        is_plain = view.view.axes == tuple(range(len(view.view.axes)))
        return tuple(range(len(view.shape))) if is_plain else None
    return None


def _values(
    refs: tuple[TensorRef, TensorRef], views: Sequence[TensorView | None], *, with_digests: bool
) -> tuple[Statistics, Statistics]:
    """Return a table's numbers, or those of the tensor; only those digests that the other side has as well."""
    wanted = [
        name for name in DIGESTS if with_digests and any(name in _table(ref).values for ref in refs if ref.is_unseen)
    ]
    left, right = (
        _without(_table(ref), DIGESTS if not with_digests else ())
        if ref.is_unseen or view is None
        else _checked(ref, view, Statistics(statistics_of(view, digests=wanted), digits=None))
        for ref, view in zip(refs, views, strict=True)
    )
    return left, right


def _checked(ref: TensorRef, view: TensorView, computed: Statistics) -> Statistics:
    """Return what was computed of a saved tensor; TensorFileError where a digest that its run made is of others."""
    table = _table(ref)
    if table.spec is not None and (table.spec.dtype, table.spec.shape) == (view.dtype, view.shape):
        for name in PROOFS:
            saved, made = table.values.get(name), computed.values.get(name)
            if None not in (saved, made) and saved != made:
                digest = statistic_name(name)
                raise TensorFileError(
                    f"{ref.source.path}: {ref.key.address} has {digest} {made}, and {saved} in its table; dump again"
                )
    return computed


def _table(ref: TensorRef) -> Statistics:
    return ref.statistics or Statistics()


def _without(statistics: Statistics, names: Sequence[str]) -> Statistics:
    return replace(statistics, values={name: value for name, value in statistics.values.items() if name not in names})


def _check_counts(left: Statistics, right: Statistics) -> None:
    counts = (left.values.get("count"), right.values.get("count"))
    if None not in counts and counts[0] != counts[1]:
        raise TensorShapeError(f"the left table counts {counts[0]} elements, the right {counts[1]}")


def _of_unknown_shape(refs: tuple[TensorRef, TensorRef], views: Sequence[TensorView | None]) -> _Both:
    """Return the statistics if the shape of a side is unknown; its table may count elements."""
    left, right = _values(refs, views, with_digests=False)
    sizes = [view.size for view in views if view is not None]
    counted = [side.values.get("count") for side in (left, right)]
    _check_counts(left, right)
    known = [size for size in (*sizes, *counted) if isinstance(size, int)]
    if len(set(known)) > 1:
        raise TensorShapeError(f"one side has {known[0]} elements, the other {known[-1]}")
    silent = tuple(Message(side) for side, view in zip(_SIDES, views, strict=True) if view is None)
    return _Both(left, right, known[0] if known else None, Message("shapes_not_compared", {"sides": silent}))


def _padded_alike(
    refs: tuple[TensorRef, TensorRef], left: TensorView, right: TensorView, padded: Sequence[bool]
) -> _Both:
    """Return the statistics if those of one side include its padding: the other side gets as many zeros."""
    views = [
        view if is_padded or ref.is_unseen else logical(view)
        for view, ref, is_padded in zip((left, right), refs, padded, strict=True)
    ]
    stored = max(view.size for view, is_padded in zip(views, padded, strict=True) if is_padded)
    whole = [view.size for view, is_padded in zip(views, padded, strict=True) if not is_padded]
    if not whole or whole[0] > stored:
        shapes = " and ".join(f"{ref.spec.memory_format} {view.shape}" for ref, view in zip(refs, views, strict=True))
        raise TensorShapeError(f"{shapes} are stored with different padding, and no table has the logical shape")
    sides = [
        side if is_padded else _with_zeros(side, stored - whole[0])
        for side, is_padded in zip(_values(refs, views, with_digests=False), padded, strict=True)
    ]
    _check_counts(*sides)
    name = next(ref.spec.memory_format for ref, is_padded in zip(refs, padded, strict=True) if is_padded)
    note = Message("zeros_added", {"memory_format": name, "n": stored - whole[0]})
    return _Both(sides[0], sides[1], stored, note)


def _with_zeros(side: Statistics, zeros: int) -> Statistics:
    if not zeros:
        return side
    values: dict[str, Statistic] = dict(side.values)
    count = values.get("count")
    nonfinite = [values.get(f"{name}_count") or 0 for name in ("nan", "negative_inf", "positive_inf")]
    mean = values.pop("mean", None)
    if isinstance(count, int) and isinstance(mean, int | float):
        finite = count - sum(int(number) for number in nonfinite)
        values["mean"] = mean * finite / (finite + zeros)
    for name, clipped in (("maximum", max), ("minimum", min)):
        extreme = values.get(name)
        if isinstance(extreme, int | float) and extreme == extreme:
            values[name] = clipped(extreme, 0)
    for name in ("count", "zero_count"):
        known = values.get(name)
        if isinstance(known, int):
            values[name] = known + zeros
    return replace(side, values=values)
