"""A run that is killed leaves no result of yesterday behind: not in results.json, not in any other report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from scheduling.dumps import results, write_pairs

from pytest_msdump.cli import main
from pytest_msdump.core.report import files, json_report
from pytest_msdump.core.report.json_report import read_json, report_from

SIDES = ("--msdump-left=left", "--msdump-right=right")
ALL = "--msdump-report=json,csv,html,md,gitlab"
FILES = {"results.json", "ops.csv", "index.html", "summary.md", "gl-code-quality.json"}
KILLED = "import os, signal\ndef pytest_runtest_logreport(report):\n    os.kill(os.getpid(), signal.SIGKILL)\n"


def report_files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")} - {".gitignore"}


def not_ended(folder: Path) -> bool:
    """Whether results.json is one that can be read, and says that its run has not ended."""
    values = read_json(folder / "results.json")
    return values["complete"] is False and not report_from(values).complete


@pytest.fixture
def yesterday(pytester: pytest.Pytester) -> Path:
    """The report directory of a run that passed, with every kind of report."""
    write_pairs(pytester.path, [8, 9, 10])
    pytester.runpytest_inprocess(*SIDES, ALL).assert_outcomes(passed=4)
    assert report_files(pytester.path / "msdump-report") == FILES
    assert results(pytester.path)["complete"] is True
    return pytester.path / "msdump-report"


@pytest.mark.e2e
@pytest.mark.parametrize("kinds", [ALL, "--msdump-report=json"], ids=["all", "json"])
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_after_a_kill_results_json_says_that_the_run_has_not_ended(yesterday, pytester, workers, kinds):
    pytester.makeconftest(KILLED)
    assert pytester.runpytest_subprocess(*SIDES, kinds, *workers).ret == -signal.SIGKILL
    # "[]" of GitLab might be of any program; it goes where this run was to write one.
    kept = set() if kinds == ALL else {"gl-code-quality.json"}
    assert report_files(yesterday) == {"results.json", *kept}
    assert not_ended(yesterday)


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_workers_touch_no_report_and_the_last_word_is_the_runs_own(yesterday, pytester, workers):
    pytester.makeconftest(
        "import os, pytest\n"
        "from pytest_msdump.plugin import output as telling\n"
        "def pytest_configure(config):\n"
        "    if hasattr(config, 'workerinput'):\n"
        "        telling.start_reports = telling.write_reports = lambda *_: os._exit(3)\n"
    )
    pytester.runpytest_inprocess(*SIDES, "--msdump-report=json,md", *workers).assert_outcomes(passed=4)
    assert report_files(yesterday) == {"results.json", "summary.md", "gl-code-quality.json"}
    assert results(pytester.path)["complete"] is True


def test_where_the_run_writes_no_file_nothing_is_touched(yesterday, pytester):
    before = {path.name: path.read_bytes() for path in yesterday.iterdir()}
    pytester.runpytest_inprocess(*SIDES, "--msdump-report=github")
    assert {path.name: path.read_bytes() for path in yesterday.iterdir()} == before


def test_a_suite_that_was_to_run_and_did_not_has_no_result_of_yesterday(pytester):
    for name in ("a", "b"):
        write_pairs(pytester.path / name, [8], drifting=(0,) if name == "a" else ())
        (pytester.path / name / "msdump.toml").write_text("[msdump]\nleft = 'left'\nright = 'right'\n")
    pytester.runpytest_inprocess("b/msdump.toml").assert_outcomes(passed=2)
    top = pytester.path / "msdump-report"
    assert report_files(top) == {"results.json"}
    pytester.runpytest_inprocess("a", "b", "-x").assert_outcomes(failed=1)
    assert report_files(top) == {"a-msdump.toml", "b-msdump.toml"}
    assert not_ended(top / "b-msdump.toml")
    assert read_json(top / "a-msdump.toml" / "results.json")["counts"]["fail"] == 1


@pytest.fixture
def dumps(tmp_path, monkeypatch):
    """Two dumps in the current folder, compared yesterday by the command, with every kind of report."""
    write_pairs(tmp_path, [8, 9])
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--report", "json,csv,html,md,gitlab"]) == 0
    return tmp_path


KILL = """
import os, signal, sys
from pytest_msdump.core import gate
gate.records_of = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
from pytest_msdump.cli import main
main(sys.argv[1:])
"""


@pytest.mark.e2e
def test_the_command_leaves_no_result_of_yesterday_either(dumps):
    command = [sys.executable, "-c", KILL, "compare", "left", "right"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    assert report_files(dumps / "msdump-report") == {"results.json", "gl-code-quality.json"}
    assert not_ended(dumps / "msdump-report")


@pytest.mark.parametrize("failing", ["start", "end"])
def test_on_a_full_disk_no_result_of_yesterday_stands(dumps, monkeypatch, failing, capsys):
    """At the start results.json cannot be replaced, so it goes; at the end the one of the start stays."""
    write, calls = files.write_json, []

    def full(report, directory):
        calls.append(report)
        if failing == "end" and len(calls) == 1:
            return write(report, directory)
        monkeypatch.setattr("pathlib.Path.replace", _no_space)
        return write(report, directory)

    for module in (files, json_report):
        monkeypatch.setattr(module, "write_json", full)
    assert main(["compare", "left", "right"]) != 0
    assert "No space left on device" in capsys.readouterr().err
    report = dumps / "msdump-report"
    assert not_ended(report) if failing == "end" else not (report / "results.json").exists()
    assert not list(report.glob(".*.tmp"))


def _no_space(*_: object) -> None:
    raise OSError(28, os.strerror(28))


@pytest.mark.e2e
def test_a_result_that_has_not_ended_passes_nowhere_and_says_so(dumps, capsys):
    file = dumps / "msdump-report" / "results.json"
    test_the_command_leaves_no_result_of_yesterday_either(dumps)
    sentence = "the run did not finish"
    capsys.readouterr()
    for limits in ((), ("--profile", "strict"), ("--min-coverage", "0")):
        assert main(["check", str(file), *limits]) == 1
        assert sentence in capsys.readouterr().out
    assert main(["check", str(file), "--lang", "zh"]) == 1
    assert "没有正常结束" in capsys.readouterr().out
    assert main(["report", str(file), "--report", "html,md,csv"]) == 0
    assert sentence in capsys.readouterr().err
    assert sentence in (dumps / "msdump-report" / "index.html").read_text()
    summary = (dumps / "msdump-report" / "summary.md").read_text()
    assert summary.startswith("## msdump: INCOMPLETE")
    assert sentence in summary


def test_a_report_of_pairs_that_were_not_run_says_so_too(pytester, capsys):
    write_pairs(pytester.path, [8, 9])
    pytester.runpytest_inprocess(*SIDES, "-k", "op0").assert_outcomes(passed=1)
    capsys.readouterr()
    assert main(["report", "msdump-report/results.json", "--report", "md"]) == 0
    assert "some pairs were not run" in capsys.readouterr().err
