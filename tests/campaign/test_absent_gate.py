"""A gate that was asked for is never silently absent, and what was not compared never passes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from campaign.trials import LENET, by_command, lenet

from pytest_msdump import assert_no_overflow
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

SIDES = f"left = '{LENET / 'target_bad'}'\nright = '{LENET / 'target'}'\n"
SUITE = f"[msdump]\n{SIDES}"
SAME = f"[msdump]\nleft = '{LENET / 'target'}'\nright = '{LENET / 'target'}'\n"
FLAGS = (f"--msdump-left={LENET / 'target_bad'}", f"--msdump-right={LENET / 'target'}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one ordinary test, which passes."""
    (tmp_path / "test_ordinary.py").write_text("def test_ordinary():\n    pass\n", "utf-8")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = None
    # Controller and workers of pytest-xdist can wait for each other forever when they part (its issue 872): rare, and
    # not ours. A hang of ours happens the second time, too.
    for last in (False, True):
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", *arguments],
                cwd=project,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=120,
                check=False,
            )
            break
        except subprocess.TimeoutExpired:
            if last or "-n" not in arguments:
                raise
    assert done is not None
    assert "INTERNALERROR" not in done.stdout + done.stderr
    return done


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("gate.toml", ()),
        ("gate.toml", ("-n", "2")),
        ("build/msdump.toml", ()),
        (".hidden/msdump.toml", ()),
        ("venv/x.msdump.toml", ()),
    ],
)
def test_a_config_that_is_named_runs_wherever_it_lies(project: Path, name: str, workers: tuple[str, ...]) -> None:
    write(project / name, SUITE)
    done = run(project, f"--msdump-config={name}", *workers)
    assert done.returncode == 1
    assert "10 failed" in done.stdout


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["gate.toml", "build/msdump.toml"])
def test_a_config_that_is_named_and_broken_is_told(project: Path, name: str) -> None:
    write(project / name, "nonsense [")
    assert run(project, f"--msdump-config={name}").returncode == 4


@pytest.mark.e2e
@pytest.mark.parametrize("ignored", ["--ignore=sub", "--ignore-glob=*.toml"])
def test_a_config_that_is_named_and_ignored_is_not_passed_over(project: Path, ignored: str) -> None:
    write(project / "sub/msdump.toml", SUITE)
    done = run(project, "--msdump-config=sub/msdump.toml", ignored)
    assert done.returncode == 1
    assert "10 failed" in done.stdout


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_sides_for_an_ignored_suite_file_are_not_passed_over(project: Path, workers: tuple[str, ...]) -> None:
    write(project / "sub/msdump.toml", SAME)
    done = run(project, *FLAGS, "--ignore=sub", *workers)
    assert done.returncode == 1
    assert "10 failed" in done.stdout


@pytest.mark.e2e
@pytest.mark.parametrize(
    "table",
    [
        f"[tool.msdump]\n{SIDES}",
        f'["tool"."msdump"]\n{SIDES}',
        f"[tool . msdump]\n{SIDES}",
        f"[tool]\nmsdump.left = '{LENET / 'target_bad'}'\nmsdump.right = '{LENET / 'target'}'\n",
    ],
    ids=["plain", "quoted", "spaced", "dotted"],
)
def test_tool_msdump_is_found_however_toml_spells_it(project: Path, table: str) -> None:
    write(project / "pyproject.toml", table)
    assert run(project).returncode == 1


@pytest.mark.e2e
@pytest.mark.parametrize("wrong", ["rigth", "rihgt"])
def test_a_misspelled_side_in_pyproject_is_told(project: Path, wrong: str) -> None:
    write(project / "pyproject.toml", "[tool.msdump]\n" + SIDES.replace("right =", f"{wrong} ="))
    done = run(project)
    assert done.returncode == 4
    assert wrong in done.stdout + done.stderr


@pytest.mark.e2e
@pytest.mark.parametrize("sides", [("", ""), ("", "x"), ("x", "")])
def test_sides_that_are_empty_are_refused(project: Path, sides: tuple[str, str]) -> None:
    # What `--msdump-left=$RUN` becomes in a shell where RUN is not set.
    left, right = (str(LENET / "target") if side else "" for side in sides)
    assert run(project, f"--msdump-left={left}", f"--msdump-right={right}").returncode == 4


@pytest.mark.e2e
@pytest.mark.parametrize("option", ["--msdump-config=", "--msdump-left="])
def test_an_option_that_is_empty_is_refused(project: Path, option: str) -> None:
    assert run(project, option).returncode == 4


@pytest.mark.e2e
def test_a_skipped_item_is_not_run_and_not_passed(project: Path) -> None:
    write(
        project / "conftest.py",
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        if 'conv2' in item.name:\n"
        "            item.add_marker(pytest.mark.skip(reason='known'))\n",
    )
    done = run(project, *FLAGS)
    assert done.returncode == 1
    assert "8 failed, 13 passed, 4 skipped" in done.stdout
    results = read_json(project / "msdump-report/results.json")
    assert (results["complete"], results["counts"]["not_run"]) == (False, 4)


@pytest.mark.e2e
@pytest.mark.parametrize("selection", ["--msdump-select=nothing*", "--msdump-deselect=*", "--msdump-iteration=7"])
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_a_selection_of_nothing_fails(project: Path, selection: str, workers: tuple[str, ...]) -> None:
    done = run(project, *FLAGS, selection, *workers)
    assert done.returncode == 1
    assert "nothing was compared" in done.stdout


def saved(tmp_path: Path) -> tuple[Path, dict]:
    trial = lenet(tmp_path, "name")
    pair = trial.pair_of("Default/fc1-Dense/BiasAdd-op0:output:0")
    trial.put(pair, "left", trial.values(pair, "left") * 2)
    assert by_command(trial).code == 1
    file = tmp_path / "by-command" / "results.json"
    return file, json.loads(file.read_text("utf-8"))


@pytest.mark.parametrize(
    "kept",
    [lambda _: [], lambda records: [one for one in records if one["verdict"] == "pass"]],
    ids=["none left", "passing ones left"],
)
def test_a_saved_result_without_its_failing_tensors_does_not_pass(
    tmp_path: Path, kept: Callable[[list[dict]], list[dict]]
) -> None:
    file, results = saved(tmp_path)
    write(file, json.dumps(results | {"tensors": kept(results["tensors"])}))
    assert main(["check", str(file)]) == 4
    assert main(["check", str(file), "--profile", "ascend"]) == 4


def test_identical_is_said_only_when_nothing_is_left_over(tmp_path: Path) -> None:
    trial = lenet(tmp_path, "name")
    assert "the two sides are identical" in by_command(trial).text
    trial.path(trial.pair_of("Default/fc1-Dense/BiasAdd-op0:output:0"), "left").unlink()
    assert "the two sides are identical" not in by_command(trial).text


def test_nothing_to_check_is_no_absence_of_overflow() -> None:
    with pytest.raises(AssertionError, match="nothing was checked"):
        assert_no_overflow([])
