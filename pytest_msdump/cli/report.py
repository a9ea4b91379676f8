"""``msdump report DIR``: draw the page, or another report, from saved numbers; one page of several results."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from pytest_msdump.cli.output import add_quiet, phrases, print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import offered
from pytest_msdump.core.report.base import printed_lines
from pytest_msdump.core.report.files import write_report
from pytest_msdump.core.report.json_report import read_json, report_from
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.settings.options import REPORT_KINDS, parse_report

DESCRIPTION = (
    "Write reports from a results.json, without the data: those that the run itself would have written. "
    "Of several results, as of ranks or iterations, write one page."
)
EXAMPLES = (
    "msdump report msdump-report --open",
    "msdump report msdump-report/results.json --report html,md",
    "msdump report rank0/msdump-report rank1/msdump-report",
)
_PAGES = ("index.html", "all.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the results, the reports to write, and their folder."""
    parser.add_argument("results", metavar="RESULTS", nargs="+", help="results.json of a run, or its folder")
    parser.add_argument(
        "-o", "--out", metavar="DIR", help="where to write (default: beside RESULTS; msdump-report for several)"
    )
    kinds = ", ".join(REPORT_KINDS)
    parser.add_argument("--report", metavar="LIST", default="html", help=f"{kinds} (default: html)")
    parser.add_argument("--open", action="store_true", help="show the page in the browser")
    add_quiet(parser, "-q")


def run(parsed: argparse.Namespace) -> int:
    """Write the reports and say where they are."""
    say, kinds = phrases(parsed), parse_report(parsed.report, where="--report")
    if parsed.open and "html" not in kinds:
        raise ConfigError("--open: shows the page; add html to --report")
    named = {os.path.normpath(text): _results(Path(text)) for text in parsed.results}
    if len(named) > 1 and kinds != ("html",):
        raise ConfigError(f"--report: of several results there is one page, html, not {', '.join(kinds)}")
    loaded = (report_from(read_json(file), place=str(file)) for file in named.values())
    reports = dict(zip(_differing(list(named)), loaded, strict=True))
    with Progress("msdump report", quiet=parsed.quiet).step("writing reports"):
        files = _written(reports, kinds, next(iter(named.values())).parent, parsed.out)
    print_lines(map(os.path.relpath, files))
    for report in reports.values():
        for line in printed_lines(kinds, [report]):
            print(line)
        if not report.complete:
            print(say("not_complete" if report.ended else "not_ended"), file=sys.stderr)
    if parsed.open:
        page = next(file for file in files if file.name in _PAGES)
        if not webbrowser.open(page.resolve().as_uri()):
            print(say("no_browser", file=os.path.relpath(page)), file=sys.stderr)
    return 0


def _results(path: Path) -> Path:
    return path / "results.json" if path.is_dir() else path


def _differing(names: list[str]) -> list[str]:
    """Return the names without the folders at their end that all have: ``rank0`` and ``rank1``."""
    parts = [Path(name).parts for name in names]
    while min(map(len, parts)) > 1 and len({one[-1] for one in parts}) == 1:
        parts = [one[:-1] for one in parts]
    return [str(Path(*one)) for one in parts]


def _written(reports: Mapping[str, Report], kinds: tuple[str, ...], beside: Path, out: str | None) -> list[Path]:
    if len(reports) > 1:
        return [offered("page").write_together(reports, Path(out or "msdump-report"))]
    (report,) = reports.values()
    return write_report(report, kinds, beside if out is None else Path(out))
