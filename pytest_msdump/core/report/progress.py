"""How far long work is: a bar on a terminal, a few plain lines in a log, nothing when it is short or quiet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

T = TypeVar("T")

# Short work shows nothing, and the log of a job is not filled with lines.
_SHORT_SECONDS, _BETWEEN_LINES_SECONDS = 1.0, 10.0

# Takes what the items are, how many are done, and how many there are.
_Show = Callable[[str, int, int], None]


class Progress:
    """Shows on standard error how far work is; the loops of a command share one, so that time counts from its start."""

    def __init__(
        self,
        command: str,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = command
        self._quiet = quiet
        self._clock = clock
        self._begin = begin
        self._began = self._last_line = clock()

    def __call__(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """Yield items and show how many are done; `what` names them, `total` is needed where there is no length."""
        if total is None:
            total = len(cast("Sized", items))
        return iter(items) if self._quiet else self._watched(items, what, total)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show that work of unknown length goes on, and for how long; `what` names it, e.g. ``"indexing"``."""
        if self._quiet:
            yield
            return
        ended = Event()
        # While the work keeps this thread busy, another one draws. No process may be forked within.
        thread = Thread(target=self._announce, args=(what, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _announce(self, what: str, ended: Event) -> None:
        if _is_log():
            began = self._clock()
            while not ended.wait(_BETWEEN_LINES_SECONDS):
                self._print(f"{what}, {self._clock() - began:.0f} s")
        elif not ended.wait(_SHORT_SECONDS):
            self._begin()
            with _bars(has_length=False) as bars:
                bars.add_task(f"{self._command}: {what}", total=None)
                ended.wait()

    def _watched(self, items: Iterable[T], what: str, total: int) -> Iterator[T]:
        began = self._clock()
        show: _Show | None = self._line if _is_log() else None
        with ExitStack() as stack:
            for done, item in enumerate(items, 1):
                yield item
                if show is None and done < total and self._clock() - self._began >= _SHORT_SECONDS:
                    show = self._bar(stack, what, total, began)
                if show is not None:
                    show(what, done, total)

    def _line(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now - self._last_line >= _BETWEEN_LINES_SECONDS:
            self._last_line = now
            self._print(f"{done} of {total} {what}")

    def _print(self, text: str) -> None:
        self._begin()
        sys.stderr.write(f"{self._command}: {text}\n")
        sys.stderr.flush()

    def _bar(self, stack: ExitStack, what: str, total: int, began: float) -> _Show:
        """Draw a bar that goes when the loop ends, however it ends."""
        self._begin()
        bars = stack.enter_context(_bars(has_length=True))
        task = bars.add_task(f"{self._command}: {what}", total=total, rate="")

        def show(_what: str, done: int, _total: int) -> None:
            rate = done / max(self._clock() - began, 1e-9)
            bars.update(task, completed=done, rate=f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s")

        return show


def _is_log() -> bool:
    """Whether nothing can be drawn over: in a log, or a terminal that cannot move its cursor."""
    return not sys.stderr.isatty() or bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"


def _bars(*, has_length: bool) -> Bars:
    from rich import progress
    from rich.console import Console

    columns = [progress.TextColumn("{task.description}", markup=False), progress.BarColumn()]
    if has_length:
        rate = progress.TextColumn("{task.fields[rate]}", markup=False)
        columns += [progress.MofNCompleteColumn(), rate, progress.TimeRemainingColumn()]
    else:
        columns.append(progress.TimeElapsedColumn())
    # What a command prints goes to standard output as it is, also while the bar is there.
    return progress.Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
