"""A few elements of a tensor, always from the same places: enough to see that two tensors are not alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.model.tensor import TensorView

__all__ = ["Sample", "sample", "sampled_distance"]

Array = npt.NDArray[Any]

_PIECES = 16
_PIECE = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """Elements of a tensor: as they are, and over their norm, of which the logarithm is kept since it may be huge.

    `unit` is ``None`` where a norm says nothing: some are NaN or infinite, or all are 0.
    """

    values: Array
    unit: Array | None
    log_norm: float

    @property
    def is_one_value(self) -> bool:
        """Whether all elements are the same number, or NaN."""
        values = self.values
        return bool(((values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))).all())


def sample(view: TensorView) -> Sample:
    """Return up to 1024 elements of a tensor, in pieces spread from its first to its last element.

    Two tensors of as many elements are sampled at the same element numbers.

    Raises
    ------
    TensorFileError
        The file turned out unreadable.
    """
    if view.size <= _PIECES * _PIECE:
        return _sample(to_double(view.read(0, view.size)))
    starts = np.linspace(0, view.size - _PIECE, _PIECES).astype(np.int64).tolist()
    # Copies: a view lends its array until the next read.
    return _sample(np.concatenate([to_double(view.read(start, start + _PIECE)) for start in starts]))


def sampled_distance(one: Sample, other: Sample) -> float:
    """Return how far two samples are apart: the norm of the difference over the larger norm.

    Returns
    -------
    float
        0 where they are equal; infinite where at less than half of the places both are finite. To 1e-7.

    Examples
    --------
    >>> sampled_distance(_sample(np.array([3.0, 4.0])), _sample(np.array([-3.0, -4.0])))
    2.0
    """
    if one.unit is None or other.unit is None:
        return _distance_of_some(one.values, other.values)
    ratio = math.exp(-abs(one.log_norm - other.log_norm))
    cosine = float(np.vdot(one.unit, other.unit).real)
    return math.sqrt(max(0.0, 1.0 + ratio * ratio - 2.0 * ratio * cosine))


def _distance_of_some(one: Array, other: Array) -> float:
    """The distance over places where both are finite."""
    both = np.isfinite(one) & np.isfinite(other)
    if 2 * int(np.count_nonzero(both)) < both.size:
        return float("inf")
    ours, theirs = _sample(one[both]), _sample(other[both])
    if ours.unit is None or theirs.unit is None:
        return 0.0 if ours.unit is theirs.unit else 1.0
    return sampled_distance(ours, theirs)


def _sample(values: Array) -> Sample:
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0.0 or not math.isfinite(scale):
        return Sample(values, None, 0.0)
    # What is at most 1 has squares within float64.
    scaled = values / scale
    norm = float(np.linalg.norm(scaled))
    return Sample(values, scaled / norm, math.log(scale) + math.log(norm))
