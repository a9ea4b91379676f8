"""From sums, counts and maxima to metrics: one row for each, whichever kernel added them up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.facts.metrics import METRICS, ULP_METRICS
from pytest_msdump.core.metrics.numpy_kernel import EXACT_KINDS, Partial, Task
from pytest_msdump.core.metrics.pointwise import first_of
from pytest_msdump.core.metrics.sums import ZERO, Moments, Sum
from pytest_msdump.core.model.comparison import Measurement
from pytest_msdump.core.text import Message

# Code of the reason of a metric that a suite leaves out.
LEFT_OUT = "left_out_by"

# A metric's number, or why it has none. Numbers that are not finite are replaced by "number_too_large".
Value: TypeAlias = float | int | tuple[float, ...] | Message

_TOO_LARGE = Message("number_too_large")

# A modulus of complex numbers is rounded, and below normal numbers to fewer digits.
_LEAST_MODULUS = 2.0**-960


class Totals:
    """All that the passes over a pair found; `without` are metrics left out, each with the rule that says so.

    `no_slices` is why the tensors have none. `errors` are differences where both sides are finite, which is at `finite`
    positions; `classes` are NaN and Inf; `exact` is whether both sides are integers or bools. A side that `is_zero` has
    no other finite element. `left_squares` and `right_squares` are the sums over these.
    """

    def __init__(
        self,
        task: Task,
        partial: Partial,
        shape: tuple[int, ...],
        divergence: float | None = None,
        without: Mapping[str, str] = MappingProxyType({}),
        no_slices: Message | None = None,
    ) -> None:
        self.task, self.partial, self.shape = task, partial, shape
        self.divergence, self.without, self.no_slices = divergence, without, no_slices
        self.errors, self.classes, self.finite = partial.errors, partial.classes, partial.finite
        kinds = task.kinds
        self.exact, self.is_complex = kinds <= EXACT_KINDS, "complex" in kinds
        self.left_is_zero, self.right_is_zero = _is_zero(partial.left), _is_zero(partial.right)
        self.left_squares, self.right_squares = _squares(partial.left), _squares(partial.right)


class Definition(NamedTuple):
    """How one metric is made of `Totals`: its number, or a `Message` that says why there is none.

    `refusals` come before it, in this order: each may return a reason why there is no number. `place` is the C-order
    number of the element that made it, or what else says where it is. One that `counts_all` counts all positions;
    others have no number where no position is finite on both sides. One that `is_ratio` does not apply where the right
    side is all 0 and the left next to it.
    """

    number: Callable[[Totals], Value]
    refusals: Sequence[Callable[[Totals], Message | None]] = ()
    place: Callable[[Totals], int | tuple[int, ...] | None] | None = None
    counts_all: bool = False
    is_ratio: bool = False


def define(totals: Totals) -> dict[str, Measurement]:
    """Return one measurement for every metric of two tensors that was asked for, in the order of `facts.metrics`."""
    not_applicable: dict[str, Message] = {}
    if (zeros := _right_zero_left_near(totals)) is not None:
        not_applicable = {metric: zeros for metric, row in DEFINITIONS.items() if row.is_ratio}
    if totals.partial.elements == 1:
        not_applicable["cosine_similarity"] = Message("one_element")
    if totals.finite:
        not_applicable.update(_without_meaning(totals))
    no_elements = None if totals.partial.elements else Message("no_elements")
    none_finite = no_elements or (None if totals.finite else Message("nothing_finite"))
    refused = {}
    if none_finite is None:
        refused = {refusal: reason for refusal in _REFUSALS if (reason := refusal(totals)) is not None}
    measurements: dict[str, Measurement] = {}
    value: float | int | tuple[float, ...] | None
    without, units = totals.without, totals.task.units
    for metric, fact in METRICS.items():
        if fact.golden or fact.of or (not units and metric in ULP_METRICS):
            continue
        # A metric without a definition is an error here: it must never look fine.
        row = DEFINITIONS[metric] if fact.define is None else Definition(fact.define)
        nothing = no_elements if row.counts_all else none_finite
        if metric in without:
            measurements[metric] = Measurement(metric, None, Message(LEFT_OUT, {"rule": without[metric]}))
        elif metric in not_applicable:
            measurements[metric] = Measurement(metric, None, not_applicable[metric], applies=False)
        elif nothing is not None:
            measurements[metric] = Measurement(metric, None, nothing)
        elif refused and (reasons := [refused[refusal] for refusal in row.refusals if refusal in refused]):
            measurements[metric] = Measurement(metric, None, reasons[0])
        else:
            found = row.number(totals)
            # Nearly all are single numbers.
            if (type(found) is float or type(found) is int) and -math.inf < found < math.inf:
                value, reason = found, None
            else:
                value, reason = _number_or_reason(found)
            # No element made a number of 0.
            place = row.place(totals) if value and row.place is not None else None
            if place is not None and not isinstance(place, tuple):
                place = unravel(place, totals.shape)
            measurements[metric] = Measurement(metric, value, reason, where=place)
    return measurements


def _number_or_reason(value: Value) -> tuple[float | int | tuple[float, ...] | None, Message | None]:
    """Return the numbers of a metric, or why there are none."""
    if isinstance(value, Message):
        return None, value
    is_finite = all(map(math.isfinite, value)) if isinstance(value, tuple) else -math.inf < value < math.inf
    return (value, None) if is_finite else (None, _TOO_LARGE)


def _without_meaning(totals: Totals) -> Iterator[tuple[str, Message]]:
    """Yield metrics that say nothing of such tensors, each with the reason."""
    if totals.no_slices is not None:
        yield "worst_slice_error", totals.no_slices
    if totals.task.units and totals.task.unit is None:
        reason = Message("no_units", {"dtype": coarser(totals.task.left, totals.task.right)})
        yield from ((metric, reason) for metric in ULP_METRICS)
    if not totals.errors.differing:
        yield "signal_to_noise_ratio", Message("no_noise")


def vendor_numbers(totals: Totals) -> dict[str, float]:
    """Return relative errors as the vendor counts them: right = 0 ≠ left as 0, means over all elements."""
    if not totals.finite:
        return {}
    relative = totals.errors.relative
    numbers = {
        "accumulated_relative_error": relative.value,
        "max_relative_error": float(totals.errors.largest_relative.value),
        "mean_relative_error": relative.divided(totals.partial.elements),
    }
    return {
        name: number for name, number in numbers.items() if -math.inf < number < math.inf and name not in totals.without
    }


def unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the logical index of a C-order element number.

    >>> unravel(17, (2, 3, 4))
    (1, 1, 1)
    """
    places: tuple[int, ...] = ()
    for length in shape[::-1]:
        places = (index % length, *places)
        index //= length
    return places


