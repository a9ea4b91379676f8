"""``msdump report results.json``: draw the page, or another report, from saved numbers."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pytest_msdump.cli.gate import print_github
from pytest_msdump.cli.output import add_quiet, print_lines
from pytest_msdump.report.build import write_report
from pytest_msdump.report.json_report import read_json, report_from
from pytest_msdump.report.progress import Progress
from pytest_msdump.settings import REPORT_KINDS, parse_report
from pytest_msdump.text import ENGLISH

__all__ = ["DESCRIPTION", "EXAMPLES", "add_arguments", "run"]

DESCRIPTION = "Write reports from a results.json, without the data: those that the run itself would have written."
EXAMPLES = ("msdump report msdump-report/results.json --report html,md",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file, the reports to write, and their folder."""
    parser.add_argument("file", metavar="RESULTS.json", help="results.json of a run")
    parser.add_argument("-o", "--out", metavar="DIR", help="where to write (default: beside RESULTS.json)")
    kinds = ", ".join(REPORT_KINDS)
    parser.add_argument("--report", metavar="LIST", default="html", help=f"{kinds} (default: html)")
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Write the reports and say where they are."""
    kinds = parse_report(parsed.report, where="--report")
    file = Path(parsed.file)
    report = report_from(read_json(file), place=parsed.file)
    out = file.parent if parsed.out is None else Path(parsed.out)
    with Progress("msdump report", quiet=parsed.quiet).step("writing reports"):
        files = write_report(report, kinds, out)
    print_lines(os.path.relpath(file) for file in files)
    if "github" in kinds:
        print_github(report)
    if not report.complete:
        print(ENGLISH("not_complete" if report.ended else "not_ended"), file=sys.stderr)
    return 0
