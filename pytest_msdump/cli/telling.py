"""What the command prints: the words are reporting's, the colours rich's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.compiled import chosen
from pytest_msdump.escape import terminal_text
from pytest_msdump.facts.languages import LANGUAGES
from pytest_msdump.reporting.summary import header_lines, summary_lines
from pytest_msdump.reporting.tally import coverage_problems
from pytest_msdump.settings import language_of
from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report
    from pytest_msdump.pipeline.planning import Plan

__all__ = ["phrases", "tell_github", "tell_header", "tell_report", "tell_saved"]

# Of what is no terminal, and what makes one of it for rich.
_USUAL_WIDTH = 80
_MOST_DIGITS = 5
_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")

_IN_FULL = 3
_ON_A_LINE = 20

# First word of a line → how it is shown on a terminal.
_BY_VERDICT = {"FAIL": "bold red", "ERROR": "bold red", "UNDEFINED": "bold red", "WARN": "yellow", "PASS": "green"}
_STYLES = {Phrases(language)(word): style for word, style in _BY_VERDICT.items() for language in LANGUAGES}


def phrases(parsed: argparse.Namespace) -> Phrases:
    """Return the language that ``--lang``, or else the locale, asks for."""
    return Phrases(language_of(parsed.msdump_lang, os.environ, encoding=sys.stdout.encoding))


def tell_header(plan: Plan, say: Phrases = ENGLISH) -> None:
    """Say which directory is which."""
    pairs, profile = len(plan.pairing.pairs), plan.suite.policy.profile
    _say(header_lines(*plan.sides, pairs=pairs, profile=profile, unseen=plan.unseen, kernel=chosen().name, say=say))


def tell_saved(name: str, report: Report, say: Phrases = ENGLISH) -> None:
    """Say what is judged again."""
    _say(
        [
            f"msdump: {name}",
            *header_lines(report.left, report.right, pairs=len(report.records), profile=report.profile, say=say),
        ]
    )


def tell_report(report: Report, files: Sequence[Path], *, unfolded: bool = False, say: Phrases = ENGLISH) -> int:
    """Print failures and summary; return the exit code: 1 for any failure, and for anything that was not compared.

    Parameters
    ----------
    report : Report
        What came out.
    files : sequence of Path
        The reports that were written.
    unfolded : bool
        Tell every failure whole.
    say : Phrases
        The language.
    """
    width = _width()
    failing = [record for record in report.records if record.fails]
    if failing:
        _say(_failures(report, failing, width, unfolded, say))
    elif len(report.records) == 1:
        from pytest_msdump.reporting.failure import record_text

        _say(["", record_text(report.records[0], operators=report.left.operators, width=width, say=say)])
    problems = coverage_problems(report, say)
    if problems and report.ended:
        from pytest_msdump.reporting.coverage import coverage_text

        _say(["", coverage_text(report, width=width, say=say)])
    shown = [os.path.relpath(file) for file in files]
    _say(["", *summary_lines(report, width=width, files=shown, unfolded=unfolded, say=say)])
    if report.ended and not report.complete:
        _say([say("not_complete")])
    return int(bool(failing or problems or not report.complete))


def tell_github(reports: Sequence[Report]) -> None:
    """Print what a job of GitHub reads, if there is anything to tell."""
    if reports:
        from pytest_msdump.pipeline.annotating import commands_for_github

        for line in commands_for_github(reports):
            print(line)  # noqa: T201 - GitHub reads it as it is; nothing may wrap or colour it


def _failures(report: Report, failing: Sequence[Record], width: int, unfolded: bool, say: Phrases) -> Iterable[str]:
    """The first causes in full, the next on a line each; what is inherited is told by the summary."""
    from pytest_msdump.reporting.failure import failure_text, one_line
    from pytest_msdump.reporting.roles import folded_line, with_causes_first

    orders = list(dict.fromkeys(record.order for record in with_causes_first(failing)))
    folded = {
        order
        for order in orders
        if not unfolded and folded_line([record for record in failing if record.order == order])
    }
    orders = [order for order in orders if order not in folded]
    in_full = len(orders) if unfolded else _IN_FULL
    for order in orders[:in_full]:
        records = [record for record in report.records if record.order == order]
        yield ""
        yield failure_text(
            records,
            operators=report.left.operators,
            width=width,
            left_root=report.left.directory,
            right_root=report.right.directory,
            say=say,
        )
    rest = [record for record in failing if record.order in orders[in_full:]]
    if rest:
        yield ""
    yield from (one_line(record, say) for record in rest[:_ON_A_LINE])
    if len(rest) > _ON_A_LINE:
        yield say("more_failing", n=len(rest) - _ON_A_LINE)


def _width() -> int:
    """How many columns there are: as the environment says, else as whatever of this process is a terminal has."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and int(said[:_MOST_DIGITS]):
        return int(said[:_MOST_DIGITS])
    for stream in range(3):
        with suppress(OSError):
            return os.get_terminal_size(stream).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


def _say(lines: Iterable[str]) -> None:
    """Print lines; on a terminal, or where colour is forced, those that begin with a verdict in its colour."""
    parts = [terminal_text(part) for text in lines for part in text.split("\n")]
    if not sys.stdout.isatty() and not any(os.environ.get(name) for name in _FORCING):
        for part in parts:
            print(part)  # noqa: T201 - a command talks
        return
    # What reads a pipe need not wait for it.
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    for part in parts:
        word, _, _ = part.partition(" ")
        console.print(Text(part, style=_STYLES.get(word, "")))
