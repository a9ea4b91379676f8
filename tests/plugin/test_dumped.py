"""Collection passes over the files of tensors, and over nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

# Tells every file that pytest asks its plugins about.
_TELLS = """
from pathlib import Path

def pytest_collect_file(file_path):
    with Path({told!r}).open("a", encoding="utf-8") as file:
        file.write(f"{{file_path}}\\n")
"""
_TEST = "def test_something():\n    pass\n"


@pytest.fixture
def asked(pytester: pytest.Pytester) -> Path:
    """The file that tells what collection asks about; two dumps lie below the tests."""
    told = pytester.path / "told.txt"
    pytester.makeconftest(_TELLS.format(told=str(told)))
    return told


@pytest.fixture
def left(pytester: pytest.Pytester, lenet: Path) -> Path:
    for side in ("left", "right"):
        shutil.copytree(lenet / "reference", pytester.path / side)
    return pytester.path / "left"


def _run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--msdump-left=left", "--msdump-right=right", *more)


def _count(folder: Path) -> int:
    return len(list(folder.iterdir()))


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "worker"])
def test_a_folder_of_tensors_alone_is_not_entered(pytester, asked, left, workers):
    result = _run(pytester, *workers)
    result.assert_outcomes(passed=_count(left) + 1)
    assert ".npy" not in asked.read_text("utf-8")


@pytest.mark.parametrize("name", ["test_beside.py", "below/test_beside.py"])
def test_a_test_beside_tensors_is_collected(pytester, asked, left, name):
    tensors = _count(left)
    (left / name).parent.mkdir(exist_ok=True)
    (left / name).write_text(_TEST, "utf-8")
    _run(pytester).assert_outcomes(passed=tensors + 2)
    assert ".npy" not in asked.read_text("utf-8")


def test_a_suite_file_beside_tensors_is_collected(pytester, left):
    tensors = _count(left)
    (left / "own.msdump.toml").write_text("[msdump]\nleft = '.'\nright = '../right'\n", "utf-8")
    result = pytester.runpytest_subprocess("--msdump-left=left", "--msdump-right=right")
    result.assert_outcomes(passed=tensors + 1)
    assert "left/own.msdump.toml" in result.stdout.str()


def test_a_conftest_beside_tensors_is_heard(pytester, left):
    (left / "conftest.py").write_text("raise ValueError('heard')\n", "utf-8")
    result = _run(pytester)
    assert result.ret != 0
    assert "heard" in result.stdout.str() + result.stderr.str()


def test_what_is_called_like_a_dump_is_collected(pytester, left):
    tensors = _count(left)
    (pytester.mkdir("left2") / "test_other.py").write_text(_TEST, "utf-8")
    _run(pytester).assert_outcomes(passed=tensors + 2)


def test_without_a_gate_nothing_is_passed_over(pytester, asked, left):
    pytester.makepyfile(_TEST)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    assert asked.read_text("utf-8").count(".npy") == 2 * _count(left)
