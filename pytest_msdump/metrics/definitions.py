"""From what was summed, counted and maximised to the metrics themselves, or to the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.metrics import METRICS
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


@dataclass(frozen=True)
class Totals:
    """What the passes over the data gave; `divergence` is ``None`` where no second pass made sense.

    `without` tells of each metric that is left out who said so.
    """

    task: Task
    partial: Partial
    shape: tuple[int, ...]
    divergence: float | None = None
    without: Mapping[str, str] = field(default_factory=lambda: NOTHING_LEFT_OUT)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of both dtypes."""
        return frozenset({DTYPES[self.task.left].kind, DTYPES[self.task.right].kind})

    @cached_property
    def exact(self) -> bool:
        """Whether both sides are integers or bools."""
        return self.kinds <= {"integer", "bool"}

    @cached_property
    def squares(self) -> tuple[Sum, Sum]:
        """Σ l² and Σ r² of finite elements."""
        return _square_sum(self.partial.left), _square_sum(self.partial.right)

    def where(self, index: int | None) -> tuple[int, ...] | None:
        """Return the logical index of an element number."""
        return None if index is None else unravel(index, self.shape)


class _Undefined(Exception):  # noqa: N818
    """A metric has no number; the text says why."""


_Value: TypeAlias = tuple[float | int | tuple[float, ...], int | None]


def unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the logical index of a C-order element number.

    Examples
    --------
    >>> unravel(17, (2, 3, 4))
    (1, 1, 1)
    """
    places: list[int] = []
    for length in shape[::-1]:
        places.append(index % length)
        index //= length
    return tuple(places[::-1])


def define(totals: Totals) -> dict[str, Measurement]:
    """Return one measurement for every id of `facts.metrics`, in the order they have there."""
    return {metric: _measurement(metric, totals) for metric in METRICS}


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


def _measurement(metric: str, totals: Totals) -> Measurement:
    if metric in totals.without:
        return Measurement(metric, undefined=f"{LEFT_OUT}{totals.without[metric]}")
    if totals.partial.elements == 1 and metric == "cosine_similarity":
        return Measurement(metric, undefined=_ONE_ELEMENT, applies=False)
    try:
        value, index = _value(metric, totals)
    except _Undefined as reason:
        return Measurement(metric, undefined=str(reason))
    return Measurement(metric, value, None, True, None if index is None else totals.where(index))


def _value(metric: str, totals: Totals) -> _Value:
    if not totals.partial.elements:
        raise _Undefined(_NO_ELEMENTS)
    if metric in _COUNTS:
        return _COUNTS[metric](totals)
    if not totals.partial.finite:
        raise _Undefined(_NOTHING_FINITE)
    if metric in _ERRORS and not math.isfinite(totals.partial.errors.largest.value):
        raise _Undefined(_TOO_FAR_APART)
    if metric in _RELATIVE_ERRORS:
        return _relative(metric, totals)
    return (_ERRORS.get(metric) or _OTHERS[metric])(totals)


def _fits(value: float) -> float:
    if not math.isfinite(value):
        raise _Undefined(_TOO_BIG)
    return value


def _square_sum(parts: tuple[Moments, ...]) -> Sum:
    if len(parts) == 1:
        return parts[0].squares
    total = ZERO
    for part in parts:
        total = total.merge(part.squares)
    return total


def _all_zero(parts: tuple[Moments, ...]) -> bool:
    return all(part.peak == 0.0 for part in parts)


def _right_squares(totals: Totals) -> Sum:
    if _all_zero(totals.partial.right):
        raise _Undefined(_RIGHT_ZERO)
    return totals.squares[1]


def _cosine(totals: Totals) -> _Value:
    partial = totals.partial
    zeros = _all_zero(partial.left), _all_zero(partial.right)
    if any(zeros):
        raise _Undefined(_BOTH_ZERO if all(zeros) else _LEFT_ZERO if zeros[0] else _RIGHT_ZERO)
    if not partial.errors.differing:
        return 1.0, None
    (left, right), product = totals.squares, partial.product
    # Each root by itself: the product of both square sums may not fit float64. Exponents of square sums are even.
    lengths = math.sqrt(left.high + left.low) * math.sqrt(right.high + right.low)
    shift = product.exponent - (left.exponent + right.exponent) // 2
    cosine = math.ldexp((product.high + product.low) / lengths, shift)
    return max(-1.0, min(1.0, cosine)), None


def _max_absolute(totals: Totals) -> _Value:
    largest = totals.partial.errors.largest
    return (int(largest.value) if totals.exact else float(largest.value)), largest.element


def _mean_absolute(totals: Totals) -> _Value:
    errors, count = totals.partial.errors, totals.partial.finite
    return (errors.exact / count if totals.exact else errors.absolute.divided(count)), None


def _root_mean_square(totals: Totals) -> _Value:
    count = Sum(float(totals.partial.finite))
    return _fits(totals.partial.errors.squares.root_of_ratio(count)), None


def _relative_euclid(totals: Totals) -> _Value:
    return _fits(totals.partial.errors.squares.root_of_ratio(_right_squares(totals))), None


def _normalized_max(totals: Totals) -> _Value:
    errors = totals.partial.errors
    if _all_zero(totals.partial.right):
        raise _Undefined(_RIGHT_ZERO)
    if math.isinf(errors.right_peak):
        raise _Undefined(_MODULUS_TOO_BIG)
    return _fits(errors.largest.value / errors.right_peak), None


def _relative(metric: str, totals: Totals) -> _Value:
    errors = totals.partial.errors
    used = totals.partial.finite - errors.right_zero
    if not used:
        raise _Undefined(_NO_RELATIVE)
    if math.isinf(errors.right_peak):
        raise _Undefined(_MODULUS_TOO_BIG)
    if math.isinf(errors.largest_relative.value):
        raise _Undefined(_RELATIVE_TOO_BIG)
    if metric == "max_relative_error":
        return float(errors.largest_relative.value), errors.largest_relative.element
    total = errors.relative
    return _fits(total.divided(used) if metric == "mean_relative_error" else total.value), None


def _divergence(totals: Totals) -> _Value:
    if "complex" in totals.kinds:
        raise _Undefined(_COMPLEX)
    if not totals.partial.errors.differing:
        return 0.0, None
    if totals.divergence is None:
        raise _Undefined(_RANGE_TOO_BIG)
    return totals.divergence, None


def _deviations(totals: Totals) -> _Value:
    """Return mean and deviation of both sides; of complex numbers the mean's modulus, and the deviation about it."""
    numbers: list[float] = []
    for parts in (totals.partial.left, totals.partial.right):
        variance = parts[0].variance
        for part in parts[1:]:
            variance = variance.merge(part.variance)
        mean = parts[0].mean if len(parts) == 1 else math.hypot(*(part.mean for part in parts))
        numbers += [_fits(mean), _fits(variance.root_of_ratio(Sum(1.0)))]
    return tuple(numbers), None


