"""Tables of statistics, which runs save beside tensors or in their place: ``statistic.csv`` and CANN's for an operator.

References: MindSpore "Dump" documentation, releases 1.6 to 2.10: one ``statistic.csv`` in the directory of an
iteration. CANN "Dump Data" (acl.json), ``dump_data: stats``: a file for each operator, named as its dump would be and
``.csv``.
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.base import Reader
from pytest_msdump.core.dumps.dump_tree import mindspore_place
from pytest_msdump.core.dumps.file_names import AscendName, number, parse_ascend
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.reruns import order_by_time, separate_tree_runs
from pytest_msdump.core.dumps.sidefiles import MAPPING, STATISTICS_FILE, read_mapping
from pytest_msdump.core.errors import DumpNotFoundError, TensorFileError
from pytest_msdump.core.facts.metrics import ABSENT, DIGITS, LABEL_COLUMNS, STATISTICS
from pytest_msdump.core.model.describe import counted, listed
from pytest_msdump.core.model.dump import Dump, PartialRun
from pytest_msdump.core.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    Statistic,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
    mangle,
)
from pytest_msdump.core.ports import IndexRequest
from pytest_msdump.core.storage.files import open_regular
from pytest_msdump.core.text import Message, Parameter, say

# The `TensorRef.reader` of a tensor of which there are statistics only: no reader can open it.
READER = UNSEEN

_SUFFIX = ".csv"
_MAX_BYTES = 2**28
_MAX_LINE = 2**16


class _File(NamedTuple):
    """A table, where in a run it was saved, and the operator that its name has."""

    path: Path
    shown: str
    at: Coordinates
    operator: AscendName | None


@dataclass(frozen=True, slots=True)
class StatisticTables:
    """All rows of a dump in the order of `model.ordering.in_order`, those of older runs, sentences, and the files."""

    rows: tuple[TensorRef, ...] = ()
    older: tuple[TensorRef, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    partial: PartialRun | None = None


class StatisticsReader(Reader):
    """A dump of which only tables of statistics were saved: a run's directory, or one table."""

    name = READER
    looks_for = f"tables of statistics: {STATISTICS_FILE}, or OP_TYPE.OP.TASK.STREAM.TIMESTAMP.csv"
    # Below every reader of tensors: beside them, tables only say more of the same.
    precedence = -1

    def recognises(self, root: Path) -> bool:
        """Return whether a file at or below `root` is named like a table and lies where a run saves one."""
        if not root.is_dir() and root.name != STATISTICS_FILE and _operator(root.name, {}) is None:
            return False
        return next(_files(root, []), None) is not None

    def index(self, root: Path) -> Dump:
        """List the rows of all tables as tensors that cannot be opened; reads the tables."""
        tables = read_statistics(root)
        known = set(tables.files)
        folders = walk(root) if root.is_dir() else ()
        others = (folder.relative(name) for folder in folders for name in (*folder.files, *folder.closed))
        return Dump(
            root=root,
            reader=self.name,
            refs=tables.rows,
            older=tables.older,
            partial=tables.partial,
            unexplained=tuple(sorted(path for path in others if path not in known and path.name != MAPPING)),
            notes=tables.notes,
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Refuse; see `Reader.open`."""
        where = "has" if ref.source.part is None else f"line {ref.source.part} has"
        raise TensorFileError(
            f"{ref.source.path}: {where} statistics of {ref.key.address}; the tensor itself was not saved: dump with "
            "saved_data = tensor or full (msprobe: task = tensor)"
        )


def read_statistics(root: Path) -> StatisticTables:
    """Read all tables of statistics at or below a directory, or one table; what cannot be read is a note, no error."""
    notes: list[str] = []
    rows: list[TensorRef] = []
    files: list[Path] = []
    for file in _files(root, notes):
        table, note = _read(file.path)
        files.append(Path(file.shown))
        notes += [f"{file.shown} {problem}" for problem in (*table.problems, *note)]
        named = [row for row in table.rows if row.op is not None or file.operator is not None]
        if len(named) < len(table.rows):
            notes.append(f"{file.shown} has rows without the name of an operator, which are left out")
        rows += [_ref(row, file, table.digits) for row in named]
    runs = separate_tree_runs(root, rows)
    return StatisticTables(
        rows=order_by_time(runs.newest, runs.partial),
        older=runs.older,
        partial=runs.partial,
        notes=(*runs.notes, *notes),
        files=tuple(files),
    )


def _files(root: Path, notes: list[str]) -> Iterator[_File]:
    """Yield the tables by name; note which are at a place where no run saves one."""
    if not root.is_dir():
        if not root.is_file():
            raise DumpNotFoundError(f"{root}: no such directory or file; give a dump, or a table of statistics")
        yield _File(root, root.name, Coordinates(occurrence=0), _operator(root.name, {}))
        return
    for folder in walk(root):
        originals = _originals(root, folder)
        place = mindspore_place(root, folder.parts)
        for name in folder.files:
            if not (name.endswith(_SUFFIX) or name in originals):
                continue
            operator = _operator(name, originals)
            if name != STATISTICS_FILE and operator is None:
                continue
            shown = folder.relative(name).as_posix()
            if place:
                yield _File(folder.below(root) / name, shown, place.at, operator)
            else:
                notes.append(f"{shown} is left out: no run saves statistics at such a place")


def _originals(root: Path, folder: Folder) -> Mapping[str, str]:
    """Return the names that were too long for the file system; errors in them are noted by the tensors' reader."""
    if MAPPING not in folder.files or not any(name.endswith(_SUFFIX) for name in folder.files if name != MAPPING):
        return {}
    return read_mapping(folder.below(root) / MAPPING)[0]


def _operator(name: str, originals: Mapping[str, str]) -> AscendName | None:
    for candidate in (name, originals.get(name, "")):
        if candidate.endswith(_SUFFIX) and (parsed := parse_ascend(candidate[: -len(_SUFFIX)])):
            return parsed
    return None


def _read(path: Path) -> tuple[Table, tuple[str, ...]]:
    """Read one table, or return an empty one and the end of a sentence that says why it cannot be read."""
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            if path.stat().st_size > _MAX_BYTES:
                return Table(()), (f"is left out: it is larger than {_MAX_BYTES // 2**20} MiB",)
            table = parse_table(iter(lambda: file.readline(_MAX_LINE), ""))
    except OSError as error:
        return Table(()), (f"cannot be read: {error.strerror}",)
    return table, () if table.rows or table.problems else ("holds no statistics",)


def _ref(row: TableRow, file: _File, digits: int) -> TensorRef:
    operator = file.operator
    name = row.op if row.op is not None else (operator.op if operator else "")
    mangled = mangle(name)
    op = OpKey(
        name=mangled,
        at=file.at,
        op_type=row.op_type or (operator.op_type if operator else None),
        true_name=name if mangled != name else None,
    )
    timestamp = row.timestamp if row.timestamp is not None or operator is None else operator.timestamp
    source = TensorSource.of(file.path, timestamp, row.line)
    return TensorRef(
        key=TensorKey(op, row.io, row.slot),
        spec=row.spec,
        source=source,
        reader=READER,
        statistics=Statistics(row.values, digits, row.data_bytes, row.spec, source),
    )


# -- One table, line by line -----------------------------------------------------------------------------------------

_BY_COLUMN = {column: name for name, fact in STATISTICS.items() for column in fact.columns}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?(?P<digits>[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf)", re.IGNORECASE)
_BRACKETED = re.compile(r"\((?:[0-9]{1,19}(?:, ?[0-9]{1,19})*,?)?\)")
_CROSSED = re.compile(r"[0-9]{1,19}(?:x[0-9]{1,19})*")
_CANN_TYPE = "DT_"
_IO = ("input", "output")
# What float64 can hold.
_MOST_DIGITS = 17
_MOST_LISTED, _LONGEST_SHOWN = 8, 40
_LONGEST_LABEL = 2**12


class TableRow(NamedTuple):
    """What one row says; `line` counts from 1."""

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
    """Places of cells in a row, by what they hold, and the titles that are unknown."""

    labels: Mapping[str, int]
    statistics: Mapping[str, int]
    width: int
    unknown: tuple[str, ...]


class _UnreadableRowError(ValueError):
    """A row that is left out; the text says why."""


def parse_table(lines: Iterable[str]) -> Table:
    """Read the lines of a table of any release."""
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
        rows = counted(len(unreadable), "row")
        problems.append(f"has {rows} that cannot be read, e.g. {unreadable[0]}")
    if unknown:
        names = [f"{name[:_LONGEST_SHOWN]}…" if len(name) > _LONGEST_SHOWN else name for name in unknown]
        problems.append(f"has columns that are not known here and are left out: {listed(names, _MOST_LISTED)}")
    return tuple(problems)


def _cells(text: str) -> Sequence[str]:
    """Split one line. A quote that is never closed, as in a row cut short, so spoils its own line only."""
    try:
        return next(csv.reader([text], strict=True))
    except (csv.Error, StopIteration) as error:
        raise _UnreadableRowError(f"{error or 'nothing in it'}; the run was probably killed while writing") from error


def _header(cells: Sequence[str]) -> _Columns | None:
    """Read titles; ``None`` for a row that is no header."""
    titles = [" ".join(cell.split()).lower() for cell in cells]
    # From the right, so that of two equal titles the first remains.
    places = {title: place for place, title in reversed(list(enumerate(titles)))}
    labels = {LABEL_COLUMNS[title]: places[title] for title in reversed(titles) if title in LABEL_COLUMNS}
    if not {"io", "slot"} <= labels.keys():
        return None
    statistics = {_BY_COLUMN[title]: places[title] for title in reversed(titles) if title in _BY_COLUMN}
    in_order = {name: statistics[name] for name in STATISTICS if name in statistics}
    unknown = tuple(
        cells[place].strip()
        for place, title in enumerate(titles)
        if title and title not in LABEL_COLUMNS and title not in _BY_COLUMN
    )
    width = len(titles) - 1 if titles and not titles[-1] else len(titles)
    return _Columns(labels, in_order, width, unknown)


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
    cell = {name: cells[place].strip() for name, place in columns.labels.items()}
    longest = max(cell, key=lambda name: len(cell[name]))
    if len(cell[longest]) > _LONGEST_LABEL:
        raise _UnreadableRowError(f"{longest} '{cell[longest][:40]}…' has {len(cell[longest])} letters")
    io = cell["io"].lower()
    if io not in _IO:
        raise _UnreadableRowError(f"'{cell['io'][:40]}' is neither input nor output")
    row = TableRow(
        line=line,
        io=io,
        slot=_number(cell["slot"], "slot"),
        op_type=cell.get("op_type") or None,
        op=cell.get("op") or None,
        timestamp=_number(cell["timestamp"], "timestamp") if cell.get("timestamp") else None,
        spec=TensorSpec(
            canonical(cell.get("dtype", "").removeprefix(_CANN_TYPE)),
            _shape(cell.get("shape", "")),
            cell.get("memory_format") or None,
        ),
        data_bytes=_number(cell["data_bytes"], "data size") if cell.get("data_bytes") else None,
        values={name: _statistic(name, cells[place].strip()) for name, place in columns.statistics.items()},
    )
    return row, max((_digits(cells[place]) for place in columns.statistics.values()), default=0)


def _number(text: str, what: str) -> int:
    value = number(text)
    if value is None:
        raise _UnreadableRowError(f"{what} '{text[:40]}' is not a number")
    return value


def _shape(text: str) -> tuple[int, ...] | None:
    if _BRACKETED.fullmatch(text):
        return tuple(int(length) for length in text.strip("()").split(",") if length)
    if _CROSSED.fullmatch(text):
        return tuple(map(int, text.split("x")))
    if text:
        raise _UnreadableRowError(f"shape '{text[:80]}' is none")
    return None


def _statistic(name: str, text: str) -> Statistic:
    if text.lower() in ABSENT:
        return None
    kind = STATISTICS[name].kind
    if kind == "count":
        return _number(text, name)
    if kind == "digest":
        if not STATISTICS[name].is_digest(text.lower()):
            digits = STATISTICS[name].hex_digits
            raise _UnreadableRowError(f"{name} '{text[:40]}' has not {digits} hexadecimal digits")
        return text.lower()
    if _INTEGER.fullmatch(text):
        return int(text)
    is_decimal = _DECIMAL.fullmatch(text)
    if not is_decimal and not _NOT_FINITE.fullmatch(text):
        raise _UnreadableRowError(f"{name} '{text[:40]}' is not a number")
    value = float(text)
    if is_decimal and math.isinf(value):
        raise _UnreadableRowError(f"{name} '{text[:40]}' is larger than any float64")
    return value


def _digits(cell: str) -> int:
    """Count the significant digits of a number with a point or an exponent; others say nothing of the printing."""
    match = _DECIMAL.fullmatch(cell.strip())
    if match is None or _INTEGER.fullmatch(cell.strip()):
        return 0
    return len(match["digits"].replace(".", "").lstrip("0"))


# -- Statistics of tensors that were saved -----------------------------------------------------------------------------

# Operator, type, coordinates but for the occurrence, input or output, slot: a name that a table spells with slashes is
# the same tensor.
_Identity = tuple[str, str | None, Coordinates, str, int]


def with_statistics(dump: Dump, request: IndexRequest) -> Dump:  # noqa: ARG001 - as every stage takes it
    """Attach the statistics of a run to its tensors; those without a tensor become tensors that cannot be opened."""
    if not dump.root.is_dir():
        return dump
    tables = read_statistics(dump.root)
    notes = (*dump.notes, *(note for note in tables.notes if note not in dump.notes))
    files: frozenset[Path] = frozenset(tables.files)
    dump = replace(dump, notes=notes, unexplained=tuple(path for path in dump.unexplained if path not in files))
    if not (tables.rows or tables.older):
        return dump
    saved = _rows_by_tensor((*dump.refs, *dump.older), (*tables.rows, *tables.older))
    refs, older = (
        tuple(replace(ref, statistics=saved[ref].statistics) if ref in saved else ref for ref in part)
        for part in (dump.refs, dump.older)
    )
    if not refs and not older:
        return replace(dump, reader=READER, refs=tables.rows, older=tables.older, partial=tables.partial)
    alone = _other_rows(refs, tables.rows, saved.values())
    if alone:
        about: dict[str, Parameter] = {"n": len(alone), "name": alone[0].key.address}
        notes = (*notes, say(Message("note_statistics_only", about)))
        refs = order_by_time((*refs, *alone), PartialRun.total((dump.partial, tables.partial)))
    return replace(dump, refs=refs, older=older, notes=notes)


def _rows_by_tensor(refs: Iterable[TensorRef], rows: Iterable[TensorRef]) -> dict[TensorRef, TensorRef]:
    """Find the rows of tensors; all rows are needed, since which run one is of follows from its time only."""
    by_identity: defaultdict[_Identity, list[TensorRef]] = defaultdict(list)
    for row in rows:
        by_identity[_identity(row)].append(row)
    found: dict[TensorRef, TensorRef] = {}
    members: defaultdict[_Identity, list[TensorRef]] = defaultdict(list)
    for ref in refs:
        members[_identity(ref)].append(ref)
    for identity, tensors in members.items():
        found.update(_by_time(tensors, by_identity.get(identity, [])))
    return found


def _by_time(tensors: list[TensorRef], rows: list[TensorRef]) -> Iterator[tuple[TensorRef, TensorRef]]:
    """Pair by time: one by one if there are as many of both, else each of the fewer with the nearest."""
    tensors, rows = sorted(tensors, key=_time), sorted(rows, key=_time)
    fewer, more = (tensors, rows) if len(tensors) <= len(rows) else (rows, tensors)
    place = 0
    for nth, one in enumerate(fewer):
        last = len(more) - (len(fewer) - nth)
        while place < last and abs(_time(more[place + 1]) - _time(one)) <= abs(_time(more[place]) - _time(one)):
            place += 1
        yield (one, more[place]) if fewer is tensors else (more[place], one)
        place += 1


def _other_rows(
    refs: Iterable[TensorRef], rows: Iterable[TensorRef], used: Iterable[TensorRef]
) -> tuple[TensorRef, ...]:
    """Return the rows of tensors that were not saved."""
    known = {(_identity(ref), ref.key.op.at.occurrence) for ref in refs}
    taken = {row.source for row in used}
    return tuple(
        row for row in rows if row.source not in taken and (_identity(row), row.key.op.at.occurrence) not in known
    )


def _time(ref: TensorRef) -> int:
    return ref.source.timestamp or 0


def _identity(ref: TensorRef) -> _Identity:
    op = ref.key.op
    return (op.name, op.op_type, op.at._replace(occurrence=None), ref.key.io, ref.key.slot)
