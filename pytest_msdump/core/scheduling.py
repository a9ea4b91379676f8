"""The records of a plan's pairs: from this process, worker processes, a cluster or the cache, and always the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_msdump.core import ports
from pytest_msdump.core.compare.comparing import Comparer, comparer_of
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.user_code import Watch
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Pair
from pytest_msdump.core.report.build import with_arguments
from pytest_msdump.core.storage.locations import RemotePath
from pytest_msdump.core.text import ENGLISH

if TYPE_CHECKING:
    from pytest_msdump.core.processes import Workers

# Small pairs travel together. More of them at once would save no time.
_MOST_TOGETHER = 64


def records_of(
    plan: Plan, watch: Watch, *, scheduler: str | None = None
) -> tuple[Mapping[int, Record], tuple[str, ...]]:
    """Compare every pair, on the workers of a Dask `scheduler` where its address is given."""
    numbers = range(len(plan.pairing.pairs))
    if scheduler is not None:
        workers = ports.offered("scheduler")
        with workers.connected(scheduler) as client:
            cluster = workers.Cluster(plan, client, scheduler)
            found = watch(cluster.records(numbers), "pairs", len(numbers))
            return {number: with_arguments(plan, number, record) for number, record in found}, tuple(cluster.notes)
    cache, is_kept = None, keeps_records(plan)
    if is_kept:
        cache = ports.offered("cache").open_cache(plan, ports.offered("cache").cache_folder(Path.cwd()), explains=True)
    records: dict[int, Record] = {}
    notes: tuple[str, ...] = ()
    with closing(Runner(plan, numbers, jobs=plan.suite.options["jobs"], cache=cache, explains=is_kept)) as runner:
        try:
            for number in watch(numbers, "pairs"):
                records[number] = runner.record(number)
        finally:
            # Also after Ctrl-C: the next run begins where this one ended.
            if cache is not None:
                notes = cache.keep(records, runner.keys, runner.reused)
    return records, (*notes, *runner.notes)


def keeps_records(plan: Plan) -> bool:
    """Whether records are kept for later runs: then each is explained as it is made, and never looked at again."""
    return bool(plan.suite.options.get("cache", "off") != "off")


class Cache(Protocol):
    """Records of earlier runs, as the capability ``cache`` keeps them."""

    def key(self, pair: Pair) -> str | None:
        """Return what a record is kept under; None where its files may change without notice."""

    def get(self, key: str | None, pair: Pair) -> Record | None:
        """Return the record of an earlier run."""

    def keep(self, records: Mapping[int, Record], keys: Mapping[int, str], reused: Collection[int]) -> tuple[str, ...]:
        """Write records, by number of the pair, and return what to note in the report."""


class Cached(NamedTuple):
    """A record, the key under which it may be kept, and whether it came from the cache."""

    record: Record
    key: str | None = None
    is_reused: bool = False


class CachingComparer:
    """Compares pairs, or finds their records in the cache. Changes neither, so that any process may have one."""

    def __init__(self, comparer: Comparer, cache: Cache | None) -> None:
        self._comparer = comparer
        self._cache = cache

    def compare(self, pair: Pair) -> Cached:
        """Compare a pair, or find its record."""
        if self._cache is None:
            return Cached(self._comparer.compare(pair))
        found = self.find(pair)
        if found is not None:
            return found
        key = self._cache.key(pair)
        record = self._comparer.compare(pair)
        # The record of a file that changed while it was read belongs to neither version.
        return Cached(record, key if key == self._cache.key(pair) else None)

    def find(self, pair: Pair) -> Cached | None:
        """Find the record of a pair in the cache, if there is one."""
        if self._cache is None:
            return None
        key = self._cache.key(pair)
        found = self._cache.get(key, pair)
        return None if found is None else Cached(found, key, is_reused=True)

    def died(self, pair: Pair) -> Cached:
        """Return the error of a pair that two worker processes died of."""
        sentence = (
            "comparing this pair ended 2 worker processes one after the other, killed perhaps when memory ran out; "
            "compare it alone, without --jobs"
        )
        return Cached(self._comparer.error(pair, sentence))


class Runner:
    """Makes the records of a plan's pairs."""

    def __init__(
        self, plan: Plan, order: Sequence[int], *, jobs: int = 1, cache: Cache | None = None, explains: bool = False
    ) -> None:
        self.keys: dict[int, str] = {}
        self.reused: set[int] = set()
        self._plan = plan
        self._comparer = CachingComparer(comparer_of(plan, explains=explains), cache)
        self._workers: Workers[Pair, Cached] | None = None
        # Pairs whose results the workers have yet to send, and results that were not asked for in their turn.
        self._awaited: set[int] = set()
        self._done: dict[int, Cached] = {}
        has_code = bool(plan.extras.converters or plan.extras.algorithms)
        is_remote = any(isinstance(root, RemotePath) for root in plan.roots)
        is_parallel = jobs > 1 and not has_code and not is_remote
        if is_parallel:
            # No process is started for records that are there already.
            found = {number: self._comparer.find(plan.pairing.pairs[number]) for number in order}
            self._done = {number: cached for number, cached in found.items() if cached is not None}
            order = [number for number in order if number not in self._done]
        if is_parallel and len(order) > 1:
            self._workers = ports.load("pytest_msdump.core.processes:Workers")(
                self._comparer.compare,
                (plan.pairing.pairs[number] for number in order),
                jobs=min(jobs, len(order)),
                died=self._comparer.died,
                most_together=_MOST_TOGETHER,
            )
            self._results = self._workers.results()
            self._ahead = zip(order, self._results, strict=False)
            self._awaited.update(order)

    def record(self, number: int) -> Record:
        """Return the record of a pair."""
        if number in self._awaited:
            for one, result in self._ahead:
                self._done[one] = result
                self._awaited.remove(one)
                if one == number:
                    break
        found = self._done.pop(number, None) or self._comparer.compare(self._plan.pairing.pairs[number])
        if found.key is not None:
            self.keys[number] = found.key
        if found.is_reused:
            self.reused.add(number)
        return with_arguments(self._plan, number, found.record)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to note in the report."""
        again = 0 if self._workers is None else self._workers.again
        return (ENGLISH("note_worker_ended", n=again),) if again else ()

    def close(self) -> None:
        """End the worker processes."""
        if self._workers is not None:
            self._results.close()
