"""All numbers of a usual pair, in which each metric has one, as the compiled kernel tells them.

They come in the order in which a record has them: elements, finite, differing and right_zero_mismatch, the sum of
|l−r|, the metrics in the order of `facts.metrics` (without the last one, differing bits, where types differ), the
places of those that have one, the vendor's numbers, and the worst elements. Another number, `which`, says which
metrics have places, whether the sides are equal, and how many elements are worst.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeAlias

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite, WorstElement

__all__ = [
    "FIRST_METRIC",
    "RIGHT_ZERO",
    "SATURATED",
    "Numbers",
    "comparison_of",
    "metrics_of",
    "unlike",
]

# Where numbers are.
RIGHT_ZERO, FIRST_METRIC = 3, 5
SATURATED = FIRST_METRIC + tuple(METRICS).index("saturated_count")

Numbers: TypeAlias = tuple[Any, ...]

# As the enumerations of metrics and of places in sweep.c.
_METRICS = tuple(METRICS)
_PLACED = ("max_absolute_error", "max_relative_error", "saturated_count")
_VENDOR = ("accumulated_relative_error", "max_relative_error", "mean_relative_error")
_BITS = "bitwise_mismatch"


def unlike(left: str, right: str) -> str:
    """Say why bits of these two types are not compared."""
    return f"dtypes differ: {left} and {right}"


def metrics_of(left: str, right: str) -> tuple[str, ...]:
    """Return the metrics that have a number in a usual pair of these types, in the order in which they are told."""
    return _METRICS if left == right else _METRICS[:-1]


def comparison_of(which: int, numbers: Numbers, *, left: str, right: str, tolerance: tuple[float, float]) -> Comparison:
    """Return what was measured of a usual pair, as `definitions` defines it.

    Parameters
    ----------
    which, numbers
        As the kernel tells them.
    left, right, tolerance
        Logical types of both sides, names of `facts.dtypes`, and the relative and absolute tolerance.
    """
    elements, finite, differing, right_zero, total = numbers[:FIRST_METRIC]
    made, names = tuple.__new__, metrics_of(left, right)
    rest = iter(numbers[FIRST_METRIC + len(names) :])
    places = {name: next(rest) for bit, name in enumerate(_PLACED) if which >> bit & 1}
    measured = zip(names, numbers[FIRST_METRIC:], strict=False)
    measurements = {name: made(Measurement, (name, value, None, True, places.get(name))) for name, value in measured}
    if left != right:
        measurements[_BITS] = Measurement(_BITS, undefined=unlike(left, right))
    return Comparison(
        elements=elements,
        finite=finite,
        differing=differing,
        right_zero_mismatch=right_zero,
        measurements=measurements,
        nonfinite=Nonfinite(saturated=numbers[SATURATED]),
        rtol=tolerance[0],
        atol=tolerance[1],
        absolute_error_sum=total,
        vendor=dict(zip(_VENDOR, islice(rest, len(_VENDOR)), strict=True)),
        worst=tuple([made(WorstElement, one) for one in zip(rest, rest, rest, rest, strict=True)]),
    )
