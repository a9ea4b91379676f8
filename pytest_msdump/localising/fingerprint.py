"""What a tensor's values are like, wherever they stand: for finding the same tensor under another name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.model.tensor import TensorView

__all__ = ["Fingerprint", "disagreement", "distances", "fingerprint"]

Array = npt.NDArray[np.float64]

_BLOCK = 1 << 17
_BINS = 2048
_QUANTILES = np.linspace(0.0, 1.0, 33)

# With fewer elements, or fewer different quantiles, two tensors hold the same values by chance.
_FEWEST_ELEMENTS = 8
_FEWEST_QUANTILES = 3


@dataclass(frozen=True)
class Fingerprint:
    """What does not depend on where the values stand.

    Parameters
    ----------
    size : int
        Number of elements.
    finite : int
        Number of those that are neither NaN nor infinite.
    scale : float
        Root of the mean square of the finite ones, or their greatest modulus where squares leave float64.
    values : array
        Mean, mean modulus, share of zeros times `scale`, then quantiles from the least to the greatest value.
    """

    size: int
    finite: int
    scale: float
    values: Array

    @property
    def is_telling(self) -> bool:
        """Whether two tensors that hold such values are hardly two different ones."""
        # Halves, since the width of the range may be beyond float64.
        quantiles = self.values[3:] / 2.0
        # One value may be told as its own and as the edge of its bin.
        steps = np.diff(quantiles) > 2.0 / _BINS * (quantiles[-1] - quantiles[0])
        return self.finite >= _FEWEST_ELEMENTS and 1 + int(np.count_nonzero(steps)) >= _FEWEST_QUANTILES


def fingerprint(view: TensorView) -> Fingerprint:
    """Read a tensor twice, block by block, and return what its values are like; of complex ones their moduli.

    Raises
    ------
    TensorFileError
        A file turned out unreadable on the way.
    """
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
    return Fingerprint(view.size, finite, scale, np.array([*facts, *_quantiles(edges, counts, low, high)]))


def _quantiles(edges: Array, counts: Array, low: float, high: float) -> Array:
    """Quantiles to a bin's width."""
    reached = np.cumsum(counts) / counts.sum()
    inner = edges[np.minimum(np.searchsorted(reached, _QUANTILES[1:-1] - 1e-12), _BINS - 1)]
    return np.array([low, *inner, high])


def _finite_blocks(view: TensorView) -> Iterator[Array]:
    for block in view.blocks(_BLOCK):
        values = _real(block)
        values = values[np.isfinite(values)]
        if values.size:
            yield values


def _real(block: npt.NDArray[np.generic]) -> Array:
    values = to_double(block)
    return np.abs(values) if np.iscomplexobj(values) else values


def distances(one: Fingerprint, others: list[Fingerprint]) -> Array:
    """Return how unlike each of `others` is, in units of the scale: 0 is the same, infinite another size.

    Parameters
    ----------
    one : Fingerprint
        Whose like is looked for.
    others : list of Fingerprint
        The other side's.

    Returns
    -------
    array, shape ``(len(others),)``
        The largest difference of any fact, over the larger scale.
    """
    if not others:
        return np.zeros(0)
    scale = np.array([max(one.scale, other.scale) for other in others])
    # Of quantiles those of the inside: the extremes are single elements, which any drift may move.
    theirs = np.stack([np.delete(other.values, (3, -1)) for other in others])
    ours = np.delete(one.values, (3, -1))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        apart = np.abs(theirs / scale[:, None] - ours / scale[:, None]).max(axis=1)
    apart[scale == 0] = 0.0
    apart[[(one.size, one.finite == 0) != (other.size, other.finite == 0) for other in others]] = np.inf
    apart[np.isnan(apart)] = np.inf
    return np.asarray(apart, dtype=np.float64)


def disagreement(left: TensorView, right: TensorView) -> float:
    """Return how far two tensors of one shape are apart, element by element.

    Returns
    -------
    float
        The norm of the difference over the norm of the right side; 0 where they are equal. Infinite when the right is
        0 where the left is not, or when more than one element in a thousand is NaN or infinite on one side only.
    """
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
