"""Lower bounds of metrics from the statistics of two tensors alone.

The difference of two statistics is divided by the unit that makes it comparable with a metric: two tensors whose
largest elements differ by d have a `max_absolute_error` of at least d, and two whose norms differ by d a Euclidean
distance of at least d. Where no bound could ever be broken (there is no norm, or no limit of single elements), the
extremes are held to the limit of `relative_euclidean_distance` as well, relative to the largest element; and so are L1
norms, relative to that of the right side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.comparison import is_printed_as
from pytest_msdump.core.model.tensor import Statistic, Statistics
from pytest_msdump.core.text import Message

_VALUES = ("maximum", "minimum", "mean", "l2_norm", "l1_norm")
_NORMS = ("l2_norm", "l1_norm")
_EXTREMES = ("maximum", "minimum")
# Relative error of a sum in the float32 of a device, added up in another order; L1 norms are summed in float64.
_SUMMING, _SUMMING_WIDE = 1e-6, 2.0**-40
_ELEMENTWISE = frozenset({"max_absolute_error", "normalized_max_error", "max_relative_error", "allclose"})
_ANY = math.inf

# As of tensors (`metrics.dominated`): of this size, so far above all others, of this share.
_LEAST_DOMINATING, _APART, _ONE_IN_100 = 2.0**10, 2.0**6, 0.01
# How much of the mean square must come from the large extreme, and what is a mask without a mean, or without a norm.
_NEARLY, _LEAST_MASK, _LEAST_SURE_MASK = 0.9, 2.0**13, 2.0**29

# At least, at most.
_Range = tuple[float, float]


class Gap(NamedTuple):
    """One statistic of both sides; `beyond` is their difference less `slack`, which printing and summing explain."""

    left: float | int
    right: float | int
    beyond: float | int
    slack: float


class Distance(NamedTuple):
    """The bounds that two sets of statistics give."""

    gaps: Mapping[str, Gap]
    at_least: Mapping[str, float | int]
    by: Mapping[str, str]
    allowed: Mapping[str, Mapping[str, float]]
    undefined: Mapping[str, Message]
    nan: tuple[int, int]
    inf: tuple[int, int]
    unplaced: bool
    one_class: bool


class _Scale(NamedTuple):
    """The size of the right side: its largest magnitude, its norms, and the number of its finite elements."""

    peak: float
    norm: float | None
    elements: float | None
    sum: float | None = None

    @property
    def typical(self) -> float:
        """The root of the mean square; the peak where the norm or the size is unknown."""
        if self.norm is None or not self.elements:
            return self.peak
        return self.norm / math.sqrt(self.elements)


def distance(
    left: Statistics,
    right: Statistics,
    *,
    left_dtype: str,
    right_dtype: str,
    elements: int | None,
    limited: frozenset[str],
    tolerance: tuple[float, float] = (0.0, 0.0),
) -> Distance:
    """Compare the statistics of both sides for the `limited` metrics; `tolerance` is (rtol, atol) of `allclose`."""
    classes = [_classes(side) for side in (left, right)]
    values = [_finite_values(side) for side in (left, right)]
    scale = _scale(values[1], elements, classes[1])
    is_integer = all(DTYPES[name].kind in ("integer", "bool") for name in (left_dtype, right_dtype))
    gaps = {
        name: _gap(name, values[0][name], values[1][name], (left.digits, right.digits), scale, is_integer)
        for name in _VALUES
        if name in values[0] and name in values[1]
    }
    units = _units(scale, has_norm="l2_norm" in gaps, elementwise=bool(_ELEMENTWISE & limited))
    found: dict[str, float | int] = {}
    by: dict[str, str] = {}
    for metric, allowed in units.items():
        reached = {name: _ratio(gaps[name].beyond, unit) for name, unit in allowed.items() if name in gaps}
        if reached:
            by[metric] = max(reached, key=lambda name: reached[name])
            found[metric] = reached[by[metric]]
    outside = {name: gap for name, gap in gaps.items() if gap.beyond > _tolerated(name, scale, tolerance)}
    if gaps:
        found["allclose"] = int(bool(outside))
        by["allclose"] = next(iter(outside), next(iter(gaps)))
    if is_integer and _counts_differ(left, right):
        # Two integers of different sign differ by 1 or more.
        found["max_absolute_error"] = max(found.get("max_absolute_error", 0), 1)
    undefined = _undefined_classes(classes)
    nan, inf = ((int(classes[0][kind][0]), int(classes[1][kind][0])) for kind in ("nan", "inf"))
    one_class = _is_one_class(left, right, nan, elements)
    unplaced = not undefined and any(nan + inf) and not one_class
    if not undefined:
        of_classes = _class_metrics(classes, values, (left, right), left_dtype)
        found |= {metric: count for metric, count in of_classes.items() if count or not unplaced}
    return Distance(gaps, found, by, units, undefined, nan, inf, unplaced, one_class)


def _is_one_class(left: Statistics, right: Statistics, nan: tuple[int, int], elements: int | None) -> bool:
    if not elements:
        return False
    if nan == (elements, elements):
        return True
    for name, infinity in (("negative_inf_count", -math.inf), ("positive_inf_count", math.inf)):
        both = [
            side.values.get(name) == elements or [side.values.get(one) for one in _EXTREMES] == [infinity, infinity]
            for side in (left, right)
        ]
        if all(both):
            return True
    return False


class Dominance(NamedTuple):
    """What a side's statistics show of elements that dominate all others: their share at least, and the largest."""

    share: float
    near: float


