"""Two runs as numbers, by formulas in float64, and the limits that these numbers are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import Any, NamedTuple

import torch
from scipy.stats import beta

from rounding.runs import Tensor

__all__ = ["ROUNDING", "Distances", "at_fault", "clopper_pearson", "conformal", "distances", "worst_slice"]

ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


class Distances(NamedTuple):
    """Of one run against another, tensor by tensor.

    `euclid` and `largest` are the metrics that limits are derived for, `cosine` is 1 less the similarity.
    """

    euclid: list[float]
    largest: list[float]
    cosine: list[float]


def distances(left: Sequence[Tensor], right: Sequence[Tensor]) -> Distances:
    """Measure the tensors of the right; what the left has not got, or in another shape, is infinitely far."""
    found = Distances([], [], [])
    lefts = {one.operator: one.values for one in left}
    for tensor in right:
        values, other = tensor.values, lefts.get(tensor.operator)
        if other is None or other.shape != values.shape:
            for some in found:
                some.append(inf)
            continue
        difference = other - values
        norm, size = float(values.norm()), float(values.abs().max())
        apart = float(difference.norm())
        found.euclid.append(_over(apart, norm))
        found.largest.append(_over(float(difference.abs().max()), size))
        lengths = norm * float(other.norm())
        alike = values.numel() == 1 or apart == 0
        found.cosine.append(0.0 if alike else 1 - float((values * other).sum()) / lengths if lengths else 1.0)
    return found


def _over(apart: float, whole: float) -> float:
    """Return the quotient; a difference from nothing, or one that is no number, is infinite."""
    if apart == 0:
        return 0.0
    quotient = apart / whole if whole else inf
    return quotient if quotient == quotient else inf


def worst_slice(left: torch.Tensor, right: torch.Tensor, rounding: float) -> float | None:
    """Return the largest relative Euclidean distance of a slice along the channels; ``None`` where there is none."""
    if right.ndim < 2:
        return None
    axis = 1 if right.ndim > 2 else right.ndim - 1
    count = right.shape[axis]
    size = right.numel() // max(count, 1)
    if size < 16 or not 1 < count <= 4096:
        return None
    apart = (left - right).movedim(axis, 0).reshape(count, -1).norm(dim=1)
    norms = right.movedim(axis, 0).reshape(count, -1).norm(dim=1)
    whole = float(right.norm()) / right.numel() ** 0.5
    least = max(1e-3 * whole, rounding * whole) * size**0.5
    return float((apart / norms.clamp(min=least)).max()) if least else None


def at_fault(operator: str, at: str, recorded: Mapping[str, Any]) -> bool:
    """Whether a tensor belongs to a module: its output, its gradient, or those of what is inside it and its weights.

    A module that is never called itself, as some projections are, stands for the one that holds it.
    """
    name = operator.rpartition(":")[0]
    if at.startswith("*"):
        return name.endswith(at[1:])
    module = name.partition("/")[0].partition("@")[0]
    while f"{at}:0" not in recorded and "." in at:
        at = at.rpartition(".")[0]
    return module == at or module.startswith(f"{at}.")


def clopper_pearson(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share; one-sided, with all the doubt above, where there are no hits."""
    rest = (1 - confidence) / (1 if hits == 0 else 2)
    low = 0.0 if hits == 0 else float(beta.ppf(rest, hits, count - hits + 1))
    high = 1.0 if hits == count else float(beta.ppf(1 - rest, hits + 1, count - hits))
    return low, high


def conformal(scores: Sequence[float], alpha: float) -> float:
    """Return the multiplier that the next run of the same kind exceeds with a probability of at most `alpha`.

    Raises
    ------
    ValueError
        There are too few runs for this `alpha`.
    """
    place = ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    if place > len(scores):
        raise ValueError(f"{len(scores)} runs are too few for {alpha:g}")
    return sorted(scores)[place - 1]
