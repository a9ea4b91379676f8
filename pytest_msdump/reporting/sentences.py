"""A finding's sentence in the language of the terminal.

The English one is judging's and stands in the record. Another language says it again from the record's numbers, or,
where they do not tell it whole, from the sentence's own parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.reporting.numbers import beside, index_text
from pytest_msdump.reporting.phrases import Phrases
from pytest_msdump.reporting.retold import retold
from pytest_msdump.reporting.values import decode

__all__ = ["finding_text"]

Entry = Mapping[str, Any]


def finding_text(finding: Entry, record: Entry, say: Phrases) -> str:
    """Return the finding as a sentence; `record` is the tensor's."""
    sentence: str = finding["sentence"]
    if say.language == "en":
        return sentence
    return _said_again(finding, record, say) or retold(sentence, say)


def _said_again(finding: Entry, record: Entry, say: Phrases) -> str:
    """The sentence of a number beyond its limit; empty where the finding is of another kind."""
    numbers = _value_and_limit(finding)
    metric, level = finding.get("metric"), finding["outcome"]
    if numbers is None or metric not in METRICS or level not in ("fail", "warn"):
        return ""
    (value, limit), rule = numbers, finding["rule"]
    shown, bound = beside(value, limit)
    fields = {"metric": metric, "value": shown, "limit": bound, "rule": rule}
    left_out = record.get("right_zero_mismatch", 0)
    if metric in RELATIVE_METRICS and left_out:
        return say("zeros_void", n=left_out, **fields)
    is_below = METRICS[metric].direction == "high"
    if not (value < limit if is_below else value > limit):
        return ""
    text = say(f"is_{'below' if is_below else 'above'}{'_warning' if level == 'warn' else ''}", **fields)
    place = record["where"].get(metric)
    return say("at", text=text, place=index_text(place)) if place else text


def _value_and_limit(finding: Entry) -> tuple[float | int, float | int] | None:
    """Both numbers of a finding that has them."""
    if not isinstance(finding.get("rule"), str):
        return None
    try:
        value, limit = decode(finding["value"]), decode(finding["limit"])
    except (KeyError, TypeError, ValueError):
        return None
    if isinstance(value, complex) or isinstance(limit, complex):
        return None
    return value, limit
