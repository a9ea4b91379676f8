"""A claim about a drift, and how well the numbers of both sides support it: a sample first, then all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message

Array = npt.NDArray[Any]

BLOCK_ELEMENTS = 131072
_SAMPLE_BLOCKS = 32
_SAMPLE_BLOCK_ELEMENTS = 4096
# Tensors of up to so many elements are read whole if places, and not only values, matter.
_HELD_ELEMENTS = 2**21

_MANTISSA_BITS = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"), 3),
    "hifloat8": 1,
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 2),
    "float8_e8m0": 0,
}


class Slack(NamedTuple):
    """How far two numbers may be apart and still be the same: a share of their size, and an absolute part."""

    relative: float
    absolute: float

    def of(self, values: Array) -> Array:
        """Return the allowed distance of each value."""
        allowed: Array = self.relative * np.abs(values) + self.absolute
        return allowed


def doubles(block: Array) -> Array:
    """Return a copy of a block of real numbers in float64."""
    if block.dtype.kind == "b":
        return np.not_equal(block.view(np.uint8), 0).astype(np.float64)
    return to_double(block)


@dataclass(frozen=True)
class Sides:
    """Both tensors of a pair, of one logical shape."""

    left: TensorView
    right: TensorView

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return self.left.shape

    @property
    def size(self) -> int:
        """The number of elements that can be read."""
        return self.left.size

    @cached_property
    def is_whole(self) -> bool:
        """Whether all elements of the shape can be read; in a part, places mean nothing."""
        return self.left.size == self.right.size == prod(self.shape)

    @cached_property
    def are_integers(self) -> bool:
        """Whether the left's type is integer or bool."""
        return DTYPES[self.left.dtype].kind in ("integer", "bool")

    @cached_property
    def rounding(self) -> Slack:
        """The error of the coarser type and of a computation in it: a few units of its last bit."""
        name = coarser(self.left.dtype, self.right.dtype)
        bits = _MANTISSA_BITS.get(name)
        # Integers are rounded to whole numbers, up or down.
        relative, absolute = (0.0, 1.0) if bits is None else (4 * 2.0 ** -(bits + 1), 1.0 if self.are_integers else 0.0)
        return Slack(relative, absolute)

    @cached_property
    def agreeing(self) -> Slack:
        """How near the sides have to be where a claim says that they agree: some noise is allowed."""
        return Slack(0.02, 0.01 * self.spread)

    @cached_property
    def spread(self) -> float:
        """The root mean square of the right side's sample."""
        right = self.sample[1]
        right = right[np.isfinite(right)]
        with np.errstate(all="ignore"):
            return float(np.sqrt(np.mean(np.square(right)))) if right.size else 0.0

    @cached_property
    def sample_ranges(self) -> tuple[tuple[int, int], ...]:
        """Ranges of elements all over the tensor, its ends included; one range for a small tensor."""
        if self.size <= _SAMPLE_BLOCKS * _SAMPLE_BLOCK_ELEMENTS:
            return ((0, self.size),)
        starts = np.linspace(0, self.size - _SAMPLE_BLOCK_ELEMENTS, _SAMPLE_BLOCKS).astype(int).tolist()
        return tuple((start, start + _SAMPLE_BLOCK_ELEMENTS) for start in starts)

    @cached_property
    def sample(self) -> tuple[Array, Array]:
        """The sample of both sides in float64, NaN and Inf included."""
        pairs = [self.read(start, stop) for start, stop in self.sample_ranges]
        return np.concatenate([left for left, _ in pairs]), np.concatenate([right for _, right in pairs])

    @cached_property
    def finite_sample(self) -> tuple[Array, Array]:
        """The sample where both sides are finite."""
        left, right = self.sample
        keep = np.isfinite(left) & np.isfinite(right)
        return left[keep], right[keep]

    @cached_property
    def whole(self) -> tuple[Array, Array] | None:
        """Both sides in memory, in their own types and shape; ``None`` for large tensors and parts of tensors."""
        if not self.is_whole or self.size > _HELD_ELEMENTS:
            return None
        left, right = (view.read(0, view.size).copy().reshape(self.shape) for view in (self.left, self.right))
        return left, right

    def read(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return elements `start` to `stop` of both sides in float64."""
        return doubles(self.left.read(start, stop)), doubles(self.right.read(start, stop))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges that cover all elements, a block at a time."""
        for start in range(0, self.size, BLOCK_ELEMENTS):
            yield start, min(start + BLOCK_ELEMENTS, self.size)


# -- claims ------------------------------------------------------------------------------------------------------------

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
    """One explanation of a drift, with its numbers; `id` is a key of `facts.diagnoses.DIAGNOSES`."""

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


@dataclass(frozen=True)
class FactorClaim(Claim):
    """The left is the right times a factor of each element."""

    factors: Array

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block of both sides, and the right times its factors."""
        left, right = self.sides.read(start, stop)
        return Trial(left, right * self.factors[start:stop], right)


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


def inner(left: Array, right: Array) -> float:
    """Return the sum of products. Not a BLAS product: its threads collapse when other jobs run."""
    return float(np.einsum("i,i->", left, right))


def fit(claim: Claim, ranges: Iterable[tuple[int, int]]) -> Fit:
    """Compare a claim with the elements of `ranges`."""
    # By squared differences alone one huge element would decide, by counts alone many tiny ones.
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
    """Return how sure a fit makes; ``None`` if it leaves a tenth of the difference open, or contradicts the claim."""
    if not np.isfinite(found.drift) or found.active < 4:
        return None
    # Elements where the claim says that both sides agree.
    passive = found.elements - found.active
    for name, open_share, share in _BOUNDS:
        agreed = found.agreed >= share * passive
        if found.unexplained <= open_share and found.explained_share >= share and agreed:
            enough = found.elements >= max(_FEWEST_FOR_HIGH, 0.5 * elements) and found.active >= _FEWEST_ACTIVE
            return name if enough else "medium"
    return None


def is_beyond_chance(trial: Trial, rounding: Slack) -> bool:
    """Whether elements are nearer to their claim than unrelated sides could be by chance; looks at some hundred."""
    # Two tensors of few elements, or of small spread around different means, are "explained" by a factor, a constant or
    # a bound, however unrelated they are. So each element's distance from its own claim is compared with its distance
    # from the claims of others (the nearest quarter, since many elements of one value prove nothing); the quotient, in
    # bits, is its evidence. Nearer than `rounding` proves no more.
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
