"""What every command that gates does: call the gate, and print what it returns."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.cli.output import Outcome, print_lines, table_file, terminal_width, write_table
from pytest_msdump.core import gate as core
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import load, offered
from pytest_msdump.core.report.base import printed_lines
from pytest_msdump.core.report.build import MOST_EXPLAINED
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.text import ENGLISH, Phrases
from pytest_msdump.core.text.message import LANGUAGES

if TYPE_CHECKING:
    from pytest_msdump.capabilities.replay.reference_model import Reference
_VERDICT = "pytest_msdump.cli.documents:verdict_document"
# These make rich take for a terminal what is none.
_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")
# First word of a line → how it is shown on a terminal.
_BY_VERDICT = dict.fromkeys(("FAIL", "NO_DRIFT", "ERROR", "UNDEFINED"), "bold red") | {
    "WARN": "yellow",
    "PASS": "green",
}
_STYLES = {Phrases(language)(word): style for word, style in _BY_VERDICT.items() for language in LANGUAGES}


def gate(
    planned: Plan,
    write: Callable[[Report], list[Path]] = lambda _report: [],
    *,
    show: str = "causes",
    progress: Progress | None = None,
    suggests: bool = False,
    tightens: bool = False,
    scheduler: str | None = None,
    reference: Reference | None = None,
    say: Phrases = ENGLISH,
) -> int:
    """Compare pair by pair, print, write the suite's reports; return the exit code."""
    limits_file: Path | None = offered("calibration").limits_file_to_lower(planned.suite) if tightens else None
    _print(core.header_of(planned, say))
    watch = progress or Progress("msdump compare")

    def with_suggestions(report: Report) -> Report:
        found: Report = offered("suggestions").suggested(report, planned, reference, watch)
        return found

    result = core.gate(
        planned,
        watch=watch,
        scheduler=scheduler,
        replay=None if reference is None else partial(offered("reference").replayed, reference=reference),
        adds=with_suggestions if suggests else None,
        write=write,
        most_explained=None if show == "all" else MOST_EXPLAINED,
    )
    report, options = result.report, planned.suite.options
    _print(core.report_texts(report, width=terminal_width(), files=result.files, show=show, say=say))
    code = core.exit_code(report)
    if limits_file is not None and code == 0:
        n = offered("calibration").tighten(limits_file, report.records)
        print_lines([say("limits_lowered", file=os.path.relpath(limits_file), n=n)])
    if options.get("detail"):
        _write_failing(planned, report, say)
    for line in printed_lines(options["report"], [report]):
        # CI services read them as they are: nothing may wrap or colour them.
        print(line)
    return Outcome(code, "verdict", lambda: load(_VERDICT)(report, result.files))


def _write_failing(planned: Plan, report: Report, say: Phrases) -> None:
    """Write the first failing tensors element by element, as many as the suite asks for, and print where they are."""
    elements = offered("details")
    run = os.urandom(16).hex()
    details = elements.details_of_failing(planned, dict(enumerate(report.records)), planned.suite.report_dir, run)
    elements.close_slots(planned.suite.report_dir, run)
    written = [(address, found) for address, found in details if isinstance(found, Path)]
    print_lines(say("details_of", name=address, file=os.path.relpath(path)) for address, path in written)
    if rest := len(details) - len(written):
        print_lines([say("more_without_details", n=rest)])


def nine_columns_writer(text: str, *, as_csv: bool) -> Callable[[Report], list[Path]]:
    """Return a function that writes the vendor's nine columns of a report to the place `text` names (``-o``)."""
    table = table_file(text, as_csv=as_csv)
    return lambda report: [write_table(table, *offered("table").nine_columns(report))]


def print_saved(name: str, report: Report, say: Phrases) -> Outcome:
    """Print a report that is judged again; return its exit code."""
    _print([f"msdump: {name}", *core.header_of_report(report, say)])
    _print(core.report_texts(report, width=terminal_width(), say=say))
    return Outcome(core.exit_code(report), "verdict", lambda: load(_VERDICT)(report))


def _print(texts: Iterable[str]) -> None:
    """Print lines; on a terminal, or where colour is forced, those that begin with a verdict in its colour."""
    lines = (line for text in texts for line in text.split("\n"))
    if not sys.stdout.isatty() and not any(os.environ.get(name) for name in _FORCING):
        print_lines(lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    for line in map(terminal_text, lines):
        console.print(Text(line, style=_STYLES.get(line.partition(" ")[0], "")))
