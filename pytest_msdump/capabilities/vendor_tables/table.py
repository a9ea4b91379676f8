"""The vendor's tables: the network result of release 26.2.0, and the nine columns of the first releases.

Titles, order and the form of each cell are the vendor's, since scripts read by position; reasons are our sentences.
With a compiled model the rows are its operators, by group; without one, the left side's in order, then what only the
right side has.

References: Ascend "Accuracy Comparison Tool", network-wide comparison result, releases 2020 to 26.2.0.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path

from pytest_msdump.capabilities.vendor_tables.lines import (
    ALGORITHMS,
    NO_PARTNER,
    UNDEFINED,
    Line,
    Place,
    algorithm_title,
    alone,
    joined,
    left_lines,
    missing_of,
    number_cells,
    operator_of,
    overflow_cell,
    port_of,
    reason_cell,
    shape_cell,
)
from pytest_msdump.core.escape import csv_line
from pytest_msdump.core.facts.operators import QUANT_TYPES, UNDUMPED_TYPES
from pytest_msdump.core.model.comparison import OUTCOMES
from pytest_msdump.core.model.dump import file_spelling
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import NetworkOperator, Report
from pytest_msdump.core.report.base import ReportKind
from pytest_msdump.core.storage.files import in_utf8, write_file
from pytest_msdump.core.text import Message, say

# A name too long for the file system: the dump's file has a number instead.
_HASHED = re.compile(r"(?:.*/)?\d+(?:\.npy)?")


def right_lines(report: Report, first: int) -> Iterator[Line]:
    """Yield the lines of right tensors without a partner; each operator takes the next number, from `first` on."""
    missing, numbers = missing_of(report), dict[str, int]()
    for one in report.unmatched:
        if one.side == "right":
            index = numbers.setdefault(operator_of(one), first + len(numbers))
            yield alone(one, index, missing)


def device_lines(report: Report) -> list[Line]:
    """Return the lines of two dumps of devices: by left operator in execution order, then what only the right has."""
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
    """Make the lines of one operator from those of its left tensors and of its tensors on the right only."""
    pairs = [line for line in left if line.record is not None]
    left_name = left[0].left if left else NO_PARTNER
    right_name = pairs[0].right if pairs else right[0].right if right else NO_PARTNER
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
    """Make one line of an operator without a compared tensor."""
    records = [line.record for line in lines if line.record is not None]
    verdicts = [record.verdict.outcome for record in records]
    reasons = [(line, line.reason if line.record is None else reason_cell(line.record, ())) for line in lines]
    several = len(lines) > 1
    reason = joined(f"{port_of(line)}: {text}" if several and line.tensor else text for line, text in reasons if text)
    verdict = max(verdicts, key=OUTCOMES.index) if verdicts else joined(line.verdict for line in lines)
    about.reason, about.verdict = reason, verdict
    return about


# Left tensors without a line in the vendor's table, by reason: the operator types concerned, all if empty.
_UNLISTED: Mapping[str, frozenset[str]] = {
    "inner": frozenset(),
    "l1_fusion": frozenset(),
    "quantised": frozenset(),
    "dequant_input": frozenset(),
    "quant_output": QUANT_TYPES,
}

# The vendor compares a tensor in this format flat, unless its blocks say where each element belongs.
_FLAT = "ND"
_BLOCKED = frozenset({"FRACTAL_NZ", "NDC1HWC0"})


def network_lines(report: Report, *, right_alone: bool = True, sequences: Container[int] | None = None) -> list[Line]:
    """Return the lines of a compiled model's operators, by group."""
    network = _Network(report)
    lines: list[Line] = []
    for number, place in enumerate(network.places):
        lines += network.lines_at(place, len(network.groups) * number, sequences)
    if sequences is not None:
        return lines
    first = len(network.groups) * len(network.places)
    strangers = network.strangers(first)
    lines += [line for line in strangers if right_alone or line.record is not None]
    if not right_alone:
        return lines
    return [*lines, *network.unlisted, *right_lines(report, max([first, *(line.index + 1 for line in strangers)]))]


