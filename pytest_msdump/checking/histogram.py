"""How the values of one tensor are spread, for people to see; a second pass, since it needs their range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.metrics.values import Doubles, Workspace, components, numbers

if TYPE_CHECKING:
    from pytest_msdump.model.tensor import TensorView

__all__ = ["Histogram", "histogram"]

# Up to here float64 has every one of them.
_WHOLE_NUMBERS = 2**53


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of finite elements: `counts[i]` lie from `edges[i]` up to `edges[i + 1]`, the last ones including it.

    `is_each` says that each bin holds the integer at its lower edge, and nothing else.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    is_each: bool = False


def histogram(
    view: TensorView,
    minimum: float,
    maximum: float,
    *,
    bins: int = 10,
    whole: bool = False,
    block_elements: int = 131072,
) -> Histogram:
    """Count the elements of a real tensor in bins of equal width.

    Parameters
    ----------
    view : TensorView
        The tensor; NaN and infinities are left out.
    minimum, maximum : float
        Range of its finite elements. When both are one value there is one bin.
    bins : int
        How many.
    whole : bool
        Whether all elements are whole numbers: where the range has no more of these than bins, each has its own.
    block_elements : int
        How many elements are held at a time.

    Raises
    ------
    ValueError
        `bins` is below 1.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; it has to be at least 1")
    is_each = whole and 0 < maximum - minimum < bins and max(abs(minimum), abs(maximum)) < _WHOLE_NUMBERS
    if is_each:
        bins, maximum = int(maximum - minimum) + 1, maximum + 1
    bins = bins if minimum < maximum else 1
    # A range that float64 cannot hold the width of is looked at from farther away.
    factor = 0.25 if math.isinf(maximum - minimum) else 1.0
    low, high = minimum * factor, maximum * factor
    edges = np.linspace(low, high, bins + 1)
    given: int | Doubles = bins
    if bins > 1 and not (np.diff(edges) > 0).all():
        # Between neighbours of float64 there is no room for as many; numpy refuses edges that are one number.
        given = edges = np.unique(edges)
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    workspace = Workspace()
    for start in range(0, view.size, block_elements):
        block = numbers(view.read(start, min(start + block_elements, view.size)))
        (values,) = components(block, "left", workspace)
        values = values[np.isfinite(values)] * factor
        counts += np.histogram(values, given, (low, high))[0] if len(counts) > 1 else values.size
    return Histogram(tuple(map(float, edges / factor)), tuple(map(int, counts)), is_each)
