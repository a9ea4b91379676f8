"""The records of a plan's pairs: from earlier runs, by threads ahead, or here and now. The same in any case."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pytest_msdump.comparison.comparing import Conditions, compare_one, compare_pairs, conditions_of
from pytest_msdump.model.comparison import Finding, Verdict
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Record, record_of
from pytest_msdump.report.gathering import completed
from pytest_msdump.scheduling.program_version import Stamp, differences, files_of, stamp, state_of
from pytest_msdump.storage.remote import RemotePath
from pytest_msdump.text import plain_text

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pytest_msdump.comparison.planning import Plan
    from pytest_msdump.scheduling.cache import Cache

__all__ = [
    "Ahead",
    "Answer",
    "Job",
    "Measured",
    "Runner",
    "Workers",
    "compare_batch",
    "error_record",
    "is_one_by_one",
    "job_of",
]

# A thread costs a small pair more than it gains: what is done beside NumPy's loops holds the interpreter's lock.
_WORTH_A_THREAD_BYTES = 256 * 1024

# A record, its key in the cache, and whether it came from there: plain, since very many travel between processes.
Measured: TypeAlias = tuple[Record, str | None, bool]


def is_one_by_one(plan: Plan) -> bool:
    """Whether pairs are to be measured one by one, in this process and its main thread.

    Code of the user may think that it is alone in the process. A storage may have one connection for everybody, on
    which a copy of this process, or another thread, would take the bytes that somebody else has asked for.
    """
    has_code = bool(plan.extras.converters or plan.extras.algorithms)
    return has_code or any(isinstance(side.root, RemotePath) for side in (plan.left, plan.right))


class Runner:
    """Makes the records of a plan's pairs.

    Parameters
    ----------
    plan : Plan
        Whose pairs they are.
    order : sequence of int
        The numbers of pairs that will be asked for, in their order; others may be asked for as well.
    workers : Workers, optional
        Who measures ahead; without them each pair is measured when it is asked for.
    cache : Cache, optional
        Where records of earlier runs are.

    Attributes
    ----------
    keys : dict of int to str
        Under which key the record of a pair may be kept; pairs whose files may change unseen have none.
    reused : set of int
        The pairs whose records came from earlier runs.

    Notes
    -----
    With code of a user, and of object storage, pairs are measured one by one.
    """

    def __init__(
        self, plan: Plan, order: Sequence[int], workers: Workers | None = None, *, cache: Cache | None = None
    ) -> None:
        self._plan = plan
        self._cache = cache
        self._conditions = conditions_of(plan)
        self.keys: dict[int, str] = {}
        self.reused: set[int] = set()
        self._ahead: Ahead[Measured] | None = None
        if workers is not None and not is_one_by_one(plan):
            self._ahead = Ahead(workers, self.measured, order, self._is_worth_a_thread)

    def record(self, number: int) -> Record:
        """Return the record of pair `number`."""
        return self.taken(number, self.measured(number) if self._ahead is None else self._ahead.take(number))

    def taken(self, number: int, measured: Measured) -> Record:
        """Return the record of pair `number` that was measured anywhere."""
        record, key, is_reused = measured
        if key is not None:
            self.keys[number] = key
        if is_reused:
            self.reused.add(number)
        return completed(self._plan, number, record)

    def close(self) -> None:
        """Stop measuring ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def measured(self, number: int) -> Measured:
        """Compare pair `number`, or find it in the cache. Changes nothing here."""
        pair = self._plan.pairing.pairs[number]
        if self._cache is None:
            return self._compared(pair), None, False
        key = self._cache.key(pair)
        found = self._cache.get(key, pair)
        if found is not None:
            return found, key, True
        record = self._compared(pair)
        # What changed while it was read is nobody's record.
        return record, key if key is not None and key == self._cache.key(pair) else None, False

    def measured_together(self, numbers: Sequence[int]) -> Iterator[tuple[int, Measured]]:
        """Compare some pairs, or find them in the cache, and yield each when it is done. Changes nothing here."""
        if self._cache is not None:
            for number in numbers:
                yield number, self.measured(number)
            return
        pairs = self._plan.pairing.pairs
        records = compare_pairs((pairs[number] for number in numbers), self._conditions)
        for number, record in zip(numbers, records, strict=True):
            yield number, (record, None, False)

    def _compared(self, pair: Pair) -> Record:
        return next(compare_pairs((pair,), self._conditions))

    def _is_worth_a_thread(self, number: int) -> bool:
        """Whether the files of a pair are large. One that is not there is found missing by who measures."""
        from pytest_msdump.scheduling.program_version import bytes_to_read

        pair = self._plan.pairing.pairs[number]
        return bytes_to_read(pair) >= _WORTH_A_THREAD_BYTES


