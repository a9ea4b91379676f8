"""The statistics that a run saves of a tensor, computed from the tensor itself, in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_msdump.errors import UnknownNameError, nearest
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.statistics import STATISTICS
from pytest_msdump.metrics.moments import EMPTY, Moments, moments
from pytest_msdump.metrics.sums import Sum
from pytest_msdump.metrics.values import Array, Workspace, components, numbers

if TYPE_CHECKING:
    from pytest_msdump.model.statistics import Statistic
    from pytest_msdump.model.tensor import TensorView

__all__ = ["statistics_of"]

_DIGESTS = tuple(name for name, fact in STATISTICS.items() if fact.kind == "digest")
_BITS_OF_HALF = np.uint32(16)


@dataclass(slots=True)
class _Tally:
    """What is known after some blocks."""

    negative: int = 0
    positive: int = 0
    zero: int = 0
    nan: int = 0
    negative_inf: int = 0
    positive_inf: int = 0
    minimum: float | int | None = None
    maximum: float | int | None = None
    finite: Moments = EMPTY
    workspace: Workspace = field(default_factory=Workspace)

    def add(self, block: Array) -> None:
        """Take in a block of real numbers."""
        finite = block
        if block.dtype.kind == "f":
            self.nan += int(np.count_nonzero(np.isnan(block)))
            self.negative_inf += int(np.count_nonzero(np.isneginf(block)))
            self.positive_inf += int(np.count_nonzero(np.isposinf(block)))
            finite = block[np.isfinite(block)]
        if not finite.size:
            return
        self.negative += int(np.count_nonzero(finite < 0))
        self.positive += int(np.count_nonzero(finite > 0))
        self.zero += int(np.count_nonzero(finite == 0))
        low, high = finite.min().item(), finite.max().item()
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        (doubles,) = components(finite, "left", self.workspace)
        self.finite = self.finite.merge(moments(doubles, float(low), float(high), self.workspace))

    def values(self, elements: int) -> dict[str, Statistic]:
        """Return all that was counted."""
        return {
            "maximum": self.maximum,
            "minimum": self.minimum,
            "mean": self.finite.mean if self.finite.elements else None,
            "l2_norm": self._norm(),
            "count": elements,
            "negative_count": self.negative,
            "positive_count": self.positive,
            "zero_count": self.zero,
            "nan_count": self.nan,
            "negative_inf_count": self.negative_inf,
            "positive_inf_count": self.positive_inf,
        }

    def _norm(self) -> float:
        if self.nan:
            return float("nan")
        if self.negative_inf or self.positive_inf:
            return float("inf")
        return self.finite.squares.root_of_ratio(Sum(1.0))


def statistics_of(
    view: TensorView, *, digests: Sequence[str] = (), block_elements: int = 131072
) -> Mapping[str, Statistic]:
    """Compute what `facts.statistics` lists, as a run of MindSpore does on the host.

    Parameters
    ----------
    view : TensorView
        The tensor.
    digests : sequence of str
        Which of ``"md5"`` and ``"sha1"`` to compute, too; they cost more than all the rest.
    block_elements : int
        How many elements are held at a time.

    Returns
    -------
    mapping of str to number, str or None
        By id. Extremes are exact for integers, and ``None`` with the mean when no element is finite. Of complex numbers
        there are but `count` and digests, since MindSpore saves none; digests are left out for types that a view does
        not give back bit by bit (8-bit floats and elements of less than a byte).

    Raises
    ------
    ValueError
        `block_elements` is below 1.
    UnknownNameError
        `digests` names something else.
    """
    if block_elements < 1:
        raise ValueError(f"block_elements is {block_elements}; it has to be at least 1")
    for name in digests:
        if name not in _DIGESTS:
            raise UnknownNameError(f"no digest '{name}'; {nearest(name, _DIGESTS)}")
    tally = _Tally()
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in digests if _has_bytes(view.dtype)}
    is_real = DTYPES[view.dtype].kind != "complex"
    with np.errstate(all="ignore"):
        for block in _blocks(view, block_elements):
            if is_real:
                tally.add(numbers(block))
            for one in hashes.values():
                one.update(_bytes_of(block, view.dtype))
    found: dict[str, Statistic] = tally.values(view.size) if is_real else {"count": view.size}
    return found | {name: one.hexdigest() for name, one in hashes.items()}


def _blocks(view: TensorView, block_elements: int) -> Iterator[Array]:
    for start in range(0, view.size, block_elements):
        yield view.read(start, min(start + block_elements, view.size))


def _has_bytes(dtype: str) -> bool:
    """Whether the bytes that a run saw can be had back from the values of a view."""
    fact = DTYPES[dtype]
    return dtype == "bfloat16" or np.dtype(fact.native).itemsize * 8 == fact.bits


def _bytes_of(block: Array, dtype: str) -> Any:
    """Return a block's bytes, little-endian, in the type that it was computed in."""
    if dtype == "bfloat16":
        # Every bfloat16 is the upper half of the float32 that stands for it.
        return (np.ascontiguousarray(block).view(np.uint32) >> _BITS_OF_HALF).astype("<u2").tobytes()
    return block.astype(block.dtype.newbyteorder("<"), copy=False).tobytes()
