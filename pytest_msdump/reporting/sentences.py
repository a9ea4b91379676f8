"""A finding's sentence in the language of the terminal.

The English one is judging's and stands in the record. Another language says it again from the record's numbers, or,
where they do not tell it whole, from the sentence's own parts.
"""

from __future__ import annotations

from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.model.record import Record
from pytest_msdump.model.verdict import Finding
from pytest_msdump.reporting.numbers import beside, index_text
from pytest_msdump.reporting.phrases import Phrases
from pytest_msdump.reporting.retold import retold

__all__ = ["finding_text"]


def finding_text(finding: Finding, record: Record, say: Phrases) -> str:
    """Return the finding as a sentence; `record` is the tensor's."""
    if say.language == "en":
        return finding.sentence
    return _said_again(finding, record, say) or retold(finding.sentence, say)


def _said_again(finding: Finding, record: Record, say: Phrases) -> str:
    """The sentence of a number beyond its limit; empty where the finding is of another kind."""
    metric, level, rule, value, limit = finding.metric, finding.outcome, finding.rule, finding.value, finding.limit
    if metric is None or rule is None or value is None or limit is None:
        return ""
    if metric not in METRICS or level not in ("fail", "warn"):
        return ""
    shown, bound = beside(value, limit)
    fields = {"metric": metric, "value": shown, "limit": bound, "rule": rule}
    left_out = record.right_zero_mismatch
    if metric in RELATIVE_METRICS and left_out:
        return say("zeros_void", n=left_out, **fields)
    is_below = METRICS[metric].direction == "high"
    if not (value < limit if is_below else value > limit):
        return ""
    text = say(f"is_{'below' if is_below else 'above'}{'_warning' if level == 'warn' else ''}", **fields)
    place = record.places.get(metric)
    return say("at", text=text, place=index_text(place)) if place else text
