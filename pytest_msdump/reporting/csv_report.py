"""ops.csv: the vendor's network result table, so that scripts made for it go on working.

Titles and their order are those of msaccucmp 26.2.0, duplicates included, since scripts read by position. Address
columns are there where a side has device addresses; OverFlow belongs to an option that is not given here. Verdict and
Reason come last.

References
----------
Ascend "Accuracy Comparison Tool", network-wide comparison result, release 26.2.0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_msdump.model.report import Report
from pytest_msdump.reporting.atomic import write_file
from pytest_msdump.reporting.vendor_table import Columns, columns_for, rows_of, titles_of, vendor_table

__all__ = ["TITLES", "csv_content", "csv_rows", "csv_text", "write_csv"]

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
    return write_file(directory, "ops.csv", csv_content(report) if content is None else content)


def csv_content(report: Report) -> bytes:
    """Return what ops.csv holds. Nothing of it comes of looking at all pairs together."""
    columns = columns_for(report)
    return csv_text(titles_of(columns), rows_of(report, columns))


def csv_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the table without its titles: by operator in execution order, then what only the right side has."""
    return vendor_table(report)[1]


def csv_text(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Return a table as CSV. A name may begin with anything and hold any byte that a file name can."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", errors="surrogateescape")
