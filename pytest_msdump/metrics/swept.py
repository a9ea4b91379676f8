"""What the compiled kernel finds, in the terms of `kernel` and `distribution`."""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pytest_msdump.compiled import chosen
from pytest_msdump.facts.dtypes import DTYPES
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

__all__ = ["KINDS", "SweptDivergence", "SweptPair", "Terms"]

# As `Kind` in sweep.c counts them. Integers come last.
KINDS = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")

_KINDS = {np.dtype(name): number for number, name in enumerate(KINDS)}
# As the enumeration of types in sweep.c.
_TYPES = (Partial, Classes, Moments, Sum, Peak, Errors, Candidate)

# Kinds of both sides, rtol, atol, the left type's largest number, how near to 0 is next to it, how many worst elements,
# and whether bits count.
Terms: TypeAlias = tuple[int, int, float, float, float, float, int, bool]

# Beyond these a tolerance would need what the kernel leaves to numpy: subnormal and infinite ratios.
_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-100, 1e100


class SweptPair:
    """The first pass over a pair, as far as the compiled kernel can do it.

    Parameters
    ----------
    task : Task
        What to measure by.
    """

    __slots__ = ("_sweep", "_task", "module")

    def __init__(self, task: Task) -> None:
        self._task = task
        self._sweep: _sweep.Sweep | None = None
        self.module = chosen().module

    def add(self, left: Array, right: Array, start: int) -> bool:
        """Measure one block of both sides, if the kernel can; else nothing has happened.

        Parameters
        ----------
        left, right : ndarray
            1-D, native, of equal size. Blocks come in ascending order.
        start : int
            C-order number of the first element.
        """
        if self.module is None or not (left.flags.c_contiguous and right.flags.c_contiguous):
            return False
        if self._sweep is None:
            terms = _terms(self._task, left.dtype, right.dtype, self.module.MOST_WORST)
            if terms is None:
                return False
            self._sweep = self.module.Sweep(*terms)
        return self._sweep.add(left, right, start)

    def partial(self) -> Partial:
        """Return what is known of all blocks that were added."""
        if self._sweep is None:
            return NOTHING
        found = self._sweep.found(_TYPES)
        return found if found.elements else NOTHING


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=256)
def _terms(task: Task, left: np.dtype[Any], right: np.dtype[Any], most_worst: int) -> Terms | None:
    """Return what the kernel measures such blocks by; ``None`` where it cannot."""
    a, b = _KINDS.get(left), _KINDS.get(right)
    if a is None or b is None or task.worst > most_worst:
        return None
    if not all(not bound or _LEAST_TOLERANCE <= bound <= _MOST_TOLERANCE for bound in task.tolerance):
        return None
    compare_bits = task.left == task.right
    if compare_bits and a != b:
        return None
    maximum = DTYPES[task.left].maximum
    return a, b, *task.tolerance, math.inf if maximum is None else maximum, task.near_zero, task.worst, compare_bits


def _is_divisor(width: float) -> bool:
    return not width or math.isfinite(1.0 / width)


class SweptDivergence:
    """The second pass over a pair by the compiled kernel, which then does all of it."""

    __slots__ = ("_sweep",)

    def __init__(self, sweep: _sweep.Divergence) -> None:
        self._sweep = sweep

    @classmethod
    def of(
        cls,
        left: Array,
        right: Array,
        spans: tuple[Span, Span],
        everything_finite: bool,
        module: ModuleType | None = None,
    ) -> SweptDivergence | None:
        """Return what takes blocks of these dtypes, or ``None`` where the kernel cannot.

        Parameters
        ----------
        left, right : ndarray
            Blocks of both sides, only looked at for their dtypes.
        spans : tuple of Span
            The range of both sides.
        everything_finite : bool
            Whether no element is NaN or Inf.
        module : module, optional
            The compiled kernel, from who has it already.
        """
        module, kinds = module or chosen().module, (_KINDS.get(left.dtype), _KINDS.get(right.dtype))
        (low, high), (other_low, other_high) = spans
        width, other_width = high - low, other_high - other_low
        if module is None or None in kinds or not (_is_divisor(width) and _is_divisor(other_width)):
            return None
        return cls(module.Divergence(*kinds, low, width, other_low, other_width, everything_finite))

    def add(self, left: Array, right: Array) -> None:
        """Add one block of both sides."""
        self._sweep.add(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def sums(self) -> Divergence:
        """Return the sums of all blocks that were added."""
        left, left_low, right, right_low, weighted, weighted_low = self._sweep.found()
        return Divergence(Sum(left, left_low), Sum(right, right_low), Sum(weighted, weighted_low))
