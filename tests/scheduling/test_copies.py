"""Copies of the process divide pairs: everything comes back once and in order, whatever becomes of a copy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from scheduling.dumps import as_written, file_of, has_not_ended, results, write_pairs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads measure: see test_jobs.py")

# In processes of their own: this one has threads.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


def run(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env=os.environ | _ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def told_by(program: str, folder: Path) -> Any:
    """What a program prints as JSON, on its last line."""
    done = run(folder, program)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


_IS_CHILDLESS = (
    "def is_childless():\n"
    "    try: os.waitpid(-1, os.WNOHANG)\n"
    "    except ChildProcessError: return True\n"
    "    return False\n"
)


def copies(body: str, count: int, jobs: int, folder: Path, take: str = "list(copies)") -> Any:
    """Results of a function whose body is given; `home` is the original's number, `before` what the process had."""
    return told_by(
        "import json, os, signal, time\nfrom pathlib import Path\n"
        "from pytest_msdump.scheduling.copies import Copies\n"
        "home, before = os.getpid(), []\ndef function(number):\n"
        f"    before.append(number)\n    {body}\n{_IS_CHILDLESS}"
        "def several(numbers):\n    for number in numbers: yield number, function(number)\n"
        f"copies = Copies(several, range({count}), {jobs})\nfound = {take}\n"
        "print(json.dumps([found, copies.again, is_childless()]))\n",
        folder,
    )


@pytest.mark.e2e
@pytest.mark.parametrize(("count", "jobs"), [(0, 2), (1, 4), (5, 8), (100, 3), (3001, 2), (70_000, 9)])
def test_every_number_comes_once_and_in_order(tmp_path: Path, count: int, jobs: int) -> None:
    found, again, is_childless = copies("return number * 7", count, jobs, tmp_path)
    assert found == [[number, number * 7] for number in range(count)]
    assert (again, is_childless) == (0, True)


@pytest.mark.e2e
def test_the_original_and_all_copies_work_and_each_number_is_worked_out_once(tmp_path: Path) -> None:
    body = "time.sleep(0.01); Path(f'{number} {os.getpid()}').touch(); return [os.getpid(), home]"
    found, again, _ = copies(body, 60, 3, tmp_path)
    workers = {worker for _, (worker, _) in found}
    assert len(workers) == 3
    assert {home for _, (_, home) in found} < workers
    assert sorted(int(path.name.split()[0]) for path in tmp_path.iterdir()) == list(range(60))
    assert again == 0


@pytest.mark.e2e
@pytest.mark.parametrize("when", ["len(before) == 1", "len(before) == 10", "number % 20 == 19", "True"])
def test_what_a_killed_copy_had_is_worked_out_by_the_original(tmp_path: Path, when: str) -> None:
    """`again` counts, and so grows with each of these."""
    # The original waits with its first number until then: whoever is slow to start would find nothing left to do.
    body = (
        f"({when}) and os.getpid() != home and (Path('killed').touch(), os.kill(os.getpid(), signal.SIGKILL))\n"
        "    waits = range(3000 if os.getpid() == home and len(before) == 1 else 0)\n"
        "    all(not Path('killed').exists() and not time.sleep(0.01) for _ in waits)\n"
        "    return [number, os.getpid() == home]"
    )
    take = "[(number, value, copies.again) for number, value in copies]"
    found, again, is_childless = copies(body, 100, 2, tmp_path, take)
    assert [(number, value[0]) for number, value, _ in found] == [(number, number) for number in range(100)]
    counts = [0, *(count for *_, count in found)]
    anew = [value[1] for count, (_, value, now) in zip(counts, found, strict=False) if now > count]
    assert again == len(anew) >= 1
    assert all(anew)
    assert is_childless


@pytest.mark.e2e
def test_a_copy_that_is_killed_while_it_sends_is_not_believed(tmp_path: Path) -> None:
    """Half of a message is in the pipe, which is not as long as one."""
    later = "(time.sleep(0.5), os.kill(os.getppid(), signal.SIGKILL), os._exit(0))"
    body = (
        "os.getpid() == home and len(before) == 1 and time.sleep(1.5); "
        f"os.getpid() != home and len(before) == 1 and os.fork() == 0 and {later}; return 'x' * (1 << 22)"
    )
    found, again, _ = copies(body, 4, 2, tmp_path, "[(number, len(value)) for number, value in copies]")
    assert found == [[number, 1 << 22] for number in range(4)]
    assert again >= 1


