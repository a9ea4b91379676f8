"""Both passes over a pair by the compiled kernel; the structs are those of `kernel.c`, field by field."""

from __future__ import annotations

import math
from ctypes import CDLL, Structure, byref, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.metrics.numpy_kernel import NOTHING, Divergence, Partial, Span, Task
from pytest_msdump.core.metrics.pointwise import Classes, Errors
from pytest_msdump.core.metrics.rankings import Candidate
from pytest_msdump.core.metrics.slices import Grid, SliceSums
from pytest_msdump.core.metrics.sums import Moments, Peak, Sum
from pytest_msdump.core.metrics.values import Array, Doubles
from pytest_msdump.model.statistics import Statistic

# In the order of `Kind` in kernel.c. Integers come last.
_KINDS = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
_NUMBERS = {np.dtype(name): number for number, name in enumerate(_KINDS)}
_FIRST_INTEGER = _KINDS.index("int8")
_MOST_WORST = 16

# Tolerances beyond these make ratios subnormal or infinite, which the kernel leaves to numpy.
_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-100, 1e100


class _Sum(Structure):
    _fields_ = (("high", c_double), ("low", c_double))


class _Moments(Structure):
    _fields_ = (
        ("elements", c_int64),
        ("total", _Sum),
        ("deviations", _Sum),
        ("minimum", c_double),
        ("maximum", c_double),
    )


class _Peak(Structure):
    _fields_ = (("value", c_double), ("element", c_int64))


class _Candidate(Structure):
    _fields_ = (
        ("score", c_double),
        ("left", c_double),
        ("right", c_double),
        ("element", c_int64),
        ("forbidden", c_int64),
    )


class _Mismatch(Structure):
    _fields_ = (("left", c_double), ("right", c_double), ("element", c_int64))


class _Classes(Structure):
    _fields_ = tuple((name, c_int64) for name in Classes._fields)


class _Errors(Structure):
    _fields_ = (
        ("differing", c_int64),
        ("right_zero", c_int64),
        ("near_zero", c_int64),
        ("outside", c_int64),
        ("saturated", c_int64),
        ("first_saturated", c_int64),
        ("above_1", c_int64),
        ("above_32", c_int64),
        ("underflow", c_int64),
        ("exact_high", c_uint64),
        ("exact_low", c_uint64),
        ("absolute", _Sum),
        ("squares", _Sum),
        ("relative", _Sum),
        ("units", _Sum),
        ("right_peak", c_double),
        ("largest", _Peak),
        ("largest_relative", _Peak),
    )


class _Slices(Structure):
    _fields_ = (("unit", c_int64), ("row", c_int64), ("last", c_int64), ("apart", c_void_p), ("right", c_void_p))


class _Found(Structure):
    _fields_ = (
        ("elements", c_int64),
        ("bits", c_int64),
        ("classes", _Classes),
        ("left", _Moments),
        ("right", _Moments),
        ("product", _Sum),
        ("errors", _Errors),
        ("worst_count", c_int64),
        ("mismatch_count", c_int64),
        ("worst", _Candidate * _MOST_WORST),
        ("mismatches", _Mismatch * _MOST_WORST),
        ("slices", _Slices),
    )


class _Job(Structure):
    _fields_ = (
        ("left", c_int32),
        ("right", c_int32),
        ("worst", c_int32),
        ("compare_bits", c_int32),
        ("rtol", c_double),
        ("atol", c_double),
        ("maximum", c_double),
        ("near_zero", c_double),
        ("normal", c_double),
        ("epsilon", c_double),
    )


class _Span(Structure):
    _fields_ = (("minimum", c_double), ("width", c_double))


class _DivergenceJob(Structure):
    _fields_ = (
        ("left", c_int32),
        ("right", c_int32),
        ("left_span", _Span),
        ("right_span", _Span),
        ("all_finite", c_int64),
    )


class _Divergence(Structure):
    _fields_ = (("left", _Sum), ("right", _Sum), ("weighted", _Sum))


class _SketchJob(Structure):
    _fields_ = (
        ("kind", c_int64),
        ("buckets", c_int64),
        ("chunks", c_uint64),
        ("signs", c_void_p),
        ("turns", c_void_p),
        ("places", c_void_p),
        ("sums", c_void_p),
        ("chunk", c_void_p),
        ("slices", _Slices),
    )


class _Described(Structure):
    _fields_ = (
        ("classes", c_int64 * 4),
        ("zero", c_int64),
        ("minimum", c_double),
        ("maximum", c_double),
        ("total", _Sum),
        ("squares", _Sum),
    )


class SketchTables(NamedTuple):
    """What decides buckets and signs of a count sketch, see `metrics.count_sketch`.

    `signs` are 65,536 + 65 · buckets numbers +1 and −1; `turns` and `places`, by row of a chunk, are where the row's
    buckets begin and where its signs do; `chunks` begins the numbers that chunks are turned by.
    """

    signs: Doubles
    turns: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    chunks: int


