"""Dropout of two runs that drew different masks: what of it can be compared at all.

Element by element it cannot. Each side's share of dropped elements can, and the elements that both sides kept. Zeros
that were there before, as behind ReLU, are no dropped ones: of what the left kept, the right dropped its own share,
since the masks do not depend on each other.
"""

from __future__ import annotations

import re
from math import prod, sqrt

import numpy as np

from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.model.comparison import Limits
from pytest_msdump.core.text import Message, Parameter

_DROPPING = re.compile(r"(?:\w*\.)?\w*drop_?(?P<whole>out[123]d|path|out)\w*|stochastic_?depth", re.IGNORECASE)
_BLOCK_ELEMENTS = 1 << 18
# Chance alone does not leave so many standard deviations.
_SIGMAS = 5.0
# The limit on what both sides kept, where the profile has none on this distance.
_DISTANCE, _USUAL = "relative_euclidean_distance", 1e-3


def masks_message(opened: OpenedPair, limits: Limits, _again: object) -> Message | None:
    """Return what the masks of a pair that fails show; ``None`` where nothing shows that masks were drawn."""
    pair, aligned = opened.pair, opened.aligned
    types = (pair.left.key.op.op_type or "", pair.right.key.op.op_type or "")
    dropping = next(filter(None, map(_DROPPING.fullmatch, types)), None)
    if dropping is None or not aligned.left.size:
        return None
    ours = theirs = both = 0
    apart = squares = 0.0
    for left, right in zip(aligned.left.blocks(_BLOCK_ELEMENTS), aligned.right.blocks(_BLOCK_ELEMENTS), strict=True):
        one, other = to_double(left), to_double(right)
        kept = (one != 0) & (other != 0)
        ours, theirs, both = ours + np.count_nonzero(one), theirs + np.count_nonzero(other), both + kept.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            apart += float(np.sum((one[kept] - other[kept]) ** 2))
            squares += float(np.sum(other[kept] ** 2))
    if not both or both == ours == theirs:
        return None
    shares = 1 - both / theirs, 1 - both / ours
    # Of whole channels or samples there are fewer draws.
    axes = {"path": 1, "out": None}.get((dropping["whole"] or "path").lower(), 2)
    drawn = 1.0 if axes is None else prod(aligned.left.shape[:axes]) / aligned.left.size
    variances = (p * (1 - p) / max(1.0, n * drawn) for p, n in zip(shares, (theirs, ours), strict=True))
    tolerance = _SIGMAS * sqrt(sum(variances))
    if (min if abs(shares[0] - shares[1]) <= tolerance else max)(shares) <= tolerance:
        # A few zeros more or less are no mask.
        return None
    bound = next((one.bound for one in limits.by_metric.get(_DISTANCE, ()) if one.level == "fail"), _USUAL)
    distance = sqrt(apart / squares) if squares else 0.0
    said: dict[str, Parameter] = {"left": float(shares[0]), "right": float(shares[1]), "kept": int(both)}
    if abs(shares[0] - shares[1]) > tolerance:
        is_swapped = abs(shares[0] + shares[1] - 1) <= tolerance
        return Message("random_masks_swapped" if is_swapped else "random_masks_differ", said)
    # NaN is within no limit.
    code = "random_masks" if distance <= bound else "random_masks_kept_differ"
    return Message(code, {**said, "distance": distance})
