"""What one tensor of a dump holds of NaN, Inf and largest numbers: by itself, or by what the run saved in its place."""

from __future__ import annotations

import math
from contextlib import closing

from pytest_msdump.errors import MsdumpError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.metrics.overflow import OneSide, scan
from pytest_msdump.model.statistics import Statistics, is_printed_as
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.pipeline.opening import open_logical

__all__ = ["scanned"]

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
