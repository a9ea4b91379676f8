"""What a tensor's values are like, and how far two tensors are apart once one is brought to the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.errors import MsdumpError, TensorShapeError
from pytest_msdump.core.model.tensor import Pair, TensorRef, TensorView, Transform
from pytest_msdump.core.text import ENGLISH, Phrases

Array = npt.NDArray[Any]

_BLOCK = 1 << 17
_BINS = 2048
_QUANTILES = np.linspace(0.0, 1.0, 33)

# With fewer elements, or fewer different quantiles, two tensors hold the same values by chance.
_FEWEST_ELEMENTS = 8
_FEWEST_QUANTILES = 3

_PIECES = 16
_PIECE = 64


@dataclass(frozen=True)
class Fingerprint:
    """Facts of a tensor that do not depend on where its values stand."""

    size: int
    finite: int
    scale: float
    values: Array

    @property
    def is_distinctive(self) -> bool:
        """Whether two different tensors hardly have such values by chance."""
        # Halves, since the width of the range may be beyond float64.
        quantiles = self.values[3:] / 2.0
        # A value may appear twice, as itself and as the edge of its bin.
        steps = np.diff(quantiles) > 2.0 / _BINS * (quantiles[-1] - quantiles[0])
        return self.finite >= _FEWEST_ELEMENTS and 1 + int(np.count_nonzero(steps)) >= _FEWEST_QUANTILES

    @property
    def spread(self) -> float:
        """Which share of the norm is not that of the mean: little where all values are nearly the same."""
        mean = self.values[0] / self.scale if self.scale else 0.0
        return math.sqrt(max(0.0, 1.0 - mean * mean))


def fingerprint(view: TensorView) -> Fingerprint:
    """Read a tensor twice, block by block, and return its fingerprint; of complex values their moduli count."""
    finite, zeros, total, modulus, low, high = 0, 0, 0.0, 0.0, np.inf, -np.inf
    for block in _finite_blocks(view):
        finite += block.size
        zeros += block.size - int(np.count_nonzero(block))
        total += float(np.sum(block / view.size))
        modulus += float(np.sum(np.abs(block) / view.size))
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    if not finite:
        return Fingerprint(view.size, 0, 0.0, np.zeros(3 + _QUANTILES.size))
    share, greatest = view.size / finite, max(abs(low), abs(high))
    squares, counts = 0.0, np.zeros(_BINS)
    # Halves, since the width of the range may be beyond float64.
    edges = 2.0 * np.linspace(low / 2.0, high / 2.0, _BINS + 1)
    for block in _finite_blocks(view):
        squares += float(np.sum(np.square(block / greatest))) if greatest else 0.0
        places = np.searchsorted(edges, block, side="right") - 1
        counts += np.bincount(np.clip(places, 0, _BINS - 1), minlength=_BINS)
    scale = greatest * float(np.sqrt(squares / finite))
    facts = [total * share, modulus * share, scale * (zeros / finite)]
    # Quantiles to a bin's width.
    reached = np.cumsum(counts) / counts.sum()
    inner = edges[np.minimum(np.searchsorted(reached, _QUANTILES[1:-1] - 1e-12), _BINS - 1)]
    return Fingerprint(view.size, finite, scale, np.array([*facts, low, *inner, high]))


def _finite_blocks(view: TensorView) -> Iterator[Array]:
    for block in view.blocks(_BLOCK):
        values = to_double(block)
        values = np.abs(values) if np.iscomplexobj(values) else values
        values = values[np.isfinite(values)]
        if values.size:
            yield values


def distances(one: Fingerprint, others: list[Fingerprint]) -> Array:
    """Return how unlike each other one is, 0 to infinity: the largest difference of any fact, over the larger scale."""
    if not others:
        return np.zeros(0)
    scale = np.array([max(one.scale, other.scale) for other in others])
    # Without the extreme quantiles, which are single elements that any drift may move.
    theirs = np.stack([np.delete(other.values, (3, -1)) for other in others])
    ours = np.delete(one.values, (3, -1))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        apart = np.abs(theirs / scale[:, None] - ours / scale[:, None]).max(axis=1)
    apart[scale == 0] = 0.0
    apart[[(one.size, one.finite == 0) != (other.size, other.finite == 0) for other in others]] = np.inf
    apart[np.isnan(apart)] = np.inf
    return np.asarray(apart, dtype=np.float64)


def disagreement(left: TensorView, right: TensorView) -> float:
    """Return the norm of the difference of two tensors of one shape over the norm of the right."""
    scale = max((float(np.abs(block).max()) for block in _finite_blocks(right)), default=0.0)
    # Squares of what is at most 1 stay within float64, whatever the values are.
    scale = scale or 1.0
    apart, norm, odd = 0.0, 0.0, 0
    for ours, theirs in zip(left.blocks(_BLOCK), right.blocks(_BLOCK), strict=True):
        one, other = to_double(ours), to_double(theirs)
        both = np.isfinite(one) & np.isfinite(other)
        odd += int(np.count_nonzero(np.isfinite(one) != np.isfinite(other)))
        with np.errstate(over="ignore", under="ignore"):
            apart += float(np.sum(np.square(np.abs(one[both] / scale - other[both] / scale))))
        norm += float(np.sum(np.square(np.abs(other[both] / scale))))
    if odd * 1000 > right.size or (norm == 0.0 and apart > 0.0):
        return float("inf")
    return float(np.sqrt(apart / norm)) if norm else 0.0


@dataclass(frozen=True, eq=False)
class Sample:
    """A few elements and the same over their norm, ``None`` where that is none; the norm's logarithm is kept."""

    values: Array
    unit: Array | None
    log_norm: float

    @property
    def is_one_value(self) -> bool:
        """Whether all elements are the same number, or NaN."""
        values = self.values
        return bool(((values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))).all())


