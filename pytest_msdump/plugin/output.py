"""What a session prints and writes: failures, coverage, header, summary, reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback

from pytest_msdump.causes.suggest_partners import with_suggestions
from pytest_msdump.comparison.planning import Plan
from pytest_msdump.elements.write_pair import FOLDER, close_slots, details_of_failing
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.metrics.kernel import choose_kernel
from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.plugin.measuring import keep_records
from pytest_msdump.plugin.session import Gate, sent_with
from pytest_msdump.plugin.sources import Source
from pytest_msdump.report.build import build_report, pairing_report, remove_reports, start_report, write_report
from pytest_msdump.report.bundling import MOST_CAUSES, write_bundle
from pytest_msdump.report.causes import folded_line, role_line, suspicious_line
from pytest_msdump.report.ci import commands_for_github, write_for_gitlab
from pytest_msdump.report.coverage import coverage_problems, coverage_text
from pytest_msdump.report.failure import failure_text, one_line
from pytest_msdump.report.summary import header_lines, summary_lines
from pytest_msdump.report.tables import filled
from pytest_msdump.storage.remote import is_url
from pytest_msdump.text import Phrases

__all__ = [
    "close_details",
    "coverage",
    "detail_text",
    "failure",
    "fold_failures",
    "header",
    "print_summary",
    "start_reports",
    "write_reports",
]

# Kinds of report of which a run has one, however many suites it has.
_OF_THE_RUN = ("gitlab",)


def failure(gate: Gate, plan: Plan, records: Sequence[Record], command: Sequence[str], width: int) -> tuple[str, str]:
    """Return the full text of a failed item, and its one line."""
    say = Phrases(gate.language)
    text = failure_text(
        records,
        operators=plan.operators,
        width=width,
        rerun=command,
        left_root=shown_path(plan.left.root),
        right_root=shown_path(plan.right.root),
        say=say,
    )
    failing = [record for record in records if record.fails]
    line = one_line(failing[0], say)
    return text, say("more_of_operator", line=line, n=len(failing) - 1) if len(failing) > 1 else line


def coverage(gate: Gate, plan: Plan, width: int) -> tuple[str | None, str]:
    """Return why the item `coverage` fails, on a line (``None`` when it passes), and the match report."""
    say = Phrases(gate.language)
    report = pairing_report(plan)
    report = replace(
        report,
        left=replace(report.left, directory=shown_path(plan.left.root)),
        right=replace(report.right, directory=shown_path(plan.right.root)),
    )
    problems = coverage_problems(report, say)
    return say.joined(problems, "between_clauses") or None, coverage_text(report, width=width, say=say)


def header(gate: Gate) -> list[str]:
    """Return lines that say which directory is which, for every suite not shown yet."""
    say, lines = Phrases(gate.language), list[str]()
    for plan in gate.unannounced():
        lines += header_lines(
            *plan.sides,
            pairs=len(plan.pairing.pairs),
            profile=plan.suite.policy.profile,
            unseen=plan.unseen,
            kernel=choose_kernel().name,
            say=say,
        )
        entered = gate.dumps_to_collect()
        roots = [root for root in dict.fromkeys((str(plan.left.root), str(plan.right.root))) if root in entered]
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
            remove_reports(
                plan.suite.report_dir, [kind for kind in plan.suite.options["report"] if kind in _OF_THE_RUN]
            )


def write_reports(gate: Gate) -> None:
    """Write the reports of every suite that ran: into the report directory, or a folder of it for each of several."""
    ran = [(source, plan) for source, plan in gate.plans.items() if plan.digest in gate.records]
    several = len(gate.directories) > 1 or len(ran) > 1
    for source, plan in ran:
        report = build_report(plan, gate.records[plan.digest])
        report = _with_suggestions(gate, plan, replace(report, notes=(*report.notes, *keep_records(gate, plan))))
        directory = gate.directories.get(source) or report_directory(gate, source, plan, several=several)
        kinds = tuple(kind for kind in plan.suite.options["report"] if not (several and kind in _OF_THE_RUN))
        files: list[Path] = []
        try:
            files = write_report(report, kinds, directory, root=gate.config.rootpath)
            files += _bundle(gate, plan, report, source.title(gate.config.rootpath) if several else "")
        except MsdumpError as error:
            gate.unwritten.append(error)
        gate.reports.append((report, files))
        gate.report_of[plan.digest] = report
    if several:
        _write_for_gitlab(gate, [plan for _, plan in ran])


def _with_suggestions(gate: Gate, plan: Plan, report: Report) -> Report:
    """Add what ``--msdump-suggest`` asks for."""
    if not gate.config.option.msdump_suggest:
        return report
    return with_suggestions(plan, report)


def _write_for_gitlab(gate: Gate, ran: Sequence[Plan]) -> None:
    """Write one file for all suites that ask for it, above their folders: GitLab takes one of a job."""
    asked = [plan for plan in ran if "gitlab" in plan.suite.options["report"]]
    if not asked:
        return
    reports = [gate.report_of[plan.digest] for plan in asked]
    try:
        gate.reports[-1][1].append(write_for_gitlab(reports, asked[0].suite.report_dir, gate.config.rootpath))
    except MsdumpError as error:
        gate.unwritten.append(error)


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
    return write_bundle(plan, report, directory, most=None if options.msdump_all else MOST_CAUSES)


def print_summary(gate: Gate, terminal: pytest.TerminalReporter) -> None:
    """Print a few lines for each suite, under a heading of ours."""
    terminal.section("msdump", sep="=")
    say = Phrases(gate.language)
    for number, (report, files) in enumerate(gate.reports):
        if number:
            terminal.line("")
        if len(gate.reports) > 1 or terminal.verbosity < 0:
            left, right = (shown_path(side.directory) for side in (report.left, report.right))
            terminal.line(terminal_text(say("both_sides", left=left, right=right)))
        shown = [shown_path(file) for file in files]
        unfolded = gate.config.option.msdump_all
        for line in summary_lines(report, width=terminal._tw.fullwidth, files=shown, unfolded=unfolded, say=say):
            terminal.line(terminal_text(line))
    for line in gate.detail_lines:
        terminal.line(terminal_text(line))
    for line in _for_github(gate):
        terminal.line(line)
    for error in gate.unwritten:
        terminal.line(terminal_text(f"ERROR: {error}"), red=True)
    if gate.foreign:
        terminal.line(say("foreign_results", n=gate.foreign), red=True)


def _for_github(gate: Gate) -> list[str]:
    """Return workflow commands for the suites whose reports ask for them."""
    asked = {plan.digest for plan in gate.plans.values() if "github" in plan.suite.options["report"]}
    reports = [report for digest, report in gate.report_of.items() if digest in asked]
    return commands_for_github(reports, gate.config.rootpath) if reports else []


def _folder(title: str) -> str:
    """Return the name of a suite's folder below the report directory: its path on one level."""
    name = title.replace(os.sep, "-").replace("/", "-").strip(".-")
    if not name:
        raise ConfigError(f"no folder can be named after the suite {title!r}")
    return name


