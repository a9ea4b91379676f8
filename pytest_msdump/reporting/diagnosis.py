"""What a failing tensor looks like, for its failure text: the sure diagnosis, or else what may be."""

from __future__ import annotations

from pytest_msdump.escape import terminal_text
from pytest_msdump.model.record import Record
from pytest_msdump.reporting.tables import labelled
from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["diagnosis_lines"]

_SHOWN_DOUBTFUL = 2


def diagnosis_lines(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return a line for the sure diagnosis, or one for each of the likely ones."""
    found = record.diagnosis
    told = [one for one in found if one.confidence == "high"]
    if not told:
        told = [one for one in found if one.confidence == "medium"][:_SHOWN_DOUBTFUL]
    lines: list[str] = []
    if not told:
        return lines
    from pytest_msdump.facts.diagnoses import DIAGNOSES

    for one in told:
        title = say(f"looks_{one.id}") if one.id in DIAGNOSES else one.id
        title = say("in_brackets", text=title, aside=say(f"confidence_{one.confidence}"))
        text = terminal_text(say("after_label", label=title, text=say.of(one.evidence)))
        lines += labelled(say("looks_like"), text, width=width)
    return lines
