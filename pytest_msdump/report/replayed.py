"""What a replay says of a pair, as an entry of results.json, and the lines about it in the summary and in a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pytest_msdump.escape import terminal_text
from pytest_msdump.model.record import Local, Record
from pytest_msdump.model.report import Report
from pytest_msdump.report.json_forms import (
    MESSAGE,
    NUMBER,
    TEXT,
    TEXTS,
    WrongValueError,
    lenient,
    one_of,
    optional,
    table,
)
from pytest_msdump.report.tables import hanging
from pytest_msdump.text import ENGLISH, Phrases, message_of, say

_MOST_WRONG = 10
_MOST_REASONS = 3


def _local(sentence: str = "", why: Mapping[str, Any] | None = None, **found: Any) -> Local:
    if found["outcome"] == "not_replayable" and why is None:
        raise WrongValueError("'why' is missing")
    if found["outcome"] != "not_replayable" and not found.get("measure"):
        raise WrongValueError("'measure' is missing")
    return Local(why=message_of(why, sentence) if why else None, **found)


LOCAL = table(
    _local,
    {
        "outcome": one_of(("pass", "fail", "not_replayable")),
        "measure": optional(one_of(("score", "flips", "differing", "")), ""),
        "score": optional(NUMBER),
        "limit": optional(NUMBER),
        "segment": optional(TEXTS, ()),
        "why": optional(MESSAGE),
        "sentence": lenient(TEXT),
    },
    parts=lambda one: {**one._asdict(), "sentence": say(one.message)},
)


def local_line(record: Record, say: Phrases = ENGLISH) -> str:
    """Return what a replay says of a record, if it is none of its findings; empty where there was no replay."""
    local = record.local
    return "" if local is None or local.outcome == "fail" else terminal_text(say.of(local.message))


def replay_lines(report: Report, *, width: int, unfolded: bool = False, say: Phrases = ENGLISH) -> list[str]:
    """Return how many operators are wrong by themselves, and which; then why tensors were not replayed."""
    known = [(record.local, record) for record in report.records if record.local is not None]
    if not known:
        return []
    wrong = [terminal_text(record.left.key.op.label) for local, record in known if local.outcome == "fail"]
    rest = Counter(local.why for local, _ in known if local.why is not None).most_common()
    counted = {"wrong": len(wrong), "rest": sum(count for _, count in rest)}
    lines = hanging(say("replayed", right=len(known) - sum(counted.values()), **counted), width)
    if wrong:
        names = say.named(wrong, len(wrong) if unfolded else _MOST_WRONG)
        lines += hanging(say("replay_wrong", names=names), width, indent=2)
    for why, count in rest if unfolded else rest[:_MOST_REASONS]:
        lines += hanging(terminal_text(say("replay_rest", n=count, reason=say.of(why))), width, indent=2)
    return lines
