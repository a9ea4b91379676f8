"""Hooks in a project's conftest.py, as the how-to shows them: partners, limits, notes; and what they may not do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.core.report.json_report import read_json

HOWTO = Path(__file__).parents[2] / "docs/howto/add_a_step_of_your_own.md"
PARTNERS, LIMITS, NOTES = re.findall(r"^```python\n(.*?)^```$", HOWTO.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A run that calls `conv1` by another name, and has it and `softmax` 0.5 % off; `relu` agrees."""
    values = np.linspace(1, 2, 50, dtype=np.float32)
    off = (values * np.linspace(1, 1.01, 50)).astype(np.float32)
    for side, names in {
        "left": {"Default_conv1": off, "softmax": off, "relu": values},
        "right": {"model_conv1": values, "softmax": values, "relu": values},
    }.items():
        pytester.mkdir(side)
        for name, array in names.items():
            np.save(pytester.path / side / f"{name}.npy", array)
    return pytester


def gate(project: pytest.Pytester, conftest: str, *words: str) -> pytest.RunResult:
    project.makeconftest(conftest)
    return project.runpytest("--msdump-left=left", "--msdump-right=right", "-p", "no:cacheprovider", *words)


def records(project: pytest.Pytester) -> dict[str, dict]:
    document = read_json(project.path / "msdump-report/results.json")
    return {one["right"]["address"].partition(":")[0]: one for one in document["tensors"]}


def test_partners_that_a_hook_chooses_are_entries_of_the_map_and_names_pair_the_rest(project):
    result = gate(project, PARTNERS)
    assert {name: one["how"] for name, one in records(project).items()} == {
        "model_conv1": "mapped",
        "softmax": "name",
        "relu": "name",
    }
    result.stdout.fnmatch_lines(["*ran user code: pytest_msdump_pair in conftest.py*"])


def test_a_limit_by_a_function_of_the_pair_is_named_and_what_passes_by_it_is_a_permission(project):
    gate(project, LIMITS)
    assert records(project)["softmax"]["verdict"] == "fail"
    result = gate(project, LIMITS.replace('{"cosine": 0.99}', '{"rel_euclid": 0.1, "norm_max": 0.1}'))
    assert records(project)["softmax"]["verdict"] == "pass"
    result.stdout.fnmatch_lines(["*pytest_msdump_limits in conftest.py lets 1 pair pass*"])


def test_rules_and_the_command_line_win_over_limits_of_a_hook(project):
    loose = "def pytest_msdump_limits():\n    return {'rel_euclid': 0.1, 'norm_max': 0.1, 'cosine': 0.9}\n"
    gate(project, loose, "--msdump-threshold=rel_euclid=1e-6")
    assert records(project)["softmax"]["verdict"] == "fail"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_note_stands_with_the_findings(project, jobs):
    result = gate(project, PARTNERS + NOTES, f"--msdump-jobs={jobs}")
    result.stdout.fnmatch_lines(["*see ticket ACC-412*"])
    found = records(project)
    assert [one["sentence"] for one in found["model_conv1"]["findings"] if one["outcome"] == "note"][-1:] == [
        "see ticket ACC-412"
    ]
    assert not any("ACC-412" in str(found[name]["findings"]) for name in ("softmax", "relu"))


def test_notes_of_a_hook_are_of_one_run_and_do_not_come_from_the_cache(project):
    for conftest in (PARTNERS + NOTES, PARTNERS):
        gate(project, conftest, "--msdump-cache=content")
    assert "ACC-412" not in str(records(project))


BETTER = """
from dataclasses import replace
from pytest_msdump.core.model.comparison import Verdict

def pytest_msdump_record(record):
    return replace(record, verdict=Verdict("{}"))
"""


def test_a_hook_that_makes_a_verdict_better_is_refused(project):
    result = gate(project, BETTER.format("pass"))
    assert {name: one["verdict"] for name, one in records(project).items()} == {
        "model_conv1": "error",
        "softmax": "error",
        "relu": "pass",
    }
    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines(["*pytest_msdump_record in conftest.py made pass of fail*"])


def test_a_hook_may_make_a_verdict_worse(project):
    gate(
        project, BETTER.format("error").replace("Verdict(", "replace(record.verdict, outcome=").replace("\n\n\n", "\n")
    )
    assert {one["verdict"] for one in records(project).values()} == {"error"}


def test_sentences_on_the_whole_stand_in_the_report(project):
    says = "def pytest_msdump_report(report):\n    return [f'{len(report.records)} tensors for the archive']\n"
    gate(project, says).stdout.fnmatch_lines(["*3 tensors for the archive*"])


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        ("def pytest_msdump_limits(pair):\n    return {'cosin': 0.9}\n", "*unknown metric 'cosin'*"),
        ("def pytest_msdump_limits(pair):\n    return 0.9\n", "*pytest_msdump_limits in conftest.py returned 0.9*"),
        ("def pytest_msdump_pair():\n    raise KeyError('x')\n", "*pytest_msdump_pair in conftest.py raised KeyError*"),
        ("def pytest_msdump_pair():\n    return 3\n", "*pytest_msdump_pair in conftest.py*"),
    ],
)
def test_what_a_hook_cannot_mean_is_exit_code_4(project, conftest, said):
    result = gate(project, conftest)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


@pytest.mark.e2e
def test_the_command_reads_no_conftest_and_does_not_import_pluggy(project):
    project.makeconftest("raise SystemExit(3)")
    compare = "import sys; from pytest_msdump.cli import main; main(['compare', 'left', 'right'])"
    result = project.run(sys.executable, "-c", f"{compare}; print('pluggy' in sys.modules)")
    assert result.outlines[-1] == "False"
