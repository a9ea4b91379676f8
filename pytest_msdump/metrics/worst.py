"""The few elements that differ most, in an order that does not depend on how the data was cut into blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pytest_msdump.lazy_tuple import NamedTuple
from pytest_msdump.metrics.values import Array, Doubles, Positions
from pytest_msdump.model.comparison import Scalar

__all__ = ["Candidate", "Ranking", "candidates", "floor", "mismatches", "select"]


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

    def place(self, index: int) -> int:
        """Return where in the block a scored element is."""
        return index if self.places is None else int(self.places[index])

    def candidate(self, index: int, element: int, left: Scalar, right: Scalar) -> Candidate:
        """Return a scored element as a candidate."""
        score = float(self.score[index])
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
    lowest = floor(last, allowed=ranking.allowed)
    if not count or not ranking.score.size or not float(np.maximum.reduce(ranking.score)) > lowest:
        return np.empty(0, np.intp)
    above = np.flatnonzero(ranking.score > lowest)
    if above.size <= count:
        return above
    chosen = ranking.score[above]
    cut = np.partition(chosen, above.size - count)[above.size - count]
    sure = above[chosen > cut]
    return np.concatenate([sure, above[chosen == cut][: count - sure.size]])


def mismatches(left: Array, right: Array, differ: npt.NDArray[np.bool_], start: int, count: int) -> list[Candidate]:
    """Return the first `count` elements of a block whose NaN/Inf classes differ."""
    places = np.flatnonzero(differ)[:count]
    return [Candidate(math.inf, True, math.inf, start + int(p), left[p].item(), right[p].item()) for p in places]
