"""One table of statistics, line by line: tolerant of which columns it has, strict about what is in them.

References
----------
MindSpore "Dump" documentation, releases 1.6 to 2.10, ``statistic.csv``. Some releases end each row, but not the header,
with a comma. CANN "Dump Data" (acl.json): shapes like ``4x50x50x16``, types like ``DT_FLOAT``, empty cells.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.dtypes import canonical
from pytest_msdump.facts.statistics import ABSENT, DIGITS, LABEL_COLUMNS, STATISTICS
from pytest_msdump.model.statistics import Statistic
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.filename import number

__all__ = ["Table", "TableRow", "parse_table"]

_BY_COLUMN = {column: name for name, fact in STATISTICS.items() for column in fact.columns}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?(?P<digits>[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf)", re.IGNORECASE)
_DIGEST_DIGITS = {"md5": 32, "sha1": 40}
_HEX = re.compile(r"[0-9a-fA-F]+")
_BRACKETED = re.compile(r"\((?:[0-9]{1,19}(?:, ?[0-9]{1,19})*,?)?\)")
_CROSSED = re.compile(r"[0-9]{1,19}(?:x[0-9]{1,19})*")
_CANN_TYPE = "DT_"
_IO = ("input", "output")
# What float64 can hold.
_MOST_DIGITS = 17
_MOST_LISTED, _LONGEST_SHOWN = 8, 40
_LONGEST_LABEL = 2**12


class TableRow(NamedTuple):
    """What one row says, without what its table does not tell; `line` counts from 1."""

    line: int
    io: str
    slot: int
    op_type: str | None
    op: str | None
    timestamp: int | None
    spec: TensorSpec
    data_bytes: int | None
    values: Mapping[str, Statistic]


class Table(NamedTuple):
    """Rows, the significant digits that they were printed with, and ends of sentences about what was left out."""

    rows: tuple[TableRow, ...]
    digits: int = DIGITS
    problems: tuple[str, ...] = ()


class _Columns(NamedTuple):
    """Where in a row what is, and which titles nobody knows."""

    labels: Mapping[str, int]
    statistics: Mapping[str, int]
    width: int
    unknown: tuple[str, ...]


class _UnreadableRowError(ValueError):
    """A row that is left out; the text says why."""


def parse_table(lines: Iterable[str]) -> Table:
    """Read a table of any release.

    Parameters
    ----------
    lines : iterable of str
        The file's lines, with or without their ends. The header may come again, as when a file is appended to.

    Returns
    -------
    Table
        Rows that cannot be read are counted in `problems`, with the first of them.

    Examples
    --------
    >>> table = parse_table(["IO,Slot,Data Type,Shape,Max Value,L2Norm Value", 'output,0,float32,"(2,3)",7.5,nan,'])
    >>> table.rows[0].values, table.rows[0].spec.shape
    ({'maximum': 7.5, 'l2_norm': nan}, (2, 3))
    """
    columns: _Columns | None = None
    rows: list[TableRow] = []
    unreadable: list[str] = []
    unknown: dict[str, None] = {}
    digits = DIGITS
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            cells = _cells(text)
            header = _header(cells)
            if header:
                columns = header
                unknown.update(dict.fromkeys(header.unknown))
                continue
            row, printed = _row(line, cells, columns)
            rows.append(row)
            digits = max(digits, printed)
        except _UnreadableRowError as error:
            unreadable.append(f"line {line}: {error}")
    return Table(tuple(rows), min(digits, _MOST_DIGITS), _problems(unreadable, tuple(unknown)))


def _problems(unreadable: Sequence[str], unknown: Sequence[str]) -> tuple[str, ...]:
    problems = []
    if unreadable:
        count = "1 row" if len(unreadable) == 1 else f"{len(unreadable)} rows"
        problems.append(f"has {count} that cannot be read, e.g. {unreadable[0]}")
    if unknown:
        names = [f"{name[:_LONGEST_SHOWN]}…" if len(name) > _LONGEST_SHOWN else name for name in unknown[:_MOST_LISTED]]
        more = f" and {len(unknown) - _MOST_LISTED} more" if len(unknown) > _MOST_LISTED else ""
        problems.append(f"has columns that are not known here and are left out: {', '.join(names)}{more}")
    return tuple(problems)


def _cells(text: str) -> Sequence[str]:
    """Split one line. Line by line, so that a quote that is never closed (a row cut short) spoils but its own."""
    try:
        return next(csv.reader([text], strict=True))
    except (csv.Error, StopIteration) as error:
        raise _UnreadableRowError(f"{error or 'nothing in it'}; the run was probably killed while writing") from error


def _header(cells: Sequence[str]) -> _Columns | None:
    """Read titles; ``None`` for a row that is no header."""
    titles = [" ".join(cell.split()).lower() for cell in cells]
    labels = {LABEL_COLUMNS[title]: place for place, title in _first_places(titles) if title in LABEL_COLUMNS}
    if not {"io", "slot"} <= labels.keys():
        return None
    statistics = {_BY_COLUMN[title]: place for place, title in _first_places(titles) if title in _BY_COLUMN}
    in_order = {name: statistics[name] for name in STATISTICS if name in statistics}
    unknown = tuple(
        cells[place].strip()
        for place, title in enumerate(titles)
        if title and title not in LABEL_COLUMNS and title not in _BY_COLUMN
    )
    width = len(titles) - 1 if titles and not titles[-1] else len(titles)
    return _Columns(labels, in_order, width, unknown)


def _first_places(titles: Sequence[str]) -> Iterable[tuple[int, str]]:
    """Number the titles from the right, so that of two equal ones the first is what remains in a mapping."""
    return reversed(list(enumerate(titles)))


def _row(line: int, cells: Sequence[str], columns: _Columns | None) -> tuple[TableRow, int]:
    """Read one row; return also the most significant digits in it."""
    if columns is None:
        raise _UnreadableRowError("there is no header above it that names IO and Slot")
    if len(cells) == columns.width + 1 and not cells[-1].strip():
        cells = cells[:-1]
    if len(cells) != columns.width:
        raise _UnreadableRowError(
            f"{len(cells)} fields under a header of {columns.width}; the run was probably killed while writing"
        )
    told = {name: cells[place].strip() for name, place in columns.labels.items()}
    longest = max(told, key=lambda name: len(told[name]))
    if len(told[longest]) > _LONGEST_LABEL:
        raise _UnreadableRowError(f"{longest} '{told[longest][:40]}…' has {len(told[longest])} letters")
    io = told["io"].lower()
    if io not in _IO:
        raise _UnreadableRowError(f"'{told['io'][:40]}' is neither input nor output")
    row = TableRow(
        line=line,
        io=io,
        slot=_number(told["slot"], "slot"),
        op_type=told.get("op_type") or None,
        op=told.get("op") or None,
        timestamp=_number(told["timestamp"], "timestamp") if told.get("timestamp") else None,
        spec=TensorSpec(
            _dtype(told.get("dtype", "")), _shape(told.get("shape", "")), told.get("memory_format") or None
        ),
        data_bytes=_number(told["data_bytes"], "data size") if told.get("data_bytes") else None,
        values={name: _statistic(name, cells[place].strip()) for name, place in columns.statistics.items()},
    )
    return row, max((_digits(cells[place]) for place in columns.statistics.values()), default=0)


def _number(text: str, what: str) -> int:
    value = number(text)
    if value is None:
        raise _UnreadableRowError(f"{what} '{text[:40]}' is no number")
    return value


def _dtype(text: str) -> str | None:
    """Return the canonical name; ``None`` where the writer did not know it, or nobody here does."""
    return canonical(text.removeprefix(_CANN_TYPE))


def _shape(text: str) -> tuple[int, ...] | None:
    if _BRACKETED.fullmatch(text):
        return tuple(int(length) for length in text.strip("()").split(",") if length)
    if _CROSSED.fullmatch(text):
        return tuple(map(int, text.split("x")))
    if text:
        raise _UnreadableRowError(f"shape '{text[:80]}' is none")
    return None


def _statistic(name: str, text: str) -> Statistic:
    """Read one value in the only way that its kind can be written."""
    if text.lower() in ABSENT:
        return None
    kind = STATISTICS[name].kind
    if kind == "count":
        return _number(text, name)
    if kind == "digest":
        if len(text) != _DIGEST_DIGITS[name] or not _HEX.fullmatch(text):
            raise _UnreadableRowError(f"{name} '{text[:40]}' has not {_DIGEST_DIGITS[name]} hexadecimal digits")
        return text.lower()
    if _INTEGER.fullmatch(text):
        return int(text)
    is_decimal = _DECIMAL.fullmatch(text)
    if not is_decimal and not _NOT_FINITE.fullmatch(text):
        raise _UnreadableRowError(f"{name} '{text[:40]}' is no number")
    value = float(text)
    if is_decimal and math.isinf(value):
        raise _UnreadableRowError(f"{name} '{text[:40]}' is larger than any float64")
    return value


def _digits(cell: str) -> int:
    """Count the significant digits of a number with a point or an exponent; others tell nothing of the printing."""
    match = _DECIMAL.fullmatch(cell.strip())
    if match is None or _INTEGER.fullmatch(cell.strip()):
        return 0
    return len(match["digits"].replace(".", "").lstrip("0"))
