"""Compare all pairs of a plan, print the report, write its files: what every command that gates does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.calibrate.engine import limits_file_to_lower, tighten
from pytest_msdump.capabilities.vendor_tables.table import nine_columns
from pytest_msdump.cli.output import print_lines, table_file, terminal_width, write_table
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.base import printed_lines
from pytest_msdump.core.report.build import build_report, run_facts, start_report, write_report
from pytest_msdump.core.report.coverage import coverage_problems, coverage_text
from pytest_msdump.core.report.failure import failure_text
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.summary import header_lines, summary_lines
from pytest_msdump.core.scheduling import records_of
from pytest_msdump.core.text import ENGLISH, Phrases
from pytest_msdump.core.text.message import LANGUAGES
from pytest_msdump.replay.reference_model import Reference, replay_plan, share_of
from pytest_msdump.report.causes import choose_shown, labeller, short_reason

# These make rich take for a terminal what is none.
_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")
# First word of a line → how it is shown on a terminal.
_BY_VERDICT = {"FAIL": "bold red", "ERROR": "bold red", "UNDEFINED": "bold red", "WARN": "yellow", "PASS": "green"}
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
    """Compare pair by pair, print, write the suite's reports; return the exit code.

    `write` writes more files about the report and returns them. `show` is which failures are printed, as of
    `choose_shown`; `progress` shows how far it is; `suggests` looks for partners of tensors that have none; `tightens`
    lowers the limits of the limits file where all passes. `scheduler` is the address of a Dask scheduler whose workers
    then compare. `reference` is the model to replay, if there is one.
    """
    file = limits_file_to_lower(planned.suite) if tightens else None
    pairs, profile = len(planned.pairing.pairs), planned.suite.policy.profile
    kernel = choose_kernel().name
    about: dict[str, Any] = {"unseen": planned.unseen, "kernel": kernel, "further": planned.further}
    _print(header_lines(*planned.sides, pairs=pairs, profile=profile, **about, say=say))
    start_report(planned, planned.suite.report_dir)
    watch = progress or Progress("msdump compare")
    records, notes = records_of(planned, watch, scheduler=scheduler)
    share = None
    if reference is not None:
        with watch.step("replaying the reference"):
            local = replay_plan(planned, reference)
        share = share_of(planned, local)
        records = {number: record.with_local(local.get(number)) for number, record in records.items()}
    report = build_report(planned, records, share)
    report = replace(report, notes=(*report.notes, *notes), run=run_facts())
    if suggests:
        from pytest_msdump.causes.suggest_partners import with_suggestions
        from pytest_msdump.replay.pairing import suggest_with

        report = with_suggestions(report, suggest_with(reference, planned, watch=watch))
    # The vendor's command lines start no thread.
    with nullcontext() if progress is None else progress.step("writing reports"):
        files = write_report(report, planned.suite.options["report"], planned.suite.report_dir)
        files += write(report)
    code = print_report(report, files, show=show, say=say)
    if file is not None and code == 0:
        lowered = tighten(file, report.records)
        print_lines([say("limits_lowered", file=os.path.relpath(file), n=lowered)])
    if planned.suite.options["detail"]:
        _write_failing(planned, report, say)
    for line in printed_lines(planned.suite.options["report"], [report]):
        # CI services read them as they are: nothing may wrap or colour them.
        print(line)
    return code


def _write_failing(planned: Plan, report: Report, say: Phrases) -> None:
    """Write the first failing tensors element by element, as many as the suite asks for, and print where they are."""
    from pytest_msdump.capabilities.elements.write_pair import close_slots, details_of_failing

    run = os.urandom(16).hex()
    details = details_of_failing(planned, dict(enumerate(report.records)), planned.suite.report_dir, run)
    close_slots(planned.suite.report_dir, run)
    written = [(address, found) for address, found in details if isinstance(found, Path)]
    print_lines(say("details_of", name=address, file=os.path.relpath(path)) for address, path in written)
    if rest := len(details) - len(written):
        print_lines([say("more_without_details", n=rest)])


def nine_columns_writer(text: str, *, as_csv: bool) -> Callable[[Report], list[Path]]:
    """Return a function that writes the vendor's nine columns of a report to the place `text` names (``-o``)."""
    table = table_file(text, as_csv=as_csv)
    return lambda report: [write_table(table, *nine_columns(report))]


def print_saved(name: str, report: Report, say: Phrases) -> None:
    """Print the header of a report that is judged again."""
    about: dict[str, Any] = {"profile": report.profile, "further": report.further}
    header = header_lines(report.left, report.right, pairs=len(report.records), **about, say=say)
    _print([f"msdump: {name}", *header])


def print_report(report: Report, files: Sequence[Path], *, show: str = "causes", say: Phrases = ENGLISH) -> int:
    """Print failures and summary; return the exit code: 1 for any failure, and for anything that was not compared."""
    width = terminal_width()
    failing = [record for record in report.records if record.fails]
    if failing:
        _print(_failures(report, failing, width, show, say))
    elif len(report.records) == 1:
        about: dict[str, Any] = {"operators": report.left.operators, "by_name": report.left.by_name}
        _print(["", failure_text(report.records, **about, width=width, in_full=True, say=say)])
    problems = coverage_problems(report, say)
    if problems and report.ended:
        _print(["", coverage_text(report, width=width, say=say)])
    shown = [os.path.relpath(file) for file in files]
    _print(["", *summary_lines(report, width=width, files=shown, unfolded=show == "all", say=say)])
    if report.ended and not report.complete:
        _print([say("not_complete")])
    return int(bool(failing or problems or not report.complete))


def _failures(report: Report, failing: Sequence[Record], width: int, show: str, say: Phrases) -> Iterator[str]:
    """Yield causes in full, the next failures on a line each, and how many more there are."""
    by_order: dict[int, list[Record]] = {}
    for record in failing:
        by_order.setdefault(record.order, []).append(record)
    whole, lines = choose_shown(by_order, show)
    for order in whole:
        yield ""
        yield failure_text(
            [record for record in report.records if record.order == order],
            operators=report.left.operators,
            by_name=report.left.by_name,
            width=width,
            left_root=report.left.directory,
            right_root=report.right.directory,
            say=say,
        )
    label = labeller(report.records, say)
    if lines:
        yield from ("", say("also_failing"))
    for order in lines:
        name = label(by_order[order][0])
        yield "  " + say("after_label", label=name, text=short_reason(by_order[order], say))
    if rest := len(by_order) - len(whole) - len(lines):
        yield "  " + say("more_failing", n=rest)


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
