"""The lines of the vendor's table where no rule file says what operators were: by operator, as they were executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_msdump.model.report import Report
from pytest_msdump.model.verdict import OUTCOMES
from pytest_msdump.reporting.vendor_cells import NOBODY, reason_cell
from pytest_msdump.reporting.vendor_lines import (
    Line,
    Place,
    alone,
    joined,
    left_lines,
    missing_of,
    operator_of,
    port_of,
)

__all__ = ["device_lines", "plain_lines", "right_lines"]

# A name too long for the file system: the dump's file has a number instead.
_HASHED = re.compile(r"(?:.*/)?\d+(?:\.npy)?")


def plain_lines(report: Report, *, right_alone: bool = True) -> list[Line]:
    """Return a line for each tensor: by left operator in execution order, then what only the right side has."""
    lines = left_lines(report)
    first = max([report.left.operators, *(line.index + 1 for line in lines)])
    return [*lines, *(right_lines(report, first) if right_alone else ())]


def right_lines(report: Report, first: int) -> Iterator[Line]:
    """Yield the lines of right tensors without a partner; each operator takes the next number, from `first` on."""
    missing, numbers = missing_of(report), dict[str, int]()
    for one in report.unmatched:
        if one.side == "right":
            index = numbers.setdefault(operator_of(one), first + len(numbers))
            yield alone(one, index, missing)


def device_lines(report: Report) -> list[Line]:
    """Return the lines of two dumps of devices: by left operator in execution order, then what only the right has.

    An operator of which nothing could be compared has one line, which tells all reasons. Where something could, every
    tensor has its line; so it has where nothing was run at all. Shapes are as stored, padding and all. Runs of one
    operator inside an iteration share a number.
    """
    left: dict[tuple[Place, str | None], list[Line]] = {}
    for line in left_lines(report):
        left.setdefault((line.place, line.left), []).append(line)
    right: dict[tuple[Place, str | None], list[Line]] = {}
    for line in right_lines(report, 0):
        right.setdefault((line.place, line.right), []).append(line)
    operators = [(lines, right.pop(key, [])) for key, lines in left.items()]
    operators += [([], lines) for lines in right.values()]
    was_run = not report.records or any(record.was_run for record in report.records)
    found: list[Line] = []
    for index, (of_left, of_right) in enumerate(operators):
        found += _device(of_left, of_right, index, may_join=was_run)
    return found


def _device(left: Sequence[Line], right: Sequence[Line], index: int, *, may_join: bool) -> list[Line]:
    """Make the lines of one operator from those of its left tensors and of tensors that the right alone has."""
    pairs = [line for line in left if line.record is not None]
    left_name = left[0].left if left else NOBODY
    right_name = pairs[0].right if pairs else right[0].right if right else NOBODY
    lines = [_stored(line, index) for line in (*left, *right)]
    records = [line.record for line in pairs if line.record is not None]
    if not may_join or any(record.elements is not None or not record.was_run for record in records):
        for line in lines:
            line.left, line.right = left_name, right_name
        return lines
    return [_whole_operator(lines, Line(index, left=left_name, right=right_name))]


def _stored(line: Line, index: int) -> Line:
    """Make the line of one tensor, with its stored shape."""
    record, line.index, line.shape = line.record, index, line.stored
    if record is None or line.elements is None:
        line.left_dtype = line.right_dtype = None
    elif _HASHED.fullmatch(record.left.file):
        # The vendor takes the type from the file's name.
        line.op_type = None
    return line


def _whole_operator(lines: Sequence[Line], about: Line) -> Line:
    """Make one line of an operator of which nothing could be compared."""
    records = [line.record for line in lines if line.record is not None]
    verdicts = [record.verdict.outcome for record in records]
    told = [(line, line.reason if line.record is None else reason_cell(line.record, ())) for line in lines]
    several = len(lines) > 1
    reason = joined(f"{port_of(line)}: {text}" if several and line.tensor else text for line, text in told if text)
    verdict = max(verdicts, key=OUTCOMES.index) if verdicts else joined(line.verdict for line in lines)
    about.reason, about.verdict = reason, verdict
    return about