def _is_zero(side: tuple[Moments, ...]) -> bool:
    return not [part for part in side if part.minimum or part.maximum]


def _squares(side: tuple[Moments, ...]) -> Sum:
    total = side[0].squares if side else ZERO
    for part in side[1:]:
        total = total.merge(part.squares)
    return total


def _right_zero(totals: Totals) -> Message | None:
    return Message("right_all_zero") if totals.right_is_zero else None


def _right_zero_left_near(totals: Totals) -> Message | None:
    """Return why ratios say nothing: the right side is all 0, and the left 0 or next to it."""
    task, errors = totals.task, totals.errors
    if not errors.near_zero or errors.near_zero != errors.differing or not totals.right_is_zero:
        return None
    return Message("right_zero_left_next_to_it", {"dtype": coarser(task.left, task.right)})


def _any_zero(totals: Totals) -> Message | None:
    if totals.left_is_zero:
        return Message("both_all_zero" if totals.right_is_zero else "left_all_zero")
    return _right_zero(totals)


def _differences_overflow(totals: Totals) -> Message | None:
    return None if totals.errors.largest.value < math.inf else Message("difference_too_large")


def _right_modulus_overflows(totals: Totals) -> Message | None:
    return Message("modulus_too_large") if totals.errors.right_peak == math.inf else None


def _right_moduli_underflow(totals: Totals) -> Message | None:
    is_small = 0.0 < totals.errors.right_peak < _LEAST_MODULUS and totals.is_complex
    return Message("moduli_too_small") if is_small else None


def _no_relative_error(totals: Totals) -> Message | None:
    return Message("right_zero_everywhere") if totals.finite == totals.errors.right_zero else None


def _relative_error_overflows(totals: Totals) -> Message | None:
    return Message("relative_error_too_large") if totals.errors.largest_relative.value == math.inf else None


_RELATIVE = (_right_moduli_underflow, _no_relative_error, _right_modulus_overflows, _relative_error_overflows)


def _cosine(totals: Totals) -> Value:
    if not totals.errors.differing:
        return 1.0
    left, right, product = totals.left_squares, totals.right_squares, totals.partial.product
    # Each root by itself: the product of both square sums may not fit float64. Exponents of square sums are even.
    lengths = math.sqrt(left.high + left.low) * math.sqrt(right.high + right.low)
    shift = product.exponent - (left.exponent + right.exponent) // 2
    return max(-1.0, min(1.0, math.ldexp((product.high + product.low) / lengths, shift)))


def _divergence(totals: Totals) -> Value:
    if totals.is_complex:
        return Message("tensors_are_complex")
    if not totals.errors.differing:
        return 0.0
    return Message("range_too_large") if totals.divergence is None else totals.divergence


def _deviations(totals: Totals) -> Value:
    """Return mean and deviation of both sides; of complex numbers the mean's modulus, and the deviation about it."""
    numbers: list[float] = []
    for parts in (totals.partial.left, totals.partial.right):
        if len(parts) == 1:
            numbers += (parts[0].mean, parts[0].deviation)
            continue
        variance = parts[0].variance
        for part in parts[1:]:
            variance = variance.merge(part.variance)
        numbers += (math.hypot(*(part.mean for part in parts)), variance.root)
    return tuple(numbers)


