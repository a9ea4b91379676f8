"""Tables of statistics, which runs save beside tensors or in their place: ``statistic.csv`` and CANN's for an operator.

References
----------
MindSpore "Dump" documentation, releases 1.6 to 2.10: one ``statistic.csv`` in the directory of an iteration. CANN "Dump
Data" (acl.json), ``dump_data: stats``: a file for each operator, named as its dump would be and ``.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_msdump.errors import DumpNotFoundError, TensorFileError
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.statistics import Statistics, StatisticTables
from pytest_msdump.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorView,
    mangle,
)
from pytest_msdump.readers.ascend_names import AscendName, parse_ascend
from pytest_msdump.readers.base import Reader
from pytest_msdump.readers.listing import Folder, walk
from pytest_msdump.readers.mindspore_runs import placed, sort_out_runs
from pytest_msdump.readers.mindspore_tree import mindspore_place
from pytest_msdump.readers.sidefiles import MAPPING, STATISTICS_FILE, read_mapping
from pytest_msdump.storage.regular import open_regular

if TYPE_CHECKING:
    from pytest_msdump.readers.statistic_table import Table, TableRow

__all__ = ["READER", "StatisticsReader", "read_statistics"]

# The `TensorRef.reader` of a tensor of which there are statistics only: none that could open it.
READER = UNSEEN

_SUFFIX = ".csv"
_MAX_BYTES = 2**28
_MAX_LINE = 2**16


class _File(NamedTuple):
    """A table, where in a run it was saved, and the operator that its name tells."""

    path: Path
    shown: str
    at: Coordinates
    operator: AscendName | None


class StatisticsReader(Reader):
    """A dump of which only tables of statistics were saved: a run's directory, or one table."""

    name = READER
    looks_for = f"tables of statistics: {STATISTICS_FILE}, or OP_TYPE.OP.TASK.STREAM.TIMESTAMP.csv"
    # Below every reader of tensors: beside them, tables only say more of the same.
    precedence = -1

    def recognises(self, root: Path) -> bool:
        """Tell whether a file at or below `root` is named like a table and lies where a run saves one."""
        if not root.is_dir() and not _is_table(root.name):
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
        raise TensorFileError(
            f"{ref.source.path}: line {ref.source.part} has statistics of {ref.key.address}; the tensor itself was not "
            "saved: dump with saved_data = tensor or full"
        )


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
    repeats = sort_out_runs(root, rows)
    return StatisticTables(
        rows=placed(repeats.newest, repeats.partial),
        older=repeats.older,
        partial=repeats.partial,
        notes=(*repeats.notes, *notes),
        files=tuple(files),
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


def _is_table(name: str) -> bool:
    """Whether a name is one that tables have."""
    return name == STATISTICS_FILE or _operator(name, {}) is not None


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
    from pytest_msdump.readers.statistic_table import Table, parse_table

    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            if path.stat().st_size > _MAX_BYTES:
                return Table(()), (f"is left out: it is larger than {_MAX_BYTES // 2**20} MiB",)
            table = parse_table(iter(lambda: file.readline(_MAX_LINE), ""))
    except OSError as error:
        return Table(()), (f"cannot be read: {error.strerror}",)
    return table, () if table.rows or table.problems else ("holds no statistics",)


def _ref(row: TableRow, file: _File, digits: int) -> TensorRef:
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
    source = TensorSource(file.path, timestamp, row.line)
    return TensorRef(
        key=TensorKey(op, row.io, row.slot),
        spec=row.spec,
        source=source,
        reader=READER,
        statistics=Statistics(row.values, digits, row.data_bytes, row.spec, source),
    )
