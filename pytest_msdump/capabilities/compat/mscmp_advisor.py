"""``python -m pytest_msdump.compat.mscmp_advisor -i RESULT.csv -o DIR``: advice on a table that is there already.

References: Ascend "Accuracy Comparison Tool", expert advice, the script ``mscmp_advisor.py``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capabilities.compat.arguments import Flag, Grammar, output_folder, run_program, say, write_text
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line, terminal_lines
from pytest_msdump.core.storage.files import read_user_file

_PROGRAM = "mscmp_advisor"
_LARGEST_BYTES = 512 * 2**20
_NEEDED = ("Index", "OpType", "NPUDump", "CosineSimilarity")
_REPORTS = ("msdump-report/results.json", "results.json")

_LEAST_COSINE = 0.99
_FAILING = ("fail", "undefined", "error")
_COMPARED = ("pass", "warn", *_FAILING)
_NONE = "NA"
_NOTHING = "nothing was compared, so nothing can be said of it"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Look through result_TIME.csv or ops.csv for where to begin, and write advisor_summary.txt. "
    "Exit code 0: all within limits; 1: something is not, or nothing was compared; 4: usage error.",
    flags=(
        Flag(
            ("-i", "--input_file"),
            "table",
            "a table of msaccucmp compare, of ours or the vendor's",
            "FILE",
            required=True,
        ),
        Flag(("-o", "--out_path"), "out", "folder for advisor_summary.txt; the current one by default", "DIR"),
        Flag(("-input_nodes",), "inputs", 'operators that hold the network\'s inputs: "a;b"', "LIST"),
    ),
)


def _run(words: Sequence[str]) -> int:
    arguments = GRAMMAR.parse(words)
    table = Path(arguments.values["table"])
    titles, rows = _read(table)
    inputs = frozenset(filter(None, map(str.strip, (arguments.get("inputs") or "").split(";"))))
    found = advice(titles, rows, inputs=inputs)
    path = write_text(output_folder(arguments.get("out")) / "advisor_summary.txt", found.lines)
    print(terminal_lines(found.lines), end="")  # noqa: T201 - what the command is for
    say(_PROGRAM, f"wrote {path}")
    reports = [table.parent / name for name in _REPORTS if (table.parent / name).is_file()]
    if reports:
        say(_PROGRAM, f"the same gate as: {shell_line(['msdump', 'check', str(reports[0])])}")
    else:
        say(_PROGRAM, "msdump compare says the same at its end: first failing")
    return int(not found.is_fine)


def _read(table: Path) -> tuple[list[str], list[list[str]]]:
    content = read_user_file(table, _LARGEST_BYTES, name=f"-i {table}", want="give result_TIME.csv or ops.csv")
    try:
        text = io.StringIO(content.decode("utf-8", "surrogateescape"), newline="")
        titles, *rows = list(csv.reader(text)) or [[]]
    except csv.Error as error:
        raise ConfigError(f"-i: {table} is not CSV: {error}") from error
    missing = [title for title in _NEEDED if title not in titles]
    if missing:
        raise ConfigError(f"-i: {table} has no column {missing[0]}; give result_TIME.csv or ops.csv")
    whole = [row for row in rows if len(row) == len(titles)]
    if len(whole) < len(rows):
        # The vendor's program leaves a cell out of rows that it could not compare.
        count = len(rows) - len(whole)
        say(_PROGRAM, f"left out {count} of {len(rows)} rows, which have more or fewer cells than there are titles")
    return titles, whole


class VendorAdvice(NamedTuple):
    """The kind of trouble, the operator's group in the table (``"NA"`` without one), and what to do."""

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


def advice(titles: Sequence[str], rows: Sequence[Sequence[str]], *, inputs: Set[str] = frozenset()) -> VendorAdvice:
    """Return where to begin, by a table of ours or of the vendor; `inputs` are further operators that hold inputs."""
    # A verdict wins over the cosine, which a scalar, a NaN or unfitting shapes lack; the vendor has no verdicts.
    table = [dict(zip(titles, row, strict=True)) for row in rows]
    overflown = next((row for row in table if row.get("OverFlow") == "YES"), None)
    if overflown is not None:
        return VendorAdvice(
            "FP16 Overflow",
            overflown["Index"],
            "a float16 tensor of this operator reaches the end of its range; run it in float32, or scale its inputs",
        )
    fed = (row for row in table if row["OpType"] == "Data" or inputs & {*row.get("NPUDump", "").split(",")})
    data = next((row for row in fed if _is_bad(row)), None)
    if data is not None:
        return VendorAdvice(
            "Input Inconsistent",
            data["Index"],
            "the two runs were fed differing data; feed both the same, preprocessed alike, and dump again",
        )
    return _global(table)


def _global(table: Sequence[Mapping[str, str]]) -> VendorAdvice:
    kind = "Global Consistency"
    compared = [
        row for row in table if row.get("Verdict") in _COMPARED or ("Verdict" not in row and _cosine(row) is not None)
    ]
    if not compared:
        return VendorAdvice(kind, _NONE, _NOTHING)
    bad = [row for row in compared if _is_bad(row)]
    if not bad:
        text = "every compared tensor is within its limits; if results still differ, look at what is done with outputs"
        return VendorAdvice(kind, _NONE, text)
    index = bad[0]["Index"]
    if compared[-1] is bad[-1]:
        text = "the difference that begins here reaches the end of the network; look into this operator first"
    else:
        text = "the difference that begins here is gone at the end of the network; it matters only if results differ"
    return VendorAdvice(kind, index, text)


def _is_bad(row: Mapping[str, str]) -> bool:
    if row.get("Verdict") in _FAILING:
        return True
    cosine = _cosine(row)
    return cosine is not None and cosine < _LEAST_COSINE


def _cosine(row: Mapping[str, str]) -> float | None:
    """Return the cosine of a row; the vendor writes NaN also where nothing was compared."""
    try:
        cosine = float(row.get("CosineSimilarity", "nan"))
    except ValueError:
        return None
    return None if math.isnan(cosine) else cosine


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
