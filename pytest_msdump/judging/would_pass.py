"""The limits that would have let a pair pass: measured values, rounded outward to a few digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.judging.judgement import Judgement

__all__ = ["passing_bound", "would_pass"]

_UPWARD = Context(prec=3, rounding=ROUND_CEILING)
_EXACT = Context(prec=50)


def would_pass(judged: Iterable[Judgement]) -> dict[str, float]:
    """Return for each metric that failed its limit the bound that would have been met.

    Metrics that no bound would cure have none: undefined ones, NaN/Inf classes that differ, relative errors that leave
    out elements.
    """
    bounds: dict[str, float] = {}
    for one in judged:
        if one.outcome != "fail" or not one.curable or one.value is None or isinstance(one.value, tuple):
            continue
        bound = passing_bound(one.metric, one.value)
        if bound is not None:
            bounds[one.metric] = bound
    return bounds


def passing_bound(metric: str, value: float | int) -> float | None:
    """Round a value to three significant digits towards the lenient side.

    Similarities keep three digits of their distance from 1, so that 0.9999985 does not become 0.999.

    Parameters
    ----------
    metric : str
        An id of `facts.metrics`, of direction "high" or "low".
    value : float or int
        The measured value.

    Returns
    -------
    float or None
        ``None`` when no meaningful limit would be met: NaN, Inf, a cosine of −1.

    Examples
    --------
    >>> passing_bound("cosine_similarity", 0.98761234), passing_bound("max_relative_error", 0.41012)
    (0.9876, 0.411)
    """
    if not math.isfinite(value):
        return None
    if METRICS[metric].direction == "high":
        gap = _UPWARD.subtract(Decimal(1), Decimal(repr(float(value))))
        bound = float(_EXACT.subtract(Decimal(1), gap))
        return bound if bound > -1 else None
    if isinstance(value, int):
        return int(_UPWARD.create_decimal(value))
    bound = float(_UPWARD.create_decimal(repr(float(value))))
    return bound if math.isfinite(bound) else None