def sample(view: TensorView) -> Sample:
    """Return up to 1024 elements, in pieces from the first to the last; at the same numbers for tensors of one size."""
    if view.size <= _PIECES * _PIECE:
        return sample_of(to_double(view.read(0, view.size)))
    starts = np.linspace(0, view.size - _PIECE, _PIECES).astype(np.int64).tolist()
    # `to_double` copies: a view lends its array until the next read.
    return sample_of(np.concatenate([to_double(view.read(start, start + _PIECE)) for start in starts]))


def sample_of(values: Array) -> Sample:
    """Return a sample of these elements."""
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0.0 or not math.isfinite(scale):
        return Sample(values, None, 0.0)
    # Squares of what is at most 1 stay within float64.
    scaled = values / scale
    norm = float(np.linalg.norm(scaled))
    return Sample(values, scaled / norm, math.log(scale) + math.log(norm))


def sampled_distance(one: Sample, other: Sample) -> float:
    """Return the norm of the difference of two samples over the larger norm, to 1e-7.

    Infinite if fewer than half of the places are finite on both sides.

    >>> sampled_distance(sample_of(np.array([3.0, 4.0])), sample_of(np.array([-3.0, -4.0])))
    2.0
    """
    if one.unit is None or other.unit is None:
        both = np.isfinite(one.values) & np.isfinite(other.values)
        if 2 * int(np.count_nonzero(both)) < both.size:
            return math.inf
        one, other = sample_of(one.values[both]), sample_of(other.values[both])
    if one.unit is None or other.unit is None:
        return 0.0 if one.unit is other.unit else 1.0
    ratio = math.exp(-abs(one.log_norm - other.log_norm))
    cosine = float(np.vdot(one.unit, other.unit).real)
    return math.sqrt(max(0.0, 1.0 + ratio * ratio - 2.0 * ratio * cosine))


# Drift up to here leaves a tensor recognisable.
MOST_APART = 0.02
# Drift that the coarser data type explains. Neighbours in a residual stream differ by little more.
_CLOSE = {"float64": 1e-3, "float32": 1e-3, "float16": 5e-3}

# Axes of the right side that lead from one usual order to another.
USUAL_AXES = (
    *((1, 0), (1, 0, 2), (0, 2, 1), (0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 0, 1)),
    *((0, 4, 1, 2, 3), (0, 2, 3, 4, 1)),
)


@dataclass(frozen=True)
class Alignment:
    """How a right tensor is brought to a left one, how far apart they are then, and whether types explain that."""

    transform: Transform
    apart: float
    is_close: bool


def best_alignment(
    left: TensorRef, right: TensorRef, formats: Transform, values: TensorView | None = None
) -> Alignment | None:
    """Return the simplest way to bring the right to the left that no other one is clearly better than."""
    try:
        with closing(open_view(left)) as ours, closing(open_view(right) if values is None else values) as theirs:
            close = _CLOSE.get(coarser(ours.dtype, theirs.dtype), MOST_APART)
            ranks = {len(ours.shape), len(theirs.shape)}
            turned = [Transform(transpose=axes) for axes in USUAL_AXES if {len(axes)} == ranks]
            best: Alignment | None = None
            for transform in (formats, *turned, Transform(reshape=True)):
                # Any two tensors of one size can be reshaped, so this is only tried if nothing else works.
                if transform.reshape and best is not None:
                    continue
                found = _apart(Pair(left, right, "mapped", transform=transform), ours, theirs)
                if found is not None and (best is None or found[0] * 10 < best.apart):
                    apart, is_reshaped = found
                    best = Alignment(replace(transform, reshape=is_reshaped), apart, apart <= close)
            return best
    except (MsdumpError, OSError):
        return None


def shape_word(transform: Transform) -> str:
    """Return what is done to a shape, as `fit_text` takes it."""
    if transform.transpose is not None:
        return "transposed"
    return "reshaped" if transform.reshape else "same"


def fit_text(apart: float, shape: str, by: str = "", say: Phrases = ENGLISH) -> str:
    """Return what speaks for a pair of tensors.

    `apart` is how far their values are apart, over the norm of the right; `shape` is ``"same"``, ``"transposed"`` or
    ``"reshaped"``; `by` says what speaks for it if not that values agree: ``"nearest"``, ``"structure"``, ``"replay"``,
    ``"against"`` or ``"statistics"``.

    >>> fit_text(2.1e-8, "transposed")
    'values agree to 2e-08, axes of the right in another order'
    """
    shape = say(f"shape_{shape}")
    if by:
        return say(f"fits_by_{by}", shape=shape, apart=f"{apart:.2g}")
    return say("fits_equal", shape=shape) if apart == 0 else say("fits", shape=shape, apart=f"{apart:.0e}")


def _apart(pair: Pair, left: TensorView, right: TensorView) -> tuple[float, bool] | None:
    """Return how far two tensors are apart, and whether one was given the other's shape."""
    try:
        aligned = align(pair, left, right)
    except TensorShapeError:
        return None
    return None if aligned.sampled else (disagreement(aligned.left, aligned.right), aligned.transform.reshape)
