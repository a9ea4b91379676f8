"""The files of the newer command: a table with the time in its name, the mapping, the advice. None replaces another."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.cli.output import TableFile, write_table
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.model.report import Report
from pytest_msdump.report.vendor_table import Columns, columns_for, vendor_table
from pytest_msdump.storage.files import in_utf8
from pytest_msdump.storage.remote import parse_location

__all__ = ["Outputs", "advice", "output_folder", "written"]

_LEAST_COSINE = 0.99
_FAILING = ("fail", "undefined", "error")
_COMPARED = ("pass", "warn", *_FAILING)
_NONE = "NA"
_NOTHING = "nothing was compared, so nothing can be said of it"


class Advice(NamedTuple):
    """`kind` of trouble, `operator` its group in the table (``"NA"`` without one), and what to do."""

    kind: str
    operator: str
    text: str

    @property
    def lines(self) -> str:
        """The file's text."""
        return f"Detection Type: {self.kind}\nOperator Index: {self.operator}\nExpert Advice: {self.text}\n"

    @property
    def is_fine(self) -> bool:
        """Whether something was compared and nothing is wrong with it."""
        return self.operator == _NONE and self.text != _NOTHING


def advice(titles: Sequence[str], rows: Sequence[Sequence[str]], *, inputs: Set[str] = frozenset()) -> Advice:
    """Look through a table for where to begin.

    Parameters
    ----------
    titles, rows : sequence
        From `report.vendor_table.vendor_table`, with the columns OverFlow and Verdict. A table of the vendor has no
        verdicts, and one that was written without ``-overflow_detection`` no overflows: then the cosine decides.
    inputs : set of str
        Operators that hold inputs of the network, besides those of type Data.

    Notes
    -----
    A row is bad when its verdict fails, whatever its cosine is: a scalar, a NaN or two shapes that do not fit have no
    cosine that would tell.
    """
    table = [dict(zip(titles, row, strict=True)) for row in rows]
    overflown = next((row for row in table if row.get("OverFlow") == "YES"), None)
    if overflown is not None:
        return Advice(
            "FP16 Overflow",
            overflown["Index"],
            "a float16 tensor of this operator reaches the end of its range; run it in float32, or scale its inputs",
        )
    fed = (row for row in table if row["OpType"] == "Data" or inputs & {*row.get("NPUDump", "").split(",")})
    data = next((row for row in fed if _is_bad(row)), None)
    if data is not None:
        return Advice(
            "Input Inconsistent",
            data["Index"],
            "the two runs were fed differing data; feed both the same, preprocessed alike, and dump again",
        )
    return _global(table)


def _global(table: Sequence[Mapping[str, str]]) -> Advice:
    """How far the network agrees."""
    kind = "Global Consistency"
    compared = [row for row in table if _is_compared(row)]
    if not compared:
        return Advice(kind, _NONE, _NOTHING)
    bad = [row for row in compared if _is_bad(row)]
    if not bad:
        text = "every compared tensor is within its limits; if results still differ, look at what is done with outputs"
        return Advice(kind, _NONE, text)
    index = bad[0]["Index"]
    if compared[-1] is bad[-1]:
        text = "the difference that begins here reaches the end of the network; look into this operator first"
    else:
        text = "the difference that begins here is gone at the end of the network; it matters only if results differ"
    return Advice(kind, index, text)


def _is_compared(row: Mapping[str, str]) -> bool:
    return row["Verdict"] in _COMPARED if "Verdict" in row else _cosine(row) is not None


def _is_bad(row: Mapping[str, str]) -> bool:
    if row.get("Verdict") in _FAILING:
        return True
    cosine = _cosine(row)
    return cosine is not None and cosine < _LEAST_COSINE


def _cosine(row: Mapping[str, str]) -> float | None:
    """The cosine of a row; the vendor's NaN is no number, and also its way to say that nothing was compared."""
    try:
        cosine = float(row.get("CosineSimilarity", "nan"))
    except ValueError:
        return None
    return None if math.isnan(cosine) else cosine


# -- The files of the newer command ----------------------------------------------------------------------------------


_MOST_TRIES = 1000
_UNKNOWN = "NaN"
_NOBODY = "*"
_MAPPING_TITLES = ("Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath")
_NAMES_ONLY = Columns(algorithms=(), verdict=False)


def output_folder(text: str | None, flag: str = "-out") -> Path:
    """Return the folder that a flag names, made when it was not there; the current one by default.

    Raises
    ------
    ConfigError
        It cannot be made.
    """
    folder = Path(text or ".").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{flag}: the folder {folder} cannot be made: {error.strerror or error}") from error
    return folder


class Outputs:
    """What one comparison writes.

    Parameters
    ----------
    folder : Path
        Where to.
    columns : Columns
        Of the table; its address columns are set by what the dumps hold.
    sequences : container of int, optional
        Only groups with one of these operators.
    with_advice : bool
        Whether ``advisor_summary.txt`` is wanted.
    prefix : str
        What the names of its files begin with.
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
        files = [self._csv("result", self._table(report, self._for(report, self._columns)))]
        if self._with_advice:
            text = advice(*self._table(report, Columns(overflow=True))).lines
            files.append(written(self._folder / f"{self._prefix}advisor_summary.txt", text))
        return files

    def mapping(self, report: Report) -> Path:
        """Write who would be compared with whom, and in which files they are."""
        titles, rows = self._table(report, _NAMES_ONLY)
        places = [titles.index(title) for title in _MAPPING_TITLES[:5]]
        files = _files(report)
        mapped = []
        for row in rows:
            names = [row[place] for place in places]
            # A star on the left: the row is of a right operator as a whole.
            is_right = names[2] == _NOBODY
            known = files[is_right, names[3] if is_right else names[4]]
            mapped.append((*names, *(known.pop(0) if known else (_UNKNOWN, _UNKNOWN))))
        return self._csv("mapping", (_MAPPING_TITLES, mapped))

    def _table(self, report: Report, columns: Columns) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """The vendor's rows; what only results.json tells of is left to it."""
        return vendor_table(report, columns, right_alone=False, sequences=self._sequences)

    def _for(self, report: Report, columns: Columns) -> Columns:
        found = columns_for(report)
        return Columns(
            algorithms=columns.algorithms,
            sequence=columns.sequence,
            overflow=columns.overflow,
            left_address=found.left_address,
            right_address=found.right_address,
        )

    def _csv(self, kind: str, table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> Path:
        path = self._new(f"{self._prefix}{kind}_{time.strftime('%Y%m%d%H%M%S')}")
        try:
            return write_table(TableFile(path, as_csv=True), *table, flag="-out")
        except MsdumpError:
            path.unlink(missing_ok=True)
            raise

    def _new(self, stem: str) -> Path:
        """Make an empty file of a name that nobody else has; of one second, the second is called _1."""
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


def written(path: Path, text: str) -> Path:
    """Write a file below ``-out`` and return it.

    Raises
    ------
    MsdumpError
        It cannot be written.
    """
    try:
        path.write_bytes(in_utf8(text))
    except OSError as error:
        raise MsdumpError(f"{path} cannot be written: {error.strerror or error}; see -out") from error
    return path


def _files(report: Report) -> dict[tuple[bool, str], list[tuple[str, str]]]:
    """Whether the right side is alone, and an address, or then an operator → the files of both sides, run by run."""
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
