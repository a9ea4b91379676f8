"""One function for many items in worker processes; a worker that dies costs only the item that it dies of."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# A chunk is a part of what is left, so that all workers end at about the same time.
_PARTS_EACH = 8
# Chunks that are under way, or done and not yet asked for, for each worker.
_CHUNKS_EACH = 4
# How long a worker may take to send its results when it is to end.
_PATIENCE_SECONDS = 2.0
# Windows waits for no more processes at once.
_MOST_ON_WINDOWS = 61


class Workers(Generic[T, R]):
    """Results of a function for items, computed by at most `jobs` worker processes."""

    def __init__(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        jobs: int,
        died: Callable[[T], R],
        most_together: int = 1,
    ) -> None:
        self._function = function
        self._items = tuple(items)
        # A daemonic process, such as a worker of a data loader, may not start processes.
        most = 1 if multiprocessing.current_process().daemon else _MOST_ON_WINDOWS if sys.platform == "win32" else jobs
        self._jobs = min(jobs, most)
        self._died = died
        self._most_together = most_together
        self.again = 0

    def results(self) -> Generator[R, None, None]:
        """Yield the results in the order of the items."""
        chunks = deque(_chunks(self._items, self._jobs, self._most_together))
        while chunks and self._jobs > 1:
            under_way: deque[Future[list[R]]] = deque()
            try:
                with _pool(self._function, chunks, self._jobs) as submit:
                    waiting = iter(range(len(chunks)))
                    while chunks:
                        under_way.extend(map(submit, islice(waiting, _CHUNKS_EACH * self._jobs - len(under_way))))
                        results = under_way[0].result()
                        under_way.popleft()
                        chunks.popleft()
                        yield from results
            except BrokenProcessPool:
                yield from self._retried([(future, chunks.popleft()) for future in under_way])
            except _NoProcessError:
                self._jobs //= 2
        for chunk in chunks:
            yield from map(self._function, chunk)

    def _retried(self, under_way: Sequence[tuple[Future[list[R]], Sequence[T]]]) -> Iterator[R]:
        """Yield the results of chunks that were under way when a worker died; which of them it had is not known."""
        lost = deque(item for future, chunk in under_way if future.exception() for item in chunk)
        self.again += len(lost)
        again = self._one_by_one(lost)
        for future, chunk in under_way:
            yield from islice(again, len(chunk)) if future.exception() else future.result()

    def _one_by_one(self, items: deque[T]) -> Iterator[R]:
        """Compute one item at a time: all of them together may have needed too much memory."""
        while items:
            try:
                with _pool(self._function, [(item,) for item in items], 1) as submit:
                    _await_start(submit)
                    for number in range(len(items)):
                        (result,) = submit(number).result()
                        items.popleft()
                        yield result
            except BrokenProcessPool:  # noqa: PERF203 - as slow as starting a process
                yield self._died(items.popleft())
            except _NoProcessError:
                self._jobs = 1
                yield from map(self._function, items)
                return


class _NoProcessError(Exception):
    """No process can be started."""


def _chunks(items: Sequence[T], jobs: int, most_together: int) -> Iterator[Sequence[T]]:
    start = 0
    while start < len(items):
        together = max(1, min(most_together, (len(items) - start) // (_PARTS_EACH * jobs)))
        yield items[start : start + together]
        start += together


@contextmanager
def _pool(
    function: Callable[[T], R], chunks: Iterable[Sequence[T]], jobs: int
) -> Iterator[Callable[[int | None], Future[list[R]]]]:
    """Start processes; yield what submits a chunk by its number. At the end they are ended."""
    with ExitStack() as stack:
        try:
            context = multiprocessing.get_context("spawn")
            until, alive = context.Pipe(duplex=False)
            stack.callback(until.close)
            packed = [pickle.dumps(chunk) for chunk in chunks]
            pool = ProcessPoolExecutor(jobs, context, _begin, (function, packed, until))
        except (OSError, ImportError, NotImplementedError) as error:
            # Too many open files, or a system without semaphores.
            raise _NoProcessError from error
        stack.callback(pool.shutdown, cancel_futures=True)
        stack.callback(alive.close)

        def submit(number: int | None) -> Future[list[R]]:
            try:
                with _interrupts_held():
                    return pool.submit(_results, number)
            except OSError as error:
                raise _NoProcessError from error

        yield submit


def _await_start(submit: Callable[[None], Future[Any]]) -> None:
    try:
        submit(None).result()
    except BrokenProcessPool as error:
        raise _NoProcessError from error


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which is for the process that ends them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- In a worker -----------------------------------------------------------------------------------------------------


class _Worker:
    """What a worker process gets when it starts: the function, and all chunks, pickled."""

    def __init__(self, function: Callable[[Any], Any], packed: Sequence[bytes]) -> None:
        self._function = function
        self._packed = packed
        # Held while the worker waits or sends: half a result would keep the other process waiting for the rest.
        self._not_computing = threading.Lock()
        self._not_computing.acquire()

    def results(self, number: int) -> list[Any]:
        self._not_computing.release()
        try:
            return [self._function(item) for item in pickle.loads(self._packed[number])]  # noqa: S301 - the parent's
        finally:
            self._not_computing.acquire()

    def end(self) -> None:
        self._not_computing.acquire(timeout=_PATIENCE_SECONDS)
        os._exit(1)

    def end_with(self, until: Connection) -> None:
        """End this process with the pipe: when the pool is closed, or its process is gone, killed perhaps."""
        until.poll(None)
        self.end()


# Set once, when a worker starts: a pool has no other place for it.
_WORKER: list[_Worker] = []


def _begin(function: Callable[[Any], Any], packed: Sequence[bytes], until: Connection) -> None:
    worker = _Worker(function, packed)
    _WORKER.append(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=worker.end, daemon=True).start())
    threading.Thread(target=worker.end_with, args=(until,), daemon=True).start()


def _results(number: int | None) -> list[Any]:
    return [] if number is None else _WORKER[0].results(number)
