"""A claim about a drift, and how well the numbers support it, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.diagnosis.sample import Array, Sides, Slack
from pytest_msdump.text import Message

# How much of the squared difference a claim may leave open, and the share of elements that has to support it.
_BOUNDS = (("high", 0.02, 0.98), ("medium", 0.1, 0.9))
# Fewer elements than these prove little, however well they fit.
_FEWEST_FOR_HIGH = 16
_FEWEST_ACTIVE = 8
# An element is explained when the claim leaves at most this share of its difference.
LEFT_OPEN = 0.25
# Or so little, beside what agreeing elements may be apart: an element that the claim hardly changes counts, too.
_NOISE = 0.2
# Bits of evidence that a claim needs for each element, and in all for being the best of many, and the most that one
# element gives. Unrelated sides give less than one bit an element. The numbers of a claim (a factor, two bounds) may
# come from two elements, which therefore prove nothing.
_BITS_EACH, _BITS_IN_ALL, _BITS_MOST = 2.0, 20.0, 30.0
_FITTED = 2
_MOST_COMPARED = 256


class Trial(NamedTuple):
    """One block in float64: the left, what the claim says it is, and the right."""

    left: Array
    claimed: Array
    right: Array


@dataclass(frozen=True)
class Claim(ABC):
    """One explanation of a drift, with its numbers; `id` is a key of `facts.diagnoses.DIAGNOSES`.

    `own_rounding` and `own_agreeing` stand in place of those of `sides`. `most` is the confidence that it cannot
    exceed, however well it fits; `left_open` the share of an element's difference that may be left where the claim
    explains it.
    """

    id: str
    sides: Sides
    message: Message
    details: Mapping[str, Any]
    own_rounding: Slack | None = field(default=None, kw_only=True)
    own_agreeing: Slack | None = field(default=None, kw_only=True)
    most: str = field(default="high", kw_only=True)
    left_open: float = field(default=LEFT_OPEN, kw_only=True)

    @property
    def rounding(self) -> Slack:
        """What the data types alone may do to a number."""
        return self.own_rounding or self.sides.rounding

    @property
    def agreeing(self) -> Slack:
        """How near the sides have to be where the claim says that they agree."""
        return self.own_agreeing or self.sides.agreeing

    @abstractmethod
    def trial(self, start: int, stop: int) -> Trial:
        """Return elements `start` to `stop`, all of them: a claim is about the whole tensor."""

    def evidence(self, fit: Fit) -> Message:
        """Return the claim, and how much of the difference it explains."""
        return Message("explains_share", {"why": self.message, "share": 1 - fit.unexplained})


@dataclass(slots=True)
class Fit:
    """Counts and sums over blocks; `active` are elements where the claim changes the right side."""

    elements: int = 0
    active: int = 0
    explained: int = 0
    agreed: int = 0
    residual: float = 0.0
    drift: float = 0.0

    @property
    def unexplained(self) -> float:
        """Share of the squared difference of all elements, active or not, that the claim leaves open."""
        return self.residual / self.drift if self.drift > 0 else 1.0

    @property
    def explained_share(self) -> float:
        """Share of the active elements that the claim explains."""
        return self.explained / self.active if self.active else 0.0

    @property
    def passive(self) -> int:
        """Elements where the claim says that both sides agree."""
        return self.elements - self.active


def inner(left: Array, right: Array) -> float:
    """Return the sum of products. Not a BLAS product: its threads collapse when other jobs run."""
    return float(np.einsum("i,i->", left, right))


def fit(claim: Claim, ranges: Iterable[tuple[int, int]]) -> Fit:
    """Compare a claim with the elements of `ranges`.

    By squared differences alone one huge element would decide, by counts alone many tiny ones; `confidence_of` needs
    both.
    """
    total = Fit()
    with np.errstate(all="ignore"):
        for start, stop in ranges:
            _add(total, claim, claim.trial(start, stop))
    return total


def _add(total: Fit, claim: Claim, trial: Trial) -> None:
    finite = np.isfinite(trial.left) & np.isfinite(trial.claimed) & np.isfinite(trial.right)
    left, claimed, right = (part if finite.all() else part[finite] for part in trial)
    residual, drift = np.abs(left - claimed), np.abs(left - right)
    rounding = claim.rounding.of(claimed)
    active = np.abs(claimed - right) > 0.5 * rounding
    near = claim.agreeing.of(claimed)
    explained = residual <= np.maximum(np.maximum(claim.left_open * drift, rounding), _NOISE * near)
    agreed = residual <= np.maximum(near, rounding)
    total.elements += left.size
    total.active += int(np.count_nonzero(active))
    total.explained += int(np.count_nonzero(explained & active))
    total.agreed += int(np.count_nonzero(agreed & ~active))
    total.residual += inner(residual, residual)
    total.drift += inner(drift, drift)


def confidence_of(found: Fit, *, elements: int) -> str | None:
    """Return how sure a fit makes; ``None`` if it leaves a tenth of the difference open, or contradicts the claim.

    `elements` is the size of the tensor, or of the sample: a claim that leaves most of them out is never sure.
    """
    if not np.isfinite(found.drift) or found.active < 4:
        return None
    for name, open_share, share in _BOUNDS:
        agreed = found.agreed >= share * found.passive
        if found.unexplained <= open_share and found.explained_share >= share and agreed:
            enough = found.elements >= max(_FEWEST_FOR_HIGH, 0.5 * elements) and found.active >= _FEWEST_ACTIVE
            return name if enough else "medium"
    return None


def is_beyond_chance(trial: Trial, rounding: Slack) -> bool:
    """Whether elements are nearer to their claim than unrelated sides could be by chance; looks at some hundred.

    Two tensors of few elements, or of small spread around different means, are "explained" by a factor, a constant or
    a bound, however unrelated they are. So each element's distance from its own claim is compared with its distance
    from the claims of others (the nearest quarter, since many elements of one value, such as 0, prove nothing); the
    quotient, in bits, is its evidence. Nearer than `rounding` proves no more.
    """
    finite = np.flatnonzero(np.isfinite(trial.left) & np.isfinite(trial.claimed) & np.isfinite(trial.right))
    # Steps through the tensor would meet one column of it only.
    some = np.random.default_rng(0).permutation(finite)[:_MOST_COMPARED]
    left, claimed = trial.left[some], trial.claimed[some]
    others = np.quantile(np.abs(left[:, None] - claimed), 0.25, axis=1) if some.size else np.zeros(0)
    own = np.abs(left - claimed) + rounding.of(claimed)
    selective = others > 0
    with np.errstate(all="ignore"):
        bits = np.clip(np.log2(others[selective] / own[selective]), 0.0, _BITS_MOST)
    proved = float(np.sort(bits)[:-_FITTED].sum())
    return proved >= _BITS_IN_ALL + _BITS_EACH * int(np.count_nonzero(selective))
