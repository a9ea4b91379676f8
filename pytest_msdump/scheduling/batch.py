"""What a worker of a cluster does: compare some pairs, if it is the same program and sees the same files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Record, record_of
from pytest_msdump.model.verdict import Finding, Verdict
from pytest_msdump.pipeline.conditions import Conditions, compare_one
from pytest_msdump.scheduling.files import files_of, state_of
from pytest_msdump.scheduling.stamp import Stamp, differences, stamp
from pytest_msdump.text import plain_text

__all__ = ["Answer", "Job", "compare_batch", "error_record", "job_of"]


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
