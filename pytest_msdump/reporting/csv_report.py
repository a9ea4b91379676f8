"""ops.csv: the vendor's network result table, so that scripts made for it go on working.

Titles and their order are those of msaccucmp 26.2.0, duplicates included, since scripts read by position. Address
columns are there where a side has device addresses; OverFlow belongs to an option that is not given here. Verdict and
Reason come last.

References
----------
Ascend "Accuracy Comparison Tool", network-wide comparison result, release 26.2.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pytest_msdump.escape import csv_line
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.atomic import in_utf8, write_file
from pytest_msdump.reporting.vendor_table import Columns, columns_for, rows_of, titles_of, vendor_table

__all__ = ["TITLES", "csv_content", "csv_lines", "csv_rows", "write_csv"]

TITLES = titles_of(Columns())


def write_csv(report: Report, directory: Path, content: bytes | None = None) -> Path:
    """Write ops.csv into `directory` and return its path.

    Parameters
    ----------
    report : Report
        The whole result of one suite.
    directory : Path
        Where to.
    content : bytes, optional
        Of `csv_content`, where it is known.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    return write_file(directory, "ops.csv", csv_lines(report) if content is None else content)


def csv_content(report: Report) -> bytes:
    """Return what ops.csv holds."""
    return b"".join(csv_lines(report))


def csv_lines(report: Report) -> Iterator[bytes]:
    """Yield the lines of ops.csv. Nothing of them comes of looking at all pairs together."""
    columns = columns_for(report)
    for row in chain((titles_of(columns),), rows_of(report, columns)):
        yield in_utf8(f"{csv_line(row)}\n")


def csv_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the table without its titles: by operator in execution order, then what only the right side has."""
    return vendor_table(report)[1]