def dominance(side: Statistics, elements: int | None) -> Dominance | None:
    """Return what dominates by the extremes of a side; ``None`` where they do not show it."""
    values = _finite_values(side)
    if not all(name in values for name in _EXTREMES):
        return None
    near, other = sorted((float(values[name]) for name in _EXTREMES), key=abs, reverse=True)
    if abs(near) < _LEAST_DOMINATING or abs(other) * _APART > abs(near):
        return None
    share, mean = _ONE_IN_100, values.get("mean")
    if "l2_norm" in values and elements:
        share = (values["l2_norm"] / near) ** 2 / elements
        if mean is not None:
            return (
                Dominance(min(share, 1.0), near)
                if share >= _NEARLY * _ONE_IN_100 and share >= _NEARLY * mean / near
                else None
            )
        return Dominance(min(share, 1.0), near) if share >= _ONE_IN_100 and abs(near) >= _LEAST_MASK else None
    return Dominance(share, near) if abs(near) >= _LEAST_SURE_MASK else None


def _number(value: Statistic) -> float | int | None:
    return None if isinstance(value, str) else value


def _classes(side: Statistics) -> dict[str, _Range]:
    """Return how many NaN and Inf a side has, at least and at most; a finite norm means none."""
    numbers = {name: value for name in _VALUES if (value := _number(side.values.get(name))) is not None}
    nan, *infinite = (_number(side.values.get(f"{name}_count")) for name in ("nan", "negative_inf", "positive_inf"))
    known = [count for count in infinite if count is not None]
    # A sum can be infinite without an infinite element: it was too large for its type.
    reliable = _EXTREMES if len(known) == len(infinite) else _VALUES
    least = (
        int(any(map(math.isnan, numbers.values()))),
        int(any(math.isinf(numbers[name]) for name in reliable if name in numbers)),
    )
    most = 0.0 if any(math.isfinite(numbers.get(name, math.nan)) for name in _NORMS) else _ANY
    ranges: dict[str, _Range] = {"nan": (least[0], most), "inf": (least[1], most)}
    if nan is not None:
        ranges["nan"] = (nan, nan)
    if len(known) == len(infinite):
        ranges["inf"] = (sum(known), sum(known))
    elif known:
        ranges["inf"] = (known[0], most)
    return {
        kind: (max(low, one), max(high, one)) for (kind, (low, high)), one in zip(ranges.items(), least, strict=True)
    }


