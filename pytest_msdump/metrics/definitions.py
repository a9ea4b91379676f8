"""From what was summed, counted and maximised to the metrics themselves, or to the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pytest_msdump.dtypes import coarser
from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.metrics.numpy_kernel import EXACT_KINDS, Partial, Task
from pytest_msdump.metrics.pointwise import Errors, first_of
from pytest_msdump.metrics.sums import Moments, Sum, root
from pytest_msdump.model.comparison import Measurement
from pytest_msdump.text import Message

__all__ = ["LEFT_OUT", "NOTHING_LEFT_OUT", "Totals", "define", "indexes", "unravel", "vendor_numbers"]

_NO_ELEMENTS = Message("no_elements")
_NOTHING_FINITE = Message("nothing_finite")
_LEFT_ZERO = Message("left_all_zero")
_RIGHT_ZERO = Message("right_all_zero")
_BOTH_ZERO = Message("both_all_zero")
_ONE_ELEMENT = Message("one_element")
_NO_RELATIVE = Message("right_zero_everywhere")
_TOO_BIG = Message("number_too_large")
_TOO_FAR_APART = Message("difference_too_large")
_MODULUS_TOO_BIG = Message("modulus_too_large")
_MODULUS_TOO_SMALL = Message("moduli_too_small")
_RELATIVE_TOO_BIG = Message("relative_error_too_large")
_RANGE_TOO_BIG = Message("range_too_large")
_COMPLEX = Message("tensors_are_complex")


# Why a metric has no number that is not measured because a suite says so.
LEFT_OUT = "left_out_by"
NOTHING_LEFT_OUT: Mapping[str, str] = MappingProxyType({})


# A metric's number, or why it has none.
_Value: TypeAlias = float | int | tuple[float, ...] | Message
_Values: TypeAlias = dict[str, _Value]
_Index: TypeAlias = tuple[int, ...]

# A modulus of complex numbers is rounded, and below normal numbers to fewer digits.
_LEAST_MODULUS = 2.0**-960

_COSINE = "cosine_similarity"
_COUNTS = ("nonfinite_mismatch", "saturated_count", "allclose", "bitwise_mismatch")
# What does not apply where all is 0 on one side, and no further than next to it on the other.
_RATIOS = ("cosine_similarity", "relative_euclidean_distance", "normalized_max_error", "kl_divergence")
_ERRORS = (
    "max_absolute_error",
    "mean_absolute_error",
    "root_mean_square_error",
    "relative_euclidean_distance",
    "normalized_max_error",
)

_EMPTY: Mapping[str, _Value] = dict.fromkeys(METRICS, _NO_ELEMENTS)
_NO_FINITE_VALUES: Mapping[str, _Value] = {metric: _NOTHING_FINITE for metric in METRICS if metric not in _COUNTS}
_FAR_APART: Mapping[str, _Value] = dict.fromkeys(_ERRORS, _TOO_FAR_APART)
_OVER_RIGHT = (*RELATIVE_METRICS, "relative_euclidean_distance", "normalized_max_error")
_SMALL_MODULI: Mapping[str, _Value] = dict.fromkeys(_OVER_RIGHT, _MODULUS_TOO_SMALL)


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
        return self.task.kinds <= EXACT_KINDS

    @property
    def makers(self) -> dict[str, int | None]:
        """Of a maximum the element that made it, of a count the first: their C-order numbers."""
        classes, errors = self.partial.classes, self.partial.errors
        return {
            "max_absolute_error": errors.largest.element,
            "max_relative_error": errors.largest_relative.element,
            "nonfinite_mismatch": classes.first_mismatch,
            "saturated_count": first_of(classes.first_left_only, errors.first_saturated),
        }


def unravel(index: int, shape: tuple[int, ...]) -> _Index:
    """Return the logical index of a C-order element number.

    Examples
    --------
    >>> unravel(17, (2, 3, 4))
    (1, 1, 1)
    """
    return tuple([index // step % length for step, length in _steps(shape)])


def indexes(elements: Iterable[int | None], shape: tuple[int, ...]) -> dict[int | None, _Index | None]:
    """Return the logical index of each of some elements, of ``None`` none."""
    steps = _steps(shape)
    found: dict[int | None, _Index | None] = {None: None}
    for element in elements:
        if element is not None and element not in found:
            found[element] = tuple([element // step % length for step, length in steps])
    return found


# A network has many tensors and few shapes.
@lru_cache(maxsize=1024)
def _steps(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return for each axis how many elements one step is, and its length."""
    return tuple((prod(shape[axis + 1 :]), length) for axis, length in enumerate(shape))