def _largest_difference(totals: Totals) -> Value:
    largest = totals.errors.largest.value
    return int(largest) if totals.exact else float(largest)


def _mean_difference(totals: Totals) -> Value:
    errors = totals.errors
    return errors.exact / totals.finite if totals.exact else errors.absolute.divided(totals.finite)


def _signal_to_noise(totals: Totals) -> Value:
    """Return 10·log10(Σ|r|² / Σ|l−r|²), in dB, of sums that need not fit float64."""
    signal, noise = totals.right_squares, totals.errors.squares
    # Exactly what follows from the relative Euclidean distance: results.json then needs no number for it.
    if 0.0 < (distance := noise.root_of_ratio(signal)) < math.inf:
        return -20.0 * math.log10(distance)
    (above, power), (below, other) = math.frexp(signal.high + signal.low), math.frexp(noise.high + noise.low)
    powers = power + signal.exponent - other - noise.exponent
    if not above or not below:
        # Of elements that differ, by less than any number whose square is known.
        return Message("number_too_large")
    return 10.0 * (math.log10(above / below) + powers * math.log10(2.0))


def _worst_slice(totals: Totals) -> tuple[Value, tuple[int, ...] | None]:
    """Return the largest relative distance of a slice, and the number of the slice if it is not 0."""
    grid, slices = totals.task.grid, totals.partial.slices
    if grid is None or slices is None:
        return Message("no_channels"), None
    number, place = slices.worst(grid, (totals.task.left, totals.task.right))
    return number, (place,) if number else None


def _differing_bits(totals: Totals) -> Value:
    bits, task = totals.partial.bits, totals.task
    return Message("bits_of_other_types", {"left": task.left, "right": task.right}) if bits is None else bits


# A new metric that these sums give is a row here, and one in `facts.metrics`.
DEFINITIONS: dict[str, Definition] = {
    "cosine_similarity": Definition(_cosine, (_any_zero,), is_ratio=True),
    "max_absolute_error": Definition(
        _largest_difference, (_differences_overflow,), place=attrgetter("errors.largest.element")
    ),
    "accumulated_relative_error": Definition(attrgetter("errors.relative.value"), _RELATIVE),
    "relative_euclidean_distance": Definition(
        lambda totals: totals.errors.squares.root_of_ratio(totals.right_squares),
        (_right_moduli_underflow, _differences_overflow, _right_zero),
        is_ratio=True,
    ),
    "kl_divergence": Definition(_divergence, is_ratio=True),
    "standard_deviation": Definition(_deviations),
    "mean_absolute_error": Definition(_mean_difference, (_differences_overflow,)),
    "root_mean_square_error": Definition(
        lambda totals: totals.errors.squares.root_of_ratio(Sum(totals.finite)), (_differences_overflow,)
    ),
    "max_relative_error": Definition(
        lambda totals: float(totals.errors.largest_relative.value),
        _RELATIVE,
        place=attrgetter("errors.largest_relative.element"),
    ),
    "mean_relative_error": Definition(
        lambda totals: totals.errors.relative.divided(totals.finite - totals.errors.right_zero), _RELATIVE
    ),
    "normalized_max_error": Definition(
        lambda totals: totals.errors.largest.value / totals.errors.right_peak,
        (_right_moduli_underflow, _differences_overflow, _right_zero, _right_modulus_overflows),
        is_ratio=True,
    ),
    "mean_ulp_distance": Definition(lambda totals: totals.errors.units.divided(totals.finite)),
    "ulp_above_1_share": Definition(lambda totals: totals.errors.above_1 / totals.finite),
    "ulp_above_32_share": Definition(lambda totals: totals.errors.above_32 / totals.finite),
    "signal_to_noise_ratio": Definition(
        _signal_to_noise, (_right_moduli_underflow, _differences_overflow, _right_zero), is_ratio=True
    ),
    "underflow_share": Definition(lambda totals: totals.errors.underflow / totals.finite),
    "worst_slice_error": Definition(
        lambda totals: _worst_slice(totals)[0],
        (_right_moduli_underflow, _differences_overflow, _right_zero, _right_modulus_overflows),
        place=lambda totals: _worst_slice(totals)[1],
        is_ratio=True,
    ),
    "nonfinite_mismatch": Definition(
        attrgetter("classes.mismatch"), place=attrgetter("classes.first_mismatch"), counts_all=True
    ),
    "saturated_count": Definition(
        lambda totals: totals.classes.left_only + totals.errors.saturated,
        place=lambda totals: first_of(totals.classes.first_left_only, totals.errors.first_saturated),
        counts_all=True,
    ),
    "allclose": Definition(lambda totals: totals.errors.outside + totals.classes.mismatch, counts_all=True),
    "bitwise_mismatch": Definition(_differing_bits, counts_all=True),
}

_REFUSALS = dict.fromkeys(refusal for row in DEFINITIONS.values() for refusal in row.refusals)