class _Network:
    """A report's left tensors, by the operators of the compiled model."""

    def __init__(self, report: Report) -> None:
        self.unlisted: list[Line] = []
        self.groups: defaultdict[int, list[NetworkOperator]] = defaultdict(list)
        for operator in report.network:
            self.groups[operator.index].append(operator)
        self._missing = missing_of(report)
        self._expected = {address.rsplit(":", 2)[0] for side, address in self._missing if side == "left"}
        self._is_device = report.left.reader == "ascend"
        self._tensors: defaultdict[tuple[Place, str | None], list[Line]] = defaultdict(list)
        for line in left_lines(report):
            self._tensors[line.place, line.left].append(line)
        self.places = list(dict.fromkeys(place for place, _ in self._tensors)) or [()]
        # Two operators may share one file name; then the reason of the one is that of the other. Pairs have none.
        alone = any(one.side == "left" for one in report.unmatched)
        self._spelled = {
            (place, file_spelling(name)): lines[0].reason
            for (place, name), lines in (self._tensors.items() if alone else ())
            if name
        }

    def lines_at(self, place: Place, base: int, sequences: Container[int] | None) -> list[Line]:
        """Return the lines of all groups at one place."""
        lines: list[Line] = []
        for index, members in self.groups.items():
            if sequences is None or any(member.sequence in sequences for member in members):
                lines += self._group(members, place, base + index)
        return lines

    def strangers(self, first: int) -> list[Line]:
        """Return the lines of operators that the model does not know; call it after `lines_at` all places."""
        for index, lines in enumerate(self._tensors.values(), first):
            for line in lines:
                line.index = index
        return [line for lines in self._tensors.values() for line in lines]

    def _group(self, members: Sequence[NetworkOperator], place: Place, index: int) -> Sequence[Line]:
        listed: list[Line] = []
        unlisted: list[Line] = []
        is_quantised = False
        for member in members:
            for line in self._tensors.pop((place, member.name), ()):
                # Before it gets the type of its group's operator.
                key = _unlisted(line) if line.record is None else None
                is_quantised = is_quantised or key == "quantised"
                self._place(line, index)
                (unlisted if key else listed).append(_named(line, member))
        self.unlisted += unlisted
        if listed or is_quantised:
            return listed
        return [self._undumped(members, unlisted, place, index)]

    def _place(self, line: Line, index: int) -> None:
        """Give a line its number, and its shape as the vendor compares it: logical, or flat."""
        line.index = index
        if line.elements is None:
            # Where nothing was compared, the vendor knows no data types.
            line.left_dtype = line.right_dtype = None
        if line.elements is None or line.stored is None:
            line.shape = line.stored
        elif self._is_device and (line.logical_format or line.memory_format) == _FLAT:
            line.shape = line.shape if line.memory_format in _BLOCKED else (line.elements,)

    def _undumped(self, members: Sequence[NetworkOperator], found: Iterable[Line], place: Place, index: int) -> Line:
        """Make the line of a group without a compared tensor: that of its first operator."""
        member = members[0]
        reason = joined(line.reason for line in found) or self._spelled.get((place, file_spelling(member.name)))
        key = UNDUMPED_TYPES.get(member.op_type)
        reason = reason or say(Message(key) if key else Message("not_dumped_operator", {"op": member.name}))
        verdict = "missing" if any(each.name in self._expected for each in members) else "unmatched"
        return _named(Line(index, reason=reason, verdict=verdict), member)


def _named(line: Line, member: NetworkOperator) -> Line:
    """Give a line the names of its group, and the type and number of its operator."""
    line.left, line.right = ",".join(member.left), ",".join(member.right)
    line.op_type, line.sequence = member.op_type, member.sequence
    return line


def _unlisted(line: Line) -> str | None:
    """Return why the vendor's table has no line for a left tensor without a partner; ``None`` when it has one."""
    code = line.unmatched.why.code if line.unmatched is not None else ""
    types = _UNLISTED.get(code)
    return None if types is None or (types and line.op_type not in types) else code


Table = tuple[tuple[str, ...], list[tuple[str, ...]]]

# The readers of dumps that may know addresses. The vendor drops the column of a side that has an .npy file.
_ADDRESSED = ("ascend", "proto-folder")
_DEVICE = "ascend"
_FIRST_SIX = ALGORITHMS[:6]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns a table has: `algorithms` by metric ids or a user's names; `verdict` adds Verdict and Reason."""

    algorithms: tuple[str, ...] = ALGORITHMS
    sequence: bool = False
    overflow: bool = False
    left_address: bool = False
    right_address: bool = False
    verdict: bool = True


def columns_for(report: Report) -> Columns:
    """Return the columns of a report's ops.csv: addresses where a side may have them."""
    return Columns(left_address=report.left.reader in _ADDRESSED, right_address=report.right.reader in _ADDRESSED)


