"""``msdump report results.json``: draw the page, or another report, from saved numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_msdump.escape import terminal_text
from pytest_msdump.settings import REPORT_KINDS, parse_report

__all__ = ["DESCRIPTION", "HELP", "NAME", "add_arguments", "run"]

NAME = "report"
HELP = "draw the page, or another report, from a saved result"
DESCRIPTION = "Write reports from a results.json, without the data: those that the run itself would have written."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file, what is wanted of it, and where to."""
    parser.add_argument("file", metavar="RESULTS.json", help="results.json of a run")
    parser.add_argument("--out", metavar="DIR", help="where to write (default: beside RESULTS.json)")
    kinds = ", ".join(REPORT_KINDS)
    parser.add_argument("--report", metavar="LIST", default="html", help=f"{kinds} (default: html)")


def run(parsed: argparse.Namespace) -> int:
    """Write the reports and say where they are."""
    import os
    import sys

    from pytest_msdump.cli.output import tell_github
    from pytest_msdump.report.gathering import write_report
    from pytest_msdump.report.json_report import read_json, report_from
    from pytest_msdump.text import ENGLISH

    kinds = parse_report(parsed.report, where="--report")
    file = Path(parsed.file)
    report = report_from(read_json(file), place=parsed.file)
    out = file.parent if parsed.out is None else Path(parsed.out)
    for written in write_report(report, kinds, out):
        print(terminal_text(os.path.relpath(written)))  # noqa: T201 - what a command is asked for
    tell_github([report] if "github" in kinds else [])
    if not report.complete:
        print(ENGLISH("not_complete" if report.ended else "not_ended"), file=sys.stderr)  # noqa: T201 - as above
    return 0
