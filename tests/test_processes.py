"""Worker processes: every item comes once, whatever becomes of a worker, and none is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import worker_functions as functions

from pytest_msdump.core.processes import Workers

pytestmark = pytest.mark.e2e


def workers(function: Any, items: Sequence[Any], jobs: int = 2, together: int = 64) -> Workers[Any, Any]:
    return Workers(function, items, jobs=jobs, died=lambda item: f"{item} died", most_together=together)


@pytest.mark.parametrize(("count", "jobs"), [(0, 2), (1, 4), (5, 8), (100, 3), (3001, 2)])
def test_every_item_comes_once_and_in_order(count: int, jobs: int) -> None:
    crew = workers(functions.times_seven, range(100, 100 + count), jobs)
    assert list(crew.results()) == [7 * (100 + number) for number in range(count)]
    assert crew.again == 0
    assert not multiprocessing.active_children()


def test_what_is_raised_is_raised_here() -> None:
    results = workers(functions.raises_at_7, range(20), together=1).results()
    assert [next(results) for _ in range(7)] == [1 / (number - 7) for number in range(7)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("together", [1, 64])
def test_an_item_that_kills_its_worker_twice_is_given_up_and_no_other(together: int) -> None:
    crew = workers(functions.deadly_at_13, range(400), 2, together)
    assert list(crew.results()) == [*range(13), "13 died", *range(14, 400)]
    assert 1 <= crew.again < 400


def test_what_a_killed_worker_had_is_computed_again(tmp_path: Path) -> None:
    crew = workers(functions.dies_at_first, [tmp_path / f"{number}" for number in range(50)], 2, 1)
    assert list(crew.results()) == [f"{number}" for number in range(50)]
    assert crew.again >= 2


def test_workers_that_are_sending_are_ended_as_well() -> None:
    """What is sent does not fit into the pipe, which the other process does not read while it ends them."""
    results = workers(functions.several_pipes, range(40), 3, 1).results()
    assert len(next(results)) == functions.SEVERAL_PIPES
    results.close()
    assert not multiprocessing.active_children()


@pytest.mark.skipif(os.name == "nt", reason="nothing there ends a process with its leave")
def test_an_interrupt_ends_workers_whatever_they_do(tmp_path: Path) -> None:
    results = workers(functions.takes_long, [tmp_path] * 2, 2, 1).results()
    with pytest.raises(TimeoutError):
        _interrupted(results, tmp_path)
    assert not multiprocessing.active_children()


def _interrupted(results: Any, folder: Path) -> None:
    """Raise an exception where the results are waited for, as Ctrl-C does, once both workers are busy."""

    def interrupt(*_: object) -> None:
        if len(list(folder.iterdir())) == 2:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        next(results)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_with_room_for_fewer_processes_there_are_fewer(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    start = multiprocessing.process.BaseProcess.start

    def started(process: multiprocessing.process.BaseProcess) -> None:
        if len(multiprocessing.active_children()) >= most:
            raise BlockingIOError(11, "no more processes")
        start(process)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", started)
    found = dict(workers(functions.process, range(60), 8, 4).results())
    assert list(found) == list(range(60))
    assert len(set(found.values())) == max(1, most - most % 2)


_UNGUARDED = """
import worker_functions as functions
from pytest_msdump.core.processes import Workers
print(list(Workers(functions.times_seven, range(500), jobs=2, died=str).results()) == list(range(0, 3500, 7)))
"""


def test_a_program_that_cannot_be_imported_again_computes_by_itself(tmp_path: Path) -> None:
    assert _printed(_UNGUARDED, tmp_path) == "True\n"


def _printed(program: str, tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(program)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, tmp_path / "program.py"]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


_KILLED = """
import sys
import worker_functions as functions
from pathlib import Path
from pytest_msdump.core.processes import Workers
if __name__ == "__main__":
    list(Workers(functions.takes_long, [Path(sys.argv[1])] * 2, jobs=2, died=str).results())
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc which processes there are")
def test_no_worker_outlives_a_killed_command(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as process:
        until = time.monotonic() + 30
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
    numbers = {int(file.name) for file in tmp_path.iterdir()}
    assert len(numbers) == 2
    while any(_runs(number) for number in numbers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_runs(number) for number in numbers)


def _runs(number: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False
