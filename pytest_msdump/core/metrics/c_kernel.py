"""Both passes over a pair by the compiled kernel; the structs are those of `kernel.c`, field by field."""

from __future__ import annotations

import math
from ctypes import CDLL, Structure, byref, c_double, c_int32, c_int64, c_ubyte, c_uint64, c_void_p
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.metrics.numpy_kernel import NOTHING, Divergence, Partial, Span, Task
from pytest_msdump.core.metrics.pointwise import Classes, Errors
from pytest_msdump.core.metrics.rankings import RankedCandidate
from pytest_msdump.core.metrics.slices import Grid, SliceSums
from pytest_msdump.core.metrics.sums import NO_PEAK, Moments, Peak, Sum
from pytest_msdump.core.metrics.values import Array, Doubles
from pytest_msdump.core.model.tensor import Statistic

# In the order of `Kind` in kernel.c. Integers come last.
_KINDS = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
_NUMBERS = {np.dtype(name): number for number, name in enumerate(_KINDS)}
_FIRST_INTEGER = _KINDS.index("int8")
_MOST_WORST = 16

# Tolerances beyond these make ratios subnormal or infinite, which the kernel leaves to numpy.
_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-100, 1e100


class _Sum(Structure):
    _fields_ = (("high", c_double), ("low", c_double))


# How many elements and differing bits, and `Classes`; `Moments` of both sides; the product; `Errors`, whose sums are
# two numbers each; how many worst elements and mismatches there are.
_SUMS = Struct(f"{2 + len(Classes._fields)}q q6d q6d 2d 9q2Q9ddqdq 2q")
_CANDIDATE, _MISMATCH = Struct("3d2q"), Struct("2dq")


class _Slices(Structure):
    _fields_ = (("unit", c_int64), ("row", c_int64), ("last", c_int64), ("apart", c_void_p), ("right", c_void_p))


class _Found(Structure):
    _fields_ = (
        ("sums", c_ubyte * _SUMS.size),
        ("worst", c_ubyte * (_MOST_WORST * _CANDIDATE.size)),
        ("mismatches", c_ubyte * (_MOST_WORST * _MISMATCH.size)),
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
    """What decides buckets and signs of a count sketch, see `metrics.count_sketch`."""

    signs: Doubles
    turns: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    chunks: int


class CompiledSums:
    """The first pass over a pair."""

    def __init__(self, task: Task, library: CDLL | None) -> None:
        self._task = task
        self._library = library
        self._job: _Job | None = None
        self._dtypes: tuple[np.dtype[Any], np.dtype[Any]] | None = None
        self._found = _Found()
        # Of the slices that were added, and of those with the next block, which may be refused.
        self._slices = None if task.grid is None else (_no_slices(task.grid), _no_slices(task.grid))

    def add(self, left: Array, right: Array, start: int) -> bool:
        """Measure one block, whose first element has the C-order number `start`; blocks come in ascending order."""
        if self._library is None or not (left.flags.c_contiguous and right.flags.c_contiguous):
            return False
        if self._job is None:
            self._job = _job(self._task, left.dtype, right.dtype)
            if self._job is None:
                return False
            self._dtypes = left.dtype, right.dtype
            self._library.msdump_begin(byref(self._found))
        _check_blocks(left, right, self._dtypes)
        if self._slices is not None:
            before, after = self._slices
            np.copyto(after, before)
            self._found.slices = _wanted(self._task.grid, after)
        added: int = self._library.msdump_add(
            byref(self._job), _address(left), _address(right), left.size, start, byref(self._found)
        )
        if added and self._slices is not None:
            self._slices = after, before
        return bool(added)

    def partial(self) -> Partial:
        """Return the sums of all blocks that were added."""
        found, job = self._found, self._job
        if job is None:
            return NOTHING
        sums = _SUMS.unpack_from(found)
        elements, bits, first_places, (worst_count, mismatch_count) = sums[0], sums[1], sums[10:13], sums[-2:]
        if not elements:
            return NOTHING
        number = _number(job.left) if job.right >= _FIRST_INTEGER else float
        return Partial(
            elements,
            bits if job.compare_bits else None,
            Classes(*sums[2:10], *[None if element < 0 else element for element in first_places]),
            _moments(sums[13:20]),
            _moments(sums[20:27]),
            Sum(sums[27], sums[28]),
            _errors(sums[29:-2], number),
            _worst(found, job, worst_count, mismatch_count) if worst_count or mismatch_count else (),
            None if self._slices is None else SliceSums(*self._slices[0]),
        )


class CompiledDivergence:
    """The second pass over a pair, all of it; `CompiledDivergence.of` makes one."""

    def __init__(self, library: CDLL, job: _DivergenceJob, dtypes: tuple[np.dtype[Any], np.dtype[Any]]) -> None:
        self._library, self._job, self._dtypes = library, job, dtypes
        self._sums = _Divergence()

    @classmethod
    def of(
        cls, library: CDLL | None, left: Array, right: Array, spans: tuple[Span, Span], everything_finite: bool
    ) -> CompiledDivergence | None:
        """Return the second pass for blocks of these dtypes and ranges; ``None`` where the kernel cannot do it."""
        a, b = _NUMBERS.get(left.dtype), _NUMBERS.get(right.dtype)
        if library is None or a is None or b is None:
            return None
        widths = [span.width for span in spans]
        if [width for width in widths if width and math.isinf(1.0 / width)]:
            return None
        ranges = [_Span(span.minimum, width) for span, width in zip(spans, widths, strict=True)]
        return cls(library, _DivergenceJob(a, b, *ranges, everything_finite), (left.dtype, right.dtype))

    def add(self, left: Array, right: Array) -> None:
        """Add one block of both sides."""
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        _check_blocks(left, right, self._dtypes)
        self._library.msdump_add_divergence(
            byref(self._job), _address(left), _address(right), left.size, byref(self._sums)
        )

    def sums(self) -> Divergence:
        """Return the sums of all blocks that were added."""
        left, right, weighted = self._sums.left, self._sums.right, self._sums.weighted
        return Divergence(Sum(left.high, left.low), Sum(right.high, right.low), Sum(weighted.high, weighted.low))


class CompiledSketch:
    """Statistics and a count sketch of one tensor; `CompiledSketch.of` makes one."""

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
        addresses = map(_address, (tables.signs, tables.turns, tables.places, sums, chunk))
        self._job = _SketchJob(_NUMBERS[dtype], sums.size, tables.chunks, *addresses, _wanted(grid, slices))
        self._found = _Described(minimum=math.inf, maximum=-math.inf)

    @classmethod
    def of(
        cls, block: Array, tables: SketchTables, sums: Doubles, chunk: Doubles, grid: Grid | None
    ) -> CompiledSketch | None:
        """Return one for blocks of this dtype; ``None`` where the kernel cannot do it."""
        library = choose_kernel().library
        if library is None or block.dtype not in _NUMBERS or block.dtype == np.float64:
            return None
        return cls(library, block.dtype, tables, sums, chunk, grid)

    def add(self, block: Array, start: int) -> None:
        """Add the next elements, the first of which has the C-order number `start`."""
        block = np.ascontiguousarray(block)
        if block.dtype != self._dtype:
            raise ValueError(f"a block of {block.dtype} in a tensor of {self._dtype}")
        self._library.msdump_sketch(byref(self._job), _address(block), block.size, start, byref(self._found))

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
            "mean": Sum(found.total.high, found.total.low).divided(finite) if finite else None,
            "l2_norm": math.nan if nan else math.inf if infinite else self.finite_norm,
            "count": finite + infinite + nan,
            "zero_count": found.zero,
            "nan_count": nan,
            "negative_inf_count": negative_inf,
            "positive_inf_count": positive_inf,
        }


