"""Suggestions as a report has them: with each tensor that has no partner, who may be it, and what speaks for that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_msdump.localising.suggest import Fit, Suggestion
from pytest_msdump.model.report import Report
from pytest_msdump.pipeline.planning import Plan
from pytest_msdump.pipeline.suggesting import Meeting, shape_word, suggest_partners
from pytest_msdump.pipeline.watching import Watch, unwatched
from pytest_msdump.reporting.fits import fit_text

__all__ = ["fit_entry", "what_speaks_for", "with_suggestions"]


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
    told: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in found.suggestions:
        right = found.right[one.right].key.address
        for fit in one.fits:
            left = found.left[fit.left].key.address
            meeting = found.meetings[fit.left, fit.right]
            rest = {
                "confidence": "clear" if one.is_clear else "ambiguous",
                "why": what_speaks_for(one, fit, meeting),
                **fit_entry(one, fit, meeting),
            }
            told["right", right].append({"address": left, **rest})
            told["left", left].append({"address": right, **rest})
    return replace(report, unmatched=_with(report.unmatched, told))


def _with(
    entries: Sequence[Mapping[str, Any]], told: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
) -> tuple[Mapping[str, Any], ...]:
    """The entries; one that nothing is suggested for says so by an empty list."""
    return tuple({**entry, "suggestions": list(told.get((entry["side"], entry["address"]), ()))} for entry in entries)


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
    entry = fit_entry(one, fit, meeting)
    return fit_text(entry["apart"], entry["shape"], entry.get("by", ""))


def fit_entry(one: Suggestion, fit: Fit, meeting: Meeting) -> dict[str, Any]:
    """Return the same as values, for a sentence in any language; see `reporting.fits.fit_text`."""
    by = "names alone" if fit.apart is None else one.how if one.is_clear and one.how in ("names", "order") else ""
    apart = meeting.apart if fit.apart is None else fit.apart
    return {"apart": apart, "shape": shape_word(meeting.transform), **({"by": by} if by else {})}
