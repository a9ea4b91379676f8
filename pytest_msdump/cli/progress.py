"""How far a long command is: a bar in a terminal, now and then a line elsewhere, nothing when it is done at once."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack
from typing import TypeVar, cast

__all__ = ["Progress", "add_quiet"]

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
