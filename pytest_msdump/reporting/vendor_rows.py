"""The lines of the vendor's table where no rule file says what operators were: by operator, as they were executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.model.report import Report
from pytest_msdump.model.verdict import OUTCOMES
from pytest_msdump.reporting.vendor_cells import NOBODY, reason_cell
from pytest_msdump.reporting.vendor_lines import (
    Entry,
    Line,
    Place,
    alone,
    compared,
    in_order,
    joined,
    missing_of,
    operator_of,
    place_of,
    port_of,
)

__all__ = ["device_lines", "plain_lines", "right_lines"]

# A name too long for the file system: the dump's file has a number instead.
_HASHED = re.compile(r"(?:.*/)?\d+(?:\.npy)?")


def plain_lines(report: Report, *, right_alone: bool = True) -> list[Line]:
    """Return a line for each tensor: by left operator in execution order, then what only the right side has."""
    missing, after = missing_of(report), report.left.operators
    # A left tensor of an earlier run may belong to no operator of this one; it stands after all of them.
    entries = in_order(_left_entries(report), after)
    lines = [_plain(entry, after, missing) for entry in entries]
    return [*lines, *(right_lines(report, _next(lines, after)) if right_alone else ())]


def right_lines(report: Report, first: int) -> Iterator[Line]:
    """Yield the lines of right tensors without a partner; each operator takes the next number, from `first` on."""
    missing, numbers = missing_of(report), dict[str, int]()
    for entry in report.unmatched:
        if entry["side"] == "right":
            index = numbers.setdefault(operator_of(entry), first + len(numbers))
            yield alone(entry, index, missing)


def device_lines(report: Report) -> list[Line]:
    """Return the lines of two dumps of devices: by left operator in execution order, then what only the right has.

    An operator of which nothing could be compared has one line, which tells all reasons. Where something could, every
    tensor has its line; so it has where nothing was run at all. Shapes are as stored, padding and all. Runs of one
    operator inside an iteration share a number.
    """
    right: dict[tuple[Place, str], list[Entry]] = {}
    for entry in report.unmatched:
        if entry["side"] == "right":
            right.setdefault((place_of(entry), operator_of(entry)), []).append(entry)
    left: dict[tuple[Place, str], list[Entry]] = {}
    for entry in in_order(_left_entries(report), report.left.operators):
        left.setdefault((place_of(entry), operator_of(entry)), []).append(entry)
    operators = [(entries, right.pop(key, [])) for key, entries in left.items()]
    operators += [([], entries) for entries in right.values()]
    missing, was_run = missing_of(report), not report.records or any(map(_was_run, report.records))
    lines: list[Line] = []
    for index, (of_left, of_right) in enumerate(operators):
        lines += _device(of_left, of_right, index, missing, may_join=was_run)
    return lines


def _left_entries(report: Report) -> Iterator[Entry]:
    yield from report.records
    yield from (entry for entry in report.unmatched if entry["side"] == "left")


def _next(lines: Sequence[Line], least: int) -> int:
    return max([least, *(line.index + 1 for line in lines)])


def _plain(entry: Entry, after: int, missing: frozenset[tuple[str, str]]) -> Line:
    index = after if entry["order"] is None else entry["order"]
    return compared(entry, index) if "left" in entry else alone(entry, index, missing)


def _was_run(record: Entry) -> bool:
    return bool(record["verdict"] != "not_run")


def _device(
    left: Sequence[Entry],
    right: Sequence[Entry],
    index: int,
    missing: frozenset[tuple[str, str]],
    *,
    may_join: bool,
) -> list[Line]:
    """Make the lines of one operator from its left tensors and those that the right alone has."""
    records = [entry for entry in left if "left" in entry]
    left_name = operator_of(left[0]) if left else NOBODY
    right_name = compared(records[0], index).right if records else operator_of(right[0]) if right else NOBODY
    lines = [_stored(entry, index, missing) for entry in (*left, *right)]
    if not may_join or any(record["elements"] is not None or not _was_run(record) for record in records):
        return [replace(line, left=left_name, right=right_name) for line in lines]
    return [_whole_operator(lines, Line(index, left=left_name, right=right_name))]


def _stored(entry: Entry, index: int, missing: frozenset[tuple[str, str]]) -> Line:
    """Make the line of one tensor, with its stored shape."""
    if "left" not in entry:
        return replace(alone(entry, index, missing), shape=entry.get("shape"), left_dtype=None, right_dtype=None)
    line = replace(compared(entry, index), shape=entry["left"]["shape"])
    if entry["elements"] is None:
        return replace(line, left_dtype=None, right_dtype=None)
    # The vendor takes the type from the file's name.
    return replace(line, op_type=None) if _HASHED.fullmatch(entry["left"]["file"]) else line


def _whole_operator(lines: Sequence[Line], about: Line) -> Line:
    """Make one line of an operator of which nothing could be compared."""
    records = [line.record for line in lines if line.record is not None]
    verdicts = [record["verdict"] for record in records]
    told = [(line, line.reason if line.record is None else reason_cell(line.record, ())) for line in lines]
    several = len(lines) > 1
    reason = joined(f"{port_of(line.entry)}: {text}" if several and line.entry else text for line, text in told if text)
    verdict = max(verdicts, key=OUTCOMES.index) if verdicts else joined(line.verdict for line in lines)
    return replace(about, reason=reason, verdict=verdict)