def _address(array: Array) -> int:
    # A third of the time of `array.ctypes.data`.
    address: int = array.__array_interface__["data"][0]
    return address


def _no_slices(grid: Grid | None) -> Doubles:
    return np.zeros((2, grid.groups if grid is not None else 0))


def _wanted(grid: Grid | None, sums: Doubles) -> _Slices:
    """Return where the sums of slices are to go, an array of both kinds."""
    if grid is None:
        return _Slices()
    return _Slices(grid.unit, grid.row, grid.groups - 1, _address(sums[0]), _address(sums[1]))


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


def _moments(found: tuple[Any, ...]) -> tuple[Moments, ...]:
    elements, total, total_low, deviations, deviations_low, minimum, maximum = found
    if not elements:
        return ()
    return (Moments(elements, Sum(total, total_low), Sum(deviations, deviations_low), minimum, maximum),)


def _errors(found: tuple[Any, ...], number: type[int] | type[float]) -> Errors:
    differing, right_zero, near_zero, outside, saturated, first_saturated, *units_apart = found[:9]
    exact_high, exact_low, absolute, absolute_low, squares, squares_low, relative, relative_low = found[9:17]
    units, units_low, right_peak, largest, at_largest, largest_relative, at_largest_relative = found[17:]
    above_1, above_32, underflow = units_apart
    return Errors(
        differing=differing,
        right_zero=right_zero,
        outside=outside,
        saturated=saturated,
        exact=(exact_high << 32) + exact_low,
        absolute=Sum(absolute, absolute_low),
        squares=Sum(squares, squares_low),
        relative=Sum(relative, relative_low),
        right_peak=right_peak,
        largest=NO_PEAK if at_largest < 0 else Peak(number(largest), at_largest),
        largest_relative=NO_PEAK if at_largest_relative < 0 else Peak(largest_relative, at_largest_relative),
        first_saturated=None if first_saturated < 0 else first_saturated,
        near_zero=near_zero,
        units=Sum(units, units_low),
        above_1=above_1,
        above_32=above_32,
        underflow=underflow,
    )


def _worst(found: _Found, job: _Job, worst_count: int, mismatch_count: int) -> tuple[RankedCandidate, ...]:
    """Return the worst elements: those whose classes differ, then those where nothing is allowed, then by ratio."""
    left, right = _number(job.left), _number(job.right)
    mismatches = [
        RankedCandidate(math.inf, True, math.inf, element, left(a), right(b))
        for a, b, element in _MISMATCH.iter_unpack(memoryview(found.mismatches)[: mismatch_count * _MISMATCH.size])
    ]
    ranked = [
        RankedCandidate(
            math.inf if forbidden else score, False, score if forbidden else 0.0, element, left(a), right(b)
        )
        for score, a, b, element, forbidden in _CANDIDATE.iter_unpack(
            memoryview(found.worst)[: worst_count * _CANDIDATE.size]
        )
    ]
    return tuple((mismatches + ranked)[: job.worst])
