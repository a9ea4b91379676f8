"""``--msdump-jobs N`` and ``--jobs N``: whatever N is, the results are the same to the byte."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from scheduling.dumps import (
    LARGE,
    as_written,
    before_each_pair,
    file_of,
    has_not_ended,
    results,
    write_pairs,
)

from pytest_msdump.cli import main
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.scheduling import Runner
from pytest_msdump.core.settings.options import parse_jobs
from pytest_msdump.core.suite import load_suite

SIZES = [LARGE, 12, LARGE, LARGE, 30, 7, LARGE, LARGE]


@pytest.fixture
def compared_here(monkeypatch):
    """The operators that this process compares."""
    names: set[str] = set()
    before_each_pair(monkeypatch, names.add)
    return names


@pytest.mark.full
def test_the_report_is_the_same_and_processes_compare(tmp_path, monkeypatch, compared_here):
    write_pairs(tmp_path, SIZES, drifting=(2, 4))
    file_of(tmp_path / "left", "op6").write_bytes(b"\x93NUMPY" + bytes(4 * LARGE))
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--spread", "all"]) == 1
    alone = as_written(tmp_path)
    assert len(compared_here) == len(SIZES)
    compared_here.clear()
    assert main(["compare", "left", "right", "--spread", "all", "--jobs", "3"]) == 1
    assert as_written(tmp_path) == alone
    assert not compared_here
    verdicts = {record["left"]["name"]: record["verdict"] for record in results(tmp_path)["tensors"]}
    assert [verdicts[f"op{number}"] for number in (0, 2, 4, 6)] == ["pass", "fail", "fail", "error"]


def test_pytest_compares_the_next_items_ahead_and_reports_the_same(pytester, compared_here):
    write_pairs(pytester.path, SIZES, drifting=(2,))
    sides = ("--msdump-left=left", "--msdump-right=right", "-p", "no:cacheprovider")
    pytester.runpytest_inprocess(*sides).assert_outcomes(passed=8, failed=1)
    alone = as_written(pytester.path)
    compared_here.clear()
    pytester.runpytest_inprocess(*sides, "--msdump-jobs=2").assert_outcomes(passed=8, failed=1)
    assert as_written(pytester.path) == alone
    assert not compared_here


def test_what_was_not_reached_is_not_run_although_it_was_compared_ahead(pytester):
    write_pairs(pytester.path, [LARGE] * 6, drifting=(1,))
    result = pytester.runpytest_inprocess(
        "--msdump-left=left", "--msdump-right=right", "--msdump-jobs=4", "-x", "-p", "no:cacheprovider"
    )
    result.assert_outcomes(passed=1, failed=1)
    assert results(pytester.path)["counts"]["not_run"] == 4


def test_selections_of_pytest_ask_for_their_own_items_only(pytester, compared_here):
    write_pairs(pytester.path, [LARGE] * 6, drifting=(1, 4))
    arguments = ("--msdump-left=left", "--msdump-right=right", "--msdump-jobs=2")
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=5, failed=2)
    pytester.runpytest_inprocess(*arguments, "--lf").assert_outcomes(failed=2)
    assert not compared_here
    pytester.runpytest_inprocess(*arguments, "-k", "op3").assert_outcomes(passed=1)
    # One pair is not worth a process.
    assert compared_here == {"op3"}


def test_nothing_is_compared_across_another_test(pytester):
    """A test in between may write the files that come next."""
    write_pairs(pytester.path, [LARGE, LARGE])
    pytester.makeconftest(
        "def pytest_collection_modifyitems(items):\n"
        "    items.insert(1, items.pop([item.name for item in items].index('test_writes')))\n"
    )
    pytester.makepyfile(
        "import numpy, pathlib\n"
        "def test_writes():\n"
        "    for file in pathlib.Path('left').glob('op1*'):\n"
        "        numpy.save(file, numpy.load(file) * 3)\n"
    )
    arguments = ("--msdump-left=left", "--msdump-right=right", "--msdump-jobs=2", "-v", "-p", "no:cacheprovider")
    result = pytester.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*op0 PASSED*", "*test_writes PASSED*", "*op1 FAILED*"])


@pytest.mark.e2e
def test_workers_of_xdist_report_the_same(pytester):
    write_pairs(pytester.path, [LARGE] * 4, drifting=(2,))
    sides = ("--msdump-left=left", "--msdump-right=right", "-p", "no:cacheprovider")
    pytester.runpytest_inprocess(*sides)
    alone = as_written(pytester.path)
    pytester.runpytest_inprocess(*sides, "--msdump-jobs=2", "-n2").assert_outcomes(passed=4, failed=1)
    assert as_written(pytester.path) == alone


# Workers import the program again, and so have the same comparison.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from pytest_msdump.cli import main
from pytest_msdump.core.compare.comparing import Comparer
original = Comparer.compare
def compare(comparer, pair):
    name = pair.left.key.op.name
    Path("by").mkdir(exist_ok=True)
    Path("by", str(os.getpid())).touch()
    {here}
    return original(comparer, pair)
Comparer.compare = compare
if __name__ == "__main__":
    # What runs in a shell's background has this signal switched off, and passes that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    {before}
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else main())
"""


@contextmanager
def begun(folder: Path, *words: str, here: str = "pass", before: str = "pass") -> Iterator[subprocess.Popen[str]]:
    """``msdump compare left right``, in a process group of its own; `here` is done before each pair."""
    (folder / "program.py").write_text(PROGRAM.format(here=here, before=before))
    command = [sys.executable, "program.py", "compare", "left", "right", *words]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, cwd=folder, **pipes) as process:
        yield process


