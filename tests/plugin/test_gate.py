"""The gate on real dumps: what passes, what fails, which exit code, and what pytest's own options make of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from outcomes import without_run
from plugin.suites import write_suite

from pytest_msdump.core.report.json_report import read_json

RELU2 = "Default/relu2-ReLU/ReLU-op0"
CONV2 = "Default/conv2-Conv2d/BiasAdd-op0"


def results(pytester: pytest.Pytester, folder: str = "msdump-report") -> dict:
    return read_json(pytester.path / folder / "results.json")


def first_failing(report: dict) -> str:
    return next(record for record in report["tensors"] if record["verdict"] in ("fail", "undefined", "error"))["left"][
        "address"
    ]


@pytest.fixture
def bad(pytester: pytest.Pytester, lenet: Path) -> Path:
    return write_suite(pytester.path / "msdump.toml", lenet, "target_bad")


@pytest.mark.parametrize("left", ["target", "target_bad", "target_bad2"])
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_verdicts_agree_with_what_is_known_of_the_ports(pytester, lenet, left, profile):
    truth = json.loads((lenet / "truth.json").read_text("utf-8"))["targets"][left]
    diverging = {f"{one['target_op']}:{one['io']}:{one['slot']}" for one in truth["diverging"]}
    write_suite(pytester.path / "msdump.toml", lenet, left, mapping=truth["mapping"].replace(".json", ".toml"))
    result = pytester.runpytest(f"--msdump-profile={profile}")
    report = results(pytester)
    failing = {one["left"]["address"] for one in report["tensors"] if one["verdict"] != "pass"}
    assert len(report["tensors"]) == truth["compared"]
    assert failing <= diverging
    if profile == "strict":
        assert failing == diverging
    result.assert_outcomes(passed=len(report["tensors"]) + 1 - len(failing), failed=len(failing))
    assert (report["complete"], report["profile"]) == (True, profile)
    first = {
        "target_bad": f"{CONV2}:output:0",
        "target_bad2": "Default/pool2-AvgPool2d/AvgPool-op0:output:0",
    }.get(left)
    assert (result.ret, bool(failing)) == (int(first is not None), first is not None)
    if first is not None:
        assert first_failing(report) == first
        result.stdout.fnmatch_lines([f"DRIFT  {first}"])


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_run_against_itself_passes_and_says_so(pytester, lenet, workers):
    target = str(lenet / "target")
    result = pytester.runpytest_subprocess(
        f"--msdump-left={target}", f"--msdump-right={target}", "--msdump-io=all", *workers
    )
    result.assert_outcomes(passed=24)
    result.stdout.fnmatch_lines(["the two sides are identical*"])
    counts = results(pytester)["counts"]
    assert counts["pass"] == 53
    assert sum(counts.values()) == 53


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--msdump-left=gone", "--msdump-right=right"], "ERROR: *gone: no such directory*"),
        (
            ["--msdump-left=right", "--msdump-right=unknown"],
            "ERROR: *unknown: give the directory*no known format has names like*",
        ),
        (["--msdump-left=right", "--msdump-right=right", "--msdump-threshold=cosin=1"], "ERROR: *'cosin'*'cosine'*"),
        (["--msdump-left=right", "--msdump-right=right", "--msdump-profile=nope"], "ERROR: *unknown profile 'nope'*"),
        (["--msdump-left=right"], "ERROR: *no right side*"),
        (
            ["suites/broken.msdump.toml"],
            "ERROR: suites/broken.msdump.toml*unknown key 'profil'; did you mean 'profile'?",
        ),
        (["suites/syntax.msdump.toml"], "ERROR: suites/syntax.msdump.toml*line 2*"),
        (["suites"], "ERROR: suites/broken.msdump.toml*"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_4(pytester, lenet, arguments, line, workers):
    shutil.copytree(lenet / "reference", pytester.path / "right")
    (pytester.mkdir("unknown") / "notes.txt").write_text("no dump", "utf-8")
    suites = pytester.mkdir("suites")
    (suites / "broken.msdump.toml").write_text("[msdump]\nleft='right'\nright='right'\nprofil='x'\n", "utf-8")
    (suites / "syntax.msdump.toml").write_text("[msdump]\nleft = \n", "utf-8")
    pytester.mkdir("tests")
    paths = [] if arguments[0].startswith("suites") else ["tests"]
    result = pytester.runpytest_subprocess(*arguments, *paths, *workers)
    assert result.ret == 4
    errors = [text for text in result.stderr.lines if text.strip()]
    assert len(errors) == 1
    result.stderr.fnmatch_lines([line])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.e2e
@pytest.mark.usefixtures("bad")
def test_results_are_the_same_with_and_without_workers(pytester):
    pytester.runpytest_subprocess("--msdump-report-dir=one", "--msdump-report=json,csv,html")
    pytester.runpytest_subprocess("--msdump-report-dir=two", "--msdump-report=json,csv,html", "-n", "2")
    for name in ("results.json", "ops.csv", "index.html"):
        one, two = (without_run((pytester.path / folder / name).read_bytes()) for folder in ("one", "two"))
        assert one == two


@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize(
    ("words", "outcomes", "not_run", "first"),
    [
        (("-k", "relu"), {"passed": 1, "failed": 2, "deselected": 8}, 7, f"{RELU2}:output:0"),
        (("-x",), {"passed": 3, "failed": 1}, 6, f"{CONV2}:output:0"),
    ],
)
def test_what_pytest_left_out_is_not_run(pytester, words, outcomes, not_run, first):
    pytester.runpytest(*words).assert_outcomes(**outcomes)
    report = results(pytester)
    assert (report["counts"]["not_run"], report["complete"], first_failing(report)) == (not_run, False, first)


@pytest.mark.usefixtures("bad")
def test_tb_line_is_one_line_for_each_failure(pytester):
    result = pytester.runpytest("--tb=line", "-q", "-k", "conv2")
    start = next(number for number, line in enumerate(result.stdout.lines) if "FAILURES" in line)
    line, after = result.stdout.lines[start + 1 : start + 3]
    assert "msdump.toml:1: cosine 0.391 < 0.999" in line
    assert "= short test summary info =" in after


@pytest.mark.usefixtures("bad")
def test_collect_only_names_every_item_and_writes_nothing(pytester):
    result = pytester.runpytest("--collect-only", "-q")
    result.stdout.fnmatch_lines([f"msdump.toml::{CONV2}", "msdump.toml::coverage", "11 tests collected*"])
    assert not (pytester.path / "msdump-report").exists()


@pytest.mark.e2e
@pytest.mark.parametrize(
    "name",
    [
        RELU2,
        "Default_relu2-ReLU_ReLU-op0",
        "relu2",
        f"{RELU2}:output:0",
        "relu2:output:0",
        "ReLU.Default_relu2-ReLU_ReLU-op0",
    ],
)
@pytest.mark.usefixtures("bad")
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_an_item_can_be_named_as_people_know_it(pytester, name, workers):
    result = pytester.runpytest_subprocess(f"msdump.toml::{name}", "-v", *workers)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*msdump.toml::{RELU2}*"])


def test_the_printed_command_runs_just_the_failed_item(pytester, lenet):
    left, right = str(lenet / "target_bad"), str(lenet / "target")
    result = pytester.runpytest(f"--msdump-left={left}", f"--msdump-right={right}", "--msdump-profile=strict", "-x")
    lines = result.stdout.lines
    start = next(number for number, line in enumerate(lines) if line.startswith("re-run just this:"))
    words: list[str] = []
    for line in lines[start:]:
        words += line.removeprefix("re-run just this:").rstrip("\\").split()
        if not line.endswith("\\"):
            break
    assert words[0] == "pytest"
    assert "--msdump-profile=strict" in words
    again = pytester.runpytest(*[word.strip("'") for word in words[1:]])
    again.assert_outcomes(failed=1, passed=1)


@pytest.mark.usefixtures("bad")
def test_the_command_line_overrides_the_file_and_makes_no_second_set(pytester, lenet):
    result = pytester.runpytest(f"--msdump-left={lenet / 'target'}")
    result.assert_outcomes(passed=11)
    assert Path(results(pytester)["left"]["directory"]) == lenet / "target"


def test_pyproject_can_hold_the_gate(pytester, lenet):
    table = f"[tool.msdump]\nleft = '{lenet / 'target'}'\nright = '{lenet / 'target'}'\n"
    (pytester.path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{table}", "utf-8")
    pytester.runpytest().assert_outcomes(passed=24)
    pytester.makepyfile("def test_other(): pass")
    other = next(pytester.path.glob("test_*.py")).name
    pytester.runpytest(other).assert_outcomes(passed=1)


def test_a_table_of_settings_alone_is_no_gate_but_what_is_wrong_in_it_is_exit_code_4(pytester):
    pytester.makepyfile("def test_other(): pass")
    project = pytester.path / "pyproject.toml"
    project.write_text("[tool.pytest.ini_options]\n[tool.msdump]\nprofile = 'strict'\n", "utf-8")
    pytester.runpytest(".").assert_outcomes(passed=1)
    project.write_text("[tool.pytest.ini_options]\n[tool.msdump]\nprofile = 'strct'\n", "utf-8")
    result = pytester.runpytest(".")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *unknown profile 'strct'; did you mean 'strict'?*"])


def test_ini_keys_stand_in_for_options(pytester, lenet):
    shutil.copytree(lenet / "target", pytester.path / "target")
    pytester.makeini("[pytest]\nmsdump_left = target\nmsdump_right = target\nmsdump_granularity = tensor\n")
    result = pytester.runpytest("-q", "--collect-only")
    result.stdout.fnmatch_lines([f"msdump::{CONV2}:output:0", "24 tests collected*"])


def test_two_suite_files_share_nothing(pytester, lenet):
    write_suite(pytester.path / "good.msdump.toml", lenet, "target")
    write_suite(pytester.path / "bad.msdump.toml", lenet, "target_bad")
    result = pytester.runpytest()
    result.assert_outcomes(passed=15, failed=7)
    assert results(pytester, "msdump-report/good.msdump.toml")["counts"]["fail"] == 0
    assert results(pytester, "msdump-report/bad.msdump.toml")["counts"]["fail"] == 7


def test_a_report_that_cannot_be_written_fails_the_run(pytester, lenet):
    write_suite(pytester.path / "msdump.toml", lenet, "target")
    (pytester.path / "taken").write_text("a file, no folder", "utf-8")
    result = pytester.runpytest("--msdump-report-dir=taken")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["ERROR: *taken*"])


def test_a_warning_is_told_and_is_none_of_pytests(pytester, lenet):
    suite = write_suite(pytester.path / "msdump.toml", lenet, "target")
    rule = f'[[msdump.rule]]\nmatch = "{CONV2}"\nrel_euclid = {{ fail = 1e-3, warn = 1e-12 }}\n'
    suite.write_text(suite.read_text("utf-8") + rule, "utf-8")
    result = pytester.runpytest()
    assert (result.ret, results(pytester)["counts"]["warn"]) == (0, 1)
    result.stdout.fnmatch_lines([f"WARN {CONV2}*", "*warning level 1e-12*"])
    assert "warnings" not in result.parseoutcomes()