def _finite_values(side: Statistics) -> dict[str, float | int]:
    """Return the numbers to subtract; `_classes` covers those that are not finite."""
    found = {name: _number(side.values.get(name)) for name in _VALUES}
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def _scale(right: Mapping[str, float | int], elements: int | None, classes: Mapping[str, _Range]) -> _Scale:
    finite = None if elements is None else max(0.0, elements - classes["nan"][0] - classes["inf"][0])
    norm, total = (float(right[name]) if name in right else None for name in _NORMS)
    peak = max((abs(float(right[name])) for name in _EXTREMES if name in right), default=0.0)
    if not all(name in right for name in _EXTREMES):
        # The unknown extreme may be far larger, but no tensor's largest element is below its typical one.
        typical = norm / math.sqrt(finite) if norm is not None and finite else norm or 0.0
        peak = max(peak, typical, abs(float(right.get("mean", 0.0))), total / finite if total and finite else 0.0)
    return _Scale(peak, norm, finite, total)


def _gap(
    name: str,
    left: float | int,
    right: float | int,
    digits: tuple[int | None, int | None],
    scale: _Scale,
    is_integer: bool,
) -> Gap:
    """Subtract, less what rounding by the writers of both numbers explains."""
    exact = is_integer and name in _EXTREMES
    slack = sum(_half_unit(value, places, exact=exact) for value, places in zip((left, right), digits, strict=True))
    if name == "l1_norm":
        slack += _SUMMING_WIDE * (scale.sum or 0.0)
    elif name not in _EXTREMES:
        slack += _SUMMING * ((scale.norm or 0.0) if name == "l2_norm" else scale.typical)
    difference = abs(left - right)
    return Gap(left, right, difference if not slack else max(0.0, difference - slack), slack)


def _half_unit(value: float | int, digits: int | None, *, exact: bool) -> float:
    """Return half a unit in the last printed place, and float64's own rounding."""
    if digits is None or not value or (exact and isinstance(value, int)):
        return 0.0
    place = math.floor(math.log10(abs(value))) - digits + 1
    return 0.5 * 10.0**place * (1 + 1e-9) + 2 * math.ulp(float(abs(value)))


def _units(scale: _Scale, *, has_norm: bool, elementwise: bool) -> dict[str, dict[str, float]]:
    """Return metric → statistic → the difference that is worth 1 of the metric."""
    peak, typical = scale.peak, scale.typical
    everywhere = dict.fromkeys((*_EXTREMES, "mean"), 1.0)
    distances: dict[str, float] = {"mean": typical}
    if scale.norm is not None:
        distances["l2_norm"] = scale.norm
    if not (has_norm and elementwise):
        distances |= dict.fromkeys(_EXTREMES, peak)
    units = {
        "max_absolute_error": everywhere,
        "normalized_max_error": dict.fromkeys(everywhere, peak),
        "max_relative_error": dict.fromkeys(_EXTREMES, peak) | {"mean": typical},
        "relative_euclidean_distance": distances,
        "mean_absolute_error": {"mean": 1.0},
        "accumulated_relative_error": {"mean": typical},
        "root_mean_square_error": {"mean": 1.0},
    }
    if scale.norm is not None:
        units["max_relative_error"]["l2_norm"] = scale.norm
    if scale.elements:
        units["root_mean_square_error"]["l2_norm"] = math.sqrt(scale.elements)
        for metric in ("max_absolute_error", "mean_absolute_error", "root_mean_square_error"):
            units[metric] = {**units[metric], "l1_norm": scale.elements}
    if scale.sum is not None:
        for metric in ("max_relative_error", "accumulated_relative_error", "relative_euclidean_distance"):
            units[metric]["l1_norm"] = scale.sum
    return units


