"""ops.csv: the vendor's network result table, so that scripts made for it go on working.

Titles and their order are those of msaccucmp 26.2.0, duplicates included, since scripts read by position. Address
columns are there where a side has device addresses; OverFlow belongs to an option that is not given here. Verdict and
Reason come last.

References
----------
Ascend "Accuracy Comparison Tool", network-wide comparison result, release 26.2.0.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pytest_msdump.escape import csv_line
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.atomic import in_utf8, write_file
from pytest_msdump.reporting.vendor_cells import UNDEFINED, number_cells, number_text
from pytest_msdump.reporting.vendor_table import Columns, columns_for, parts_of, titles_of, vendor_table

__all__ = ["TITLES", "csv_content", "csv_rows", "write_csv"]

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
    names = columns.algorithms
    nothing = csv_line([UNDEFINED] * len(names))
    lines = [csv_line(titles_of(columns))]
    for before, record, after in parts_of(report, columns):
        if record is None:
            numbers = nothing
        elif record.get("custom"):
            numbers = csv_line(number_cells(record, names))
        else:
            numbers = number_text(record, names)
        lines.append(f"{csv_line(before)},{numbers},{_known_line(after)}")
    lines.append("")
    return in_utf8("\n".join(lines))


def csv_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the table without its titles: by operator in execution order, then what only the right side has."""
    return vendor_table(report)[1]


# What stands behind the numbers of a pair within its limits is alike in very many rows.
_known_line = lru_cache(maxsize=256)(csv_line)
