"""Every pair of a plan compared, here or on a cluster, and what is to be said of how that went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.comparison.collecting import collector_at_rest, past_set_aside
from pytest_msdump.report.gathering import completed
from pytest_msdump.scheduling.serial import Runner, is_one_by_one

if TYPE_CHECKING:
    from pytest_msdump.comparison.planning import Plan
    from pytest_msdump.comparison.user_code import Watch
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report
    from pytest_msdump.scheduling.cache import Cache
    from pytest_msdump.scheduling.copies import Copies
    from pytest_msdump.scheduling.serial import Measured, Workers
    from pytest_msdump.suite import Suite

__all__ = ["records_of", "table_meanwhile"]

# A table of fewer records is written in the time that it takes to copy the process. What a copy looks at becomes its
# own, some six kilobytes of each record.
_FEWEST_TABLED = 500
_MOST_TABLED = 16_000


def records_of(
    plan: Plan, watch: Watch, *, scheduler: str | None = None
) -> tuple[Mapping[int, Record], tuple[str, ...]]:
    """Compare every pair.

    Parameters
    ----------
    plan : Plan
        Whose pairs they are; its suite says how many may work at once.
    watch : Watch
        Shows how far it is.
    scheduler : str, optional
        Where a Dask scheduler is: then its workers compare, and this process only asks.

    Returns
    -------
    records, notes
        Records by number of the pair; sentences for the report.

    Raises
    ------
    ConfigError
        There is no scheduler, or nobody there can compare.
    """
    numbers = range(len(plan.pairing.pairs))
    if scheduler is not None:
        return _by_cluster(plan, numbers, watch, scheduler)
    cache = _cache(plan)
    records: dict[int, Record] = {}
    copies, workers = _helpers(plan)
    with workers as threads, past_set_aside():
        runner = Runner(plan, numbers, threads, cache=cache)
        by_copies = copies(runner.measured_together, numbers, plan.suite.jobs) if copies else None
        try:
            if threads is not None:
                for number in watch(numbers, "pairs"):
                    records[number] = runner.record(number)
            else:
                some = runner.measured_together(numbers) if by_copies is None else by_copies
                for number, measured in watch(some, "pairs", len(numbers)):
                    records[number] = runner.taken(number, measured)
        finally:
            notes = () if cache is None else _kept(cache, runner, records)
    return records, (*notes, *_ended_early(by_copies))


def table_meanwhile(suite: Suite, report: Report) -> AbstractContextManager[Callable[[], bytes | None]]:
    """Let a copy of this process work out ops.csv, where several may work, while this one looks over the report.

    Parameters
    ----------
    suite : Suite
        Says how many may work, and which reports are wanted.
    report : Report
        Of `report.gathering.put_together`.

    Returns
    -------
    context manager
        Gives the `table` of `report.gathering.write_report`.
    """
    is_worth_it = _FEWEST_TABLED <= len(report.records) <= _MOST_TABLED
    if suite.jobs <= 1 or "csv" not in suite.report or not is_worth_it:
        return nullcontext(lambda: None)
    from pytest_msdump.report.vendor_table import csv_content
    from pytest_msdump.scheduling.copies import meanwhile

    def table() -> bytes:
        with collector_at_rest():
            return csv_content(report)

    return meanwhile(table)


def _helpers(plan: Plan) -> tuple[type[Copies[Measured]] | None, AbstractContextManager[Workers | None]]:
    """Who measures: copies of this process, where there can be some, or threads, or nobody else."""
    if plan.suite.jobs <= 1 or is_one_by_one(plan):
        return None, nullcontext()
    from pytest_msdump.scheduling.copies import Copies, is_possible

    if is_possible():
        return Copies, nullcontext()
    from pytest_msdump.scheduling.serial import Workers

    return None, closing(Workers(plan.suite.jobs))


def _ended_early(copies: Copies[Measured] | None) -> tuple[str, ...]:
    if copies is None or not copies.again:
        return ()
    return (f"a worker process ended early, killed perhaps: {copies.again} pairs were compared by the main process",)


def _cache(plan: Plan) -> Cache | None:
    # Off is the rule, and two small files are compared in less time than it takes to load this.
    if plan.suite.cache == "off":
        return None
    from pytest_msdump.scheduling.cache import cache_folder, open_cache

    return open_cache(plan, cache_folder(Path.cwd()))


def _kept(cache: Cache, runner: Runner, records: Mapping[int, Record]) -> tuple[str, ...]:
    """Keep what was measured, also of a run that was interrupted, and say what came from earlier ones."""
    problem = cache.keep(records, runner.keys, runner.reused)
    return tuple(filter(None, (cache.told(len(runner.reused), len(records)), cache.note, problem)))


def _by_cluster(plan: Plan, numbers: range, watch: Watch, address: str) -> tuple[Mapping[int, Record], tuple[str, ...]]:
    from pytest_msdump.scheduling.cluster import Cluster
    from pytest_msdump.scheduling.workers import connected

    with connected(address) as client:
        cluster = Cluster(plan, client, address)
        found = watch(cluster.records(numbers), "pairs", len(numbers))
        records = {number: completed(plan, number, record) for number, record in found}
        return records, tuple(cluster.notes)