def titles_of(columns: Columns) -> tuple[str, ...]:
    """Return the first line; scripts read by position, so two titles are there twice."""
    return (
        *[title for title, _ in _texts(columns)],
        "Shape",
        *(("OverFlow",) if columns.overflow else ()),
        *map(algorithm_title, columns.algorithms),
        "CompareFailReason",
        *(("Verdict", "Reason") if columns.verdict else ()),
    )


def vendor_table(
    report: Report, columns: Columns | None = None, *, right_alone: bool = True, sequences: Container[int] | None = None
) -> Table:
    """Return titles and rows of the vendor's network table, by default with the columns of ops.csv."""
    columns = columns or columns_for(report)
    return titles_of(columns), list(rows_of(report, columns, right_alone=right_alone, sequences=sequences))


def rows_of(
    report: Report, columns: Columns, *, right_alone: bool = True, sequences: Container[int] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of `vendor_table` one by one, with the same parameters."""
    texts = attrgetter(*[field for _, field in _texts(columns)])
    for line in _lines(report, sequences, right_alone=right_alone):
        cells = list(map(_text, texts(line)))
        cells.append(shape_cell(line.shape))
        if columns.overflow:
            cells.append(_overflow(line))
        yield (*cells, *_numbers(line.record, columns.algorithms), *_after(line, columns))


def nine_columns(report: Report) -> Table:
    """Return a report as the first releases wrote it: both operators, the tensor, six metrics."""
    titles = ("LeftOp", "RightOp", "TensorIndex", *map(algorithm_title, _FIRST_SIX))
    rows = [
        (_text(line.left), _text(line.right), _text(line.tensor), *_numbers(line.record, _FIRST_SIX))
        for line in _lines(report, None, right_alone=False)
    ]
    return titles, rows


def _lines(report: Report, sequences: Container[int] | None, *, right_alone: bool) -> list[Line]:
    if report.network:
        return network_lines(report, right_alone=right_alone, sequences=sequences)
    if report.left.reader == report.right.reader == _DEVICE:
        return device_lines(report)
    # By left operator in execution order, then what only the right side has.
    lines = left_lines(report)
    first = max([report.left.operators, *(line.index + 1 for line in lines)])
    return [*lines, *(right_lines(report, first) if right_alone else ())]


def _texts(columns: Columns) -> Sequence[tuple[str, str]]:
    """Return the titles of the first columns, and the field of a line below each."""
    return (
        ("Index", "index"),
        *((("OpSequence", "sequence"),) if columns.sequence else ()),
        ("OpType", "op_type"),
        ("NPUDump", "left"),
        ("DataType", "left_dtype"),
        *((("Address", "left_address"),) if columns.left_address else ()),
        ("GroundTruth", "right"),
        ("DataType", "right_dtype"),
        *((("Address", "right_address"),) if columns.right_address else ()),
        ("TensorIndex", "tensor"),
    )


def _text(value: object) -> str:
    return UNDEFINED if value is None else str(value)


def _numbers(record: Record | None, names: tuple[str, ...]) -> Sequence[str]:
    return [UNDEFINED] * len(names) if record is None else number_cells(record, names)


def _overflow(line: Line) -> str:
    if line.record is not None:
        return overflow_cell(line.record.left.dtype, line.record.left.has_overflow)
    tensor = line.unmatched.tensor if line.unmatched is not None else None
    return UNDEFINED if tensor is None else overflow_cell(tensor.dtype, tensor.has_overflow)


def _after(line: Line, columns: Columns) -> tuple[str, ...]:
    """Return why cells are empty, the verdict and its reason."""
    record = line.record
    reason = line.reason if record is None else reason_cell(record, columns.algorithms)
    if not columns.verdict:
        return (reason,)
    if record is None:
        return reason, line.verdict, line.reason
    sentences = [finding.sentence for finding in record.verdict.findings if finding.outcome != "note"]
    return reason, record.verdict.outcome, "; ".join(sentences)


class CsvReport(ReportKind):
    """``csv``: ops.csv."""

    name, file = "csv", "ops.csv"

    def write(self, report: Report, directory: Path) -> Path:
        """Write ops.csv into `directory`."""
        columns = columns_for(report)
        rows = chain((titles_of(columns),), rows_of(report, columns))
        return write_file(directory, self.file, (in_utf8(f"{csv_line(row)}\n") for row in rows))
