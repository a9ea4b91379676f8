"""How the values of one tensor are spread, for people to see; a second pass, since it needs their range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.metrics.values import Workspace, components, numbers

if TYPE_CHECKING:
    from pytest_msdump.model.tensor import TensorView

__all__ = ["Histogram", "histogram"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of finite elements: `counts[i]` lie from `edges[i]` up to `edges[i + 1]`, the last ones including it."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


def histogram(
    view: TensorView, minimum: float, maximum: float, *, bins: int = 10, block_elements: int = 131072
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
    block_elements : int
        How many elements are held at a time.

    Raises
    ------
    ValueError
        `bins` is below 1.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; it has to be at least 1")
    bins = bins if minimum < maximum else 1
    # A range that float64 cannot hold the width of is looked at from farther away.
    factor = 0.25 if math.isinf(maximum - minimum) else 1.0
    low, high = minimum * factor, maximum * factor
    counts = np.zeros(bins, dtype=np.int64)
    workspace = Workspace()
    for start in range(0, view.size, block_elements):
        block = numbers(view.read(start, min(start + block_elements, view.size)))
        (values,) = components(block, "left", workspace)
        values = values[np.isfinite(values)] * factor
        counts += np.histogram(values, bins, (low, high))[0] if bins > 1 else values.size
    edges = np.linspace(low, high, bins + 1) / factor
    return Histogram(tuple(map(float, edges)), tuple(map(int, counts)))
