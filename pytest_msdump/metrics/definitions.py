"""From what was summed, counted and maximised to the metrics themselves, or to the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
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


_COSINE, _DIVERGENCE, _DEVIATIONS = "cosine_similarity", "kl_divergence", "standard_deviation"
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
# Holds a metric's place in the order. One that nobody defines may never look as if it were fine.
_NOT_MEASURED = Measurement("", undefined="it was not measured")


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

    def where(self, index: int | None) -> tuple[int, ...] | None:
        """Return the logical index of an element number."""
        return None if index is None else unravel(index, self.shape)


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
    places: list[int] = []
    for length in shape[::-1]:
        places.append(index % length)
        index //= length
    return tuple(places[::-1])


def define(totals: Totals) -> dict[str, Measurement]:
    """Return one measurement for every id of `facts.metrics`, in the order they have there."""
    partial = totals.partial
    found = dict.fromkeys(METRICS, _NOT_MEASURED)
    if not partial.elements:
        found = {metric: Measurement(metric, undefined=_NO_ELEMENTS) for metric in METRICS}
    else:
        for one in _counts(totals):
            found[one.metric] = one
        for one in _of_finite(totals) if partial.finite else _of_nothing():
            found[one.metric] = one
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


def _counts(totals: Totals) -> Iterator[Measurement]:
    """Define what is taken over all positions."""
    task, partial = totals.task, totals.partial
    classes, errors = partial.classes, partial.errors
    first = first_of(classes.first_left_only, errors.first_saturated)
    yield Measurement("nonfinite_mismatch", classes.mismatch, None, True, totals.where(classes.first_mismatch))
    yield Measurement("saturated_count", classes.left_only + errors.saturated, None, True, totals.where(first))
    yield Measurement("allclose", errors.outside + classes.mismatch)
    differ = None if partial.bits is not None else f"dtypes differ: {task.left} and {task.right}"
    yield Measurement("bitwise_mismatch", partial.bits, differ)


def _of_nothing() -> Iterator[Measurement]:
    """Say of what is taken over positions where both sides are finite that there are none."""
    return (Measurement(metric, undefined=_NOTHING_FINITE) for metric in _FINITE)


def _of_finite(totals: Totals) -> Iterator[Measurement]:
    """Define what is taken over positions where both sides are finite."""
    zeros = _all_zero(totals.partial.left), _all_zero(totals.partial.right)
    squares = _square_sum(totals.partial.left), _square_sum(totals.partial.right)
    yield _cosine(totals, zeros, squares)
    yield from _errors(totals, zeros[1], squares[1])
    yield from _relative_errors(totals)
    yield _divergence(totals)
    yield _deviations(totals)


def _fitting(metric: str, value: float) -> Measurement:
    """Return a measurement of a number, unless float64 cannot hold it."""
    return Measurement(metric, value) if math.isfinite(value) else Measurement(metric, undefined=_TOO_BIG)


def _square_sum(parts: tuple[Moments, ...]) -> Sum:
    """Return Σ x² of finite elements."""
    if len(parts) == 1:
        return parts[0].squares
    total = ZERO
    for part in parts:
        total = total.merge(part.squares)
    return total


def _all_zero(parts: tuple[Moments, ...]) -> bool:
    return all(part.peak == 0.0 for part in parts)


def _cosine(totals: Totals, zeros: tuple[bool, bool], squares: tuple[Sum, Sum]) -> Measurement:
    if any(zeros):
        return Measurement(_COSINE, undefined=_BOTH_ZERO if all(zeros) else _LEFT_ZERO if zeros[0] else _RIGHT_ZERO)
    if not totals.partial.errors.differing:
        return Measurement(_COSINE, 1.0)
    (left, right), product = squares, totals.partial.product
    # Each root by itself: the product of both square sums may not fit float64. Exponents of square sums are even.
    lengths = math.sqrt(left.high + left.low) * math.sqrt(right.high + right.low)
    shift = product.exponent - (left.exponent + right.exponent) // 2
    cosine = math.ldexp((product.high + product.low) / lengths, shift)
    return Measurement(_COSINE, max(-1.0, min(1.0, cosine)))


def _errors(totals: Totals, right_is_zero: bool, right_squares: Sum) -> Iterator[Measurement]:
    """Define what is made of differences l−r, which may overflow."""
    errors, count = totals.partial.errors, totals.partial.finite
    largest, at = errors.largest
    if not math.isfinite(largest):
        yield from (Measurement(metric, undefined=_TOO_FAR_APART) for metric in _ERRORS)
        return
    exact = totals.exact
    mean = errors.exact / count if exact else errors.absolute.divided(count)
    yield Measurement("max_absolute_error", int(largest) if exact else float(largest), None, True, totals.where(at))
    yield Measurement("mean_absolute_error", mean)
    yield _fitting("root_mean_square_error", errors.squares.root_of_ratio(Sum(float(count))))
    if right_is_zero:
        yield Measurement("relative_euclidean_distance", undefined=_RIGHT_ZERO)
        yield Measurement("normalized_max_error", undefined=_RIGHT_ZERO)
        return
    yield _fitting("relative_euclidean_distance", errors.squares.root_of_ratio(right_squares))
    if math.isinf(errors.right_peak):
        yield Measurement("normalized_max_error", undefined=_MODULUS_TOO_BIG)
    else:
        yield _fitting("normalized_max_error", largest / errors.right_peak)


def _relative_errors(totals: Totals) -> Iterator[Measurement]:
    errors = totals.partial.errors
    used = totals.partial.finite - errors.right_zero
    largest, at = errors.largest_relative
    reason = (
        _NO_RELATIVE
        if not used
        else _MODULUS_TOO_BIG
        if math.isinf(errors.right_peak)
        else _RELATIVE_TOO_BIG
        if math.isinf(largest)
        else None
    )
    if reason is not None:
        yield from (Measurement(metric, undefined=reason) for metric in sorted(RELATIVE_METRICS))
        return
    yield Measurement("max_relative_error", float(largest), None, True, totals.where(at))
    yield _fitting("mean_relative_error", errors.relative.divided(used))
    yield _fitting("accumulated_relative_error", errors.relative.value)


def _divergence(totals: Totals) -> Measurement:
    if "complex" in _kinds(totals.task.left, totals.task.right):
        return Measurement(_DIVERGENCE, undefined=_COMPLEX)
    if not totals.partial.errors.differing:
        return Measurement(_DIVERGENCE, 0.0)
    if totals.divergence is None:
        return Measurement(_DIVERGENCE, undefined=_RANGE_TOO_BIG)
    return Measurement(_DIVERGENCE, totals.divergence)


def _deviations(totals: Totals) -> Measurement:
    """Return mean and deviation of both sides; of complex numbers the mean's modulus, and the deviation about it."""
    numbers: list[float] = []
    for parts in (totals.partial.left, totals.partial.right):
        variance = parts[0].variance
        for part in parts[1:]:
            variance = variance.merge(part.variance)
        mean = parts[0].mean if len(parts) == 1 else math.hypot(*(part.mean for part in parts))
        numbers += (mean, variance.root_of_ratio(_ONE))
    if not all(map(math.isfinite, numbers)):
        return Measurement(_DEVIATIONS, undefined=_TOO_BIG)
    return Measurement(_DEVIATIONS, tuple(numbers))
