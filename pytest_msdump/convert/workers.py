"""Many files at a time, in processes of their own; one that is killed takes nothing with it but its file."""

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

__all__ = ["converted", "usual_jobs"]

Task = Callable[[SourceFile], Outcome]

# A process takes longer to start than so many small files to convert.
_WORTH_PROCESSES = 64
_MOST_JOBS = 8
_KILLED = (
    "the process that converted it was killed, as happens when memory runs out; convert it alone, or give memory back"
)


def usual_jobs(files: int) -> int:
    """Return how many processes are worth their start for so many files."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(able, _MOST_JOBS) if files >= _WORTH_PROCESSES else 1


def converted(sources: Sequence[SourceFile], task: Task, *, jobs: int) -> Iterator[Outcome]:
    """Convert files, `jobs` at a time, and yield what became of each as soon as that is known.

    Parameters
    ----------
    sources : sequence of SourceFile
        What to convert.
    task : callable
        Converts one; for more than one job it must survive pickling.
    jobs : int
        Number of processes; with 1 everything is done in this one.
    """
    if jobs <= 1:
        yield from map(task, sources)
        return
    waiting = deque(sources)
    while waiting:
        suspects: list[SourceFile] = []
        yield from _until_broken(waiting, suspects, task, jobs)
        # Nobody knows whose fault it was. They are done one by one, so that one is blamed who does it again.
        while suspects:
            yield from _one_by_one(suspects, task)


def _until_broken(waiting: deque[SourceFile], suspects: list[SourceFile], task: Task, jobs: int) -> Iterator[Outcome]:
    """Work `waiting` off; when a process dies, leave in `suspects` what was being done at that time."""
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
    """Work `suspects` off in one process, up to the one that kills it."""
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
    """End this process when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_for, args=(parent,), daemon=True).start()


def _wait_for(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