def _ratio(difference: float | int, unit: float) -> float | int:
    if unit == 1.0 or not difference:
        return difference
    return float(difference) / unit if unit else math.inf


def _tolerated(name: str, scale: _Scale, tolerance: tuple[float, float]) -> float:
    rtol, atol = tolerance
    if name == "l2_norm":
        return atol * math.sqrt(scale.elements or 1.0) + rtol * (scale.norm or 0.0)
    if name == "l1_norm":
        return atol * (scale.elements or 1.0) + rtol * (scale.sum or 0.0)
    return atol + rtol * (scale.typical if name == "mean" else scale.peak)


def _counts_differ(left: Statistics, right: Statistics) -> bool:
    """Whether another number of elements is below, at or above 0."""
    names = ("negative_count", "positive_count", "zero_count")
    both = [(left.values.get(name), right.values.get(name)) for name in names]
    return any(one != other for one, other in both if one is not None and other is not None)


def _undefined_classes(classes: list[dict[str, _Range]]) -> dict[str, Message]:
    """Return why NaN and Inf cannot be compared: one side has some, and those of the other are unknown."""
    for one, other, silent in ((0, 1, "right"), (1, 0, "left")):
        for kind, title in (("nan", "NaN"), ("inf", "Inf")):
            if classes[one][kind][0] and classes[other][kind] == (0, _ANY):
                return {"nonfinite_mismatch": Message("one_side_nonfinite", {"title": title, "side": silent})}
    return {}


def _class_metrics(
    classes: list[dict[str, _Range]],
    values: list[dict[str, float | int]],
    sides: tuple[Statistics, Statistics],
    left_dtype: str,
) -> dict[str, int]:
    """Return NaN, Inf and overflow as far as both sides have counts of them."""
    left, right = classes
    known = [kind for kind in left if (0, _ANY) not in (left[kind], right[kind])]
    saturated = _is_saturated(values, sides[0].digits, left_dtype)
    if not known:
        return {"saturated_count": int(saturated)} if any(name in values[0] for name in _EXTREMES) else {}
    apart = sum(max(0.0, left[kind][0] - right[kind][1], right[kind][0] - left[kind][1]) for kind in known)
    signs = max(sum(_apart(sides, f"{sign}_inf_count") for sign in ("negative", "positive")), _infinite_apart(sides))
    more = max(0.0, left["nan"][0] + left["inf"][0] - right["nan"][1] - right["inf"][1])
    # An element that went from one infinity to the other counts in both.
    mismatch = int(max(apart, math.ceil(signs / 2)))
    counts = {"nonfinite_mismatch": mismatch} if mismatch or len(known) == len(left) else {}
    return counts | {"saturated_count": int(more) + int(saturated)}


def _apart(sides: tuple[Statistics, Statistics], name: str) -> float:
    left, right = (_number(side.values.get(name)) for side in sides)
    return 0.0 if left is None or right is None else abs(left - right)


def _infinite_apart(sides: tuple[Statistics, Statistics]) -> int:
    """Return how many extremes differ of writers that both have infinite ones."""
    extremes = [[_number(side.values.get(name)) for name in _EXTREMES] for side in sides]
    if not all(any(one is not None and math.isinf(one) for one in both) for both in extremes):
        return 0
    pairs = zip(*extremes, strict=True)
    return sum(None not in pair and pair[0] != pair[1] and any(map(math.isinf, pair)) for pair in pairs)


def _is_saturated(values: list[dict[str, float | int]], digits: int | None, dtype: str) -> bool:
    """Whether an extreme of the left is the largest number of its type, and that of the right is smaller."""
    largest = DTYPES[dtype].maximum
    if largest is None:
        return False
    left, right = values
    return any(
        name in left
        and name in right
        and is_printed_as(abs(left[name]), largest, digits=digits or 17)
        and abs(right[name]) < abs(left[name])
        for name in _EXTREMES
    )