def compared_by(folder: Path) -> set[int]:
    """The processes that compared."""
    return {int(path.name) for path in folder.glob("by/*")}


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def runs(number: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.e2e
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc which processes there are")
@pytest.mark.parametrize("jobs", ["1", "3"])
@pytest.mark.parametrize(
    ("number", "to_all", "code", "said"),
    [
        (signal.SIGINT, True, 2, "msdump: interrupted\n"),
        (signal.SIGTERM, True, 128 + signal.SIGTERM, ""),
        (signal.SIGTERM, False, 128 + signal.SIGTERM, ""),
        (signal.SIGKILL, False, -signal.SIGKILL, None),
    ],
)
def test_what_ends_the_command_ends_its_workers(tmp_path, jobs, number, to_all, code, said):
    write_pairs(tmp_path, [50] * 40)
    # The handler of SIGTERM is for the command by itself.
    before = "sys.argv = ['msdump', *sys.argv[1:]]; main_ = main; main = lambda _: main_()"
    with begun(tmp_path, "--jobs", jobs, here="time.sleep(120)", before=before) as process:
        assert until(lambda: len(compared_by(tmp_path)) == int(jobs))
        (os.killpg if to_all else os.kill)(process.pid, number)
        assert process.wait(30) == code
        assert said is None or process.stderr.read() == said
    assert has_not_ended(tmp_path)
    assert until(lambda: not any(map(runs, compared_by(tmp_path))))


@pytest.mark.e2e
def test_a_killed_worker_is_told_and_loses_nothing(tmp_path):
    write_pairs(tmp_path, [50] * 40, drifting=(9,))
    with begun(tmp_path) as process:
        assert process.wait(60) == 1
    alone = results(tmp_path)
    here = "name == 'op9' and not Path('killed').exists() and (Path('killed').touch(), os.kill(os.getpid(), 9))"
    with begun(tmp_path, "--jobs", "2", here=here) as process:
        assert process.wait(60) == 1
        assert "Traceback" not in process.stderr.read()
    found = results(tmp_path)
    assert found["tensors"] == alone["tensors"]
    assert found["complete"] is True
    (note,) = found["notes"]
    assert note.startswith("a worker process ended early, killed perhaps: ")


@pytest.mark.e2e
def test_a_pair_that_kills_its_workers_is_an_error_and_no_other_is(tmp_path):
    write_pairs(tmp_path, [50] * 40)
    with begun(tmp_path, "--jobs", "2", here="name == 'op9' and os.kill(os.getpid(), signal.SIGKILL)") as process:
        assert process.wait(60) == 1
    verdicts = {record["left"]["name"]: record["verdict"] for record in results(tmp_path)["tensors"]}
    assert verdicts == {f"op{number}": "error" if number == 9 else "pass" for number in range(40)}
    (error,) = [record for record in results(tmp_path)["tensors"] if record["verdict"] == "error"]
    assert error["findings"][0]["sentence"].startswith("comparing this pair ended 2 worker processes")


@pytest.mark.e2e
def test_what_workers_found_is_kept_in_the_cache(tmp_path, monkeypatch, capsys):
    write_pairs(tmp_path, [50] * 10)
    for file in [*(tmp_path / "left").iterdir(), *(tmp_path / "right").iterdir()]:
        os.utime(file, (1, 1))
    time.sleep(3.1)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--jobs", "2", "--cache", "files"]) == 0
    assert main(["compare", "left", "right", "--jobs", "2", "--cache", "files"]) == 0
    assert "cache: 10 of 10 pairs from earlier runs" in capsys.readouterr().out


def test_code_of_a_user_runs_one_by_one(tmp_path, monkeypatch, compared_here):
    write_pairs(tmp_path, [LARGE] * 3)
    (tmp_path / "mine" / "algorithm").mkdir(parents=True)
    (tmp_path / "mine" / "algorithm" / "alg_mine.py").write_text("def compare(left, right, args): return '1', ''\n")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--jobs=3", "-custom", "mine"]) == 0
    assert compared_here == {"op0", "op1", "op2"}


def test_a_suite_file_may_say_it(tmp_path):
    file = tmp_path / "msdump.toml"
    file.write_text("[msdump]\nleft = 'left'\nright = 'right'\njobs = 3\n")
    loaded = load_suite(file=file, options={}, directory=tmp_path)
    typed = load_suite(file=file, options={"jobs": "5"}, directory=tmp_path)
    assert (loaded.options["jobs"], typed.options["jobs"]) == (3, 5)


@pytest.mark.parametrize("value", ["0", "-1", "many", "", 257, "1.5", "٣", "9" * 30])
def test_numbers_of_workers_that_cannot_be_meant_are_refused(value):
    with pytest.raises(
        ConfigError, match=r"--msdump-jobs: .* is not a number of workers; write a number from 1 to 256"
    ):
        parse_jobs(value)


def test_a_pair_whose_file_went_away_is_told_as_without_processes(tmp_path):
    write_pairs(tmp_path, [LARGE] * 2)
    planned = plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=tmp_path))
    file_of(tmp_path / "left", "op1").unlink()
    with closing(Runner(planned, (0, 1))) as here, closing(Runner(planned, (0, 1), jobs=2)) as ahead:
        records = [[runner.record(number) for number in (0, 1)] for runner in (here, ahead)]
    assert records[0] == records[1]
    assert [record.verdict.outcome for record in records[0]] == ["pass", "error"]


def test_pairs_may_be_asked_for_in_another_order_and_again(tmp_path):
    write_pairs(tmp_path, [50] * 6)
    planned = plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=tmp_path))
    with closing(Runner(planned, (0, 1, 2, 3), jobs=2)) as runner:
        orders = [runner.record(number).order for number in (2, 0, 5, 2, 3)]
    assert orders == [planned.pairing.pairs[number].order for number in (2, 0, 5, 2, 3)]
