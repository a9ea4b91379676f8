"""Pairs divided among copies of this process: of small tensors nearly all is Python's work, whose lock threads share.

A copy has the plan as it is, so nothing is sent to it but which pairs are next; what comes back is records.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

__all__ = ["Copies", "is_possible"]

T = TypeVar("T")

# Whoever is done first takes the next batch: many for each copy, so that none has much left when the others are done.
_BATCHES_EACH = 16
_MOST_TOGETHER = 64
# All tickets wait in one pipe, which holds a page wherever there is one.
_MOST_BATCHES = 1000
_TICKET_BYTES = 4


def is_possible() -> bool:
    """Whether this process can be copied: on Linux, while it has one thread; locks of others would stay locked."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names alone


class Copies(Generic[T]):
    """Results of `function` for numbers, worked out by copies of this process.

    Parameters
    ----------
    function : callable
        Number → result, which `multiprocessing` can send.
    numbers : sequence of int
        What is wanted.
    jobs : int
        How many copies there may be.

    Attributes
    ----------
    again : int
        How many numbers were worked out here, since the copy that had them ended before it was done.
    """

    def __init__(self, function: Callable[[int], T], numbers: Sequence[int], jobs: int) -> None:
        self._function, self._numbers = function, numbers
        self._jobs = jobs
        self.again = 0

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """Yield each number with its result, in their order.

        What a copy raised is raised here where the number comes by, as without copies.
        """
        done: dict[int, T] = {}
        with self._started() as ends:
            arriving = _arriving(ends)
            for number in self._numbers:
                while number not in done and (more := next(arriving, None)) is not None:
                    done.update(more)
                if number in done:
                    yield number, done.pop(number)
                else:
                    self.again += 1
                    yield number, self._function(number)

    @contextmanager
    def _started(self) -> Iterator[list[Connection]]:
        """Start the copies, hand out where their results arrive, and end them."""
        batches, context = self._batches(), get_context("fork")
        tickets = _tickets(len(batches))
        ends: list[Connection] = []
        processes = []
        try:
            # Ctrl-C reaches all processes of a terminal, and the original ends its copies.
            with _uninterrupted():
                for _ in range(min(self._jobs, len(batches))):
                    here, there = context.Pipe(duplex=False)
                    ends.append(here)
                    arguments = (self._function, batches, tickets, there, tuple(ends))
                    process = context.Process(target=_work, args=arguments, daemon=True)
                    process.start()
                    processes.append(process)
                    there.close()
            yield ends
        finally:
            os.close(tickets)
            for end in ends:
                end.close()
            for process in processes:
                process.terminate()
                process.join()

    def _batches(self) -> list[Sequence[int]]:
        count = len(self._numbers)
        together = min(_MOST_TOGETHER, -(-count // (_BATCHES_EACH * self._jobs)))
        together = max(1, together, -(-count // _MOST_BATCHES))
        return [self._numbers[start : start + together] for start in range(0, count, together)]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until whatever was started is known; what is started leaves it to this process for good."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tickets(count: int) -> int:
    """Return what copies read the number of their next batch from; it ends after the last one."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_TICKET_BYTES, "little") for number in range(count)))
    os.close(writing)
    return reading


def _work(
    function: Callable[[int], Any],
    batches: Sequence[Sequence[int]],
    tickets: int,
    there: Connection,
    others: Sequence[Connection],
) -> None:
    """What a copy does. Whatever goes wrong goes wrong again where the original does what is missing."""
    # With these open, it would not be told that nobody listens any more.
    for end in others:
        end.close()
    with suppress(Exception):
        while ticket := os.read(tickets, _TICKET_BYTES):
            there.send([(number, function(number)) for number in batches[int.from_bytes(ticket, "little")]])


def _arriving(ends: Sequence[Connection]) -> Iterator[list[tuple[int, Any]]]:
    """Yield what copies send, until all have ended."""
    open_ends = list(ends)
    while open_ends:
        for end in [end for end in wait(open_ends) if isinstance(end, Connection)]:
            found = _received(end)
            if found is None:
                open_ends.remove(end)
            else:
                yield found


def _received(end: Connection) -> list[tuple[int, Any]] | None:
    """What a copy sent; ``None`` of one that has ended, in the midst of it perhaps."""
    try:
        found: list[tuple[int, Any]] = end.recv()
    except (EOFError, OSError):
        return None
    return found
