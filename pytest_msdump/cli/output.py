"""What commands print, how far they are, and tables in a file of the user's choice."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import csv_line, terminal_text
from pytest_msdump.settings import language_of
from pytest_msdump.storage.files import in_utf8, write_file
from pytest_msdump.text import Phrases

__all__ = [
    "Progress",
    "TableFile",
    "add_quiet",
    "phrases",
    "print_lines",
    "table_file",
    "terminal_width",
    "write_table",
]

# A wider line than this is a slip of typing in COLUMNS.
_MOST_COLUMNS = 100_000


def phrases(parsed: argparse.Namespace) -> Phrases:
    """Return the language that ``--lang``, or else the locale, asks for."""
    return Phrases(language_of(parsed.msdump_lang, os.environ, encoding=sys.stdout.encoding))


def print_lines(lines: Iterable[str], *, to_error: bool = False) -> None:
    """Print each text as one line that a terminal shows and does not obey."""
    for line in lines:
        print(terminal_text(line), file=sys.stderr if to_error else sys.stdout)


def terminal_width(without: int = 80, *, least: int = 1) -> int:
    """Return the columns of the terminal, `without` one as many as that says, but never fewer than `least`."""
    return min(_MOST_COLUMNS, max(least, shutil.get_terminal_size((without, 24)).columns))


# -- progress --------------------------------------------------------------------------------------------------------

T = TypeVar("T")

# A short command shows nothing, and the log of a job is not filled with lines.
_SHORT_SECONDS, _BETWEEN_LINES_SECONDS = 2.0, 10.0

# Takes what the items are, how many are done, and how many there are.
_Show = Callable[[str, int, int], None]


def add_quiet(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Declare ``--quiet``, with more spellings where they are free."""
    parser.add_argument(*flags, "--quiet", action="store_true", help="do not show how far it is")


class Progress:
    """Shows on standard error how far loops are; the loops of a command share one, so that time counts from its start.

    Lines begin with `command`, e.g. ``"msdump compare"``; `clock` gives seconds from any start.
    """

    def __init__(self, command: str, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._quiet = quiet
        self._clock = clock
        self._began = self._last_line = clock()

    def __call__(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items, and show how many are done: each is done when the next one is asked for.

        `what` names them in the plural; `total` is needed where `items` has no length.
        """
        if total is None:
            total = len(cast("Sized", items))
        return iter(items) if self._quiet else self._watched(items, what, total)

    def _watched(self, items: Iterable[T], what: str, total: int) -> Iterator[T]:
        # In a log, or a terminal that cannot move its cursor, nothing can be drawn over.
        is_log = not sys.stderr.isatty() or bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"
        show: _Show | None = self._line if is_log else None
        with ExitStack() as stack:
            for done, item in enumerate(items, 1):
                yield item
                if show is None and done < total and self._clock() - self._began >= _SHORT_SECONDS:
                    show = _bar(stack, self._command, what, total)
                if show is not None:
                    show(what, done, total)

    def _line(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now - self._last_line >= _BETWEEN_LINES_SECONDS:
            self._last_line = now
            print(f"{self._command}: {done} of {total} {what}", file=sys.stderr, flush=True)


def _bar(stack: ExitStack, command: str, what: str, total: int) -> _Show:
    """Draw a bar that goes when the loop ends, however it ends."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # What a command prints goes to standard output as it is, also while the bar is there.
    bars = Bars(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    task = stack.enter_context(bars).add_task(f"{command}: {what}", total=total)
    return lambda _what, done, _total: bars.update(task, completed=done)


# -- tables of the vendor's kind -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableFile:
    """Where a table goes, and in which of the two forms."""

    path: Path
    as_csv: bool


def table_file(text: str, *, as_csv: bool) -> TableFile:
    """Read what follows ``-o``, and make the folder it names.

    `text` is a file when it ends in .txt or .csv, else a folder for result.txt or result.csv. A file that ends in .csv
    is CSV even without `as_csv`.
    """
    if not text:
        raise ConfigError("-o is empty; give a file that ends in .txt or .csv, or a folder")
    path = Path(text).absolute()
    if path.suffix.lower() not in (".txt", ".csv"):
        path /= "result.csv" if as_csv else "result.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"-o: the folder {path.parent} cannot be made: {error.strerror or error}") from error
    if path.is_dir():
        raise ConfigError(f"-o: {path} is a folder; give another name")
    return TableFile(path, as_csv or path.suffix.lower() == ".csv")


def write_table(table: TableFile, titles: Sequence[str], rows: Iterable[Sequence[str]], *, flag: str = "-o") -> Path:
    """Write the whole table or nothing, replacing what was there, and return its path.

    Cells are quoted where CSV needs it; as text, there are single spaces between them, and ``NaN`` stands for nothing.
    """
    lines = (csv_line(row) if table.as_csv else _plain_line(row) for row in [titles, *rows])
    try:
        return write_file(table.path.parent, table.path.name, in_utf8("".join(f"{line}\n" for line in lines)))
    except MsdumpError as error:
        reason = error.__cause__ or error
        raise MsdumpError(f"{table.path} cannot be written: {reason}; name another path with {flag}") from error


def _plain_line(row: Sequence[str]) -> str:
    return " ".join(terminal_text(cell) or "NaN" for cell in row)
