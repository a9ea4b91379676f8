"""What a failing tensor looks like, for its failure text: the sure diagnosis, or else what may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_msdump.escape import terminal_text
from pytest_msdump.reporting.phrases import ENGLISH, Phrases
from pytest_msdump.reporting.retold import retold
from pytest_msdump.reporting.tables import labelled

__all__ = ["diagnosis_lines"]

_SHOWN_DOUBTFUL = 2


def diagnosis_lines(record: Mapping[str, Any], width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return a line for the sure diagnosis, or one for each of the likely ones."""
    found = record.get("diagnosis", ())
    told = [entry for entry in found if entry["confidence"] == "high"]
    if not told:
        told = [entry for entry in found if entry["confidence"] == "medium"][:_SHOWN_DOUBTFUL]
    lines: list[str] = []
    if not told:
        return lines
    from pytest_msdump.facts.diagnoses import DIAGNOSES

    for entry in told:
        title = say(f"looks_{entry['id']}") if entry["id"] in DIAGNOSES else entry["id"]
        title = say("in_brackets", text=title, aside=say(f"confidence_{entry['confidence']}"))
        text = terminal_text(say("after_label", label=title, text=retold(entry["evidence"], say)))
        lines += labelled(say("looks_like"), text, width=width)
    return lines
