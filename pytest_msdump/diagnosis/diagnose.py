"""What a failing tensor looks like: scaled, transposed, one channel wrong, … each with its evidence and how sure it is.

Every claim is first held against a sample; what survives is held against all elements, and only that can be sure. A
wrong diagnosis sends people the wrong way, so whatever is doubtful is said to be, or not said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pytest_msdump.diagnosis.claim import Claim, Diagnosis, Trial, confidence_of, fit, is_beyond_chance
from pytest_msdump.diagnosis.moved import of_neighbours, of_other_orders, of_padding
from pytest_msdump.diagnosis.pointwise import of_mapped_values, of_rounding
from pytest_msdump.diagnosis.sample import Sides
from pytest_msdump.diagnosis.values import constant, of_border, one_slice, permuted, unrelated
from pytest_msdump.facts.diagnoses import CONFIDENCES, DIAGNOSES
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.model.comparison import Nonfinite
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.text import Message, Parameter

__all__ = ["diagnose", "nonfinite_origin"]

_FEWEST_ELEMENTS = 4
_QUICK_ELEMENTS = 2048
# Of two explanations the one that leaves less than this share of what the other leaves is the better one.
_CLEARLY_BETTER = 0.25
# Below this share of the drift both leave nothing.
_NOTHING_LEFT = 1e-4


def diagnose(left: TensorView, right: TensorView) -> tuple[Diagnosis, ...]:
    """Say what the drift between two tensors looks like.

    Parameters
    ----------
    left, right : TensorView
        Of one logical shape, as they were compared. Read several times, a block at a time; tensors of up to 2 million
        elements are held in memory.

    Returns
    -------
    tuple of Diagnosis
        The surest first; of two that describe one thing only the more specific one. Empty when nothing is known, which
        is the ordinary case, for equal tensors, and for types without an order (complex numbers, strings).

    Notes
    -----
    At most one is of confidence ``"high"``: where two explain the drift equally well, both are ``"medium"``.
    """
    kinds = {DTYPES[view.dtype].kind for view in (left, right)}
    if not kinds <= {"float", "integer", "bool"} or left.shape != right.shape or left.size < _FEWEST_ELEMENTS:
        return ()
    sides = Sides(left, right)
    if np.array_equal(*sides.sample, equal_nan=True) and len(sides.sample_ranges) == 1:
        return ()
    with np.errstate(all="ignore"):
        found = [*_borne_out(sides), *filter(None, (one_slice(sides), constant(sides)))]
        if not any(entry.confidence == "high" for entry in found):
            found += filter(None, [permuted(sides)])
        if not found:
            found += filter(None, [unrelated(sides)])
    return _settled(found)


def _claims(sides: Sides) -> Iterator[Claim]:
    for family in (of_mapped_values, of_rounding, of_other_orders, of_neighbours, of_padding, of_border):
        yield from family(sides)


def _borne_out(sides: Sides) -> Iterator[Diagnosis]:
    """The claims that all elements bear out, with how sure they make."""
    sampled = sum(stop - start for start, stop in sides.sample_ranges)
    for claim in _claims(sides):
        if not _is_worth_a_look(claim, sides):
            continue
        found = fit(claim, sides.sample_ranges)
        confidence = confidence_of(found, elements=sampled)
        if confidence is not None and sampled < sides.size:
            found = fit(claim, sides.ranges())
            confidence = confidence_of(found, elements=sides.size)
        if confidence is not None and is_beyond_chance(_sample_of(claim, sides), claim.rounding):
            confidence = min(confidence, claim.most, key=CONFIDENCES.index)
            yield Diagnosis(claim.id, confidence, claim.evidence(found), claim.details, found.unexplained)


def _sample_of(claim: Claim, sides: Sides) -> Trial:
    """What is claimed of the elements of the sample."""
    trials = [claim.trial(start, stop) for start, stop in sides.sample_ranges]
    return Trial(*(np.concatenate(parts) for parts in zip(*trials, strict=True)))


def _is_worth_a_look(claim: Claim, sides: Sides) -> bool:
    """Whether two short runs leave the claim open."""
    middle = sides.sample_ranges[len(sides.sample_ranges) // 2]
    start = max(middle[0], (middle[0] + middle[1] - _QUICK_ELEMENTS) // 2)
    quick = fit(claim, [(start, min(start + _QUICK_ELEMENTS, middle[1]))])
    return quick.active < 64 or quick.unexplained < 0.6 or quick.explained_share >= 0.75


def _settled(found: list[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Leave out what a more specific finding covers; let no two be sure."""
    found = _one_of_each(found)
    covered = {
        general
        for entry in found
        for general in DIAGNOSES[entry.id].within
        for other in found
        if other.id == general and _rank(entry) >= _rank(other)
    }
    found = sorted(
        (entry for entry in found if entry.id not in covered), key=lambda entry: (-_rank(entry), entry.unexplained)
    )
    sure = [entry for entry in found if entry.confidence == "high"]
    if len(sure) < 2:
        return tuple(found)
    best, second = sure[0].unexplained, sure[1].unexplained
    alone = second > _NOTHING_LEFT and best <= _CLEARLY_BETTER * second
    if alone:
        return (sure[0], *(entry for entry in found if entry not in sure))
    return tuple(replace(entry, confidence="medium") if entry in sure else entry for entry in found)


def _one_of_each(found: list[Diagnosis]) -> list[Diagnosis]:
    """The best of each kind."""
    best: dict[str, Diagnosis] = {}
    for entry in found:
        known = best.get(entry.id)
        if known is None or (_rank(entry), -entry.unexplained) > (_rank(known), -known.unexplained):
            best[entry.id] = entry
    return list(best.values())


def _rank(entry: Diagnosis) -> int:
    return CONFIDENCES.index(entry.confidence)


# -- Where NaN and Inf begin -----------------------------------------------------------------------------------------


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