def define(totals: Totals, where: Mapping[int | None, _Index | None]) -> dict[str, Measurement]:
    """Return one measurement for every id of `facts.metrics`, in the order they have there.

    Parameters
    ----------
    totals : Totals
        What was found.
    where : mapping of int to tuple of int
        The logical index of each element that `Totals.makers` names, of ``None`` none.
    """
    # One that nobody defines is an error here: it may never look as if it were fine.
    values, made = _values(totals), tuple.__new__
    places = {metric: where[element] for metric, element in totals.makers.items() if element is not None}
    found: dict[str, Measurement] = {
        # Half the time of the class's own constructor.
        metric: made(Measurement, (metric, None, value, True, None))
        if type(value := values[metric]) is Message
        else made(Measurement, (metric, value, None, True, places.get(metric)))
        for metric in METRICS
    }
    if (reason := _nothing_but_zeros(totals)) is not None:
        for metric in _RATIOS:
            found[metric] = Measurement(metric, undefined=reason, applies=False)
    if totals.partial.elements == 1:
        found[_COSINE] = Measurement(_COSINE, undefined=_ONE_ELEMENT, applies=False)
    for metric in totals.without:
        if metric in found:
            found[metric] = Measurement(metric, undefined=Message(LEFT_OUT, {"rule": totals.without[metric]}))
    return found


def _nothing_but_zeros(totals: Totals) -> Message | None:
    """Say why ratios tell nothing: the right side is all 0, and the left 0 or next to it; ``None`` elsewhere."""
    task, errors, right = totals.task, totals.partial.errors, totals.partial.right
    if not errors.near_zero or errors.near_zero != errors.differing or not _all_zero(right):
        return None
    return Message("right_zero_left_next_to_it", {"dtype": coarser(task.left, task.right)})


def vendor_numbers(totals: Totals) -> dict[str, float]:
    """Return the vendor's numbers where they count right = 0 ≠ left as 0 and divide by all elements."""
    _, partial, _, _, without = totals
    if not partial.finite:
        return {}
    relative = partial.errors.relative
    numbers = {
        "accumulated_relative_error": relative.value,
        "max_relative_error": float(partial.errors.largest_relative.value),
        "mean_relative_error": relative.divided(partial.elements),
    }
    if not without and math.isfinite(sum(numbers.values())):
        return numbers
    return {metric: number for metric, number in numbers.items() if math.isfinite(number) and metric not in without}


def _values(totals: Totals) -> Mapping[str, _Value]:
    """Return each metric's number, or why it has none."""
    task, partial, *_ = totals
    if not partial.elements:
        return _EMPTY
    classes, errors, bits = partial.classes, partial.errors, partial.bits
    values: _Values = {
        "nonfinite_mismatch": classes.mismatch,
        "saturated_count": classes.left_only + errors.saturated,
        "allclose": errors.outside + classes.mismatch,
        "bitwise_mismatch": task.unlike if bits is None else bits,
    }
    values.update(_finite_values(totals) if partial.finite else _NO_FINITE_VALUES)
    return values


def _finite_values(totals: Totals) -> _Values:
    """Define what is taken over positions where both sides are finite."""
    partial = totals.partial
    left, right, errors = partial.left, partial.right, partial.errors
    zeros = _all_zero(left), _all_zero(right)
    squares = _square_sum(left), _square_sum(right)
    values: _Values = _relative_values(errors, partial.finite)
    if math.isfinite(errors.largest.value):
        values.update(_error_values(totals, None if zeros[1] else squares[1]))
    else:
        values.update(_FAR_APART)
    if "complex" in totals.task.kinds and 0.0 < errors.right_peak < _LEAST_MODULUS:
        values.update(_SMALL_MODULI)
    values["cosine_similarity"] = _cosine(partial, zeros, squares)
    values["kl_divergence"] = _divergence(totals)
    values["standard_deviation"] = _deviations(left, right)
    return values


