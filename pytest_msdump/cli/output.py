"""What the command prints: the words are reporting's, the colours rich's."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from pytest_msdump.compiled import chosen
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import csv_line, terminal_text
from pytest_msdump.report.coverage import coverage_problems
from pytest_msdump.report.summary import header_lines, summary_lines
from pytest_msdump.settings import language_of
from pytest_msdump.storage.files import in_utf8, write_file
from pytest_msdump.text import ENGLISH, Phrases
from pytest_msdump.text.message import LANGUAGES

if TYPE_CHECKING:
    from pytest_msdump.comparison.planning import Plan
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report

__all__ = [
    "Progress",
    "TableFile",
    "add_quiet",
    "phrases",
    "table_file",
    "tell_github",
    "tell_header",
    "tell_report",
    "tell_saved",
    "write_table",
]

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
        from pytest_msdump.report.failure import record_text

        _say(["", record_text(report.records[0], operators=report.left.operators, width=width, say=say)])
    problems = coverage_problems(report, say)
    if problems and report.ended:
        from pytest_msdump.report.coverage import coverage_text

        _say(["", coverage_text(report, width=width, say=say)])
    shown = [os.path.relpath(file) for file in files]
    _say(["", *summary_lines(report, width=width, files=shown, unfolded=unfolded, say=say)])
    if report.ended and not report.complete:
        _say([say("not_complete")])
    return int(bool(failing or problems or not report.complete))


def tell_github(reports: Sequence[Report]) -> None:
    """Print what a job of GitHub reads, if there is anything to tell."""
    if reports:
        from pytest_msdump.report.ci import commands_for_github

        for line in commands_for_github(reports):
            print(line)  # noqa: T201 - GitHub reads it as it is; nothing may wrap or colour it


def _failures(report: Report, failing: Sequence[Record], width: int, unfolded: bool, say: Phrases) -> Iterable[str]:
    """The first causes in full, the next on a line each; what is inherited is told by the summary."""
    from pytest_msdump.report.causes import folded_line, with_causes_first
    from pytest_msdump.report.failure import failure_text, one_line

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


# -- How far a long command is ---------------------------------------------------------------------------------------


T = TypeVar("T")

# Nobody wonders before; and the log of a job is not filled with lines.
_SHORT_SECONDS, _BETWEEN_LINES_SECONDS = 2.0, 10.0

# Takes what the items are, how many are done, and of how many.
_Show = Callable[[str, int, int], None]


def add_quiet(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Declare ``--quiet``, with more spellings where they are free."""
    parser.add_argument(*flags, "--quiet", action="store_true", help="do not show how far it is")


class Progress:
    """Shows on standard error how far loops are; the loops of a command share one, so that time counts from its start.

    Parameters
    ----------
    command : str
        What a line begins with, e.g. ``"msdump compare"``.
    quiet : bool
        Show nothing.
    clock : callable
        Seconds, from any start.
    """

    def __init__(self, command: str, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._quiet = quiet
        self._clock = clock
        self._began = self._told = clock()

    def __call__(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items, and show how many are done.

        Parameters
        ----------
        items : iterable
            Each is done when the next one is asked for.
        what : str
            What they are, in the plural.
        total : int, optional
            How many; an iterable that does not know must be told.
        """
        if total is None:
            total = len(cast("Sized", items))
        return iter(items) if self._quiet else self._watched(items, what, total)

    def _watched(self, items: Iterable[T], what: str, total: int) -> Iterator[T]:
        show: _Show | None = self._line if _is_log() else None
        with ExitStack() as stack:
            for done, item in enumerate(items, 1):
                yield item
                if show is None and done < total and self._clock() - self._began >= _SHORT_SECONDS:
                    show = _bar(stack, self._command, what, total)
                if show is not None:
                    show(what, done, total)

    def _line(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now - self._told >= _BETWEEN_LINES_SECONDS:
            self._told = now
            print(f"{self._command}: {done} of {total} {what}", file=sys.stderr, flush=True)  # noqa: T201 - a command talks


def _is_log() -> bool:
    """Whether what is shown is kept, so that nothing can be drawn over."""
    return not sys.stderr.isatty() or bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"


def _bar(stack: ExitStack, command: str, what: str, total: int) -> _Show:
    """A bar that goes when the loop ends, however it ends."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # What a command prints goes to standard output as it is, also while the bar is there.
    bars = Bars(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    task = stack.enter_context(bars).add_task(f"{command}: {what}", total=total)
    return lambda _what, done, _total: bars.update(task, completed=done)


# -- A table of the vendor's kind in a file of the user's choice -----------------------------------------------------


_SUFFIXES = (".txt", ".csv")
_EMPTY = "NaN"


@dataclass(frozen=True)
class TableFile:
    """Where a table goes, and in which of the two forms."""

    path: Path
    as_csv: bool


def table_file(text: str, *, as_csv: bool, flag: str = "-o") -> TableFile:
    """Read what follows ``-o``, and make the folder it names.

    Parameters
    ----------
    text : str
        A file when it ends in .txt or .csv, else a folder, in which the file is result.txt or result.csv.
    as_csv : bool
        Whether CSV was asked for; a file that ends in .csv is one in any case.
    flag : str
        How the option is spelled there, for messages.

    Raises
    ------
    ConfigError
        The folder cannot be made, or the file is a folder.
    """
    if not text:
        raise ConfigError(f"{flag} is empty; give a file that ends in .txt or .csv, or a folder")
    path = Path(text).absolute()
    if path.suffix.lower() not in _SUFFIXES:
        path /= "result.csv" if as_csv else "result.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{flag}: the folder {path.parent} cannot be made: {error.strerror or error}") from error
    if path.is_dir():
        raise ConfigError(f"{flag}: {path} is a folder; give another name")
    return TableFile(path, as_csv or path.suffix.lower() == ".csv")


def write_table(table: TableFile, titles: Sequence[str], rows: Iterable[Sequence[str]], *, flag: str = "-o") -> Path:
    """Write the whole table or nothing, and return its path. What was there before is replaced.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    text = (csv_text if table.as_csv else plain_text)([titles, *rows])
    try:
        return write_file(table.path.parent, table.path.name, in_utf8(text))
    except MsdumpError as error:
        reason = error.__cause__ or error
        raise MsdumpError(f"{table.path} cannot be written: {reason}; name another path with {flag}") from error


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as CSV. Cells are quoted where CSV needs it, and none is a formula."""
    return "".join([f"{csv_line(row)}\n" for row in rows])


def plain_text(rows: Iterable[Sequence[str]]) -> str:
    r"""Return the rows as lines of cells with single spaces between them, each line ended.

    Examples
    --------
    >>> plain_text([["LeftOp", "RightOp"], ["a\nb", ""]])
    'LeftOp RightOp\na\\nb NaN\n'
    """
    return "".join(" ".join(terminal_text(cell) or _EMPTY for cell in row) + "\n" for row in rows)
