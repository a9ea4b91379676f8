"""What a session prints and writes: failures, coverage, header, summary, reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.escape import shell_line, terminal_text
from pytest_msdump.core.gate import exit_code, header_of, report_of
from pytest_msdump.core.ports import offered
from pytest_msdump.core.report.base import kinds_of_the_run, printed_lines, remove_reports, write_kind
from pytest_msdump.core.report.build import pairing_report
from pytest_msdump.core.report.coverage import coverage_problems, coverage_text
from pytest_msdump.core.report.failure import failure_text, one_line, path_below
from pytest_msdump.core.report.files import start_report, write_report
from pytest_msdump.core.report.summary import summary_lines
from pytest_msdump.core.storage.locations import shown_path
from pytest_msdump.core.text import Phrases
from pytest_msdump.plugin.measuring import keep_records
from pytest_msdump.plugin.session import Gate, progress_of

if TYPE_CHECKING:
    from pytest_msdump.core.compare.planning import Plan
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.plugin.sources import Source


# Styles of traceback that show no text of a failure.
_WITHOUT_TEXT = ("no", "line")


def failure(
    gate: Gate,
    plan: Plan,
    records: Sequence[Record],
    rerun: Sequence[str],
    width: int,
    *,
    is_brief: bool = False,
) -> tuple[str, str, str]:
    """Return the full text of a failed item, its one line, and the left file it is about."""
    say = Phrases(gate.language, plan.sides[0].shown)
    text = failure_text(
        records,
        operators=plan.operators,
        by_name=plan.sides[0].by_name,
        width=width,
        rerun=rerun,
        is_brief=is_brief,
        in_full=gate.config.option.msdump_show == "all",
        say=say,
    )
    failing = [record for record in records if record.fails]
    line = one_line(failing[0], say)
    line = say("more_of_operator", line=line, n=len(failing) - 1) if len(failing) > 1 else line
    return text, line, path_below(shown_path(plan.left.root), failing[0].left.file)


def coverage(gate: Gate, plan: Plan, width: int) -> tuple[str | None, str]:
    """Return why the item `coverage` fails, on a line (``None`` when it passes), and the match report."""
    say = Phrases(gate.language)
    report = pairing_report(plan, gate.replay_share(plan))
    problems = coverage_problems(report, say)
    return say.joined(problems, "between_clauses") or None, coverage_text(report, width=width, say=say)


def header(gate: Gate) -> list[str]:
    """Return lines that say which directory is which, for every suite not shown yet."""
    say, lines = Phrases(gate.language), list[str]()
    for plan in gate.unannounced():
        lines += header_of(plan, say)
        entered = gate.dumps_to_collect()
        roots = [root for root in dict.fromkeys(map(str, plan.roots)) if root in entered]
        lines += [f"        {say('dump_not_collected', directory=root)}" for root in roots]
    return lines


def start_reports(gate: Gate, sources: Iterable[Source]) -> None:
    """Remove the reports of an earlier run of the suites with these items."""
    options = gate.config.option
    if options.collectonly or options.setuponly:
        return
    found = [source for source in dict.fromkeys(sources) if source not in gate.directories]
    several = len(found) + len(gate.directories) > 1
    for source in found:
        plan = gate.plan(source)
        gate.directories[source] = report_directory(gate, source, plan, several=several)
        start_report(plan, gate.directories[source])
        if several:
            remove_reports(plan.suite.report_dir, kinds_of_the_run(plan.suite.options["report"]))


def write_reports(gate: Gate) -> None:
    """Write the reports of every suite that ran: into the report directory, or a folder of it for each of several."""
    ran = [(source, plan) for source, plan in gate.plans.items() if plan.digest in gate.records]
    several = len(gate.directories) > 1 or len(ran) > 1
    progress = progress_of(gate.config)
    for source, plan in ran:
        records, share = gate.records[plan.digest], gate.replay_share(plan)
        try:
            report = report_of(plan, records, share, notes=keep_records(gate, plan), most_explained=0)
        except MsdumpError as error:
            # Of a hook, or of a capability's stage.
            gate.unwritten.append(error)
            continue
        if gate.config.option.msdump_suggest:
            report = offered("suggestions").suggested(report, plan, gate.reference(plan), progress)
        directory = gate.directories.get(source) or report_directory(gate, source, plan, several=several)
        of_run = kinds_of_the_run(plan.suite.options["report"]) if several else []
        kinds = tuple(kind for kind in plan.suite.options["report"] if kind not in of_run)
        files: list[Path] = []
        try:
            with progress.step("writing reports"):
                files = write_report(report, kinds, directory, root=gate.config.rootpath)
                files += _bundle(gate, plan, report, source.title(gate.config.rootpath) if several else "")
        except MsdumpError as error:
            gate.unwritten.append(error)
        if gate.config.option.msdump_limits_update:
            report = _lowered(gate, plan, report)
        can_take = plan.suite.file is not None and "json" in plan.suite.options["report"]
        # Of a few lines it would be one too many.
        if (
            can_take
            and gate.config.option.msdump_show == "all"
            and any(record.fails and record.verdict.accepted_bounds for record in report.records)
        ):
            note = Phrases(gate.language)("accept", directory=shell_line([shown_path(directory)]))
            report = replace(report, notes=(*report.notes, note))
        gate.reports.append((report, files))
        gate.report_of[plan.digest] = report
    if several:
        _write_for_the_run(gate, [plan for _, plan in ran])


def _lowered(gate: Gate, plan: Plan, report: Report) -> Report:
    """Lower the limits of the suite's limits file, if all has passed, and note it in the summary."""
    if exit_code(report):
        return report
    try:
        calibration = offered("calibration")
        file = calibration.limits_file_to_lower(plan.suite)
        n = calibration.tighten(file, report.records)
    except MsdumpError as error:
        gate.unwritten.append(error)
        return report
    note = Phrases(gate.language)("limits_lowered", file=shown_path(file), n=n)
    return replace(report, notes=(*report.notes, note))


