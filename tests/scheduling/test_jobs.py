"""``--msdump-jobs N`` and ``--jobs N``: whatever N is, the results are the same to the byte."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from scheduling.dumps import (
    LARGE,
    as_written,
    before_each_pair,
    file_of,
    has_not_ended,
    interrupt_at,
    results,
    write_pairs,
)

from pytest_msdump.cli import main
from pytest_msdump.comparison.planning import plan
from pytest_msdump.errors import ConfigError
from pytest_msdump.scheduling import serial
from pytest_msdump.scheduling.serial import Workers
from pytest_msdump.settings import parse_jobs
from pytest_msdump.suite import load_suite

SIZES = [LARGE, 12, LARGE, LARGE, 30, 7, LARGE, LARGE]


@pytest.fixture
def measured_by(monkeypatch):
    """The names of the threads that measured, by number of the pair's operator."""
    names: dict[str, str] = {}
    before_each_pair(monkeypatch, lambda name: names.update({name: threading.current_thread().name}))
    return names


def test_the_report_is_the_same_and_large_pairs_are_measured_by_threads(tmp_path, monkeypatch, measured_by):
    write_pairs(tmp_path, SIZES, drifting=(2, 4))
    file_of(tmp_path / "left", "op6").write_bytes(b"\x93NUMPY" + bytes(4 * LARGE))
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--spread", "all"]) == 1
    alone = as_written(tmp_path)
    assert set(measured_by.values()) == {"MainThread"}
    assert main(["compare", "left", "right", "--spread", "all", "--jobs", "3"]) == 1
    assert as_written(tmp_path) == alone
    by_threads = {name for name, thread in measured_by.items() if thread.startswith("msdump-")}
    assert by_threads == {f"op{number}" for number, size in enumerate(SIZES) if size == LARGE}
    verdicts = {record["left"]["name"]: record["verdict"] for record in results(tmp_path)["tensors"]}
    assert [verdicts[f"op{number}"] for number in (0, 2, 4, 6)] == ["pass", "fail", "fail", "error"]


def test_pytest_measures_the_next_items_ahead_and_reports_the_same(pytester, measured_by):
    write_pairs(pytester.path, SIZES, drifting=(2,))
    sides = ("--msdump-left=left", "--msdump-right=right", "-p", "no:cacheprovider")
    pytester.runpytest_inprocess(*sides).assert_outcomes(passed=8, failed=1)
    alone = as_written(pytester.path)
    pytester.runpytest_inprocess(*sides, "--msdump-jobs=2").assert_outcomes(passed=8, failed=1)
    assert as_written(pytester.path) == alone
    by_threads = {name for name, thread in measured_by.items() if thread.startswith("msdump-")}
    assert by_threads == {f"op{number}" for number, size in enumerate(SIZES) if size == LARGE}


def test_what_was_not_reached_is_not_run_although_it_was_measured_ahead(pytester):
    write_pairs(pytester.path, [LARGE] * 6, drifting=(1,))
    result = pytester.runpytest_inprocess(
        "--msdump-left=left", "--msdump-right=right", "--msdump-jobs=4", "-x", "-p", "no:cacheprovider"
    )
    result.assert_outcomes(passed=1, failed=1)
    assert results(pytester.path)["counts"]["not_run"] == 4


def test_selections_of_pytest_ask_for_their_own_items_only(pytester, measured_by):
    write_pairs(pytester.path, [LARGE] * 6, drifting=(1, 4))
    arguments = ("--msdump-left=left", "--msdump-right=right", "--msdump-jobs=2")
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=5, failed=2)
    measured_by.clear()
    pytester.runpytest_inprocess(*arguments, "--lf").assert_outcomes(failed=2)
    assert set(measured_by) == {"op1", "op4"}
    measured_by.clear()
    pytester.runpytest_inprocess(*arguments, "-k", "op3").assert_outcomes(passed=1)
    assert set(measured_by) == {"op3"}


def test_nothing_is_measured_across_another_test(pytester):
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


def test_interrupting_a_thread_ends_the_command_as_without_threads(tmp_path, monkeypatch):
    write_pairs(tmp_path, [LARGE] * 3)
    monkeypatch.chdir(tmp_path)
    before_each_pair(monkeypatch, interrupt_at("op1"))
    assert [main(["compare", "left", "right", f"--jobs={jobs}"]) for jobs in (1, 2)] == [2, 2]
    assert has_not_ended(tmp_path)


@pytest.mark.e2e
def test_who_interrupts_waits_for_no_thread(tmp_path):
    write_pairs(tmp_path, [LARGE] * 2)
    program = (
        # What runs in a shell's background has this signal switched off, and passes that on.
        "import signal, sys, time\nfrom pytest_msdump import cli\n"
        "from pytest_msdump.scheduling import serial as running\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def compare_pairs(pairs, conditions):\n    print('measuring', flush=True)\n    time.sleep(120)\n"
        "running.compare_pairs = compare_pairs\nsys.exit(cli.main(['compare', 'left', 'right', '--jobs=2']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("measuring" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 2
    assert has_not_ended(tmp_path)


def test_code_of_a_user_runs_one_by_one(tmp_path, monkeypatch, measured_by):
    write_pairs(tmp_path, [LARGE] * 3)
    (tmp_path / "mine" / "algorithm").mkdir(parents=True)
    (tmp_path / "mine" / "algorithm" / "alg_mine.py").write_text("def compare(left, right, args): return '1', ''\n")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--jobs=3", "-custom", "mine"]) == 0
    assert set(measured_by.values()) == {"MainThread"}


def test_a_suite_file_may_say_it(tmp_path):
    file = tmp_path / "msdump.toml"
    file.write_text("[msdump]\nleft = 'left'\nright = 'right'\njobs = 3\n")
    loaded = load_suite(file=file, options={}, directory=tmp_path)
    assert (loaded.jobs, load_suite(file=file, options={"jobs": "5"}, directory=tmp_path).jobs) == (3, 5)


@pytest.mark.parametrize("value", ["0", "-1", "many", "", 257, "1.5", "٣", "9" * 30])
def test_numbers_of_workers_that_cannot_be_meant_are_refused(value):
    with pytest.raises(
        ConfigError, match=r"--msdump-jobs: .* is not a number of workers; write a number from 1 to 256"
    ):
        parse_jobs(value)


def test_a_pair_whose_file_went_away_is_told_as_without_threads(tmp_path):
    write_pairs(tmp_path, [LARGE] * 2)
    planned = plan(load_suite(file=None, options={"left": "left", "right": "right", "jobs": "2"}, directory=tmp_path))
    file_of(tmp_path / "left", "op1").unlink()
    workers = Workers(2)
    records = [
        [runner.record(number) for number in (0, 1)]
        for runner in (serial.Runner(planned, (0, 1)), serial.Runner(planned, (0, 1), workers))
    ]
    workers.close()
    assert records[0] == records[1]
    assert [record.verdict.outcome for record in records[0]] == ["pass", "error"]
