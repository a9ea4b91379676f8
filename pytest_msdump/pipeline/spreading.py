"""The stage behind judging that keeps how errors are spread, where somebody asked for it."""

from __future__ import annotations

from contextlib import suppress

from pytest_msdump.errors import MsdumpError
from pytest_msdump.metrics.spread import spread
from pytest_msdump.model.record import Spread
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.model.verdict import FAILING, Verdict
from pytest_msdump.pipeline.extras import Extras
from pytest_msdump.pipeline.measuring import FirstElements

__all__ = ["spread_of"]


def spread_of(left: TensorView, right: TensorView, verdict: Verdict, extras: Extras) -> Spread | None:
    """Return the small arrays of a pair; ``None`` when they are not wanted of it.

    Parameters
    ----------
    left, right : TensorView
        As they were measured.
    verdict : Verdict
        What came of it.
    extras : Extras
        Which pairs are wanted, and how much of each is looked at.
    """
    if extras.spread == "none" or (extras.spread == "failing" and verdict.outcome not in FAILING):
        return None
    if extras.first is not None and extras.first < left.size:
        left, right = FirstElements(left, extras.first), FirstElements(right, extras.first)
    # The numbers stand; a file that went away since then only costs the drawing.
    with suppress(MsdumpError):
        return spread(left, right)
    return None