def _mismatch(totals: Totals) -> _Value:
    return totals.partial.classes.mismatch, totals.partial.classes.first_mismatch


def _saturated(totals: Totals) -> _Value:
    classes, errors = totals.partial.classes, totals.partial.errors
    return classes.left_only + errors.saturated, first_of(classes.first_left_only, errors.first_saturated)


def _outside(totals: Totals) -> _Value:
    return totals.partial.errors.outside + totals.partial.classes.mismatch, None


def _bits(totals: Totals) -> _Value:
    if totals.partial.bits is None:
        raise _Undefined(f"dtypes differ: {totals.task.left} and {totals.task.right}")
    return totals.partial.bits, None


_Definition: TypeAlias = Callable[[Totals], _Value]

# Taken over all positions.
_COUNTS: dict[str, _Definition] = {
    "nonfinite_mismatch": _mismatch,
    "saturated_count": _saturated,
    "allclose": _outside,
    "bitwise_mismatch": _bits,
}

# Made of differences l−r, which may overflow.
_ERRORS: dict[str, _Definition] = {
    "max_absolute_error": _max_absolute,
    "mean_absolute_error": _mean_absolute,
    "root_mean_square_error": _root_mean_square,
    "relative_euclidean_distance": _relative_euclid,
    "normalized_max_error": _normalized_max,
}

_RELATIVE_ERRORS = frozenset({"max_relative_error", "mean_relative_error", "accumulated_relative_error"})

_OTHERS: dict[str, _Definition] = {
    "cosine_similarity": _cosine,
    "kl_divergence": _divergence,
    "standard_deviation": _deviations,
}
