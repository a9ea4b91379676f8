"""Which elements of a block may be among the worst, and how many are outside the tolerance, by as few passes as do."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_msdump.metrics.values import Doubles, Positions, Workspace
from pytest_msdump.metrics.worst import Candidate, Ranking, floor

__all__ = ["Moduli", "Scores", "Tolerance", "rank"]

# Far above denormals, whose rounding errors are large.
_NORMAL = 1e-280

# More than all roundings between a bound and what it bounds.
_SLACK = 2.0**-40

_NOWHERE: Positions = np.empty(0, np.intp)


class Tolerance(NamedTuple):
    """What an element may be off: atol + rtol·|r|."""

    rtol: float = 0.0
    atol: float = 0.0


class Moduli(NamedTuple):
    """|x| of every element, and the largest."""

    values: Doubles
    peak: float


class Scores(NamedTuple):
    """What rankings are made of, the largest of |l−r| and of |l−r|/|r|, and how many that differ have no |l−r|/|r|."""

    apart: Doubles
    right: Moduli
    largest: float
    largest_relative: float
    without_relative: int


def rank(
    scores: Scores, tolerance: Tolerance, last: Candidate | None, workspace: Workspace
) -> tuple[list[Ranking], int | None]:
    """Return what ranks the elements, and how many are outside the tolerance: ``None`` where every difference is."""
    if not tolerance.rtol and not tolerance.atol:
        ranked = scores.largest > floor(last, allowed=False)
        return [Ranking(scores.apart, allowed=False)] if ranked else [], None
    if scores.largest == 0.0:
        return [], 0
    lowest = floor(last, allowed=True)
    if not _is_bounded(scores, tolerance, lowest):
        return _all_ranked(scores.apart, scores.right.values, tolerance, workspace)
    bound = _bound(scores, tolerance)
    places = _suspects(scores, tolerance, lowest, workspace) if bound > lowest else _NOWHERE
    if places is None:
        return _all_ranked(scores.apart, scores.right.values, tolerance, workspace)
    apart, right = scores.apart[places], scores.right.values[places]
    ratio = apart / (right * tolerance.rtol + tolerance.atol)
    if bound <= 1.0:
        outside = 0
    else:
        outside = _outside(scores, tolerance, workspace) if lowest > 1.0 else int(np.count_nonzero(ratio > 1.0))
    return [Ranking(ratio, allowed=True, places=places)] if places.size else [], outside


def _is_bounded(scores: Scores, tolerance: Tolerance, lowest: float) -> bool:
    """Whether `lowest` times what is allowed is a number of full precision everywhere, and makes a bound of use."""
    if not min(lowest, 1.0) * tolerance.atol >= _NORMAL:
        return False
    return math.isfinite(scores.largest) and math.isfinite(scores.largest_relative) and math.isfinite(scores.right.peak)


def _bound(scores: Scores, tolerance: Tolerance) -> float:
    """Return what no element's ratio exceeds."""
    bound = scores.largest / tolerance.atol
    # Around 0 the relative error is 0, and not infinite.
    if not scores.without_relative and tolerance.rtol >= _NORMAL:
        bound = min(bound, scores.largest_relative / tolerance.rtol)
    return bound * (1.0 + _SLACK)


def _suspects(scores: Scores, tolerance: Tolerance, lowest: float, workspace: Workspace) -> Positions | None:
    """Return the places of all elements whose ratio exceeds `lowest`, and of few others; ``None`` for too many."""
    least = lowest * (1.0 - _SLACK)
    allowed = _allowed(scores, Tolerance(least * tolerance.rtol, least * tolerance.atol), workspace)
    suspect = np.greater(scores.apart, allowed, out=workspace.mask("nonzero", scores.apart.size))
    # Counting is a fifth of finding.
    count = np.count_nonzero(suspect)
    if not count:
        return _NOWHERE
    return np.flatnonzero(suspect) if count <= suspect.size // 8 else None


def _allowed(scores: Scores, tolerance: Tolerance, workspace: Workspace) -> Doubles | float:
    """Return what each element may be off, in the buffer that held the relative errors."""
    if not tolerance.rtol:
        return tolerance.atol
    allowed = workspace.doubles("ratio", scores.apart.size)
    np.multiply(scores.right.values, tolerance.rtol, out=allowed)
    return np.add(allowed, tolerance.atol, out=allowed)


def _outside(scores: Scores, tolerance: Tolerance, workspace: Workspace) -> int:
    """Count the elements outside a tolerance that allows every element something."""
    allowed = _allowed(scores, tolerance, workspace)
    return int(np.count_nonzero(np.greater(scores.apart, allowed, out=workspace.mask("nonzero", scores.apart.size))))


def _all_ranked(
    apart: Doubles, right: Doubles, tolerance: Tolerance, workspace: Workspace
) -> tuple[list[Ranking], int]:
    """Rank all elements, also those for which nothing is allowed."""
    allowed = np.multiply(right, tolerance.rtol, out=workspace.doubles("ratio", apart.size))
    np.add(allowed, tolerance.atol, out=allowed)
    nothing = None if tolerance.atol else np.equal(allowed, 0.0)
    ratio = np.divide(apart, allowed, out=allowed)
    if nothing is None or not nothing.any():
        return [Ranking(ratio, allowed=True)], _beyond_one(ratio)
    forbidden = np.where(nothing, apart, 0.0)
    np.copyto(ratio, 0.0, where=nothing)
    rankings = [Ranking(ratio, allowed=True), Ranking(forbidden, allowed=False)]
    return rankings, _beyond_one(ratio) + int(np.count_nonzero(forbidden != 0.0))


def _beyond_one(ratio: Doubles) -> int:
    """Count ratios above 1. A rounded quotient a/b is above 1 exactly if a > b, so nothing is lost by dividing."""
    return int(np.count_nonzero(ratio > 1.0)) if float(ratio.max()) > 1.0 else 0
