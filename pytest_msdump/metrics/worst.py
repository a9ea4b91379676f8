"""The few elements that differ most, in an order that does not depend on how the data was cut into blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.metrics.values import Array, Doubles, Positions
from pytest_msdump.model.comparison import Scalar

__all__ = ["Candidate", "Ranking", "candidates", "floor", "mismatches", "select"]


# To look so often for the largest takes a fifth of the time that dividing all at a cut does.
_FEW = 16


class Candidate(NamedTuple):
    """An element that differs.

    `magnitude` orders candidates of infinite ratio: |l−r| where nothing is allowed, infinite where the ratio is beyond
    float64. It is 0 for finite ratios, whose ties go to the lowest index.
    """

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
    """What orders a block's elements: the score is |l−r| where nothing is `allowed`, else the ratio itself.

    `places` tells where in the block the scored elements are, when not all of them are scored.
    """

    score: Doubles
    allowed: bool
    places: Positions | None = None

    def chosen(self, indexes: Positions) -> tuple[list[float], Positions]:
        """Return the scores of some scored elements, and where in the block they are."""
        places = indexes if self.places is None else self.places[indexes]
        return self.score[indexes].tolist(), places

    def candidate(self, score: float, element: int, left: Scalar, right: Scalar) -> Candidate:
        """Return a scored element as a candidate."""
        if not self.allowed:
            return Candidate(math.inf, False, score, element, left, right)
        return Candidate(score, False, score if math.isinf(score) else 0.0, element, left, right)


def select(found: Iterable[Candidate], count: int) -> tuple[Candidate, ...]:
    """Return the worst `count` of all candidates, worst first."""
    return tuple(sorted(found, key=lambda candidate: candidate.rank)[:count])


def floor(last: Candidate | None, *, allowed: bool) -> float:
    """Return the score that has to be exceeded to come before `last`, which has a lower index."""
    if last is None:
        return 0.0
    if not allowed:
        return last.magnitude
    beyond = math.isinf(last.ratio) and not math.isinf(last.magnitude)
    return sys.float_info.max if beyond else last.ratio


def candidates(ranking: Ranking, count: int, last: Candidate | None) -> Positions:
    """Return the indexes, in any order, of scored elements that may belong to the worst `count`.

    Parameters
    ----------
    ranking : Ranking
        Scores of a block.
    count : int
        How many are wanted.
    last : Candidate, optional
        The last of `count` candidates that earlier blocks gave: elements that are not worse are left out.
    """
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
    """Return the same for a few, by looking for the largest again and again."""
    found = np.empty(count, np.intp)
    values = np.empty(count, np.float64)
    for number in range(count):
        place = found[number] = scores.argmax()
        values[number], scores[place] = scores[place], -math.inf
    scores[found] = values
    return found


def mismatches(left: Array, right: Array, differ: npt.NDArray[np.bool_], start: int, count: int) -> list[Candidate]:
    """Return the first `count` elements of a block whose NaN/Inf classes differ."""
    places = np.flatnonzero(differ)[:count]
    return [Candidate(math.inf, True, math.inf, start + int(p), left[p].item(), right[p].item()) for p in places]
