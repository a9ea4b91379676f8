"""Where NaN and Inf begin: told from what was counted, which needs no second look at the data."""

from __future__ import annotations

from pytest_msdump.localising.diagnosis_claim import Diagnosis
from pytest_msdump.model.comparison import Nonfinite
from pytest_msdump.text import Message, Parameter

__all__ = ["nonfinite_origin"]


def nonfinite_origin(counts: Nonfinite, *, elements: int) -> Diagnosis | None:
    """Tell of NaN and Inf that only one side has; ``None`` when both have the same.

    Parameters
    ----------
    counts : Nonfinite
        As they were measured over all elements.
    elements : int
        How many elements were compared.
    """
    if not counts.mismatch or counts.first_mismatch is None:
        return None
    names = [("NaN", "left", counts.nan_left), ("Inf", "left", counts.inf_left)]
    names += [("NaN", "right", counts.nan_right), ("Inf", "right", counts.inf_right)]
    parts = tuple(
        Message("count_on_side", {"n": count, "kind": name, "side": side}) for name, side, count in names if count
    )
    said: dict[str, Parameter] = {"parts": parts, "elements": elements, "place": counts.first_mismatch}
    details = {"first": list(counts.first_mismatch), "mismatches": counts.mismatch}
    return Diagnosis("nonfinite", "high", Message("nonfinite_on_one_side", said), details)
