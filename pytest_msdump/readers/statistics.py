"""Tables of statistics, which runs save beside tensors or in their place: ``statistic.csv`` and CANN's for an operator.

References
----------
MindSpore "Dump" documentation, releases 1.6 to 2.10: one ``statistic.csv`` in the directory of an iteration. CANN "Dump
Data" (acl.json), ``dump_data: stats``: a file for each operator, named as its dump would be and ``.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import DumpNotFoundError
from pytest_msdump.model.statistics import StatisticRow, StatisticTables
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, mangle
from pytest_msdump.readers.ascend_names import AscendName, parse_ascend
from pytest_msdump.readers.listing import Folder, walk
from pytest_msdump.readers.mindspore_runs import placed, sort_out_runs
from pytest_msdump.readers.mindspore_tree import mindspore_place
from pytest_msdump.readers.sidefiles import MAPPING, STATISTICS_FILE, read_mapping
from pytest_msdump.readers.statistic_table import Table, TableRow, parse_table

__all__ = ["READER", "read_statistics"]

# The `TensorRef.reader` of a tensor of which there are statistics only: none that could open it.
READER = "statistics"

_SUFFIX = ".csv"
_MAX_BYTES = 2**28
_MAX_LINE = 2**16


class _File(NamedTuple):
    """A table, where in a run it was saved, and the operator that its name tells."""

    path: Path
    shown: str
    at: Coordinates
    operator: AscendName | None


def read_statistics(root: Path) -> StatisticTables:
    """Read all tables of statistics at or below a directory.

    Parameters
    ----------
    root : Path
        A dump, of tensors or of statistics alone, any directory within it, or one table.

    Returns
    -------
    StatisticTables
        Keys and coordinates are those that the same run's tensors have, so that both can meet. Rows of a run before
        that into the same directory are in `older`. What cannot be read is a note, never an error.

    Raises
    ------
    DumpNotFoundError
        There is nothing at `root`, or it cannot be listed.
    """
    notes: list[str] = []
    rows: dict[tuple[Path, int], StatisticRow] = {}
    for file in _files(root, notes):
        table, note = _read(file.path)
        notes += [f"{file.shown} {problem}" for problem in (*table.problems, *note)]
        without_name = [row for row in table.rows if row.op is None and file.operator is None]
        if without_name:
            notes.append(f"{file.shown} has rows without the name of an operator, which are left out")
        for row in table.rows:
            if row.op is not None or file.operator is not None:
                made = StatisticRow(_ref(row, file), row.values, table.digits, row.data_bytes)
                rows[file.path, row.line] = made
    repeats = sort_out_runs(root, (row.ref for row in rows.values()))
    return StatisticTables(
        rows=tuple(_with_ref(rows, ref) for ref in placed(repeats.newest)),
        older=tuple(_with_ref(rows, ref) for ref in repeats.older),
        notes=(*repeats.notes, *notes),
    )


def _files(root: Path, notes: list[str]) -> Iterator[_File]:
    """List the tables by name; say which are at a place where no run saves one."""
    if not root.is_dir():
        if not root.is_file():
            raise DumpNotFoundError(f"{root}: no such directory or file; give a dump, or a table of statistics")
        yield _File(root, root.name, Coordinates(occurrence=0), _operator(root.name, {}))
        return
    for folder in walk(root):
        originals = _originals(root, folder)
        place = mindspore_place(root, folder.parts)
        for name in folder.files:
            operator = _operator(name, originals)
            if name != STATISTICS_FILE and operator is None:
                continue
            shown = folder.relative(name).as_posix()
            if place:
                yield _File(folder.below(root) / name, shown, place.at, operator)
            else:
                notes.append(f"{shown} is left out: no run saves statistics at such a place")


def _originals(root: Path, folder: Folder) -> Mapping[str, str]:
    """Return the names that were too long for the file system; what is wrong with them, the tensors' reader tells."""
    if MAPPING not in folder.files or not any(name.endswith(_SUFFIX) for name in folder.files if name != MAPPING):
        return {}
    return read_mapping(folder.below(root) / MAPPING)[0]


def _operator(name: str, originals: Mapping[str, str]) -> AscendName | None:
    """Return the operator that a table's name tells, if it does."""
    for candidate in (name, originals.get(name, "")):
        if candidate.endswith(_SUFFIX) and (parsed := parse_ascend(candidate[: -len(_SUFFIX)])):
            return parsed
    return None


def _read(path: Path) -> tuple[Table, tuple[str, ...]]:
    """Read one table; an empty one and the end of a sentence when it cannot be read."""
    try:
        with path.open("r", encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            if path.stat().st_size > _MAX_BYTES:
                return Table(()), (f"is left out: it is larger than {_MAX_BYTES // 2**20} MiB",)
            table = parse_table(iter(lambda: file.readline(_MAX_LINE), ""))
    except OSError as error:
        return Table(()), (f"cannot be read: {error.strerror}",)
    return table, () if table.rows or table.problems else ("holds no statistics",)


def _ref(row: TableRow, file: _File) -> TensorRef:
    """Make the reference that the tensor itself would have."""
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
    return TensorRef(
        key=TensorKey(op, row.io, row.slot),
        spec=row.spec,
        source=TensorSource(file.path, timestamp, row.line),
        reader=READER,
    )


def _with_ref(rows: Mapping[tuple[Path, int], StatisticRow], ref: TensorRef) -> StatisticRow:
    row = rows[ref.source.path, ref.source.part or 0]
    return StatisticRow(ref, row.values, row.digits, row.data_bytes)
