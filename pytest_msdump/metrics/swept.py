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
from pytest_msdump.metrics.sums import Peak, Sum
from pytest_msdump.metrics.values import Array
from pytest_msdump.metrics.worst import Candidate

if TYPE_CHECKING:
    from pytest_msdump.metrics import _sweep

__all__ = ["SweptDivergence", "SweptPair"]

# As `Kind` in sweep.c counts them. Integers come last.
_ORDER = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
_KINDS = {np.dtype(name): number for number, name in enumerate(_ORDER) if name != "bfloat16"}
# As the enumeration of types in sweep.c.
_TYPES = (Partial, Classes, Moments, Sum, Peak, Errors, Candidate)

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
        sweep: _sweep.Sweep = module.Sweep(
            a, b, *task.tolerance, math.inf if maximum is None else maximum, task.worst, compare_bits
        )
        return sweep

    def partial(self) -> Partial:
        """Return what is known of all blocks that were added."""
        if self._sweep is None:
            return NOTHING
        found = self._sweep.found(_TYPES)
        return found if found.elements else NOTHING


def _is_simple(task: Task, most_worst: int) -> bool:
    rtol, atol = task.tolerance
    return _is_usual(rtol) and _is_usual(atol) and task.worst <= most_worst


def _is_usual(bound: float) -> bool:
    return not bound or _LEAST_TOLERANCE <= bound <= _MOST_TOLERANCE


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
        left, left_low, right, right_low, weighted, weighted_low = self._sweep.found()
        return Divergence(Sum(left, left_low), Sum(right, right_low), Sum(weighted, weighted_low))
