"""Pairs compared by the workers of a Dask cluster that see the same storage. The records are those of one process."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from pytest_msdump.comparison.comparing import conditions_of
from pytest_msdump.comparison.planning import Plan
from pytest_msdump.errors import ConfigError
from pytest_msdump.model.record import Record
from pytest_msdump.scheduling.program_version import bytes_to_read, stamp
from pytest_msdump.scheduling.serial import Answer, Job, compare_batch, error_record, job_of
from pytest_msdump.scheduling.workers import Crew
from pytest_msdump.storage.remote import RemotePath

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["Arriving", "Cluster", "Leaving"]

# A task costs the scheduler about a millisecond, whatever is in it; and a worker that is lost loses little.
_MOST_PAIRS, _MOST_BYTES = 64, 64 * 1024 * 1024
# Tasks that wait at the scheduler, for each thread of a worker.
_WAITING = 3
_ATTEMPTS = 3
_TICK_SECONDS = 1.0


@dataclass
class _Task:
    jobs: tuple[Job, ...]
    attempts: int = 0
    # Addresses of those who may do it; anybody where there are none.
    workers: tuple[str, ...] = ()


class Cluster:
    """Compares pairs of a plan on a cluster.

    Parameters
    ----------
    plan : Plan
        Whose pairs they are.
    client : Client
        From `workers.connected`.
    address : str
        How the scheduler is called in messages.
    patience_seconds : float
        How long to wait for a worker when there is none.

    Raises
    ------
    ConfigError
        Code of a user is to run, which does not travel; a side is on object storage; or no worker can compare.
    """

    def __init__(self, plan: Plan, client: Client, address: str, *, patience_seconds: float = 60) -> None:
        if plan.extras.converters or plan.extras.algorithms:
            raise ConfigError(
                "--scheduler: code of -custom does not travel to other machines; leave out one of the two"
            )
        if any(isinstance(side.root, RemotePath) for side in (plan.left, plan.right)):
            raise ConfigError(
                "--scheduler: a side on object storage is not compared by a cluster; leave out one of the two"
            )
        self._plan = plan
        self._client = client
        self._address = address
        self._patience = patience_seconds
        self._conditions = conditions_of(plan)
        self._crew = Crew(client, stamp(), (plan.left.root, plan.right.root))
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._running: dict[Future, _Task] = {}
        self._is_deserted = False
        self.notes: list[str] = []
        self._await_workers()

    def records(self, numbers: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the records of pairs, in the order in which they are done.

        A pair that ends its workers one after the other gets the verdict `error`. Where the last worker has gone, the
        rest is not yielded, and `notes` say so.
        """
        waiting = deque(self._tasks(list(numbers)))
        suspects: list[Job] = []
        try:
            if self._crew.unable:
                self.notes.append(
                    f"--scheduler {self._address}: workers that compared nothing: {self._crew.sentence()}"
                )
            yield from self._through(waiting, suspects, self._window())
            # Whoever was on a lost worker is suspected. By itself, one ends workers or it does not.
            for job in suspects:
                if not self._is_deserted:
                    yield from self._through(deque([_Task((job,))]), None, 1)
        finally:
            # Where the scheduler has gone there is nothing to cancel.
            with suppress(Exception):
                self._client.cancel(list(self._running), force=True)

    def _through(self, waiting: deque[_Task], suspects: list[Job] | None, window: int) -> Iterator[tuple[int, Record]]:
        """Have tasks done, `window` of them at a time; without `suspects`, who ends workers is to blame."""
        while waiting or self._running:
            while waiting and len(self._running) < window and self._is_submitted(waiting[0]):
                waiting.popleft()
            future = self._next_done()
            if self._is_deserted:
                return
            if future is None:
                continue
            task = self._running.pop(future)
            yield from self._outcome(future, task, waiting, suspects)

    def _outcome(
        self, future: Future, task: _Task, waiting: deque[_Task], suspects: list[Job] | None
    ) -> Iterator[tuple[int, Record]]:
        """What became of a task: records, another attempt, or an error."""
        from distributed import KilledWorker

        answer, error = Answer(refusal="the task was lost"), None
        try:
            if future.done():
                answer = future.result(timeout=self._patience)
        except Exception as raised:
            error = raised
        if error is None and not answer.refusal:
            yield from answer.records
            return
        if isinstance(error, KilledWorker):
            if suspects is not None:
                suspects.extend(task.jobs)
                return
            why = (
                f"comparing this pair ended {error.allowed_failures + 1} workers one after the other, "
                f"the last of them {error.last_worker.address}; compare it alone, without --scheduler"
            )
            yield from self._errors(task, why)
            return
        why = answer.refusal if error is None else f"{type(error).__name__}: {error}"
        with suppress(Exception):
            future.cancel()
        self._crew.refresh()
        # With nobody there it was no attempt: somebody may come, or the scheduler again.
        task.attempts += bool(self._crew.able or self._crew.unable)
        if task.attempts >= _ATTEMPTS or (self._crew.unable and not self._crew.able):
            yield from self._errors(task, f"the workers of {self._address} cannot compare this pair: {why[:500]}")
            return
        waiting.append(task)

    def _errors(self, task: _Task, sentence: str) -> Iterator[tuple[int, Record]]:
        for job in task.jobs:
            yield job.number, error_record(job.pair, self._conditions, sentence)

    def _is_submitted(self, task: _Task) -> bool:
        """Submit a task; false where the client has given its scheduler up, and takes none."""
        self._crew.refresh()
        # Nobody is named as long as everybody can: a worker that comes later may help.
        task.workers = tuple(self._crew.able) if self._crew.unable else ()
        chosen = list(task.workers) or None
        try:
            future = self._client.submit(
                compare_batch, task.jobs, self._conditions, stamp(), pure=False, workers=chosen, retries=0
            )
            future.add_done_callback(self._done.put)
        except Exception:
            self._crew.refresh()
            if self._crew.able:
                raise
            return False
        self._running[future] = task
        return True

    def _next_done(self) -> Future | None:
        """Wait for a task; ``None`` when nobody is there to do one, or somebody is again and none was submitted."""
        alone_since: float | None = None
        while True:
            try:
                future = self._done.get(timeout=_TICK_SECONDS)
            except Empty:
                future = next(
                    (one for one, task in self._running.items() if one.done() or self._is_stranded(task)), None
                )
            if future in self._running:
                return future
            if self._has_workers():
                if not self._running:
                    return None
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since >= self._patience:
                self._is_deserted = True
                self.notes.append(
                    f"--scheduler {self._address}: no worker was left for {self._patience:.0f} s; "
                    "the rest was not compared"
                )
                return None

    def _is_stranded(self, task: _Task) -> bool:
        """Whether a task is meant for workers that are all gone, while others are there."""
        able = self._crew.able
        return bool(task.workers and able) and not set(task.workers) & set(able)

    def _has_workers(self) -> bool:
        """Whether anybody is there who can do what is asked."""
        self._crew.refresh()
        return bool(self._crew.able)

    def _await_workers(self) -> None:
        """Wait for the first worker, and refuse a cluster where none can compare."""
        until = time.monotonic() + self._patience
        self._crew.refresh()
        while not self._crew.able and not self._crew.unable and time.monotonic() < until:
            time.sleep(0.2)
            self._crew.refresh()
        if self._crew.able:
            return
        why = f"none of its workers can compare: {self._crew.sentence()}" if self._crew.unable else "it has no worker"
        raise ConfigError(f"--scheduler {self._address}: {why}")

    def _window(self) -> int:
        return max(2, _WAITING * sum(self._crew.able.values()))

    def _tasks(self, numbers: Sequence[int]) -> Iterator[_Task]:
        """Small pairs go together, large ones alone; and there is something for everybody."""
        most = min(_MOST_PAIRS, max(1, len(numbers) // (4 * max(1, sum(self._crew.able.values())))))
        jobs: list[Job] = []
        size = 0
        for number in numbers:
            pair = self._plan.pairing.pairs[number]
            own = bytes_to_read(pair)
            if jobs and (len(jobs) >= most or size + own > _MOST_BYTES):
                yield _Task(tuple(jobs))
                jobs, size = [], 0
            jobs.append(job_of(number, pair))
            size += own
        if jobs:
            yield _Task(tuple(jobs))


# -- What copies of a process send to it through pipes ---------------------------------------------------------------


_LENGTH_BYTES = 8
_PIPE_BYTES = 1 << 20


class Leaving:
    """Sends messages without waiting for the original, which may be in the midst of a large tensor."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._waiting = bytearray()
        os.set_blocking(end, False)

    def send(self, message: bytes) -> None:
        """Send what the pipe takes now, and keep the rest for later."""
        self._waiting += len(message).to_bytes(_LENGTH_BYTES, "little") + message
        with suppress(BlockingIOError):
            self._write()

    def finish(self) -> None:
        """Wait until everything is sent."""
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


class Arriving:
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
        """Take nothing more."""
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