class CompiledSums:
    """The first pass over a pair."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._library = choose_kernel().library
        self._job: _Job | None = None
        self._dtypes: tuple[np.dtype[Any], np.dtype[Any]] | None = None
        self._found = _Found()
        # Of the slices that were added, and of those with the next block, which may be refused.
        self._slices = _no_slices(task.grid), _no_slices(task.grid)

    def add(self, left: Array, right: Array, start: int) -> bool:
        """Measure one block, whose first element has the C-order number `start`; blocks come in ascending order.

        Returns ``False``, and adds nothing, where the kernel cannot measure it.
        """
        if self._library is None or not (left.flags.c_contiguous and right.flags.c_contiguous):
            return False
        if self._job is None:
            self._job = _job(self._task, left.dtype, right.dtype)
            if self._job is None:
                return False
            self._dtypes = left.dtype, right.dtype
            self._library.msdump_begin(byref(self._found))
        _check_blocks(left, right, self._dtypes)
        before, after = self._slices
        if self._task.grid is not None:
            np.copyto(after, before)
            self._found.slices = _wanted(self._task.grid, after)
        added: int = self._library.msdump_add(
            byref(self._job), left.ctypes.data, right.ctypes.data, left.size, start, byref(self._found)
        )
        if added:
            self._slices = after, before
        return bool(added)

    def partial(self) -> Partial:
        """Return the sums of all blocks that were added."""
        if not self._found.elements or self._job is None:
            return NOTHING
        found, job = self._found, self._job
        counts = [getattr(found.classes, name) for name in Classes._fields]
        return Partial(
            elements=found.elements,
            bits=found.bits if job.compare_bits else None,
            classes=Classes(*counts[:8], *map(_place, counts[8:])),
            left=_moments(found.left),
            right=_moments(found.right),
            product=_sum(found.product),
            errors=_errors(found.errors, _number(job.left) if job.right >= _FIRST_INTEGER else float),
            worst=_worst(found, job),
            slices=None if self._task.grid is None else SliceSums(*self._slices[0]),
        )


class CompiledDivergence:
    """The second pass over a pair, all of it; `CompiledDivergence.of` makes one."""

    def __init__(self, library: CDLL, job: _DivergenceJob, dtypes: tuple[np.dtype[Any], np.dtype[Any]]) -> None:
        self._library, self._job, self._dtypes = library, job, dtypes
        self._sums = _Divergence()

    @classmethod
    def of(
        cls, left: Array, right: Array, spans: tuple[Span, Span], everything_finite: bool
    ) -> CompiledDivergence | None:
        """Return the second pass for blocks of these dtypes and ranges; ``None`` where the kernel cannot do it."""
        library, a, b = choose_kernel().library, _NUMBERS.get(left.dtype), _NUMBERS.get(right.dtype)
        if library is None or a is None or b is None:
            return None
        if any(span.width and math.isinf(1.0 / span.width) for span in spans):
            return None
        job = _DivergenceJob(a, b, *(_Span(span.minimum, span.width) for span in spans), everything_finite)
        return cls(library, job, (left.dtype, right.dtype))

    def add(self, left: Array, right: Array) -> None:
        """Add one block of both sides."""
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        _check_blocks(left, right, self._dtypes)
        self._library.msdump_add_divergence(
            byref(self._job), left.ctypes.data, right.ctypes.data, left.size, byref(self._sums)
        )

    def sums(self) -> Divergence:
        """Return the sums of all blocks that were added."""
        return Divergence(_sum(self._sums.left), _sum(self._sums.right), _sum(self._sums.weighted))


class CompiledSketch:
    """Statistics and a count sketch of one tensor; `CompiledSketch.of` makes one.

    `sums` and `chunk` are the sketch's own arrays, which it adds to. `squares` are the sums of those of each slice of
    the grid, if there is one.
    """

    def __init__(
        self,
        library: CDLL,
        dtype: np.dtype[Any],
        tables: SketchTables,
        sums: Doubles,
        chunk: Doubles,
        grid: Grid | None,
    ) -> None:
        self._library, self._dtype = library, dtype
        self._arrays, slices = (tables, sums, chunk), _no_slices(grid)
        self.squares = slices[1]
        addresses = (array.ctypes.data for array in (tables.signs, tables.turns, tables.places, sums, chunk))
        self._job = _SketchJob(_NUMBERS[dtype], sums.size, tables.chunks, *addresses, _wanted(grid, slices))
        self._found = _Described(minimum=math.inf, maximum=-math.inf)

    @classmethod
    def of(
        cls, block: Array, tables: SketchTables, sums: Doubles, chunk: Doubles, grid: Grid | None
    ) -> CompiledSketch | None:
        """Return one for blocks of this dtype; ``None`` where the kernel cannot do it.

        Squares of float64 may overflow: numpy sums them up.
        """
        library = choose_kernel().library
        if library is None or block.dtype not in _NUMBERS or block.dtype == np.float64:
            return None
        return cls(library, block.dtype, tables, sums, chunk, grid)

    def add(self, block: Array, start: int) -> None:
        """Add the next elements, the first of which has the C-order number `start`."""
        block = np.ascontiguousarray(block)
        if block.dtype != self._dtype:
            raise ValueError(f"a block of {block.dtype} in a tensor of {self._dtype}")
        self._library.msdump_sketch(byref(self._job), block.ctypes.data, block.size, start, byref(self._found))

    @property
    def finite(self) -> int:
        """How many of the elements are finite."""
        return int(self._found.classes[0])

    @property
    def finite_norm(self) -> float:
        """The Euclidean norm of the finite elements."""
        return math.sqrt(self._found.squares.high + self._found.squares.low)

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistics of all elements that were added."""
        found, number = self._found, _number(self._job.kind)
        finite, positive_inf, negative_inf, nan = found.classes
        infinite = positive_inf + negative_inf
        return {
            "maximum": number(found.maximum) if finite else None,
            "minimum": number(found.minimum) if finite else None,
            "mean": _sum(found.total).divided(finite) if finite else None,
            "l2_norm": math.nan if nan else math.inf if infinite else self.finite_norm,
            "count": finite + infinite + nan,
            "zero_count": found.zero,
            "nan_count": nan,
            "negative_inf_count": negative_inf,
            "positive_inf_count": positive_inf,
        }


