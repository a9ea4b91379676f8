"""What the compiled kernel finds, in the terms of `kernel` and `distribution`."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.metrics.compiled import chosen
from pytest_msdump.metrics.distribution import Divergence, Span
from pytest_msdump.metrics.kernel import NOTHING, Partial, Task
from pytest_msdump.metrics.moments import Moments
from pytest_msdump.metrics.nonfinite import Classes
from pytest_msdump.metrics.pointwise import Errors
from pytest_msdump.metrics.sums import NO_PEAK, Peak, Sum
from pytest_msdump.metrics.values import Array
from pytest_msdump.metrics.worst import Candidate
from pytest_msdump.model.comparison import Scalar

if TYPE_CHECKING:
    from pytest_msdump.metrics import _sweep

__all__ = ["SweptDivergence", "SweptPair"]

# As `Kind` in sweep.c counts them. Integers come last.
_ORDER = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
_KINDS = {np.dtype(name): number for number, name in enumerate(_ORDER) if name != "bfloat16"}
_FIRST_INTEGER = _ORDER.index("int8")

# Beyond these a tolerance would need what the kernel leaves to numpy: subnormal and infinite ratios.
_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-100, 1e100


class SweptPair:
    """The first pass over a pair, as far as the compiled kernel can do it.

    Parameters
    ----------
    task : Task
        What to measure by.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._kinds = (-1, -1)
        self._sweep: _sweep.Sweep | None = None
        module = chosen().module
        self._module = module if module is not None and _is_simple(task, module.MOST_WORST) else None

    def add(self, left: Array, right: Array, start: int) -> bool:
        """Measure one block of both sides, if the kernel can; else nothing has happened.

        Parameters
        ----------
        left, right : ndarray
            1-D, native, of equal size. Blocks come in ascending order.
        start : int
            C-order number of the first element.
        """
        if self._module is None or not (left.flags.c_contiguous and right.flags.c_contiguous):
            return False
        if self._sweep is None:
            self._sweep = self._begin(self._module, left, right)
        return self._sweep is not None and self._sweep.add(left, right, start)

    def _begin(self, module: ModuleType, left: Array, right: Array) -> _sweep.Sweep | None:
        a, b, task = _KINDS.get(left.dtype), _KINDS.get(right.dtype), self._task
        compare_bits = task.left == task.right
        if a is None or b is None or (compare_bits and a != b):
            return None
        maximum = DTYPES[task.left].maximum
        self._kinds = (a, b)
        sweep: _sweep.Sweep = module.Sweep(
            a, b, *task.tolerance, math.inf if maximum is None else maximum, task.worst, compare_bits
        )
        return sweep

    def partial(self) -> Partial:
        """Return what is known of all blocks that were added."""
        if self._sweep is None:
            return NOTHING
        elements, bits, classes, left, right, sums, counts, exact, right_peak, largest, relative, worst = (
            self._sweep.found()
        )
        if not elements:
            return NOTHING
        integers = min(self._kinds) >= _FIRST_INTEGER
        product, absolute, squares, ratios = _sums(sums)
        differing, right_zero, outside, saturated, first_saturated = counts
        found = Errors(
            differing=differing,
            right_zero=right_zero,
            outside=outside,
            saturated=saturated,
            exact=(exact[0] << 32) + exact[1],
            absolute=absolute,
            squares=squares,
            relative=ratios,
            right_peak=right_peak,
            largest=_peak(largest, integers),
            largest_relative=_peak(relative, False),
            first_saturated=_place(first_saturated),
        )
        a, b = _moments(left), _moments(right)
        return Partial(
            elements=elements,
            bits=bits if self._task.left == self._task.right else None,
            classes=Classes(*classes[:8], *(_place(element) for element in classes[8:])),
            left=a,
            right=b,
            product=product,
            errors=found,
            # The kernel keeps them in the order of `Candidate.rank`: those of other classes, forbidden ones, ratios.
            worst=tuple([self._candidate(*each) for each in worst[: self._task.worst]]),
        )

    def _candidate(self, forbidden: bool | None, score: float, element: int, left: float, right: float) -> Candidate:
        """Return one of the worst; `forbidden` is ``None`` for elements whose classes differ."""
        values = (_scalar(left, self._kinds[0]), _scalar(right, self._kinds[1]))
        if forbidden is None:
            return Candidate(math.inf, True, math.inf, element, *values)
        if forbidden:
            return Candidate(math.inf, False, score, element, *values)
        return Candidate(score, False, 0.0, element, *values)


def _is_simple(task: Task, most_worst: int) -> bool:
    rtol, atol = task.tolerance
    return _is_usual(rtol) and _is_usual(atol) and task.worst <= most_worst


def _is_usual(bound: float) -> bool:
    return not bound or _LEAST_TOLERANCE <= bound <= _MOST_TOLERANCE


def _moments(side: tuple[int, float, float, float, float, float, float]) -> tuple[Moments, ...]:
    elements, total, total_low, deviations, deviations_low, minimum, maximum = side
    if not elements:
        return ()
    return (Moments(elements, Sum(total, total_low), Sum(deviations, deviations_low), minimum, maximum),)


def _sums(halves: tuple[float, ...]) -> list[Sum]:
    return [Sum(halves[place], halves[place + 1]) for place in range(0, len(halves), 2)]


def _peak(found: tuple[float, int], integers: bool) -> Peak:
    value, element = found
    if element < 0:
        return NO_PEAK
    return Peak(int(value) if integers else value, element)


def _place(element: int) -> int | None:
    return None if element < 0 else element


def _scalar(value: float, kind: int) -> Scalar:
    return int(value) if kind >= _FIRST_INTEGER else value


class SweptDivergence:
    """The second pass over a pair by the compiled kernel, which then does all of it."""

    def __init__(self, sweep: _sweep.Divergence) -> None:
        self._sweep = sweep

    @classmethod
    def of(cls, left: Array, right: Array, spans: tuple[Span, Span], everything_finite: bool) -> SweptDivergence | None:
        """Return what takes blocks of these dtypes, or ``None`` where the kernel cannot.

        Parameters
        ----------
        left, right : ndarray
            Blocks of both sides, only looked at for their dtypes.
        spans : tuple of Span
            The range of both sides.
        everything_finite : bool
            Whether no element is NaN or Inf.
        """
        module, kinds = chosen().module, (_KINDS.get(left.dtype), _KINDS.get(right.dtype))
        widths = spans[0].width, spans[1].width
        if module is None or None in kinds or not all(math.isfinite(1.0 / width) for width in widths if width):
            return None
        return cls(
            module.Divergence(*kinds, spans[0].minimum, widths[0], spans[1].minimum, widths[1], everything_finite)
        )

    def add(self, left: Array, right: Array) -> None:
        """Add one block of both sides."""
        self._sweep.add(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def sums(self) -> Divergence:
        """Return the sums of all blocks that were added."""
        return Divergence(*_sums(self._sweep.found()))