# -- What a worker of a cluster does ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A pair, its number in the plan, and size and time of its files as the machine sees them that asks."""

    number: int
    pair: Pair
    seen: tuple[tuple[Path, tuple[int, int] | None], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Records by number of the pair; or why this worker compares nothing."""

    records: tuple[tuple[int, Record], ...] = ()
    refusal: str = ""


def job_of(number: int, pair: Pair) -> Job:
    """Return what a worker is to be told of a pair."""
    return Job(number, pair, tuple((path, _identity(path)) for path in files_of(pair)))


def compare_batch(jobs: Sequence[Job], conditions: Conditions, wanted: Stamp) -> Answer:
    """Compare pairs on a worker.

    Parameters
    ----------
    jobs : sequence of Job
        The pairs.
    conditions : Conditions
        What they are compared under.
    wanted : Stamp
        The program that asks.

    Returns
    -------
    Answer
        A refusal when this worker's program is another one: its numbers might be others. A pair whose files look
        otherwise from here has the verdict `error`.
    """
    unlike = differences(stamp(), wanted)
    if unlike:
        return Answer(refusal=f"it has {unlike}")
    return Answer(tuple((job.number, _record(job, conditions)) for job in jobs))


def error_record(pair: Pair, conditions: Conditions, sentence: str) -> Record:
    """Return the record of a pair that could not be compared."""
    verdict = Verdict("error", (Finding("error", plain_text(sentence)),))
    return record_of(pair, verdict, roots=(conditions.left_root, conditions.right_root))


def _record(job: Job, conditions: Conditions) -> Record:
    for path, seen in job.seen:
        here = _identity(path)
        if here != seen:
            what = "is not there" if here is None else "is another file there, of another size or time"
            return error_record(
                job.pair, conditions, f"{path}: {what}, on the worker; workers need the same storage at the same path"
            )
    return compare_one(job.pair, conditions)


def _identity(path: Path) -> tuple[int, int] | None:
    """Size and time of the content: what is the same on every machine that mounts one storage."""
    state = state_of(path)
    return None if state is None else (state.size, state.modified)


# -- Work ahead in threads -------------------------------------------------------------------------------------------


T = TypeVar("T")

# What is done and not yet asked for, for each worker: so many pairs may be behind one that takes long.
_AHEAD = 4


class Workers:
    """Threads that take one task after the other. They are daemons: who interrupts a run does not wait for them.

    Parameters
    ----------
    jobs : int
        How many; each is started when there is a task for it.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Have `function` called; what it returns or raises is in the future."""
        from concurrent.futures import Future

        future: Future[T] = Future()
        self._tasks.put((future, function, arguments))
        if len(self._threads) < self.jobs:
            thread = threading.Thread(target=self._work, name=f"msdump-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Let each thread end with the task it has. Waits for none."""
        for _ in self._threads:
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function, arguments = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                # Raised again where the result is asked for.
                future.set_exception(error)


class Ahead(Generic[T]):
    """Results of `function` for numbers in a known order, some of them worked out before they are asked for.

    Parameters
    ----------
    workers : Workers
        Who works ahead.
    function : callable
        Number → result; called in any thread.
    order : sequence of int
        The numbers as they are likely to be asked for. Nothing else is worked out ahead.
    is_worth_it : callable
        Whether a number is worth a thread; others are worked out when they are asked for, by who asks.

    Notes
    -----
    At most `workers.jobs` are worked out ahead at one time. What a thread raised is raised where the number is asked
    for, so that a run ends at the same place as without threads.
    """

    def __init__(
        self,
        workers: Workers,
        function: Callable[[int], T],
        order: Sequence[int],
        is_worth_it: Callable[[int], bool],
    ) -> None:
        self._workers = workers
        self._function = function
        self._order = order
        self._places: dict[Hashable, int] = {number: place for place, number in enumerate(order)}
        self._is_worth_it = is_worth_it
        self._futures: dict[int, Future[T]] = {}
        self._next = 0

    def take(self, number: int) -> T:
        """Return the result for `number`, and have the next ones worked out."""
        place = self._places.get(number)
        if place is None:
            return self._function(number)
        self._pass_over(place)
        self._reach_out(place)
        future = self._futures.pop(place, None)
        return self._function(number) if future is None else future.result()

    def close(self) -> None:
        """Take back what no thread has begun."""
        self._pass_over(len(self._order))

    def _pass_over(self, place: int) -> None:
        """Forget what was not asked for in its turn, as when a test was skipped."""
        for earlier in [one for one in self._futures if one < place]:
            self._futures.pop(earlier).cancel()

    def _reach_out(self, place: int) -> None:
        self._next = max(self._next, place)
        while self._next < len(self._order) and len(self._futures) < _AHEAD * self._workers.jobs:
            number = self._order[self._next]
            if self._is_worth_it(number):
                self._futures[self._next] = self._workers.submit(self._function, number)
            self._next += 1
