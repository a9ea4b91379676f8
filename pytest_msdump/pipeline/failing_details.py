"""Details of the tensors that fail, the first few of a run, wherever in how many processes it happens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_msdump.errors import MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.model.record import Record
from pytest_msdump.pipeline.detail import detail_pair, detail_stems
from pytest_msdump.pipeline.planning import Plan
from pytest_msdump.reporting.atomic import make_directory

__all__ = ["FOLDER", "close_slots", "details_of_failing", "left_out"]

FOLDER = "detail"


def details_of_failing(
    plan: Plan, records: Mapping[int, Record], directory: Path, run: str
) -> list[tuple[str, Path | str]]:
    """Write those of some records that fail, as far as the run has not written as many as its suite asks for.

    Parameters
    ----------
    plan : Plan
        ``suite.detail`` is how many.
    records : mapping of int to record
        What was done, by number of the pair.
    directory : Path
        Of the reports; details go into a folder of it.
    run : str
        What all processes of this run are told, and no other run is.

    Returns
    -------
    list of tuple
        Address, and the summary's file or the sentence why there is none.
    """
    failing = [number for number, record in sorted(records.items()) if record.fails]
    if not plan.suite.detail or not failing:
        return []
    told: list[tuple[str, Path | str]] = []
    for number in failing:
        pair = plan.pairing.pairs[number]
        try:
            slot = _taken(directory, run, plan.suite.detail)
            told.append((pair.left.key.address, _written(plan, number, directory, slot)))
        except (MsdumpError, OSError) as error:
            told.append((pair.left.key.address, terminal_text(str(error))))
    return told


def _written(plan: Plan, number: int, directory: Path, slot: Path | None) -> Path | str:
    if slot is None:
        return left_out(plan.suite.detail)
    stem = detail_stems(plan.pairing.pairs)[number]
    try:
        detail = detail_pair(plan.pairing.pairs[number], directory / FOLDER, stem=stem, extras=plan.extras)
    except BaseException:
        # What cannot be written takes no place of another one.
        slot.unlink()
        raise
    return detail.files[0]


def left_out(count: int) -> str:
    """Say that a run has written as many as it was asked for."""
    what = "1 failing tensor of this run has its" if count == 1 else f"{count} failing tensors of this run have theirs"
    return f"left out, since {what} already; --msdump-detail={count * 2} for more"


def _slots(directory: Path, run: str) -> Path:
    return directory / FOLDER / f".{run}"


def _taken(directory: Path, run: str, count: int) -> Path | None:
    """Take a place among the first `count` of a run; ``None`` when all are gone."""
    make_directory(directory)
    folder = _slots(directory, run)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / str(number)
        # Several processes may want the same place; only one of them makes the file.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return path
    return None


def close_slots(directory: Path, run: str) -> int:
    """Forget which places a run has taken, and return how many these were."""
    folder = _slots(directory, run)
    if not folder.is_dir():
        return 0
    count = len(list(folder.iterdir()))
    shutil.rmtree(folder, ignore_errors=True)
    return count
