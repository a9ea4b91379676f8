"""From what was summed, counted and maximised to the metrics themselves, or to the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, lru_cache
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.lazy_tuple import NamedTuple
from pytest_msdump.metrics.kernel import Partial, Task
from pytest_msdump.metrics.moments import Moments
from pytest_msdump.metrics.nonfinite import first_of
from pytest_msdump.metrics.sums import ZERO, Sum
from pytest_msdump.model.comparison import Measurement

__all__ = ["LEFT_OUT", "NOTHING_LEFT_OUT", "Totals", "define", "unravel", "vendor_numbers"]

_NO_ELEMENTS = "no elements"
_NOTHING_FINITE = "no position where both sides are finite"
_LEFT_ZERO = "all elements of the left side are 0"
_RIGHT_ZERO = "all elements of the right side are 0"
_BOTH_ZERO = "all elements of both sides are 0"
_ONE_ELEMENT = "cosine does not apply to a tensor of one element"
_NO_RELATIVE = "the right side is 0 and the left side is not, at every position where both are finite"
_TOO_BIG = "the number is larger than float64 can hold"
_TOO_FAR_APART = "the difference of two elements is larger than float64 can hold"
_MODULUS_TOO_BIG = "the modulus of an element is larger than float64 can hold"
_RELATIVE_TOO_BIG = "a relative error is larger than float64 can hold"
_RANGE_TOO_BIG = "the range of a side is larger than float64 can hold"
_COMPLEX = "the tensors are complex"


# How the reason of a metric begins that is not measured because somebody wants it so.
LEFT_OUT = "it was left out by "
NOTHING_LEFT_OUT: Mapping[str, str] = MappingProxyType({})


_Found: TypeAlias = dict[str, Measurement]
_Value: TypeAlias = float | int | tuple[float, ...] | str

_COSINE = "cosine_similarity"
_COUNTS = ("nonfinite_mismatch", "saturated_count", "allclose", "bitwise_mismatch")
_ERRORS = (
    "max_absolute_error",
    "mean_absolute_error",
    "root_mean_square_error",
    "relative_euclidean_distance",
    "normalized_max_error",
)
_FINITE = tuple(metric for metric in METRICS if metric not in _COUNTS)

_EXACT = frozenset({"integer", "bool"})
_ONE = Sum(1.0)
# Holds the metrics' places in the order. One that nobody defines may never look as if it were fine.
_NOTHING_MEASURED: _Found = {metric: Measurement(metric, undefined="it was not measured") for metric in METRICS}


class Totals(NamedTuple):
    """What the passes over the data gave; `divergence` is ``None`` where no second pass made sense.

    `without` tells of each metric that is left out who said so.
    """

    task: Task
    partial: Partial
    shape: tuple[int, ...]
    divergence: float | None = None
    without: Mapping[str, str] = NOTHING_LEFT_OUT

    @property
    def exact(self) -> bool:
        """Whether both sides are integers or bools."""
        return _kinds(self.task.left, self.task.right) <= _EXACT


# A network has many tensors and few types.
@cache
def _kinds(left: str, right: str) -> frozenset[str]:
    return frozenset({DTYPES[left].kind, DTYPES[right].kind})


def unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the logical index of a C-order element number.

    Examples
    --------
    >>> unravel(17, (2, 3, 4))
    (1, 1, 1)
    """
    return tuple([index // step % length for step, length in _steps(shape)])


# A network has many tensors and few shapes.
@lru_cache(maxsize=1024)
def _steps(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return for each axis how many elements one step is, and its length."""
    return tuple((prod(shape[axis + 1 :]), length) for axis, length in enumerate(shape))


def define(totals: Totals) -> dict[str, Measurement]:
    """Return one measurement for every id of `facts.metrics`, in the order they have there."""
    partial = totals.partial
    if not partial.elements:
        found = {metric: Measurement(metric, undefined=_NO_ELEMENTS) for metric in METRICS}
    else:
        found = _NOTHING_MEASURED.copy()
        _count(found, totals)
        if partial.finite:
            _measure_finite(found, totals)
        else:
            found.update((metric, Measurement(metric, undefined=_NOTHING_FINITE)) for metric in _FINITE)
    if partial.elements == 1:
        found[_COSINE] = Measurement(_COSINE, undefined=_ONE_ELEMENT, applies=False)
    for metric in totals.without:
        if metric in found:
            found[metric] = Measurement(metric, undefined=f"{LEFT_OUT}{totals.without[metric]}")
    return found


def vendor_numbers(totals: Totals) -> dict[str, float]:
    """Return the vendor's numbers where they count right = 0 ≠ left as 0 and divide by all elements."""
    if not totals.partial.finite:
        return {}
    errors = totals.partial.errors
    numbers = {
        "accumulated_relative_error": errors.relative.value,
        "max_relative_error": float(errors.largest_relative.value),
        "mean_relative_error": errors.relative.divided(totals.partial.elements),
    }
    return {
        metric: number for metric, number in numbers.items() if math.isfinite(number) and metric not in totals.without
    }


def _count(found: _Found, totals: Totals) -> None:
    """Define what is taken over all positions."""
    task, partial, shape, *_ = totals
    classes, errors, bits = partial.classes, partial.errors, partial.bits
    mismatch = classes.mismatch
    _put(found, "nonfinite_mismatch", mismatch, classes.first_mismatch, shape)
    first = first_of(classes.first_left_only, errors.first_saturated)
    _put(found, "saturated_count", classes.left_only + errors.saturated, first, shape)
    _put(found, "allclose", errors.outside + mismatch)
    _put(found, "bitwise_mismatch", f"dtypes differ: {task.left} and {task.right}" if bits is None else bits)


def _measure_finite(found: _Found, totals: Totals) -> None:
    """Define what is taken over positions where both sides are finite."""
    left, right = totals.partial.left, totals.partial.right
    zeros = _all_zero(left), _all_zero(right)
    squares = _square_sum(left), _square_sum(right)
    _put(found, "cosine_similarity", _cosine(totals, zeros, squares))
    if math.isfinite(totals.partial.errors.largest.value):
        _measure_errors(found, totals, None if zeros[1] else squares[1])
    else:
        for metric in _ERRORS:
            _put(found, metric, _TOO_FAR_APART)
    _measure_relative(found, totals)
    _put(found, "kl_divergence", _divergence(totals))
    _put(found, "standard_deviation", _deviations(left, right))


def _put(found: _Found, metric: str, value: _Value, element: int | None = None, shape: tuple[int, ...] = ()) -> None:
    """Set down a metric's number, and which element made it; a text is why there is none."""
    if isinstance(value, str):
        found[metric] = Measurement(metric, None, value)
    else:
        where = None if element is None else unravel(element, shape)
        # Half the time of the class's own constructor, which takes its fields by name.
        found[metric] = tuple.__new__(Measurement, (metric, value, None, True, where))


def _fitting(value: float) -> float | str:
    return value if math.isfinite(value) else _TOO_BIG


def _square_sum(parts: tuple[Moments, ...]) -> Sum:
    """Return Σ x² of finite elements."""
    if len(parts) == 1:
        return parts[0].squares
    total = ZERO
    for part in parts:
        total = total.merge(part.squares)
    return total


def _all_zero(parts: tuple[Moments, ...]) -> bool:
    if len(parts) == 1:
        return parts[0].peak == 0.0
    return all(part.peak == 0.0 for part in parts)


def _cosine(totals: Totals, zeros: tuple[bool, bool], squares: tuple[Sum, Sum]) -> float | str:
    if zeros[0] or zeros[1]:
        return _BOTH_ZERO if all(zeros) else _LEFT_ZERO if zeros[0] else _RIGHT_ZERO
    if not totals.partial.errors.differing:
        return 1.0
    (left, right), product = squares, totals.partial.product
    # Each root by itself: the product of both square sums may not fit float64. Exponents of square sums are even.
    lengths = math.sqrt(left.high + left.low) * math.sqrt(right.high + right.low)
    shift = product.exponent - (left.exponent + right.exponent) // 2
    cosine = math.ldexp((product.high + product.low) / lengths, shift)
    return max(-1.0, min(1.0, cosine))


def _measure_errors(found: _Found, totals: Totals, right_squares: Sum | None) -> None:
    """Define what is made of differences l−r, which may overflow; without squares all of the right side is 0."""
    errors, count, exact = totals.partial.errors, totals.partial.finite, totals.exact
    largest, at = errors.largest
    _put(found, "max_absolute_error", int(largest) if exact else float(largest), at, totals.shape)
    _put(found, "mean_absolute_error", errors.exact / count if exact else errors.absolute.divided(count))
    _put(found, "root_mean_square_error", _fitting(errors.squares.root_of_ratio(Sum(float(count)))))
    if right_squares is None:
        _put(found, "relative_euclidean_distance", _RIGHT_ZERO)
        _put(found, "normalized_max_error", _RIGHT_ZERO)
        return
    _put(found, "relative_euclidean_distance", _fitting(errors.squares.root_of_ratio(right_squares)))
    peak = errors.right_peak
    _put(found, "normalized_max_error", _MODULUS_TOO_BIG if math.isinf(peak) else _fitting(largest / peak))


def _measure_relative(found: _Found, totals: Totals) -> None:
    errors = totals.partial.errors
    largest, at = errors.largest_relative
    used = totals.partial.finite - errors.right_zero
    reason = _no_relative_error(used, errors.right_peak, largest)
    if reason is not None:
        for metric in RELATIVE_METRICS:
            _put(found, metric, reason)
        return
    _put(found, "max_relative_error", float(largest), at, totals.shape)
    _put(found, "mean_relative_error", _fitting(errors.relative.divided(used)))
    _put(found, "accumulated_relative_error", _fitting(errors.relative.value))


def _no_relative_error(used: int, right_peak: float, largest: float) -> str | None:
    """Say why relative errors have no number; ``None`` where they have one."""
    if not used:
        return _NO_RELATIVE
    if math.isinf(right_peak):
        return _MODULUS_TOO_BIG
    return _RELATIVE_TOO_BIG if math.isinf(largest) else None


def _divergence(totals: Totals) -> float | str:
    if "complex" in _kinds(totals.task.left, totals.task.right):
        return _COMPLEX
    if not totals.partial.errors.differing:
        return 0.0
    return _RANGE_TOO_BIG if totals.divergence is None else totals.divergence


def _deviations(*sides: tuple[Moments, ...]) -> tuple[float, ...] | str:
    """Return mean and deviation of both sides; of complex numbers the mean's modulus, and the deviation about it."""
    numbers: list[float] = []
    for parts in sides:
        variance = parts[0].variance
        for part in parts[1:]:
            variance = variance.merge(part.variance)
        mean = parts[0].mean if len(parts) == 1 else math.hypot(*(part.mean for part in parts))
        numbers += (mean, variance.root_of_ratio(_ONE))
    return tuple(numbers) if all(map(math.isfinite, numbers)) else _TOO_BIG
