"""The vendor's tables: the network result of release 26.2.0, and the nine columns of the first releases.

Titles, order and the form of each cell are the vendor's, since scripts read by position; reasons are our sentences.
With a compiled model the rows are its operators, by group; without one, the left side's in order, then what only the
right side has.

References
----------
Ascend "Accuracy Comparison Tool", network-wide comparison result, releases 2020 to 26.2.0.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.vendor_cells import (
    ALGORITHMS,
    UNDEFINED,
    algorithm_title,
    number_cells,
    overflow_cell,
    reason_cell,
    shape_cell,
)
from pytest_msdump.reporting.vendor_lines import Line
from pytest_msdump.reporting.vendor_network import network_lines
from pytest_msdump.reporting.vendor_rows import device_lines, plain_lines

__all__ = ["ALGORITHMS", "Columns", "columns_for", "nine_columns", "rows_of", "titles_of", "vendor_table"]

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]

# The readers of dumps that may know addresses. The vendor drops the column of a side that has an .npy file.
_ADDRESSED = ("ascend", "proto-folder")
_DEVICE = "ascend"
_FIRST_SIX = ALGORITHMS[:6]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns a table has.

    Parameters
    ----------
    algorithms : tuple of str
        Metric ids in the order of their columns; other names are a user's own algorithms.
    sequence, overflow, left_address, right_address : bool
        The columns OpSequence, OverFlow and Address.
    verdict : bool
        Our columns Verdict and Reason, which come last.
    """

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
    report: Report,
    columns: Columns | None = None,
    *,
    right_alone: bool = True,
    sequences: Container[int] | None = None,
) -> Table:
    """Return a report as the vendor's network table.

    Parameters
    ----------
    report : Report
        The whole result of one suite.
    columns : Columns, optional
        By default those of ops.csv.
    right_alone : bool
        Whether rows follow that the vendor's table does not have: right tensors without a partner, and with a compiled
        model the left tensors that it passes over. Of two device dumps the vendor lists what only the right has.
    sequences : container of int, optional
        Only groups with one of these operators, by their number in the model.

    Returns
    -------
    titles, rows
        All of one length.
    """
    columns = columns or columns_for(report)
    return titles_of(columns), list(rows_of(report, columns, right_alone=right_alone, sequences=sequences))


def rows_of(
    report: Report, columns: Columns, *, right_alone: bool = True, sequences: Container[int] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of `vendor_table` one by one, with the same parameters."""
    texts = attrgetter(*[field for _, field in _texts(columns)])
    for line in _lines(report, sequences, right_alone=right_alone):
        cells = [UNDEFINED if value is None else str(value) for value in texts(line)]
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
    return plain_lines(report, right_alone=right_alone)


def _texts(columns: Columns) -> Sequence[tuple[str, str]]:
    """The titles of the first columns, and the field of a line that is below each."""
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
    """Why cells are empty; and the verdict, and what it rests on."""
    record = line.record
    reason = line.reason if record is None else reason_cell(record, columns.algorithms)
    if not columns.verdict:
        return (reason,)
    if record is None:
        return reason, line.verdict, line.reason
    sentences = [finding.sentence for finding in record.verdict.findings if finding.outcome != "note"]
    return reason, record.verdict.outcome, "; ".join(sentences)
