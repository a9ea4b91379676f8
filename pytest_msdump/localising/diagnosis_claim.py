"""A claim about a drift, and how well the numbers bear it out: block by block, over all elements in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pytest_msdump.lazy_dataclass import dataclass, field
from pytest_msdump.lazy_tuple import NamedTuple

__all__ = ["Array", "Claim", "Diagnosis", "Fit", "Slack", "Trial", "confidence_of", "fit", "inner"]

Array = npt.NDArray[Any]

# How much of the drift's energy a claim may leave open, and how many elements may miss it.
_BOUNDS = (("high", 0.02, 0.98), ("medium", 0.1, 0.9), ("low", 0.25, 0.75))
# Fewer elements than these prove little, however well they fit.
_FEWEST_FOR_HIGH = 16
_FEWEST_ACTIVE = 8
# An element is explained when the claim leaves at most this share of its difference.
_LEFT_OPEN = 0.25
# Or so little, beside what agreeing elements may be apart: an element that the claim hardly changes counts, too.
_NOISE = 0.2


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a failing tensor looks like.

    Parameters
    ----------
    id : str
        A key of `facts.diagnoses.DIAGNOSES`.
    confidence : str
        ``"high"``, ``"medium"`` or ``"low"``.
    evidence : str
        One sentence with the numbers that say so.
    details : mapping
        Plain values for programs: factor, axis, index, …
    unexplained : float
        Share of the squared differences that the diagnosis leaves open, 0 to 1.
    """

    id: str
    confidence: str
    evidence: str
    details: Mapping[str, Any] = field(default_factory=dict)
    unexplained: float = 0.0


class Slack(NamedTuple):
    """How far two numbers may be apart and still be the same: a share of their size, and an absolute part."""

    relative: float
    absolute: float

    def of(self, values: Array) -> Array:
        """Return the allowed distance of each value."""
        allowed: Array = self.relative * np.abs(values) + self.absolute
        return allowed


class Trial(NamedTuple):
    """One block under a claim, in float64: the left, what is claimed of it, and what the right has there."""

    left: Array
    claimed: Array
    right: Array


class Claim(Protocol):
    """One explanation with its numbers."""

    @property
    def id(self) -> str:
        """A key of `facts.diagnoses.DIAGNOSES`."""

    @property
    def details(self) -> Mapping[str, Any]:
        """The claim's numbers, as plain values."""

    @property
    def rounding(self) -> Slack:
        """What the data types alone may do to a number."""

    @property
    def agreeing(self) -> Slack:
        """How near the sides have to be where the claim says that they agree."""

    def trial(self, start: int, stop: int) -> Trial:
        """Return elements `start` to `stop`; those that the claim says nothing of may be left out."""

    @property
    def most(self) -> str:
        """The confidence that it cannot exceed, however well it fits."""

    def evidence(self, fit: Fit) -> str:
        """Say in one sentence what speaks for the claim."""


@dataclass(slots=True)
class Fit:
    """Counts and sums over the blocks looked at; `active` are elements where the claim changes the right side."""

    elements: int = 0
    active: int = 0
    explained: int = 0
    agreed: int = 0
    agreed_exactly: int = 0
    residual: float = 0.0
    drift: float = 0.0
    whole_residual: float = 0.0
    whole_drift: float = 0.0

    @property
    def unexplained(self) -> float:
        """Share of the drift's energy, where the claim is active, that it leaves open."""
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
    """Hold a claim against the elements of `ranges`.

    Notes
    -----
    Energy alone would let one huge element speak for all others, and counting alone would let many tiny ones do so;
    `confidence_of` wants both.
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
    explained = residual <= np.maximum(np.maximum(_LEFT_OPEN * drift, rounding), _NOISE * near)
    agreed = residual <= np.maximum(near, rounding)
    total.elements += left.size
    total.active += int(np.count_nonzero(active))
    total.explained += int(np.count_nonzero(explained & active))
    total.agreed += int(np.count_nonzero(agreed & ~active))
    total.agreed_exactly += int(np.count_nonzero((residual <= rounding) & ~active))
    total.residual += float(np.sum(np.square(residual), where=active))
    total.drift += float(np.sum(np.square(drift), where=active))
    total.whole_residual += inner(residual, residual)
    total.whole_drift += inner(drift, drift)


def confidence_of(found: Fit, *, elements: int) -> str | None:
    """Return how sure a fit makes; ``None`` when it speaks against the claim.

    Parameters
    ----------
    found : Fit
        Over all elements, or over a sample to see whether all are worth a look.
    elements : int
        How many the tensor has: a claim that leaves most of them out is never sure.
    """
    if not np.isfinite(found.whole_drift) or found.active < 4:
        return None
    for name, open_share, explained in _BOUNDS:
        agreed = found.agreed >= explained * found.passive
        if found.unexplained <= open_share and found.explained_share >= explained and agreed:
            return _capped(name, found, elements)
    return None


def _capped(name: str, found: Fit, elements: int) -> str:
    """Take back what few elements, or a drift that is mostly something else, cannot bear out."""
    if name != "high":
        return name
    whole = found.whole_residual <= 0.1 * found.whole_drift or found.agreed_exactly >= 0.98 * found.passive
    enough = found.elements >= max(_FEWEST_FOR_HIGH, 0.5 * elements) and found.active >= _FEWEST_ACTIVE
    return name if whole and enough else "medium"