def shown_path(path: Path | str) -> str:
    """Return a path, or a URL, as a person would type it from here."""
    text = str(path)
    if is_url(text):
        return text
    try:
        relative = os.path.relpath(text)
    except ValueError:
        return text
    return relative if len(relative) < len(text) else text


# -- Details as an artefact of failing items -------------------------------------------------------------------------


# What such a line begins with.
_DETAILS = "details of"


def detail_text(gate: Gate, source: Source, plan: Plan, records: Mapping[int, Record]) -> str:
    """Write what fails in detail, as much as was asked for, and return what a failure says of it."""
    if not plan.suite.options["detail"]:
        return ""
    details = details_of_failing(plan, records, _directory(gate, source, plan), gate.run)
    lines = [
        f"{_DETAILS} {address}: {shown_path(found) if isinstance(found, Path) else found}" for address, found in details
    ]
    return "".join(f"\n{line}" for line in ["", *lines]) if lines else ""


def close_details(gate: Gate) -> Iterator[str]:
    """Say at the end how many tensors have details, and how many that fail have none."""
    for source, plan in gate.plans.items():
        if not plan.suite.options["detail"] or plan.digest not in gate.records:
            continue
        directory = _directory(gate, source, plan)
        written = close_slots(directory, gate.run)
        failing = sum(record.fails for record in gate.records[plan.digest].values())
        if failing:
            rest = f"; {failing - written} more fail and have none" if failing > written else ""
            tensors = "1 failing tensor" if written == 1 else f"{written} failing tensors"
            yield f"{_DETAILS} {tensors}: {shown_path(directory / FOLDER)}{rest}"


def _directory(gate: Gate, source: Source, plan: Plan) -> Path:
    return report_directory(gate, source, plan, several=len(gate.plans) > 1)


# -- Failures that are inherited become a line, once all are known ---------------------------------------------------


def fold_failures(gate: Gate, terminal: pytest.TerminalReporter | None) -> None:
    """Shorten the text of inherited failures before the terminal prints it, and put the role above the others."""
    if terminal is None:
        return
    unfolded, say = gate.config.option.msdump_all, Phrases(gate.language)
    for report in terminal.stats.get("failed", []):
        records = _records(gate, report)
        if records and isinstance(report.longrepr, ExceptionChainRepr):
            report.longrepr = _with_roles(report.longrepr, records, terminal._tw.fullwidth, unfolded=unfolded, say=say)


def _records(gate: Gate, report: pytest.TestReport) -> Sequence[Record]:
    """The records of an item, as the report of its suite has them now."""
    message = sent_with(report)
    if message is None:
        return []
    whole = gate.report_of.get(message.plan)
    return [] if whole is None else [whole.records[number] for number in message.records]


def _with_roles(
    longrepr: ExceptionChainRepr, records: Sequence[Record], width: int, *, unfolded: bool, say: Phrases
) -> ExceptionChainRepr:
    """Return the failure with its role; a style of traceback that shows no text stays without."""
    traceback, place, _ = longrepr.chain[-1]
    lines = [line for entry in traceback.reprentries for line in entry.lines]
    failing = [record for record in records if record.fails]
    suspicious = [f"{line}\n" for one in _once(suspicious_line, failing, say) for line in filled(one, width)]
    folded = None if unfolded else folded_line(records, say)
    if folded is not None and place is not None:
        place = ReprFileLocation(place.path, place.lineno, say.joined((folded, place.message), "between_clauses"))
        # Where its details were written to is worth a line in any case.
        kept = [f"{line}\n" for text in lines for line in text.splitlines() if line.startswith(_DETAILS)]
        lines = ["".join([say("shown_whole", text=folded) + "\n", *suspicious, *kept])] if lines else []
    elif lines:
        roles = [f"{line}\n" for role in _once(role_line, failing, say) for line in filled(role, width)]
        lines = ["".join([*roles, *suspicious, lines[0]]), *lines[1:]]
    return ExceptionChainRepr([(ReprTraceback([ReprEntryNative(lines)], None, "native"), place, None)])


def _once(line_of: Callable[[Record, Phrases], str], records: Sequence[Record], say: Phrases) -> list[str]:
    """Return the lines of several records, each line once."""
    return [line for line in dict.fromkeys(line_of(record, say) for record in records) if line]
