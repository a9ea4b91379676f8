"""The worst elements of a block, and how many are outside the tolerance, in few passes of numpy."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.metrics.values import Array, Doubles, Positions, Workspace
from pytest_msdump.core.model.comparison import Scalar

# Looking for the largest so many times takes a fifth of the time of a partition.
_FEW = 16


@dataclass(slots=True)
class RankedCandidate:
    """An element that differs."""

    ratio: float
    mismatch: bool
    magnitude: float
    element: int
    left: Scalar
    right: Scalar

    @property
    def rank(self) -> tuple[float, bool, float, int]:
        """What candidates are sorted by, worst first."""
        return (-self.ratio, not self.mismatch, -self.magnitude, self.element)


class Ranking(NamedTuple):
    """Scores of a block's elements, or of those at `places`: |l−r| where nothing is `allowed`, else the ratio."""

    score: Doubles
    allowed: bool
    places: Positions | None = None

    def chosen(self, indexes: Positions) -> tuple[list[float], Positions]:
        """Return the scores of some scored elements, and where in the block they are."""
        places = indexes if self.places is None else self.places[indexes]
        return self.score[indexes].tolist(), places

    def candidate(self, score: float, element: int, left: Scalar, right: Scalar) -> RankedCandidate:
        """Return a scored element as a candidate."""
        if not self.allowed:
            return RankedCandidate(math.inf, False, score, element, left, right)
        return RankedCandidate(score, False, score if math.isinf(score) else 0.0, element, left, right)


def select(found: Iterable[RankedCandidate], count: int) -> tuple[RankedCandidate, ...]:
    """Return the worst `count` of all candidates, worst first."""
    return tuple(sorted(found, key=lambda candidate: candidate.rank)[:count])


def floor(last: RankedCandidate | None, *, allowed: bool) -> float:
    """Return the score that an element has to exceed to come before `last`, which has a lower index."""
    if last is None:
        return 0.0
    if not allowed:
        return last.magnitude
    beyond = math.isinf(last.ratio) and not math.isinf(last.magnitude)
    return sys.float_info.max if beyond else last.ratio


def candidates(ranking: Ranking, count: int, last: RankedCandidate | None) -> Positions:
    """Return the indexes, in any order, of elements that may be among the worst `count` and are worse than `last`."""
    score, lowest = ranking.score, floor(last, allowed=ranking.allowed)
    if not count or not score.size or not float(np.maximum.reduce(score)) > lowest:
        return np.empty(0, np.intp)
    if last is not None:
        above = (score > lowest).nonzero()[0]
        return above if above.size <= count else above[_largest(score[above], count)]
    found = _largest(score, count) if score.size > count else None
    return (score > lowest).nonzero()[0] if found is None or not score[found[-1]] > lowest else found


def _largest(scores: Doubles, count: int) -> Positions:
    """Return the indexes of the `count` largest, the least of them last, of equal ones the first."""
    if count <= _FEW:
        return _one_by_one(scores, count)
    cut = np.partition(scores, scores.size - count)[scores.size - count]
    sure, least = (scores > cut).nonzero()[0], (scores == cut).nonzero()[0]
    return np.concatenate((sure, least[: count - sure.size]))


def _one_by_one(scores: Doubles, count: int) -> Positions:
    """Return the same for a few, by looking for the largest repeatedly."""
    found = np.empty(count, np.intp)
    values = np.empty(count, np.float64)
    for number in range(count):
        place = found[number] = scores.argmax()
        values[number], scores[place] = scores[place], -math.inf
    scores[found] = values
    return found


def mismatches(
    left: Array, right: Array, differ: npt.NDArray[np.bool_], start: int, count: int
) -> list[RankedCandidate]:
    """Return the first `count` elements of a block whose NaN/Inf classes differ."""
    places = np.flatnonzero(differ)[:count]
    return [RankedCandidate(math.inf, True, math.inf, start + int(p), left[p].item(), right[p].item()) for p in places]


# Far above denormals, whose rounding errors are large.
_NORMAL = 1e-280

# More than all roundings between a bound and what it bounds.
_SLACK = 2.0**-40

_NOWHERE: Positions = np.empty(0, np.intp)


class Tolerance(NamedTuple):
    """The allowed difference of an element: atol + rtol·|r|."""

    rtol: float = 0.0
    atol: float = 0.0


class Moduli(NamedTuple):
    """|x| of every element, and the largest."""

    values: Doubles
    peak: float


class Scores(NamedTuple):
    """|l−r| and |r|, the largest |l−r| and |l−r|/|r|, and how many differing elements have no |l−r|/|r|."""

    apart: Doubles
    right: Moduli
    largest: float
    largest_relative: float
    without_relative: int


def rank(
    scores: Scores, tolerance: Tolerance, last: RankedCandidate | None, workspace: Workspace
) -> tuple[list[Ranking], int | None]:
    """Return rankings of the elements, and how many are outside the tolerance: ``None`` for every one that differs."""
    if not tolerance.rtol and not tolerance.atol:
        ranked = scores.largest > floor(last, allowed=False)
        return [Ranking(scores.apart, allowed=False)] if ranked else [], None
    if scores.largest == 0.0:
        return [], 0
    lowest = floor(last, allowed=True)
    peaks = (scores.largest, scores.largest_relative, scores.right.peak)
    # Only where `lowest` times the tolerance has full precision everywhere does it bound the ratios.
    if not (min(lowest, 1.0) * tolerance.atol >= _NORMAL and all(map(math.isfinite, peaks))):
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


def _bound(scores: Scores, tolerance: Tolerance) -> float:
    """Return an upper bound of all ratios."""
    bound = scores.largest / tolerance.atol
    # Elements without a relative error count as 0 in `largest_relative`.
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
    """Return the allowed difference of each element, in the buffer of the relative errors."""
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
    """Rank all elements, those for which nothing is allowed by themselves."""
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
