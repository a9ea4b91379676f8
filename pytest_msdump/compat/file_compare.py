"""``python -m pytest_msdump.compat.msaccucmp file_compare -m LEFT -g RIGHT -out DIR``: two files, eight numbers.

References
----------
``msaccucmp.py file_compare``, release 26.2.0: ``file_result_TIME.txt`` with a line ``Algorithm: value`` for each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from pytest_msdump.cli.gate import gate
from pytest_msdump.compat.arguments import Flag, Grammar
from pytest_msdump.compat.batch import said, vendor_suite
from pytest_msdump.compat.outputs import output_folder, written
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_line
from pytest_msdump.model.report import Report
from pytest_msdump.report.vendor_table import ALGORITHMS, Columns, vendor_table

__all__ = ["GRAMMAR", "run_file_compare"]

_LEFT_OUT = ("kl_divergence", "standard_deviation")
_COLUMNS = Columns(algorithms=tuple(name for name in ALGORITHMS if name not in _LEFT_OUT))
# Behind the first title of an algorithm only what is ours follows; before it, who is compared with whom.
_OURS = ("Verdict", "Reason")

GRAMMAR = Grammar(
    program="python -m pytest_msdump.compat.msaccucmp file_compare",
    summary="Compare two tensor files and write file_result_TIME.txt. "
    "Exit code 0: within limits; 1: something drifted or nothing was compared; 4: usage error.",
    flags=(
        Flag(("-m", "--my_dump_path"), "left", "file of the run under test", "FILE", required=True),
        Flag(("-g", "--golden_dump_path"), "right", "file of the reference", "FILE", required=True),
        Flag(("-out", "--output"), "out", "folder for the result; the current one by default", "DIR"),
    ),
    refused={},
)


def run_file_compare(program: str, words: Sequence[str]) -> int:
    """Compare as ``msdump compare`` does, and say how that is typed; return the exit code.

    Raises
    ------
    ConfigError
        A wrong option, or no such files.
    """
    from pytest_msdump.comparison.planning import plan

    arguments = GRAMMAR.parse(words)
    left, right = arguments.values["left"], arguments.values["right"]
    for flag, name in (("-m", left), ("-g", right)):
        if Path(name).is_dir():
            raise ConfigError(f"{flag}: {name} is a folder; file_compare takes two files, compare takes two folders")
    folder = output_folder(arguments.get("out"))
    reports = folder / "msdump-report"
    suite = vendor_suite({"left": left, "right": right, "report_dir": str(reports)}, {"left": "-m", "right": "-g"})
    planned = plan(suite)
    typed = ["msdump", "compare", left, right, "--io", "all", "--report-dir", str(reports)]
    said(program, f"the same gate as: {shell_line(typed)}")
    return gate(planned, lambda report: [written(_free(folder), _text(report))])


def _free(folder: Path) -> Path:
    """Return a name that no file has; of one second, the second is called _1."""
    stem = f"file_result_{time.strftime('%Y%m%d%H%M%S')}"
    names = (folder / f"{stem}{f'_{number}' if number else ''}.txt" for number in range(1000))
    return next((path for path in names if not path.exists()), folder / f"{stem}.txt")


def _text(report: Report) -> str:
    titles, rows = vendor_table(report, _COLUMNS)
    shown = (*titles[-len(_COLUMNS.algorithms) - len(_OURS) - 1 : -len(_OURS) - 1], *_OURS)
    cells = ((title, row[titles.index(title)]) for row in rows for title in shown)
    return "".join(f"{title}: {cell}\n" for title, cell in cells if cell)