def _fitting(value: float) -> float | Message:
    return value if math.isfinite(value) else _TOO_BIG


def _square_sum(parts: tuple[Moments, ...]) -> Sum:
    """Return Σ x² of finite elements."""
    total = parts[0].squares
    for part in parts[1:]:
        total = total.merge(part.squares)
    return total


def _all_zero(parts: tuple[Moments, ...]) -> bool:
    first = parts[0]
    return not (first.minimum or first.maximum) and (len(parts) == 1 or _all_zero(parts[1:]))


def _cosine(partial: Partial, zeros: tuple[bool, bool], squares: tuple[Sum, Sum]) -> float | Message:
    if zeros[0] or zeros[1]:
        return _BOTH_ZERO if all(zeros) else _LEFT_ZERO if zeros[0] else _RIGHT_ZERO
    if not partial.errors.differing:
        return 1.0
    (left, right), product = squares, partial.product
    # Each root by itself: the product of both square sums may not fit float64. Exponents of square sums are even.
    lengths = math.sqrt(left.high + left.low) * math.sqrt(right.high + right.low)
    shift = product.exponent - (left.exponent + right.exponent) // 2
    cosine = math.ldexp((product.high + product.low) / lengths, shift)
    return max(-1.0, min(1.0, cosine))


def _error_values(totals: Totals, right_squares: Sum | None) -> _Values:
    """Define what is made of differences l−r, which may overflow; without squares all of the right side is 0."""
    errors, count, exact = totals.partial.errors, totals.partial.finite, totals.exact
    largest, (high, low, exponent) = errors.largest.value, errors.squares
    squares = high + low
    distance: float | Message = _RIGHT_ZERO
    normalized: float | Message = _RIGHT_ZERO
    if right_squares is not None:
        high, low, own = right_squares
        distance = _fitting(root(squares / (high + low), exponent - own))
        peak = errors.right_peak
        normalized = _MODULUS_TOO_BIG if math.isinf(peak) else _fitting(largest / peak)
    return {
        "max_absolute_error": int(largest) if exact else float(largest),
        "mean_absolute_error": errors.exact / count if exact else errors.absolute.divided(count),
        "root_mean_square_error": _fitting(root(squares / count, exponent)),
        "relative_euclidean_distance": distance,
        "normalized_max_error": normalized,
    }


def _relative_values(errors: Errors, finite: int) -> _Values:
    used, largest = finite - errors.right_zero, errors.largest_relative.value
    reason = _no_relative_error(used, errors.right_peak, largest)
    if reason is not None:
        return dict.fromkeys(RELATIVE_METRICS, reason)
    return {
        "max_relative_error": float(largest),
        "mean_relative_error": _fitting(errors.relative.divided(used)),
        "accumulated_relative_error": _fitting(errors.relative.value),
    }


def _no_relative_error(used: int, right_peak: float, largest: float) -> Message | None:
    """Say why relative errors have no number; ``None`` where they have one."""
    if not used:
        return _NO_RELATIVE
    if math.isinf(right_peak):
        return _MODULUS_TOO_BIG
    return _RELATIVE_TOO_BIG if math.isinf(largest) else None


def _divergence(totals: Totals) -> float | Message:
    if "complex" in totals.task.kinds:
        return _COMPLEX
    if not totals.partial.errors.differing:
        return 0.0
    return _RANGE_TOO_BIG if totals.divergence is None else totals.divergence


def _deviations(*sides: tuple[Moments, ...]) -> tuple[float, ...] | Message:
    """Return mean and deviation of both sides; of complex numbers the mean's modulus, and the deviation about it."""
    numbers: list[float] = []
    for parts in sides:
        if len(parts) == 1:
            numbers += (parts[0].mean, parts[0].deviation)
            continue
        variance = parts[0].variance
        for part in parts[1:]:
            variance = variance.merge(part.variance)
        high, low, exponent = variance
        numbers += (math.hypot(*(part.mean for part in parts)), root(high + low, exponent))
    return tuple(numbers) if all(map(math.isfinite, numbers)) else _TOO_BIG