@pytest.mark.e2e
def test_a_copy_goes_on_while_the_original_is_busy(tmp_path: Path) -> None:
    """The original waits here until the copy, whose results no pipe holds, has done all the rest."""
    body = (
        "waits = range(2000 if os.getpid() == home else 0)\n"
        "    is_late = all(not Path('done').exists() and not time.sleep(0.01) for _ in waits) and len(waits) > 0\n"
        "    len(before) == 29 and Path('done').touch()\n"
        "    return [is_late, 'x' * 200_000]"
    )
    found, *_ = copies(body, 30, 2, tmp_path, "[(number, *value) for number, value in copies]")
    assert [(number, is_late, len(text)) for number, is_late, text in found] == [(n, False, 200_000) for n in range(30)]


@pytest.mark.e2e
def test_what_is_raised_is_raised_where_its_number_comes_by(tmp_path: Path) -> None:
    take = "[]\ntry:\n    for number, _ in copies: found += [number]\nexcept ZeroDivisionError: found.append('raised')"
    found, *_ = copies("return 1 // (number - 7)", 20, 2, tmp_path, take)
    assert found == [*range(7), "raised"]


@pytest.mark.e2e
def test_who_looks_no_further_leaves_no_copy_behind(tmp_path: Path) -> None:
    *_, is_childless = copies("time.sleep(5 * (number > 20)); return number", 300, 2, tmp_path, "next(iter(copies))")
    assert is_childless


@pytest.mark.e2e
def test_a_process_with_threads_is_not_copied(tmp_path: Path) -> None:
    program = (
        "import json, threading\nfrom pytest_msdump.scheduling.copies import is_possible\n"
        "alone, event = is_possible(), threading.Event()\n"
        "thread = threading.Thread(target=event.wait)\nthread.start()\n"
        "beside = is_possible()\nevent.set()\nthread.join()\nprint(json.dumps([alone, beside]))\n"
    )
    assert told_by(program, tmp_path) == [True, False]


# -- one thing meanwhile -----------------------------------------------------------------------------------------------


def made(body: str, folder: Path, take: str = "take()", before: str = "pass") -> Any:
    """What a copy made by a function whose body is given, and whether no copy is left."""
    return told_by(
        "import json, os, signal, threading, time\nfrom pathlib import Path\n"
        "from pytest_msdump.scheduling.copies import meanwhile\n"
        f"home = os.getpid()\ndef make():\n    {body}\n{_IS_CHILDLESS}{before}\n"
        f"with meanwhile(make) as take:\n    found = {take}\nprint(json.dumps([found, is_childless()]))\n",
        folder,
    )


@pytest.mark.e2e
def test_a_copy_makes_it_however_large_it_is_while_the_original_goes_on(tmp_path: Path) -> None:
    body = "while not Path('gone on').exists(): time.sleep(0.01)\n    return [os.getpid() != home, 'x' * 3_000_000]"
    (is_copy, text), is_childless = made(body, tmp_path, "(Path('gone on').touch(), take())[1]")
    assert (is_copy, len(text), is_childless) == (True, 3_000_000, True)


@pytest.mark.e2e
@pytest.mark.parametrize("body", ["os.kill(os.getpid(), signal.SIGKILL)", "raise ValueError(7)", "os._exit(0)"])
def test_what_no_copy_could_make_is_left_to_who_asks(tmp_path: Path, body: str) -> None:
    assert made(body, tmp_path) == [None, True]


@pytest.mark.e2e
def test_who_does_not_ask_does_not_wait(tmp_path: Path) -> None:
    assert made("time.sleep(600)", tmp_path, "'nothing'") == ["nothing", True]


@pytest.mark.e2e
def test_beside_threads_nobody_makes_it(tmp_path: Path) -> None:
    thread = "event = threading.Event(); thread = threading.Thread(target=event.wait); thread.start()"
    found = made("Path('made').touch()", tmp_path, "(take(), event.set(), thread.join())[0]", thread)
    assert found == [None, True]
    assert not (tmp_path / "made").exists()


# -- the command -------------------------------------------------------------------------------------------------------

_COMMAND = (
    "import os, signal, sys, time\nfrom pathlib import Path\n"
    "from pytest_msdump import cli\nfrom pytest_msdump.scheduling import serial as running\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "home, compare = os.getpid(), running.compare_pairs\n"
    "def compare_pairs(pairs, conditions):\n"
    "    for pair in pairs:\n"
    "        name = pair.left.key.op.name\n"
    "        Path('by').mkdir(exist_ok=True)\n"
    "        Path('by', str(os.getpid())).touch()\n"
    "        {here}\n"
    "        yield from compare((pair,), conditions)\n"
    "running.compare_pairs = compare_pairs\n"
    "sys.exit(cli.main(sys.argv[1:]))\n"
)


