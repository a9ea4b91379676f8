"""What one tensor of a dump holds of NaN, Inf and largest numbers: by itself, or by what the run saved in its place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_msdump.comparison.opening import open_logical
from pytest_msdump.errors import MsdumpError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.metrics.definitions import unravel
from pytest_msdump.metrics.sums import EMPTY, Moments, moments
from pytest_msdump.metrics.values import Array, Workspace, components, magnitudes, numbers
from pytest_msdump.model.statistics import Statistics, is_printed_as
from pytest_msdump.model.tensor import TensorRef

if TYPE_CHECKING:
    from pytest_msdump.model.tensor import TensorView

__all__ = ["OneSide", "scan", "scanned"]


@dataclass(frozen=True, slots=True)
class OneSide:
    """What one tensor holds.

    Parameters
    ----------
    elements, nan, inf : int
        Counts; a complex number is NaN if either part is, else Inf if either part is.
    saturated : int
        Finite elements at their dtype's maximum magnitude (of a complex number: either part). 0 for integers and bools.
    first : tuple of int, optional
        Logical index of the first element that is NaN, Inf or saturated.
    minimum, maximum : float or int, optional
        Range of the finite elements, exact for integers; of the moduli for complex numbers. ``None`` without any.
    mean : float, optional
        Mean of the finite elements (of the moduli for complex numbers).
    """

    elements: int
    nan: int
    inf: int
    saturated: int
    first: tuple[int, ...] | None
    minimum: float | int | None
    maximum: float | int | None
    mean: float | None


@dataclass(slots=True)
class _Tally:
    nan: int = 0
    inf: int = 0
    saturated: int = 0
    first: int | None = None
    statistics: Moments = EMPTY
    minimum: float | int | None = None
    maximum: float | int | None = None

    def extend(self, minimum: float | int, maximum: float | int) -> None:
        """Take in a block's range."""
        self.minimum = minimum if self.minimum is None else min(self.minimum, minimum)
        self.maximum = maximum if self.maximum is None else max(self.maximum, maximum)


def scan(view: TensorView, *, block_elements: int = 131072) -> OneSide:
    """Look through one tensor for NaN, Inf and saturation, in one pass.

    Parameters
    ----------
    view : TensorView
        The tensor.
    block_elements : int
        How many elements are held at a time.

    Returns
    -------
    OneSide
        Counts, the first position, range and mean.

    Raises
    ------
    ValueError
        `block_elements` is below 1.
    """
    if block_elements < 1:
        raise ValueError(f"block_elements is {block_elements}; it has to be at least 1")
    tally, workspace = _Tally(), Workspace()
    with np.errstate(all="ignore"):
        for start, block in _blocks(view, block_elements):
            _count_block(tally, numbers(block), start, DTYPES[view.dtype].maximum, workspace)
    mean = tally.statistics.mean if tally.statistics.elements else None
    return OneSide(
        elements=view.size,
        nan=tally.nan,
        inf=tally.inf,
        saturated=tally.saturated,
        first=None if tally.first is None else unravel(tally.first, view.shape),
        minimum=tally.minimum,
        maximum=tally.maximum,
        mean=mean,
    )


def _blocks(view: TensorView, block_elements: int) -> Iterator[tuple[int, Array]]:
    for start in range(0, view.size, block_elements):
        yield start, view.read(start, min(start + block_elements, view.size))


def _count_block(tally: _Tally, block: Array, start: int, maximum: float | None, workspace: Workspace) -> None:
    parts = components(block, "left", workspace)
    if maximum is None:
        tally.extend(block.min().item(), block.max().item())
        _add(tally, parts[0], workspace)
        return
    # A largest part below the dtype's maximum shows in one comparison that there is nothing to count.
    if not all(float(np.abs(part).max()) < maximum for part in parts):
        _count_overflow(tally, parts, start, maximum)
    values = magnitudes(parts) if len(parts) > 1 else parts[0]
    finite = values[np.isfinite(values)]
    if finite.size:
        tally.extend(float(finite.min()), float(finite.max()))
        _add(tally, finite, workspace)


def _count_overflow(tally: _Tally, parts: tuple[Array, ...], start: int, maximum: float) -> None:
    nan = np.isnan(parts).any(axis=0)
    inf = np.isinf(parts).any(axis=0) & ~nan
    saturated = (np.abs(parts) == maximum).any(axis=0) & ~nan & ~inf
    bad = nan | inf | saturated
    tally.nan += int(np.count_nonzero(nan))
    tally.inf += int(np.count_nonzero(inf))
    tally.saturated += int(np.count_nonzero(saturated))
    place = int(bad.argmax())
    if tally.first is None and bad[place]:
        tally.first = start + place


def _add(tally: _Tally, values: Array, workspace: Workspace) -> None:
    block = moments(values, float(values.min()), float(values.max()), workspace)
    tally.statistics = tally.statistics.merge(block)


# -- What one tensor of a dump holds of NaN, Inf and largest numbers -------------------------------------------------


_INFINITE = ("negative_inf_count", "positive_inf_count")


def scanned(ref: TensorRef) -> OneSide | str:
    """Look for overflow in one tensor.

    Parameters
    ----------
    ref : TensorRef
        Opened here, read in blocks, and closed again.

    Returns
    -------
    OneSide or str
        Why it is not known. Of a tensor that was saved as statistics only, `first` is not known; a norm that is NaN or
        infinite stands for one such element where nobody counted them, as an extreme at the end of the type's range
        does for one saturated element.
    """
    if ref.is_unseen:
        return _saved(ref)
    try:
        with closing(open_logical(ref)) as view:
            return scan(view)
    except (MsdumpError, OSError) as error:
        return str(error)


def _saved(ref: TensorRef) -> OneSide | str:
    saved = ref.statistics or Statistics()
    known = {name: value for name, value in saved.values.items() if isinstance(value, int | float)}
    nan, inf = known.get("nan_count"), [known[name] for name in _INFINITE if name in known]
    norm = known.get("l2_norm")
    if norm is None and (nan is None or len(inf) < len(_INFINITE)):
        told = ", ".join(known) or "nothing"
        return f"it was saved as statistics only, and these ({told}) do not tell whether it holds NaN or Inf"
    count = {"nan": int(nan or 0), "inf": int(sum(inf))}
    if norm is not None and not math.isfinite(norm) and not any(count.values()):
        count["nan" if math.isnan(norm) else "inf"] = 1
    shape = ref.spec.shape
    return OneSide(
        elements=int(known["count"] if "count" in known else 1 if shape is None else math.prod(shape)),
        nan=count["nan"],
        inf=count["inf"],
        saturated=_saturated([known.get("minimum"), known.get("maximum")], saved.digits, ref.spec.dtype),
        first=None,
        minimum=known.get("minimum"),
        maximum=known.get("maximum"),
        mean=known.get("mean"),
    )


def _saturated(extremes: list[float | int | None], digits: int | None, dtype: str | None) -> int:
    """How many of the extremes are, as printed, the largest number of a float type."""
    fact = DTYPES.get(dtype or "")
    if fact is None or fact.maximum is None:
        return 0
    told = [abs(value) for value in extremes if value is not None]
    return sum(is_printed_as(value, fact.maximum, digits=digits or 17) for value in told)
