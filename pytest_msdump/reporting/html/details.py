"""What the page tells of one tensor only when asked: as many as the page has room for, what fails first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.model.record import Record
from pytest_msdump.model.source_lines import SourceFrame
from pytest_msdump.model.verdict import Finding
from pytest_msdump.reporting.html.columns import Pool, short
from pytest_msdump.reporting.record_json import to_json
from pytest_msdump.text import Message, say

__all__ = ["details"]

# Two million bytes for five thousand tensors, of which the columns take more than half.
_ROOM_BYTES = 550_000
# Less than this is not worth looking for something that fits.
_LITTLE_BYTES = 100

_ROLES = {"cause": 0, "unknown": 1}
_AS_SAVED = ("differing_arguments", "kernel_args", "custom", "statistics", "spread")
_NONFINITE = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")


def details(records: Sequence[Record], pool: Pool) -> tuple[dict[str, Any], set[Message]]:
    """Return what only the drawer shows, and the messages in it.

    The first has ``of``: record number → what only the drawer shows, and ``left_out``: the records that have more in
    results.json.

    Two tiers: sentences, causes and lines of the program of every record before any worst elements and small arrays,
    so that what matters most is never what there was no room for.
    """
    ranked = sorted(range(len(records)), key=lambda number: _rank(records[number], number))
    kept: dict[int, dict[str, Any]] = {}
    messages: set[Message] = set()
    room, left_out = _ROOM_BYTES, set()
    for told, said in ((_sentences, _messages), (_elements, _notes)):
        for number in ranked:
            found = {} if room < _LITTLE_BYTES else _said(told(records[number], pool))
            new = {one for one in said(records[number]) if one not in messages} if found else set()
            size = len(json.dumps(found)) + 12 + sum(len(json.dumps(say(one, "zh"))) for one in new) if found else 0
            if room < _LITTLE_BYTES or size > room:
                left_out.add(number)
            elif found:
                room -= size
                messages |= new
                kept.setdefault(number, {}).update(found)
    return {"of": {str(number): kept[number] for number in sorted(kept)}, "left_out": sorted(left_out)}, messages


def _said(told: Mapping[str, Any]) -> dict[str, Any]:
    """Only what has something to say."""
    return {key: value for key, value in told.items() if value not in (None, [], {}, "")}


def _rank(record: Record, number: int) -> tuple[int, int, int]:
    """Causes, then what else fails, then warnings, then the rest; each in execution order."""
    severity = 0 if record.fails else 1 if record.verdict.outcome == "warn" else 2
    return severity, _ROLES.get(record.role or "", 2), number


def _sentences(record: Record, pool: Pool) -> dict[str, Any]:
    """Why it fails, and where to look."""
    entry = to_json(record)
    return {
        "findings": [[one.outcome, one.sentence] for one in record.verdict.findings if not _in_table(one)],
        "undefined_in": entry["undefined"],
        "causes": [pool.add(cause) for cause in record.causes],
        "suspects": [pool.add(suspect) for suspect in record.suspects],
        **_reason(record, pool),
        "suspicious": [{key: one[key] for key in one if key != "why"} for one in entry.get("suspicious", ())],
        "diagnosis": entry.get("diagnosis"),
        "amplification": short(entry.get("amplification")),
        "source": _source(record.left.source, pool),
        "right_source": _source(record.right.source, pool),
    }


def _elements(record: Record, _pool: Pool) -> dict[str, Any]:
    """Worst elements, places, arguments, small arrays."""
    entry = to_json(record)
    return {
        "notes": list(dict.fromkeys(map(say, _notes(record)))),
        "overflows": entry["left"].get("overflows"),
        "transform": entry["transform"],
        "would_pass": entry["would_pass"],
        "where": entry["where"],
        "moments": short(entry["metrics"].get("standard_deviation")),
        "nonfinite": {key: entry["nonfinite"][key] for key in _NONFINITE if entry["nonfinite"].get(key)},
        "worst": [[one["index"], *(short(one[key]) for key in ("left", "right", "ratio"))] for one in entry["worst"]],
        **{key: entry.get(key) for key in _AS_SAVED},
    }


def _messages(record: Record) -> Iterator[Message]:
    """What `_sentences` says."""
    yield from (one.message for one in record.verdict.findings if not _in_table(one))
    yield from (one.evidence for one in record.diagnosis)
    if record.comparison is not None:
        yield from filter(None, record.comparison.undefined.values())


def _notes(record: Record) -> Iterator[Message]:
    yield from record.notes
    if record.pair_note is not None:
        yield record.pair_note


def _reason(record: Record, pool: Pool) -> dict[str, Any]:
    """Why it has its role: what the sentence is made from, or the sentence where an older release left no more."""
    why = record.role_why
    if why is None:
        return {"role_reason": record.role_reason}
    suspects = [
        [pool.add(one.operator), pool.add(one.state), *([] if one.before is None else [one.before])]
        for one in why.suspects
    ]
    names = {"given": [pool.add(name) for name in why.given], "before": [pool.add(name) for name in why.before]}
    told = {"why": why.why, "suspects": suspects, **names}
    return {"role_why": _said(told)}


def _source(source: SourceFrame | None, pool: Pool) -> list[Any] | None:
    """A line of the program; its file is that of many others."""
    return None if source is None else [pool.add(source.file), source.line, source.text]


def _in_table(finding: Finding) -> bool:
    """Whether the table of limits says it: a number beside the limit that it does not meet."""
    is_known = finding.metric is not None and finding.value is not None and finding.limit is not None
    return is_known and finding.outcome in ("fail", "warn")
