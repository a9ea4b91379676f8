"""Pairs divided among copies of this process: of small tensors nearly all is Python's work, whose lock threads share.

A copy has the plan as it is, so nothing is sent to it but which pairs are next; what comes back is records. The
original is one of those who work: who only waited would be a copy too many.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Generic, NoReturn, TypeVar

from pytest_msdump.scheduling.cluster import Arriving, Leaving

__all__ = ["Copies", "is_possible", "meanwhile"]

T = TypeVar("T")

# Whoever is done first takes the next batch: each is a part of what is left, so that all are done at the same time.
_PARTS_EACH = 8
_MOST_PARTS = 64
_MOST_TOGETHER = 64
# All tickets wait in one pipe, which holds a page wherever there is one.
_MOST_BATCHES = 1000
_TICKET_BYTES = 4
# To look whether something has arrived costs too much to do so after each of very many small pairs.
_BETWEEN_LOOKS_SECONDS = 0.005


def is_possible() -> bool:
    """Whether this process can be copied: on Linux, while it has one thread; locks of others would stay locked."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names alone


class Copies(Generic[T]):
    """Results of `function` for numbers, worked out by this process and copies of it.

    Parameters
    ----------
    function : callable
        Some numbers → each with its result, in their order. Results can be pickled.
    numbers : sequence of int
        What is wanted.
    jobs : int
        How many processes there may be, this one among them. There are fewer where the system has no room for them.

    Attributes
    ----------
    again : int
        How many numbers were worked out here, since the copy that had them ended before it was done.
    """

    def __init__(
        self, function: Callable[[Sequence[int]], Iterable[tuple[int, T]]], numbers: Sequence[int], jobs: int
    ) -> None:
        self._function, self._numbers = function, numbers
        self._jobs = jobs
        self.again = 0

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """Yield each number with its result, in their order.

        What was raised anywhere is raised where the number comes by, as without copies.
        """
        batches = _batches(self._numbers, self._jobs)
        count = min(self._jobs - 1, len(batches) - 1, _room())
        with (
            _tickets(len(batches)) as tickets,
            _started(self._function, lambda: _taken(batches, tickets), count) as arriving,
        ):
            here = _here(self._function, batches, tickets)
            done: dict[int, T] = {}
            look_again = 0.0
            for number in self._numbers:
                while number not in done:
                    mine = next(here, None)
                    if mine is not None:
                        done[mine[0]] = mine[1]
                        if monotonic() < look_again:
                            continue
                    elif not arriving.is_open:
                        break
                    # Who has nothing to do waits.
                    done.update(arriving.taken(None if mine is None else 0))
                    look_again = monotonic() + _BETWEEN_LOOKS_SECONDS
                if number in done:
                    yield number, done.pop(number)
                else:
                    self.again += 1
                    yield from self._function((number,))


def _room() -> int:
    """How many copies there may be: each has a pipe here, and tensors are to be opened beside them."""
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(0, most - len(os.listdir("/proc/self/fd"))) // 4  # noqa: PTH208 - names alone


def _batches(numbers: Sequence[int], jobs: int) -> list[Sequence[int]]:
    """Divide the work: much at a time first, little in the end."""
    parts = min(_PARTS_EACH * jobs, _MOST_PARTS)
    most = max(_MOST_TOGETHER, -(-3 * len(numbers) // _MOST_BATCHES))
    batches: list[Sequence[int]] = []
    start = 0
    while start < len(numbers):
        left = len(numbers) - start
        together = left if len(batches) == _MOST_BATCHES - 1 else max(1, min(most, left // parts))
        batches.append(numbers[start : start + together])
        start += together
    return batches


def _taken(batches: Sequence[Sequence[int]], tickets: int) -> Iterator[Sequence[int]]:
    """Yield the batches that nobody else takes."""
    while ticket := os.read(tickets, _TICKET_BYTES):
        yield batches[int.from_bytes(ticket, "little")]


def _here(
    function: Callable[[Sequence[int]], Iterable[tuple[int, T]]], batches: Sequence[Sequence[int]], tickets: int
) -> Iterator[tuple[int, T]]:
    """What the original does. Whatever goes wrong goes wrong again where the number comes by."""
    with suppress(Exception):
        for batch in _taken(batches, tickets):
            yield from function(batch)


@contextmanager
def meanwhile(make: Callable[[], T]) -> Iterator[Callable[[], T | None]]:
    """Let a copy of this process make something, while this process goes on.

    Parameters
    ----------
    make : callable
        Its result can be pickled.

    Yields
    ------
    callable
        Waits for the result; ``None`` where nobody made it: where there can be no copy, or it ended before.
    """
    if not is_possible():
        yield lambda: None
        return
    with _started(lambda _: [(0, make())], lambda: iter([(0,)]), 1) as arriving:
        yield lambda: _only(arriving)


def _only(arriving: Arriving) -> Any:
    while arriving.is_open:
        for result in arriving.taken(None).values():
            return result
    return None


@contextmanager
def _started(
    function: Callable[[Sequence[int]], Iterable[tuple[int, Any]]],
    take: Callable[[], Iterator[Sequence[int]]],
    count: int,
) -> Iterator[Arriving]:
    """Start copies, of which each takes its batches, hand out where results arrive, and end them.

    There are fewer than `count`, or none, where the system has no room for more.
    """
    arriving = Arriving()
    copies: list[int] = []
    try:
        # Ctrl-C reaches all processes of a terminal, and the original ends its copies.
        with _uninterrupted():
            for _ in range(count):
                try:
                    there = arriving.opened()
                except OSError:
                    break
                try:
                    copy = os.fork()
                except OSError:
                    # So its pipe ends without a message.
                    os.close(there)
                    break
                if not copy:
                    _work(function, take(), there, arriving)
                copies.append(copy)
                os.close(there)
        yield arriving
    finally:
        arriving.close()
        for copy in copies:
            with suppress(OSError):
                os.kill(copy, signal.SIGKILL)
                os.waitpid(copy, 0)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let signals wait until whatever was started is known; what is started leaves Ctrl-C to this process for good."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _tickets(count: int) -> Iterator[int]:
    """What everybody reads the number of the next batch from; it ends after the last one."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b"".join(number.to_bytes(_TICKET_BYTES, "little") for number in range(count)))
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _work(
    function: Callable[[Sequence[int]], Iterable[tuple[int, Any]]],
    batches: Iterator[Sequence[int]],
    there: int,
    others: Arriving,
) -> NoReturn:
    """What a copy does, and all it does. Whatever goes wrong goes wrong again where the original does what is missing.

    It leaves without tidying up: files and buffers that it has of the original are the original's.
    """
    from pickle import HIGHEST_PROTOCOL, dumps

    try:
        # What the original does at SIGTERM, it does for all.
        if callable(signal.getsignal(signal.SIGTERM)):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        # With these open, it would not be told that nobody listens any more.
        others.close()
        # To look for garbage among what the original has would copy all of it.
        gc.freeze()
        leaving = Leaving(there)
        for batch in batches:
            leaving.send(dumps(list(function(batch)), HIGHEST_PROTOCOL))
        leaving.finish()
    finally:
        os._exit(0)