def _write_for_the_run(gate: Gate, ran: Sequence[Plan]) -> None:
    """Write one file for all suites that ask for it, above their folders: a CI service takes one of a job."""
    for kind, plans in _asked_for(ran).items():
        reports = [gate.report_of[plan.digest] for plan in plans]
        try:
            gate.reports[-1][1].extend(write_kind(kind, reports, plans[0].suite.report_dir, gate.config.rootpath))
        except MsdumpError as error:
            gate.unwritten.append(error)


def _asked_for(plans: Iterable[Plan]) -> dict[str, list[Plan]]:
    """Map each kind of which a run has one to the plans that ask for it."""
    found: dict[str, list[Plan]] = {}
    for plan in plans:
        for kind in kinds_of_the_run(plan.suite.options["report"]):
            found.setdefault(kind, []).append(plan)
    return found


def report_directory(gate: Gate, source: Source, plan: Plan, *, several: bool) -> Path:
    """Return the folder of a suite's reports: the report directory, or a folder of it for each of several suites."""
    directory: Path = plan.suite.report_dir
    return directory / _folder(source.title(gate.config.rootpath)) if several else directory


def _bundle(gate: Gate, plan: Plan, report: Report, title: str) -> list[Path]:
    """Write what ``--msdump-bundle`` asks for; a folder for each of several suites."""
    options = gate.config.option
    if options.msdump_bundle is None:
        return []
    directory = gate.config.invocation_params.dir / options.msdump_bundle / (_folder(title) if title else "")
    files: list[Path] = offered("bundle").write_bundle(plan, report, directory, is_whole=options.msdump_show == "all")
    return files


def print_summary(gate: Gate, terminal: pytest.TerminalReporter) -> None:
    """Print a few lines for each suite, under a heading of ours."""
    say, options = Phrases(gate.language), gate.config.option
    terminal.section("msdump", sep="=")
    for number, (report, files) in enumerate(gate.reports):
        if number:
            terminal.line("")
        if len(gate.reports) > 1 or terminal.verbosity < 0:
            left, right = (shown_path(side.directory) for side in (report.left, report.right))
            terminal.line(terminal_text(say("both_sides", left=left, right=right)))
        shown = [shown_path(file) for file in files]
        width, again, unfolded = terminal._tw.fullwidth, gate.next_command(report), options.msdump_show == "all"
        told = gate.told if terminal.config.option.tbstyle not in _WITHOUT_TEXT else set()
        orders = {report.records[number].order for digest, number in told if gate.report_of[digest] is report}
        lines = summary_lines(report, width=width, files=shown, rerun=again, told=orders, unfolded=unfolded, say=say)
        for line in lines:
            terminal.line(terminal_text(line))
    for line in gate.detail_lines:
        terminal.line(terminal_text(line))
    for kind, plans in _asked_for(gate.plans.values()).items():
        asked = {plan.digest for plan in plans}
        reports = [report for digest, report in gate.report_of.items() if digest in asked]
        for line in printed_lines([kind], reports, gate.config.rootpath) if reports else ():
            terminal.line(line)
    for error in gate.unwritten:
        terminal.line(terminal_text(f"ERROR: {error}"), red=True)
    if gate.foreign:
        terminal.line(say("foreign_results", n=gate.foreign), red=True)


def _folder(title: str) -> str:
    """Return the name of a suite's folder below the report directory: its path on one level."""
    name = title.replace(os.sep, "-").replace("/", "-").strip(".-")
    if not name:
        raise ConfigError(f"no folder can be named after the suite {title!r}")
    return name


def detail_text(gate: Gate, source: Source, plan: Plan, records: Mapping[int, Record]) -> str:
    """Write what fails in detail, as much as was asked for, and return what a failure says of it."""
    if not plan.suite.options.get("detail"):
        return ""
    say = Phrases(gate.language)
    written = offered("details").details_of_failing(plan, records, _directory(gate, source, plan), gate.run)
    lines = [
        say("details_of", name=address, file=shown_path(place) if isinstance(place, Path) else say.of(place))
        for address, place in written
    ]
    return "".join(f"\n{line}" for line in ["", *lines]) if lines else ""


def close_details(gate: Gate) -> Iterator[str]:
    """Say at the end how many tensors have details, and how many that fail have none."""
    say = Phrases(gate.language)
    for source, plan in gate.plans.items():
        if not plan.suite.options.get("detail") or plan.digest not in gate.records:
            continue
        directory = _directory(gate, source, plan)
        details = offered("details")
        written = details.close_slots(directory, gate.run)
        failing = sum(record.fails for record in gate.records[plan.digest].values())
        if failing:
            text = say("details_of_run", n=written, folder=shown_path(directory / details.FOLDER))
            more = [say("details_for_no_more", n=failing - written)] if failing > written else []
            yield say.joined([text, *more], "between_clauses")


def _directory(gate: Gate, source: Source, plan: Plan) -> Path:
    return report_directory(gate, source, plan, several=len(gate.plans) > 1)
