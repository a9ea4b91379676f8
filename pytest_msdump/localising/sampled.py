"""A few elements of a tensor, always from the same places: enough to see that two tensors are not alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.model.tensor import TensorView

__all__ = ["sample", "sampled_distance"]

Array = npt.NDArray[Any]

_PIECES = 16
_PIECE = 64


def sample(view: TensorView) -> Array:
    """Return up to 1024 elements of a tensor, in pieces spread from its first to its last element.

    Two tensors of as many elements are sampled at the same element numbers.

    Raises
    ------
    TensorFileError
        The file turned out unreadable.
    """
    if view.size <= _PIECES * _PIECE:
        return _plain(view.read(0, view.size))
    starts = np.linspace(0, view.size - _PIECE, _PIECES).astype(np.int64).tolist()
    return np.concatenate([_plain(view.read(start, start + _PIECE)) for start in starts])


def sampled_distance(one: Array, other: Array) -> float:
    """Return how far two samples are apart: the norm of the difference over the larger norm.

    Returns
    -------
    float
        0 where they are equal; infinite where at less than half of the places both are finite.

    Examples
    --------
    >>> sampled_distance(np.array([3.0, 4.0]), np.array([3.0, 4.0])), sampled_distance(np.ones(1), -np.ones(1))
    (0.0, 2.0)
    """
    both = np.isfinite(one) & np.isfinite(other)
    if 2 * int(np.count_nonzero(both)) < both.size:
        return float("inf")
    ours, theirs = one[both], other[both]
    scale = max((float(np.abs(part).max()) for part in (ours, theirs) if part.size), default=0.0)
    if scale == 0.0:
        return 0.0
    # What is at most 1 has squares within float64.
    norms = [float(np.linalg.norm(part / scale)) for part in (ours, theirs)]
    return float(np.linalg.norm(ours / scale - theirs / scale)) / max(norms)


def _plain(values: Array) -> Array:
    """The elements as numbers that are to be kept: a view lends its array until the next read."""
    return values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)
