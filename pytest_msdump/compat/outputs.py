"""The files of ``msaccucmp compare``: a new table for each run, the mapping, the advice."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_msdump.cli.output import TableFile, write_table
from pytest_msdump.compat.arguments import write_text
from pytest_msdump.compat.mscmp_advisor import advice
from pytest_msdump.errors import MsdumpError
from pytest_msdump.model.report import Report
from pytest_msdump.report.vendor_table import Columns, columns_for, vendor_table
from pytest_msdump.storage.remote import parse_location

__all__ = ["Outputs"]

_MOST_TRIES = 1000
_UNKNOWN = "NaN"
_MAPPING_TITLES = ("Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath")
_NAMES_ONLY = Columns(algorithms=(), verdict=False)


class Outputs:
    """The files of one comparison.

    The table has `columns`, and address columns where the dumps have addresses; with `sequences`, only groups with one
    of these operators. `with_advice` adds ``advisor_summary.txt``; `prefix` begins the names of all files.
    """

    def __init__(
        self,
        folder: Path,
        columns: Columns,
        *,
        sequences: Container[int] | None = None,
        with_advice: bool = False,
        prefix: str = "",
    ) -> None:
        self._folder = folder
        self._columns = columns
        self._sequences = sequences
        self._with_advice = with_advice
        self._prefix = prefix

    def result(self, report: Report) -> list[Path]:
        """Write the table of a finished comparison, and the advice."""
        found = columns_for(report)
        columns = replace(self._columns, left_address=found.left_address, right_address=found.right_address)
        files = [self._csv("result", self._table(report, columns))]
        if self._with_advice:
            text = advice(*self._table(report, Columns(overflow=True))).lines
            files.append(write_text(self._folder / f"{self._prefix}advisor_summary.txt", text))
        return files

    def mapping(self, report: Report) -> Path:
        """Write which tensors would be compared, and their files."""
        titles, rows = self._table(report, _NAMES_ONLY)
        places = [titles.index(title) for title in _MAPPING_TITLES[:5]]
        files = _files_by_tensor(report)
        mapped = []
        for row in rows:
            names = [row[place] for place in places]
            # A star on the left: the row is of a right operator as a whole.
            is_right = names[2] == "*"
            known = files[is_right, names[3] if is_right else names[4]]
            mapped.append((*names, *(known.pop(0) if known else (_UNKNOWN, _UNKNOWN))))
        return self._csv("mapping", (_MAPPING_TITLES, mapped))

    def _table(self, report: Report, columns: Columns) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return vendor_table(report, columns, right_alone=False, sequences=self._sequences)

    def _csv(self, kind: str, table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> Path:
        path = self._new(f"{self._prefix}{kind}_{time.strftime('%Y%m%d%H%M%S')}")
        try:
            return write_table(TableFile(path, as_csv=True), *table, flag="-out")
        except MsdumpError:
            path.unlink(missing_ok=True)
            raise

    def _new(self, stem: str) -> Path:
        """Make an empty file of a new name; the second one of a second ends in _1."""
        for number in range(_MOST_TRIES):
            path = self._folder / f"{stem}{f'_{number}' if number else ''}.csv"
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                continue
            except OSError as error:
                raise MsdumpError(f"{path} cannot be written: {error.strerror or error}; see -out") from error
            return path
        raise MsdumpError(f"{self._folder} holds {_MOST_TRIES} files {stem}*.csv; name another folder with -out")


def _files_by_tensor(report: Report) -> dict[tuple[bool, str], list[tuple[str, str]]]:
    """Return files of both sides, run by run, by ``(False, address)`` or ``(True, operator of the right alone)``."""
    found: dict[tuple[bool, str], list[tuple[str, str]]] = defaultdict(list)
    for record in report.records:
        files = (_path(report.left.directory, record.left.file), _path(report.right.directory, record.right.file))
        found[False, record.left.address].append(files)
    for one in report.unmatched:
        address, file = one.tensor.address, one.tensor.file
        if one.side == "left":
            found[False, address].append((_path(report.left.directory, file), _UNKNOWN))
        else:
            files = (_UNKNOWN, _path(report.right.directory, file))
            found[True, address.rsplit(":", 2)[0]].append(files)
    return found


def _path(root: str, file: str) -> str:
    # A dump that is one file is its own root.
    path = parse_location(root, Path())
    return root if path.is_file() else str(path / file)
