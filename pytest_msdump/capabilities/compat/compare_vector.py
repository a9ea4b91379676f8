"""``python -m pytest_msdump.compat.compare_vector -l LEFT -r RIGHT … -o PATH``: the older script's command line.

References: Ascend "Accuracy Comparison Tool", vector comparison, the script ``compare_vector.pyc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_msdump.capabilities.compat.arguments import (
    OLDER_FLAGS,
    ONE_FILE_EACH,
    Flag,
    Grammar,
    check_older,
    new_spelling,
    new_words,
    run_older,
    run_program,
    say,
    vendor_suite,
)
from pytest_msdump.capabilities.user_code.algorithms import load_extras
from pytest_msdump.cli.gate import gate, nine_columns_writer
from pytest_msdump.cli.output import table_file
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.compare.user_code import NO_EXTRAS

_PROGRAM = "compare_vector"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Compare the dump of a run under test with its reference and write a table of nine columns. "
    "Exit code 0: within limits; 1: something drifted or nothing was compared; 4: usage error.",
    flags=(
        Flag(("-l",), "left", "dump of the run under test", "DIR", required=True),
        Flag(("-r",), "right", "dump of the reference", "DIR", required=True),
        Flag(("-f",), "fusion", "the compiled model as JSON, as atc --mode=1 writes it", "FILE"),
        Flag(("-q",), "quant_fusion", "quantisation rules of AMCT (JSON)", "FILE"),
        Flag(("-o",), "table", "a file that ends in .txt or .csv, or a folder for result.txt", "PATH", required=True),
        Flag(("-csv",), "csv", "write the table as CSV"),
        Flag(("-custom",), "custom", "folder above format_convert and algorithm; runs your code in them", "DIR"),
        Flag(("-ffts",), "ffts", "accepted for old scripts; slices are joined with or without it"),
        *OLDER_FLAGS,
    ),
)


def _run(words: Sequence[str]) -> int:
    arguments = GRAMMAR.parse(words)
    check_older(arguments)
    as_csv = "csv" in arguments
    single = "operator" in arguments
    table = arguments.values["table"]
    reports = (Path(table) if single else table_file(table, as_csv=as_csv).path.parent) / "msdump-report"
    options = {name: arguments.get(name) for name in ("left", "right", "fusion", "quant_fusion")}
    suite = vendor_suite(
        {**options, "report_dir": str(reports)}, {"left": "-l", "right": "-r", "fusion": "-f", "quant_fusion": "-q"}
    )
    if "ffts" in arguments:
        say(_PROGRAM, "-ffts changes nothing: the slices of a tensor are joined with or without it")
    custom = arguments.get("custom")
    extras = NO_EXTRAS if custom is None else load_extras(Path(custom))
    write = None if single else nine_columns_writer(table, as_csv=as_csv)
    planned = replace(plan(suite, newest_only=True), extras=extras)
    written = new_words(arguments) if single else ["-csv"] if as_csv else []
    written += ["-o", table, "--report-dir", str(reports)]
    say(_PROGRAM, f"{ONE_FILE_EACH}, the same as: {new_spelling(arguments, *written)}")
    return run_older(planned, arguments) if write is None else gate(planned, write)


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
