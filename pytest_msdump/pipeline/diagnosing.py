"""The stage behind judging: what a failing pair looks like, as records hold it. Pairs that pass are not looked at."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pytest_msdump.errors import MsdumpError
from pytest_msdump.localising.diagnosis import diagnose
from pytest_msdump.localising.diagnosis_nonfinite import nonfinite_origin
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.record import Diagnosis
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.pipeline.extras import Extras
from pytest_msdump.pipeline.measuring import FirstElements

__all__ = ["diagnosed"]

# With less than this share of finite pairs, NaN and Inf are all there is to say.
_FINITE_SHARE = 0.5


def diagnosed(left: TensorView, right: TensorView, comparison: Comparison, extras: Extras) -> tuple[Diagnosis, ...]:
    """Say what the drift of a failing pair looks like.

    Parameters
    ----------
    left, right : TensorView
        As they were measured.
    comparison : Comparison
        Their numbers.
    extras : Extras
        Of a tensor of which only the first elements were to be looked at, no more is looked at here.

    Returns
    -------
    tuple of Diagnosis
        The surest first; their details are plain JSON values.
    """
    origin = nonfinite_origin(comparison.nonfinite, elements=comparison.elements)
    found = [] if origin is None else [origin]
    if comparison.elements and comparison.finite >= _FINITE_SHARE * comparison.elements:
        if extras.first is not None and extras.first < left.size:
            left, right = FirstElements(left, extras.first), FirstElements(right, extras.first)
        # The numbers stand; a file that went away since then only costs the hint.
        with suppress(MsdumpError):
            found += diagnose(left, right)
    return tuple(replace(one, details=_plain(one.details)) for one in found)


def _plain(value: Any) -> Any:
    """JSON has no tuples; NumPy's numbers become Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") else value
