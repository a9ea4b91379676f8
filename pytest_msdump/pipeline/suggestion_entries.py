"""Suggestions as a report has them: with each tensor that has no partner, who may be it, and what speaks for that."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from pytest_msdump.localising.suggest import Fit, Suggestion
from pytest_msdump.model.report import Report, SuggestedPartner
from pytest_msdump.pipeline.planning import Plan
from pytest_msdump.pipeline.suggesting import Meeting, shape_word, suggest_partners
from pytest_msdump.pipeline.watching import Watch, unwatched
from pytest_msdump.reporting.fits import fit_text

__all__ = ["what_speaks_for", "with_suggestions"]


def with_suggestions(plan: Plan, report: Report, *, watch: Watch = unwatched) -> Report:
    """Return the report with `suggestions` in the entries of `unmatched`; reads the tensors without a partner.

    Parameters
    ----------
    plan : Plan
        What the report is of.
    report : Report
        Its verdicts stay; a suggestion is no pair.
    watch : Watch
        See `pipeline.suggesting.suggest_partners`.
    """
    found = suggest_partners(plan, watch=watch)
    told: defaultdict[tuple[str, str], list[SuggestedPartner]] = defaultdict(list)
    for one in found.suggestions:
        right = found.right[one.right].key.address
        for fit in one.fits:
            left = found.left[fit.left].key.address
            meeting = found.meetings[fit.left, fit.right]
            partner = _partner(one, fit, meeting)
            told["right", right].append(replace(partner, address=left))
            told["left", left].append(replace(partner, address=right))
    unmatched = [
        replace(entry, suggestions=tuple(told.get((entry.side, entry.tensor.address), ())))
        for entry in report.unmatched
    ]
    return replace(report, unmatched=tuple(unmatched))


def _partner(one: Suggestion, fit: Fit, meeting: Meeting) -> SuggestedPartner:
    """What speaks for a pair; without an address."""
    by = "names alone" if fit.apart is None else one.how if one.is_clear and one.how in ("names", "order") else ""
    apart = meeting.apart if fit.apart is None else fit.apart
    shape = shape_word(meeting.transform)
    return SuggestedPartner(
        address="",
        confidence="clear" if one.is_clear else "ambiguous",
        why=fit_text(apart, shape, by),
        apart=apart,
        shape=shape,
        by=by,
    )


def what_speaks_for(one: Suggestion, fit: Fit, meeting: Meeting) -> str:
    """Return what speaks for a pair, in a few words.

    Parameters
    ----------
    one : Suggestion
        For a right tensor.
    fit : Fit
        One of its partners.
    meeting : Meeting
        How the two meet.
    """
    return _partner(one, fit, meeting).why