def _no_slices(grid: Grid | None) -> Doubles:
    return np.zeros((2, grid.groups if grid is not None else 0))


def _wanted(grid: Grid | None, sums: Doubles) -> _Slices:
    """Return where the sums of slices are to go, an array of both kinds."""
    if grid is None:
        return _Slices()
    return _Slices(grid.unit, grid.row, grid.groups - 1, sums[0].ctypes.data, sums[1].ctypes.data)


def _check_blocks(left: Array, right: Array, dtypes: tuple[np.dtype[Any], np.dtype[Any]] | None) -> None:
    """Refuse blocks that the kernel would read beyond their end."""
    if (left.dtype, right.dtype) != dtypes or left.size != right.size:
        raise ValueError(f"blocks of {left.size} {left.dtype} and {right.size} {right.dtype} do not belong together")


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=256)
def _job(task: Task, left: np.dtype[Any], right: np.dtype[Any]) -> _Job | None:
    """Return what the kernel measures such blocks by; ``None`` where it cannot."""
    a, b = _NUMBERS.get(left), _NUMBERS.get(right)
    if a is None or b is None or task.worst > _MOST_WORST:
        return None
    if not all(not bound or _LEAST_TOLERANCE <= bound <= _MOST_TOLERANCE for bound in task.tolerance):
        return None
    compare_bits = task.left == task.right
    if compare_bits and a != b:
        return None
    maximum = DTYPES[task.left].maximum
    return _Job(
        left=a,
        right=b,
        worst=task.worst,
        compare_bits=compare_bits,
        rtol=task.tolerance.rtol,
        atol=task.tolerance.atol,
        maximum=math.inf if maximum is None else maximum,
        near_zero=task.near_zero,
        normal=1.0 if task.unit is None else task.unit.normal,
        epsilon=math.inf if task.unit is None else task.unit.epsilon,
    )


def _number(kind: int) -> type[int] | type[float]:
    return int if kind >= _FIRST_INTEGER else float


def _place(element: int) -> int | None:
    return None if element < 0 else element


def _sum(found: _Sum) -> Sum:
    return Sum(found.high, found.low)


def _peak(found: _Peak, number: type[int] | type[float]) -> Peak:
    return Peak() if found.element < 0 else Peak(number(found.value), found.element)


def _moments(found: _Moments) -> tuple[Moments, ...]:
    if not found.elements:
        return ()
    return (Moments(found.elements, _sum(found.total), _sum(found.deviations), found.minimum, found.maximum),)


def _errors(found: _Errors, number: type[int] | type[float]) -> Errors:
    return Errors(
        differing=found.differing,
        right_zero=found.right_zero,
        outside=found.outside,
        saturated=found.saturated,
        exact=(found.exact_high << 32) + found.exact_low,
        absolute=_sum(found.absolute),
        squares=_sum(found.squares),
        relative=_sum(found.relative),
        right_peak=found.right_peak,
        largest=_peak(found.largest, number),
        largest_relative=_peak(found.largest_relative, float),
        first_saturated=_place(found.first_saturated),
        near_zero=found.near_zero,
        units=_sum(found.units),
        above_1=found.above_1,
        above_32=found.above_32,
        underflow=found.underflow,
    )


def _worst(found: _Found, job: _Job) -> tuple[Candidate, ...]:
    """Return the worst elements: those whose classes differ, then those where nothing is allowed, then by ratio."""
    left, right = _number(job.left), _number(job.right)
    mismatches = [
        Candidate(math.inf, True, math.inf, one.element, left(one.left), right(one.right))
        for one in found.mismatches[: found.mismatch_count]
    ]
    ranked = [
        Candidate(
            ratio=math.inf if one.forbidden else one.score,
            mismatch=False,
            magnitude=one.score if one.forbidden else 0.0,
            element=one.element,
            left=left(one.left),
            right=right(one.right),
        )
        for one in found.worst[: found.worst_count]
    ]
    return tuple((mismatches + ranked)[: job.worst])