def command(folder: Path, *words: str, here: str = "pass", before: str = "") -> tuple[int, str]:
    """Run ``msdump compare left right``; the exit code and what it printed."""
    done = run(folder, before + _COMMAND.format(here=here), "compare", "left", "right", *words)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.e2e
def test_the_report_is_the_same_to_the_byte(tmp_path: Path) -> None:
    write_pairs(tmp_path, [12, 40_000, 30, 7, 5000] * 8, drifting=(2, 24))
    file_of(tmp_path / "left", "op6").write_bytes(b"\x93NUMPY" + bytes(90))
    assert command(tmp_path, "--all")[0] == 1
    alone = as_written(tmp_path)
    assert len(workers(tmp_path)) == 1
    code, said = command(tmp_path, "--all", "--jobs", "3")
    assert (code, as_written(tmp_path)) == (1, alone)
    assert len(workers(tmp_path)) == 1 + 3
    assert "op6" in said


_TABLE = (
    "import os, signal, sys\nfrom pathlib import Path\n"
    "from pytest_msdump import cli\nfrom pytest_msdump.report import vendor_table as csv_report\n"
    "from pytest_msdump.scheduling import whole\n"
    "whole._FEWEST_TABLED, whole._MOST_TABLED = {bounds}\n"
    "home, lines = os.getpid(), csv_report.csv_lines\n"
    "def csv_lines(report):\n"
    "    Path('table by original' if os.getpid() == home else 'table by copy').touch()\n"
    "    {here}\n"
    "    return lines(report)\n"
    "csv_report.csv_lines = csv_lines\n"
    "sys.exit(cli.main(sys.argv[1:]))\n"
)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("jobs", "bounds", "here", "makers"),
    [
        (1, (0, 99), "pass", {"original"}),
        (2, (17, 99), "pass", {"original"}),
        (2, (0, 15), "pass", {"original"}),
        (2, (16, 16), "pass", {"copy"}),
        (2, (0, 99), "os.getpid() == home or os.kill(os.getpid(), signal.SIGKILL)", {"copy", "original"}),
    ],
)
def test_whoever_makes_the_table_it_is_the_same_to_the_byte(
    tmp_path: Path, jobs: int, bounds: tuple[int, int], here: str, makers: set[str]
) -> None:
    write_pairs(tmp_path, [12, 30, 7, 50] * 4, drifting=(2, 9))
    assert command(tmp_path, "--report", "json,csv")[0] == 1
    alone = [(tmp_path / "msdump-report" / name).read_bytes() for name in ("results.json", "ops.csv")]
    program = _TABLE.format(here=here, bounds=bounds)
    done = run(tmp_path, program, "compare", "left", "right", "--report", "json,csv", "--jobs", str(jobs))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert [(tmp_path / "msdump-report" / name).read_bytes() for name in ("results.json", "ops.csv")] == alone
    assert {file.name.removeprefix("table by ") for file in tmp_path.glob("table by *")} == makers


@pytest.mark.e2e
def test_a_killed_worker_is_told_and_loses_nothing(tmp_path: Path) -> None:
    write_pairs(tmp_path, [50] * 40, drifting=(9,))
    assert command(tmp_path)[0] == 1
    alone = results(tmp_path)
    here = "time.sleep(0.02) if os.getpid() == home else os.kill(os.getpid(), signal.SIGKILL)"
    code, said = command(tmp_path, "--jobs", "2", here=here)
    found = results(tmp_path)
    assert code == 1
    assert "a worker process ended early" in " ".join(said.split())
    assert found["tensors"] == alone["tensors"]
    assert found["counts"] == alone["counts"]
    assert found["complete"] is True


