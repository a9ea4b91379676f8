"""One gate for all drivers: the records of a plan, its report, the files that are written, the exit code.

A driver parses what was typed, calls `gate`, and prints `header_of` before it and `report_texts` after it. Under
pytest the records come from the items, so that its driver begins with `report_of`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pytest_msdump.core.compare.additions import with_said_of_report
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.model.record import Local, Record
from pytest_msdump.core.model.report import ReplayShare, Report
from pytest_msdump.core.report.build import MOST_EXPLAINED, build_report
from pytest_msdump.core.report.coverage import coverage_problems, coverage_text
from pytest_msdump.core.report.failure import failure_text
from pytest_msdump.core.report.files import run_facts, start_report, write_report
from pytest_msdump.core.report.shown import choose_shown, labeller, short_reason
from pytest_msdump.core.report.summary import header_lines, summary_lines
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.scheduling import keeps_records, records_of
from pytest_msdump.core.text import ENGLISH, Phrases

T = TypeVar("T")


class Replayed(NamedTuple):
    """What a replay of the reference says of each pair, by number, and how much it judged."""

    local: Mapping[int, Local]
    share: ReplayShare


class Watching(Protocol):
    """Shows how far work is, as `core.report.progress.Progress` does."""

    def __call__(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items and show how many are done."""

    def step(self, what: str) -> AbstractContextManager[None]:
        """Show that work of unknown length goes on."""


class Gated(NamedTuple):
    """The result of a gate: its report, and the files that were written."""

    report: Report
    files: tuple[Path, ...]

    @property
    def code(self) -> int:
        """The exit code."""
        return exit_code(self.report)


def gate(
    plan: Plan,
    *,
    watch: Watching,
    scheduler: str | None = None,
    replay: Callable[[Plan], Replayed] | None = None,
    adds: Callable[[Report], Report] | None = None,
    write: Callable[[Report], Iterable[Path]] = lambda _report: (),
    most_explained: int | None = MOST_EXPLAINED,
) -> Gated:
    """Compare pair by pair and write the reports that the suite asks for."""
    start_report(plan, plan.suite.report_dir)
    records, notes = records_of(plan, watch, scheduler=scheduler)
    share = None
    if replay is not None:
        with watch.step("replaying the reference"):
            local, share = replay(plan)
        records = {number: record.with_local(local.get(number)) for number, record in records.items()}
    # With a scheduler nothing is kept.
    most_explained = 0 if keeps_records(plan) and scheduler is None else most_explained
    report = report_of(plan, records, share, notes=notes, adds=adds, most_explained=most_explained)
    with watch.step("writing reports"):
        files = write_report(report, plan.suite.options["report"], plan.suite.report_dir)
        files += write(report)
    return Gated(report, tuple(files))


def report_of(
    plan: Plan,
    records: Mapping[int, Record],
    share: ReplayShare | None = None,
    *,
    notes: Sequence[str] = (),
    adds: Callable[[Report], Report] | None = None,
    most_explained: int | None = MOST_EXPLAINED,
) -> Report:
    """Return the report of a plan's records, by number of the pair; `share` is how much a replay judged of them."""
    report = with_said_of_report(build_report(plan, records, share, most_explained=most_explained), plan.hooks)
    report = replace(report, notes=(*report.notes, *notes), run=run_facts())
    return report if adds is None else adds(report)


def exit_code(report: Report) -> int:
    """Return 0 if all that was to be compared is within limits and enough was compared, else 1."""
    return int(any(one.fails for one in report.records) or bool(coverage_problems(report)) or not report.complete)


def header_of(plan: Plan, say: Phrases = ENGLISH) -> list[str]:
    """Return the lines before a run: which directory is which side, and what will be compared by what."""
    return header_lines(
        *plan.sides,
        pairs=len(plan.pairing.pairs),
        profile=plan.suite.policy.profile,
        unseen=plan.unseen,
        kernel=choose_kernel().shortcoming,
        further=plan.further,
        say=say,
    )


def header_of_report(report: Report, say: Phrases = ENGLISH) -> list[str]:
    """Return the same of a report that is there already, without what only its run knew."""
    sides, pairs = (report.left, report.right), len(report.records)
    return header_lines(*sides, pairs=pairs, profile=report.profile, further=report.further, say=say)


def report_texts(
    report: Report, *, width: int, files: Sequence[Path] = (), show: str = "causes", say: Phrases = ENGLISH
) -> Iterator[str]:
    """Yield failures, what is wrong with coverage, and the summary; `show` is as of `choose_shown`."""
    say = say.calling(report.left.shown)
    failing: dict[int, list[Record]] = {}
    for record in report.records:
        if record.fails:
            failing.setdefault(record.order, []).append(record)
    whole, lines, more = choose_shown(failing, show)
    left = report.left
    for order in whole or [record.order for record in report.records if len(report.records) == 1]:
        records = [record for record in report.records if record.order == order]
        yield ""
        yield failure_text(
            records, operators=left.operators, by_name=left.by_name, width=width, in_full=show == "all", say=say
        )
    if lines:
        yield from ("", say("also_failing"))
        label = labeller(report.records, say)
        for order in lines:
            text = say("after_label", label=label(failing[order][0]), text=short_reason(failing[order], say))
            yield from hanging(text, width, indent=2)
    if more:
        yield "  " + say("more_failing", n=more)
    if report.ended and coverage_problems(report, say):
        yield from ("", coverage_text(report, width=width, say=say))
    shown = [os.path.relpath(file) for file in files]
    first = next((records[0] for records in map(failing.get, whole) if records and report.rerun), None)
    again = [] if first is None or first.how == "file" else report.again(first.left.key.op.label)
    about: Mapping[str, Any] = {"files": shown, "rerun": again, "told": whole, "unfolded": show == "all"}
    yield from ("", *summary_lines(report, width=width, say=say, **about))
    if report.ended and not report.complete:
        yield say("not_complete")


def problem_of(report: Report, *, width: int) -> str | None:
    """Return what is wrong with a whole report, for a person; ``None`` when nothing is."""
    if not exit_code(report):
        return None
    # The test that compares is run again; no command says what its code says.
    told = report_texts(replace(report, rerun=()), width=width)
    return "\n".join([*header_of_report(report), *told])
