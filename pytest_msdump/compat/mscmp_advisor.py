"""``python -m pytest_msdump.compat.mscmp_advisor -i RESULT.csv -o DIR``: advice on a table that is there already.

References
----------
Ascend "Accuracy Comparison Tool", expert advice, the script ``mscmp_advisor.py``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from pytest_msdump.compat.arguments import Flag, Grammar, run_program
from pytest_msdump.compat.batch import said
from pytest_msdump.compat.outputs import advice, output_folder, written
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_line, terminal_lines
from pytest_msdump.storage.files import read_user_file

__all__ = ["GRAMMAR", "main"]

_PROGRAM = "mscmp_advisor"
_LARGEST_BYTES = 512 * 2**20
_NEEDED = ("Index", "OpType", "NPUDump", "CosineSimilarity")
_REPORTS = ("msdump-report/results.json", "results.json")

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Look through result_TIME.csv or ops.csv for where to begin, and write advisor_summary.txt. "
    "Exit code 0: all within limits; 1: something is not, or nothing was compared; 4: usage error.",
    flags=(
        Flag(("-i",), "table", "a table of msaccucmp compare, of ours or the vendor's", "FILE", required=True),
        Flag(("-o",), "out", "folder for advisor_summary.txt; the current one by default", "DIR"),
        Flag(("-input_nodes",), "inputs", 'operators that hold the network\'s inputs: "a;b"', "LIST"),
    ),
    refused={},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        0 when nothing is advised, 1 when something is, 4 for a usage error.
    """
    return run_program(_PROGRAM, _run, argv)


def _run(words: Sequence[str]) -> int:
    arguments = GRAMMAR.parse(words)
    table = Path(arguments.values["table"])
    titles, rows = _read(table)
    inputs = frozenset(filter(None, map(str.strip, (arguments.get("inputs") or "").split(";"))))
    found = advice(titles, rows, inputs=inputs)
    path = written(output_folder(arguments.get("out")) / "advisor_summary.txt", found.lines)
    print(terminal_lines(found.lines), end="")  # noqa: T201 - what the command is for
    said(_PROGRAM, f"wrote {path}")
    reports = [table.parent / name for name in _REPORTS if (table.parent / name).is_file()]
    if reports:
        said(_PROGRAM, f"the same gate as: {shell_line(['msdump', 'check', str(reports[0])])}")
    else:
        said(_PROGRAM, "msdump compare says the same at its end: first failing")
    return int(not found.is_fine)


def _read(table: Path) -> tuple[list[str], list[list[str]]]:
    content = read_user_file(table, _LARGEST_BYTES, name=f"-i {table}", want="give result_TIME.csv or ops.csv")
    try:
        text = io.StringIO(content.decode("utf-8", "surrogateescape"), newline="")
        titles, *rows = list(csv.reader(text)) or [[]]
    except csv.Error as error:
        raise ConfigError(f"-i: {table} is no CSV: {error}") from error
    missing = [title for title in _NEEDED if title not in titles]
    if missing:
        raise ConfigError(f"-i: {table} has no column {missing[0]}; give result_TIME.csv or ops.csv")
    whole = [row for row in rows if len(row) == len(titles)]
    if len(whole) < len(rows):
        # The vendor's program leaves a cell out of rows that it could not compare.
        count = len(rows) - len(whole)
        said(_PROGRAM, f"left out {count} of {len(rows)} rows, which have more or fewer cells than there are titles")
    return titles, whole


if __name__ == "__main__":
    raise SystemExit(main())
