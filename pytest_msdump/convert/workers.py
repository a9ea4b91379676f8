"""Converts many files at a time in processes; one that is killed costs its file alone."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from pytest_msdump.convert.one_file import Outcome
from pytest_msdump.convert.sources import SourceFile

__all__ = ["convert_all", "usual_jobs"]

Task = Callable[[SourceFile], Outcome]

# A process takes longer to start than so many small files to convert.
_WORTH_PROCESSES = 64
_MOST_JOBS = 8
_KILLED = (
    "the process that converted it was killed, as happens when memory runs out; convert it alone, or give memory back"
)


def usual_jobs(files: int) -> int:
    """Return how many processes pay for so many files."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(able, _MOST_JOBS) if files >= _WORTH_PROCESSES else 1


def convert_all(sources: Sequence[SourceFile], task: Task, *, jobs: int) -> Iterator[Outcome]:
    """Convert files in `jobs` processes, or in this one for 1, and yield each outcome as soon as it is known.

    `task` converts one file; for more than one job it must survive pickling.
    """
    if jobs <= 1:
        yield from map(task, sources)
        return
    waiting = deque(sources)
    while waiting:
        suspects: list[SourceFile] = []
        yield from _until_broken(waiting, suspects, task, jobs)
        # Any of them may have killed it. They are done one by one, so that the one that does it again is known.
        while suspects:
            yield from _one_by_one(suspects, task)


def _until_broken(waiting: deque[SourceFile], suspects: list[SourceFile], task: Task, jobs: int) -> Iterator[Outcome]:
    """Convert what is `waiting`; when a process dies, leave in `suspects` the files that were being converted."""
    running: dict[Future[Outcome], SourceFile] = {}
    with _pool(jobs) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < 2 * jobs:
                    running[pool.submit(task, waiting[0])] = waiting[0]
                    waiting.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    outcome = future.result()
                    del running[future]
                    yield outcome
        except BrokenProcessPool:
            suspects += running.values()


def _one_by_one(suspects: list[SourceFile], task: Task) -> Iterator[Outcome]:
    """Convert `suspects` in one process, up to the one that kills it."""
    with _pool(1) as pool:
        while suspects:
            source = suspects.pop(0)
            try:
                yield pool.submit(task, source).result()
            except BrokenProcessPool:
                yield Outcome(source.path, failures=[("", _KILLED)])
                return


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Forked children of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, also when it was killed."""
    parent = multiprocessing.parent_process()

    def wait_for_parent() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=wait_for_parent, daemon=True).start()
