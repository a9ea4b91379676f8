"""What the page tells of one tensor only when asked: as many as the page has room for, what fails first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.reporting.html.columns import Pool, short

__all__ = ["details"]

Entry = Mapping[str, Any]

# Two million bytes for five thousand tensors, of which the columns take more than half.
_ROOM_BYTES = 550_000
# Less than this is not worth looking for something that fits.
_LITTLE_BYTES = 100

_ROLES = {"cause": 0, "unknown": 1}
_FAILING = ("fail", "undefined", "error")
_NONFINITE = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")


def details(records: Sequence[Entry], pool: Pool) -> dict[str, Any]:
    """Return ``of``: record number → what only the drawer tells, and ``left_out``: how many have more in results.json.

    Two tiers: sentences, causes and lines of the program of every record before any worst elements and small arrays,
    so that what matters most is never what there was no room for.
    """
    ranked = sorted(range(len(records)), key=lambda number: _rank(records[number], number))
    kept: dict[int, dict[str, Any]] = {}
    room, left_out = _ROOM_BYTES, set()
    for told in (_sentences, _elements):
        for number in ranked:
            found = {} if room < _LITTLE_BYTES else _said(told(records[number], pool))
            size = len(json.dumps(found)) + 12 if found else 0
            if room < _LITTLE_BYTES or size > room:
                left_out.add(number)
            elif found:
                room -= size
                kept.setdefault(number, {}).update(found)
    return {"of": {str(number): kept[number] for number in sorted(kept)}, "left_out": sorted(left_out)}


def _said(told: Mapping[str, Any]) -> dict[str, Any]:
    """Only what has something to say."""
    return {key: value for key, value in told.items() if value not in (None, [], {}, "")}


def _rank(record: Entry, number: int) -> tuple[int, int, int]:
    """Causes, then what else fails, then warnings, then the rest; each in execution order."""
    verdict = record["verdict"]
    severity = 0 if verdict in _FAILING else 1 if verdict == "warn" else 2
    return severity, _ROLES.get(record.get("role", ""), 2), number


def _sentences(record: Entry, pool: Pool) -> dict[str, Any]:
    """Why it fails, and where to look."""
    return {
        "findings": [[one["outcome"], one["sentence"]] for one in record["findings"] if not _in_table(one)],
        "undefined_in": record.get("undefined"),
        "causes": [pool.add(cause) for cause in record.get("causes") or ()],
        "suspects": [pool.add(suspect) for suspect in record.get("suspects") or ()],
        **_reason(record, pool),
        "suspicious": [{key: one[key] for key in one if key != "why"} for one in record.get("suspicious", ())],
        "diagnosis": record.get("diagnosis"),
        "amplification": short(record.get("amplification")),
        "source": _source(record.get("source"), pool),
        "right_source": _source(record["right"].get("source"), pool),
    }


def _elements(record: Entry, _pool: Pool) -> dict[str, Any]:
    """Worst elements, places, arguments, small arrays."""
    return {
        "notes": list(dict.fromkeys([*record.get("notes", ()), *_extra_notes(record)])),
        "overflows": record["left"].get("overflows"),
        "transform": record.get("transform"),
        "would_pass": record.get("would_pass"),
        "where": record.get("where"),
        "moments": short(record["metrics"].get("standard_deviation")),
        "nonfinite": {key: record["nonfinite"][key] for key in _NONFINITE if record["nonfinite"].get(key)},
        "worst": [[one["index"], *(short(one[key]) for key in ("left", "right", "ratio"))] for one in record["worst"]],
        "differing_arguments": record.get("differing_arguments"),
        "kernel_args": record.get("kernel_args"),
        "custom": record.get("custom"),
        "statistics": record.get("statistics"),
        "spread": record.get("spread"),
    }


def _extra_notes(record: Entry) -> Iterator[str]:
    """Sentences that other keys hold."""
    if record.get("pair_note"):
        yield record["pair_note"]


def _reason(record: Entry, pool: Pool) -> dict[str, Any]:
    """Why it has its role: what the sentence is made from, or the sentence where an older release left no more."""
    why = record.get("role_why")
    if why is None:
        return {"role_reason": record.get("role_reason")}
    suspects = [
        [pool.add(one["operator"]), pool.add(one["state"]), *([one["before"]] if "before" in one else [])]
        for one in why["suspects"]
    ]
    names = {key: [pool.add(name) for name in why.get(key, ())] for key in ("given", "before")}
    told = {"why": why["why"], "suspects": suspects, **names}
    return {"role_why": _said(told)}


def _source(source: Entry | None, pool: Pool) -> list[Any] | None:
    """A line of the program; its file is that of many others."""
    return None if not source else [pool.add(source["file"]), source["line"], source.get("text") or ""]


def _in_table(finding: Entry) -> bool:
    """Whether the table of limits says it: a number beside the limit that it does not meet."""
    known = finding.get("metric") is not None and finding.get("value") is not None
    return known and finding.get("limit") is not None and finding["outcome"] in ("fail", "warn")
