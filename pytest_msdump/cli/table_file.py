"""A table of the vendor's kind in a file of the user's choice: text with single spaces, or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import csv_line, terminal_text
from pytest_msdump.reporting.atomic import in_utf8, write_file

__all__ = ["TableFile", "csv_text", "plain_text", "table_file", "write_table"]

_SUFFIXES = (".txt", ".csv")
_EMPTY = "NaN"


@dataclass(frozen=True)
class TableFile:
    """Where a table goes, and in which of the two forms."""

    path: Path
    as_csv: bool


def table_file(text: str, *, as_csv: bool, flag: str = "-o") -> TableFile:
    """Read what follows ``-o``, and make the folder it names.

    Parameters
    ----------
    text : str
        A file when it ends in .txt or .csv, else a folder, in which the file is result.txt or result.csv.
    as_csv : bool
        Whether CSV was asked for; a file that ends in .csv is one in any case.
    flag : str
        How the option is spelled there, for messages.

    Raises
    ------
    ConfigError
        The folder cannot be made, or the file is a folder.
    """
    if not text:
        raise ConfigError(f"{flag} is empty; give a file that ends in .txt or .csv, or a folder")
    path = Path(text).absolute()
    if path.suffix.lower() not in _SUFFIXES:
        path /= "result.csv" if as_csv else "result.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{flag}: the folder {path.parent} cannot be made: {error.strerror or error}") from error
    if path.is_dir():
        raise ConfigError(f"{flag}: {path} is a folder; give another name")
    return TableFile(path, as_csv or path.suffix.lower() == ".csv")


def write_table(table: TableFile, titles: Sequence[str], rows: Iterable[Sequence[str]], *, flag: str = "-o") -> Path:
    """Write the whole table or nothing, and return its path. What was there before is replaced.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    text = (csv_text if table.as_csv else plain_text)([titles, *rows])
    try:
        return write_file(table.path.parent, table.path.name, in_utf8(text))
    except MsdumpError as error:
        reason = error.__cause__ or error
        raise MsdumpError(f"{table.path} cannot be written: {reason}; name another path with {flag}") from error


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as CSV. Cells are quoted where CSV needs it, and none is a formula."""
    return "".join([f"{csv_line(row)}\n" for row in rows])


def plain_text(rows: Iterable[Sequence[str]]) -> str:
    r"""Return the rows as lines of cells with single spaces between them, each line ended.

    Examples
    --------
    >>> plain_text([["LeftOp", "RightOp"], ["a\nb", ""]])
    'LeftOp RightOp\na\\nb NaN\n'
    """
    return "".join(" ".join(terminal_text(cell) or _EMPTY for cell in row) + "\n" for row in rows)