_NO_MORE_FORKS = (
    "import errno, os\nfork, started = os.fork, []\n"
    "def some_forks():\n"
    "    if len(started) == {most}: raise BlockingIOError(errno.EAGAIN, 'no more processes')\n"
    "    started.append(0)\n"
    "    return fork()\n"
    "os.fork = some_forks\n"
)
_FEW_FILES = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
_NO_LIMIT = "import resource\nresource.getrlimit = lambda _: (resource.RLIM_INFINITY,) * 2\n"
_NO_MORE_PIPES = (
    "import errno, os\npipe, made = os.pipe, []\n"
    "def some_pipes():\n"
    "    if len(made) == 3: raise OSError(errno.ENFILE, 'no more files')\n"
    "    made.append(0)\n"
    "    return pipe()\n"
    "os.pipe = some_pipes\n"
)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("before", "jobs", "most"),
    [
        (_NO_MORE_FORKS.format(most=0), 4, 1),
        (_NO_MORE_FORKS.format(most=2), 8, 3),
        (_NO_MORE_PIPES, 8, 3),
        (_FEW_FILES, 64, 16),
        (_NO_LIMIT, 3, 3),
    ],
    ids=["no fork", "two forks", "three pipes", "64 files", "no limit"],
)
def test_where_there_is_no_room_for_all_copies_there_are_fewer(
    tmp_path: Path, before: str, jobs: int, most: int
) -> None:
    write_pairs(tmp_path, [50] * 200, drifting=(9,))
    assert command(tmp_path)[0] == 1
    alone = as_written(tmp_path)
    for path in (tmp_path / "by").iterdir():
        path.unlink()
    # Whoever is slow to start finds something left to do.
    code, said = command(tmp_path, "--jobs", str(jobs), here="time.sleep(0.01)", before=before)
    assert (code, as_written(tmp_path)) == (1, alone)
    assert min(2, most) <= len(workers(tmp_path)) <= most
    assert "ended early" not in said


@pytest.mark.e2e
@pytest.mark.parametrize("before", [_NO_MORE_FORKS.format(most=0), _NO_MORE_PIPES.replace("== 3", "== 0")])
def test_where_no_copy_can_be_made_nobody_makes_it_meanwhile(tmp_path: Path, before: str) -> None:
    assert made("return 7", tmp_path, before=before) == [None, True]


@pytest.mark.e2e
def test_what_copies_found_is_kept_in_the_cache(tmp_path: Path) -> None:
    write_pairs(tmp_path, [50] * 10)
    for file in [*(tmp_path / "left").iterdir(), *(tmp_path / "right").iterdir()]:
        os.utime(file, (1, 1))
    time.sleep(3.1)
    assert command(tmp_path, "--jobs", "2", "--cache", "files")[0] == 0
    code, said = command(tmp_path, "--jobs", "2", "--cache", "files")
    assert code == 0
    assert "cache: 10 of 10 pairs from earlier runs" in said


@pytest.mark.e2e
def test_an_interrupt_ends_the_command_and_its_copies(tmp_path: Path) -> None:
    write_pairs(tmp_path, [50] * 4)
    with begun(tmp_path, "time.sleep(120)") as process:
        # As a terminal does: to all of them.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 2
    assert (tmp_path / "errors").read_text() == "msdump: interrupted\n"
    assert has_not_ended(tmp_path)
    assert gone(workers(tmp_path))


@pytest.mark.e2e
@pytest.mark.parametrize("to_all", [True, False])
def test_what_ends_the_command_ends_its_copies(tmp_path: Path, to_all: bool) -> None:
    write_pairs(tmp_path, [50] * 4)
    with begun(tmp_path, "time.sleep(120)", "main = cli.main\ncli.main = lambda _: main()\n") as process:
        (os.killpg if to_all else os.kill)(process.pid, signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert (tmp_path / "errors").read_text() == ""
    assert has_not_ended(tmp_path)
    assert gone(workers(tmp_path))


@pytest.mark.e2e
def test_copies_end_when_the_command_was_killed(tmp_path: Path) -> None:
    # A copy would be busy for 50 seconds.
    write_pairs(tmp_path, [50] * 200)
    with begun(tmp_path, "time.sleep(0.5)") as process:
        process.kill()
    assert gone(workers(tmp_path))


def workers(folder: Path) -> set[int]:
    """The processes that measured."""
    return {int(path.name) for path in (folder / "by").iterdir()}


@contextmanager
def begun(folder: Path, here: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """The same command with two copies, which are measuring."""
    program = _COMMAND.format(here=f"name == 'op0' and print('measuring', flush=True); {here}")
    program = program.replace(
        "running.compare_pairs = compare_pairs\n", f"running.compare_pairs = compare_pairs\n{before}"
    )
    words = [sys.executable, "-c", program, "compare", "left", "right", "--jobs", "2"]
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            words,
            cwd=folder,
            env=os.environ | _ONE_THREAD,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert any("measuring" in line for line in process.stdout)
        yield process


def gone(numbers: set[int], seconds: float = 30.0) -> bool:
    """Whether these processes end soon."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        numbers = {number for number in numbers if _runs(number)}
        if not numbers:
            return True
        time.sleep(0.1)
    return False


def _runs(number: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False
