"""Pairs compared by the workers of a Dask cluster that see the same storage, with the records of one process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future as Attempt
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_msdump.capabilities.cache.cache import Stamp, bytes_to_read, differences, files_of, stamp, state_of
from pytest_msdump.core.compare.comparing import Comparer, comparer_of
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Pair
from pytest_msdump.core.storage.locations import RemotePath, StoredObject, storage

if TYPE_CHECKING:
    from distributed import Client, Future

_Identity: TypeAlias = "tuple[int, int] | StoredObject | None"

_CONNECT_SECONDS = 10
_SHOWN = 3
# A task costs the scheduler about a millisecond, whatever is in it; small tasks lose little with a worker.
_MOST_PAIRS, _MOST_BYTES = 64, 64 * 1024 * 1024
# Tasks that wait at the scheduler, for each thread of a worker.
_WAITING = 3
_ATTEMPTS = 3
_TICK_SECONDS = 1.0


@dataclass
class _Task:
    jobs: tuple[ClusterJob, ...]
    attempts: int = 0
    # Addresses of the workers that may do it; any worker if it is empty.
    workers: tuple[str, ...] = ()


class Cluster:
    """Compares pairs of a plan on a cluster; `address` is its scheduler's name in messages, `notes` are for the report.

    Where there is no worker it waits for `patience_seconds`. ConfigError where user code is to run, which does not
    travel, or no worker can compare.
    """

    def __init__(self, plan: Plan, client: Client, address: str, *, patience_seconds: float = 60) -> None:
        if plan.extras.converters or plan.extras.algorithms:
            raise ConfigError("--scheduler: code of -custom does not run on other machines; leave out one of the two")
        self._plan = plan
        self._client = client
        self._address = address
        self._patience = patience_seconds
        self._comparer = comparer_of(plan)
        self._crew = _Crew(client, stamp(), plan.roots)
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._running: dict[Future, _Task] = {}
        self._is_deserted = False
        self.notes: list[str] = []
        self._await_workers()

    def records(self, numbers: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield records with the numbers of their pairs, in the order in which they are done."""
        waiting = deque(self._tasks(list(numbers)))
        suspects: list[ClusterJob] = []
        try:
            if self._crew.unable:
                self.notes.append(
                    f"--scheduler {self._address}: workers that compared nothing: {self._crew.sentence()}"
                )
            yield from self._through(waiting, suspects, max(2, _WAITING * sum(self._crew.able.values())))
            # Pairs that were on a lost worker are done one at a time, which shows the one that ends workers.
            for job in suspects:
                if not self._is_deserted:
                    yield from self._through(deque([_Task((job,))]), None, 1)
        finally:
            # If the scheduler is gone, there is nothing to cancel.
            with suppress(Exception):
                self._client.cancel(list(self._running), force=True)

    def _through(
        self, waiting: deque[_Task], suspects: list[ClusterJob] | None, window: int
    ) -> Iterator[tuple[int, Record]]:
        """Have tasks done, `window` at a time. Pairs of lost workers go to `suspects`, or are errors without it."""
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
        self, future: Future, task: _Task, waiting: deque[_Task], suspects: list[ClusterJob] | None
    ) -> Iterator[tuple[int, Record]]:
        """Yield the records of a task, or try it again, or make errors of it."""
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
        # Without any worker it was no attempt: a worker may come, or the scheduler come back.
        task.attempts += bool(self._crew.able or self._crew.unable)
        if task.attempts >= _ATTEMPTS or (self._crew.unable and not self._crew.able):
            yield from self._errors(task, f"the workers of {self._address} cannot compare this pair: {why[:500]}")
            return
        waiting.append(task)

    def _errors(self, task: _Task, sentence: str) -> Iterator[tuple[int, Record]]:
        for job in task.jobs:
            yield job.number, self._comparer.error(job.pair, sentence)

    def _is_submitted(self, task: _Task) -> bool:
        """Submit a task; return false if the client has given up its scheduler, and so takes none."""
        self._crew.refresh()
        # No worker is named as long as all are able: one that comes later may help.
        task.workers = tuple(self._crew.able) if self._crew.unable else ()
        chosen = list(task.workers) or None
        try:
            future = self._client.submit(
                compare_batch, task.jobs, self._comparer, stamp(), pure=False, workers=chosen, retries=0
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
        """Wait for a task; ``None`` if no worker is left, or workers are back and no task is submitted."""
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
            self._crew.refresh()
            if self._crew.able:
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
        """Whether all workers that may do a task are gone, while others are there."""
        able = self._crew.able
        return bool(task.workers and able) and not set(task.workers) & set(able)

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

    def _tasks(self, numbers: Sequence[int]) -> Iterator[_Task]:
        """Put small pairs together and leave large ones alone, in enough tasks for all workers."""
        most = min(_MOST_PAIRS, max(1, len(numbers) // (4 * max(1, sum(self._crew.able.values())))))
        jobs: list[ClusterJob] = []
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


def connected(address: str) -> Client:
    """Connect to a scheduler at ``tcp://host:port`` or of a scheduler file; ConfigError where that cannot be."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError(
            f"--scheduler needs Dask distributed ({error}); install it: pip install 'pytest-msdump[distributed]'"
        ) from None
    is_file = "://" not in address and Path(address).is_file()
    if not is_file and ":" not in address:
        raise ConfigError(f"--scheduler: {address!r} is neither an address nor a scheduler file; write tcp://HOST:8786")
    where: dict[str, str] = {"scheduler_file": address} if is_file else {"address": address}

    attempt: Attempt[Client] = Attempt()

    def connect() -> None:
        try:
            attempt.set_result(Client(**where, timeout=_CONNECT_SECONDS, set_as_default=False, name="msdump"))
        except BaseException as error:
            attempt.set_exception(error)

    # Dask waits for ever for the greeting of a server that is no scheduler; such a thread is left behind.
    Thread(target=connect, daemon=True).start()
    wait([attempt], timeout=1.5 * _CONNECT_SECONDS)
    if not attempt.done():
        raise ConfigError(
            f"--scheduler {address}: what answers there is not a scheduler, or is overloaded; "
            "is it the dashboard's port? The scheduler's own is 8786 by default"
        )
    try:
        return attempt.result()
    except Exception as error:
        # Each transport has errors of its own for what cannot be reached, or cannot be an address.
        raise ConfigError(
            f"--scheduler {address}: no scheduler answers there ({_line(error)}); start one with 'dask scheduler'"
        ) from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class _Crew:
    """The workers of a cluster. Each is asked once which program it has, and whether it sees the dumps in `folders`."""

    def __init__(self, client: Client, wanted: Stamp, folders: tuple[Path, ...]) -> None:
        self._client = client
        self._wanted = wanted
        self._ask = _question(tuple(str(folder) for folder in folders if not isinstance(folder, RemotePath)))
        self._problems: dict[str, str] = {}
        self._threads: dict[str, int] = {}

    def refresh(self) -> None:
        """List the workers and ask the new ones; there are none while the scheduler does not answer."""
        try:
            self._threads = dict(self._client.nthreads())
            new = [address for address in self._threads if address not in self._problems]
            answers = self._client.run(self._ask, workers=new, on_error="return") if new else {}
        except Exception:
            # The errors of a client that has given up its scheduler differ from those of one that looks for it.
            self._threads = {}
            return
        self._problems.update({address: self._problem(answers.get(address)) for address in new})

    @property
    def able(self) -> dict[str, int]:
        """Address → threads, of the workers that can compare."""
        return {address: threads for address, threads in self._threads.items() if not self._problems.get(address)}

    @property
    def unable(self) -> dict[str, str]:
        """Address → why not, of the others."""
        return {address: problem for address in self._threads if (problem := self._problems.get(address, ""))}

    def sentence(self) -> str:
        """Say which workers cannot compare, and why."""
        unable = self.unable
        named = "; ".join(f"{address}: {why}" for address, why in list(unable.items())[:_SHOWN])
        more = f"; and {len(unable) - _SHOWN} more" if len(unable) > _SHOWN else ""
        return named + more

    def _problem(self, answer: Any) -> str:
        """Why a worker cannot compare; empty where it can."""
        if isinstance(answer, BaseException):
            return _line(answer)
        if not isinstance(answer, Mapping):
            return "it went away"
        if answer.get("problem"):
            return str(answer["problem"])
        unlike = differences(Stamp(*answer["stamp"]), self._wanted)
        return f"it has {unlike}" if unlike else ""


def _question(folders: tuple[str, ...]) -> Callable[[], dict[str, Any]]:
    """Return the question to workers. A nested function is sent as code: a worker may not have this package."""

    def ask() -> dict[str, Any]:
        import dataclasses
        import importlib
        import importlib.metadata
        import os

        try:
            stamp = importlib.import_module("pytest_msdump.capabilities.cache.cache").stamp()
        except Exception as error:
            try:
                found = f"has pytest-msdump {importlib.metadata.version('pytest-msdump')}, which cannot do this"
            except importlib.metadata.PackageNotFoundError:
                found = "has no pytest-msdump"
            return {"problem": f"it {found} ({type(error).__name__}: {error})"}
        for folder in folders:
            if not os.path.exists(folder):  # noqa: PTH110 - few modules
                return {"problem": f"it does not see {folder}"}
        return {"stamp": dataclasses.astuple(stamp)}

    return ask


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A pair, its number in the plan, and what its files are as the machine with the plan sees them."""

    number: int
    pair: Pair
    seen: tuple[tuple[Path, _Identity], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Records by number of the pair; or why this worker compares nothing."""

    records: tuple[tuple[int, Record], ...] = ()
    refusal: str = ""


def job_of(number: int, pair: Pair) -> ClusterJob:
    """Return what a worker of a cluster needs to know of a pair."""
    return ClusterJob(number, pair, tuple((path, _identity(path)) for path in files_of(pair)))


def compare_batch(jobs: Sequence[ClusterJob], comparer: Comparer, wanted: Stamp) -> Answer:
    """Compare pairs on a worker of a cluster; `wanted` is the program of the machine with the plan."""
    unlike = differences(stamp(), wanted)
    if unlike:
        return Answer(refusal=f"it has {unlike}")
    return Answer(tuple((job.number, _record(job, comparer)) for job in jobs))


def _record(job: ClusterJob, comparer: Comparer) -> Record:
    for path, seen in job.seen:
        if isinstance(path, RemotePath) and isinstance(seen, StoredObject):
            # Whatever is read is held against it.
            storage().expect(path, seen)
            continue
        here = _identity(path)
        if here != seen:
            what = "is not there" if here is None else "is another file there, of another size or time"
            sentence = f"{path}: {what}, on the worker; workers need the same storage at the same path"
            return comparer.error(job.pair, sentence)
    return comparer.compare(job.pair)


def _identity(path: Path) -> _Identity:
    """Size and time of the content, which are the same on every machine that mounts one storage; or its version."""
    if isinstance(path, RemotePath):
        return storage().version(path)
    state = state_of(path)
    return None if state is None else (state.size, state.modified)
