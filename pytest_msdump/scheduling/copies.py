"""Pairs divided among copies of this process: of small tensors nearly all is Python's work, whose lock threads share.

A copy has the plan as it is, so nothing is sent to it but which pairs are next; what comes back is records. The
original is one of those who work: who only waited would be a copy too many.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Generic, NoReturn, TypeVar

__all__ = ["Copies", "is_possible"]

T = TypeVar("T")

# Whoever is done first takes the next batch: each is a part of what is left, so that all are done at the same time.
_PARTS_EACH = 8
_MOST_PARTS = 64
_MOST_TOGETHER = 64
# All tickets wait in one pipe, which holds a page wherever there is one.
_MOST_BATCHES = 1000
_TICKET_BYTES = 4
# A message is pickled results, after their length.
_LENGTH_BYTES = 8
_PIPE_BYTES = 1 << 20
# To look whether something has arrived takes a hundredth of the time that a small pair takes.
_BETWEEN_LOOKS_SECONDS = 0.005


def is_possible() -> bool:
    """Whether this process can be copied: on Linux, while it has one thread; locks of others would stay locked."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names alone


class Copies(Generic[T]):
    """Results of `function` for numbers, worked out by this process and copies of it.

    Parameters
    ----------
    function : callable
        Number → result, which can be pickled.
    numbers : sequence of int
        What is wanted.
    jobs : int
        How many processes there may be, this one among them.

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

        What was raised anywhere is raised where the number comes by, as without copies.
        """
        batches = _batches(self._numbers, self._jobs)
        with _started(self._function, batches, self._jobs - 1) as (tickets, arriving):
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
                    yield number, self._function(number)


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


def _here(function: Callable[[int], T], batches: Sequence[Sequence[int]], tickets: int) -> Iterator[tuple[int, T]]:
    """What the original does. Whatever goes wrong goes wrong again where the number comes by."""
    with suppress(Exception):
        for batch in _taken(batches, tickets):
            for number in batch:
                yield number, function(number)


@contextmanager
def _started(
    function: Callable[[int], Any], batches: Sequence[Sequence[int]], count: int
) -> Iterator[tuple[int, _Arriving]]:
    """Start copies, hand out where tickets are and where results arrive, and end them."""
    tickets = _tickets(len(batches))
    arriving = _Arriving()
    copies: list[int] = []
    try:
        # Ctrl-C reaches all processes of a terminal, and the original ends its copies.
        with _uninterrupted():
            for _ in range(min(count, len(batches) - 1)):
                there = arriving.opened()
                copy = os.fork()
                if not copy:
                    _work(function, _taken(batches, tickets), there, arriving)
                copies.append(copy)
                os.close(there)
        yield tickets, arriving
    finally:
        os.close(tickets)
        arriving.close()
        for copy in copies:
            with suppress(OSError):
                os.kill(copy, signal.SIGKILL)
                os.waitpid(copy, 0)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until whatever was started is known; what is started leaves it to this process for good."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tickets(count: int) -> int:
    """Return what everybody reads the number of the next batch from; it ends after the last one."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_TICKET_BYTES, "little") for number in range(count)))
    os.close(writing)
    return reading


def _work(function: Callable[[int], Any], batches: Iterator[Sequence[int]], there: int, others: _Arriving) -> NoReturn:
    """What a copy does, and all it does. Whatever goes wrong goes wrong again where the original does what is missing.

    It leaves without tidying up: files and buffers that it has of the original are the original's.
    """
    from pickle import HIGHEST_PROTOCOL, dumps

    try:
        # With these open, it would not be told that nobody listens any more.
        others.close()
        # To look for garbage among what the original has would copy all of it.
        gc.freeze()
        leaving = _Leaving(there)
        for batch in batches:
            leaving.send(dumps([(number, function(number)) for number in batch], HIGHEST_PROTOCOL))
        leaving.finish()
    finally:
        os._exit(0)


class _Leaving:
    """Sends messages without waiting for the original, which may be in the midst of a large tensor."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._waiting = bytearray()
        os.set_blocking(end, False)

    def send(self, message: bytes) -> None:
        self._waiting += len(message).to_bytes(_LENGTH_BYTES, "little") + message
        with suppress(BlockingIOError):
            self._write()

    def finish(self) -> None:
        os.set_blocking(self._end, True)
        self._write()

    def _write(self) -> None:
        while self._waiting:
            del self._waiting[: os.write(self._end, self._waiting)]


class _Message:
    """What has arrived of a message, straight where it is to be: its length, and then as much as that says."""

    def __init__(self) -> None:
        self._content, self._arrived, self._is_length = bytearray(_LENGTH_BYTES), 0, True

    @property
    def missing(self) -> memoryview:
        """Where the rest is to be."""
        return memoryview(self._content)[self._arrived :]

    def whole(self, count: int) -> bytearray | None:
        """Return the message, if the bytes that came now, `count` of them, were its last; then the next begins."""
        self._arrived += count
        if self._arrived < len(self._content):
            return None
        content, was_length = self._content, self._is_length
        size = int.from_bytes(content, "little") if was_length else _LENGTH_BYTES
        self._content, self._arrived, self._is_length = bytearray(size), 0, not was_length
        return None if was_length else content


class _Arriving:
    """What copies send, by the end of the pipe that it comes from."""

    def __init__(self) -> None:
        self._found: dict[int, _Message] = {}
        self._poll = select.poll()

    @property
    def is_open(self) -> bool:
        """Whether any copy may send more."""
        return bool(self._found)

    def opened(self) -> int:
        """Open a pipe and return the end for a copy."""
        here, there = os.pipe()
        os.set_blocking(here, False)
        with suppress(OSError):
            _widen(here)
        self._found[here] = _Message()
        self._poll.register(here, select.POLLIN)
        return there

    def taken(self, wait_milliseconds: int | None) -> dict[int, Any]:
        """Return what has arrived; wait for something where nothing has, for ever with ``None``."""
        from pickle import loads

        results: dict[int, Any] = {}
        for end, _ in self._poll.poll(wait_milliseconds):
            for message in self._messages(end):
                results.update(loads(message))  # noqa: S301 - of a copy of this process
        return results

    def _messages(self, end: int) -> Iterator[bytearray]:
        """Yield the messages that are there as a whole by now."""
        found = self._found[end]
        with suppress(BlockingIOError):
            while count := os.readv(end, [found.missing]):
                if (message := found.whole(count)) is not None:
                    yield message
            # It has ended, in the midst of a message perhaps.
            self._closed(end)

    def close(self) -> None:
        for end in list(self._found):
            self._closed(end)

    def _closed(self, end: int) -> None:
        self._poll.unregister(end)
        del self._found[end]
        os.close(end)


def _widen(end: int) -> None:
    """Let a pipe hold as much as anybody may have in one."""
    import fcntl

    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
