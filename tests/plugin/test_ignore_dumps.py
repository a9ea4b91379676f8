"""Nothing in a dump is collected or run, wherever the dump is named and whatever leads to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

# What a dump may hold that pytest would run. Each leaves a line in a file, and lets nothing pass.
_HOSTILE = """
from pathlib import Path

with Path({ran!r}).open("a", encoding="utf-8") as file:
    file.write(__file__ + "\\n")

def pytest_collection_modifyitems(items):
    items.clear()

def test_something():
    pass
"""
_TEST = "def test_own():\n    pass\n"
# pytest loads the conftest.py of folders called test* before it collects.
_LEFT = "tests_run"


@pytest.fixture
def ran(pytester: pytest.Pytester) -> Path:
    """The file that hostile code writes to, outside of the dumps."""
    return pytester.path / "ran.txt"


@pytest.fixture
def left(pytester: pytest.Pytester, lenet: Path, ran: Path) -> Path:
    """A dump below the tests, with code in it at each level; the reference beside it is harmless."""
    for side in (_LEFT, "right"):
        shutil.copytree(lenet / "reference", pytester.path / side)
    left = pytester.path / _LEFT
    code = _HOSTILE.format(ran=str(ran))
    for folder in (left, left / "test_below", left / "test_below" / "deeper"):
        folder.mkdir(exist_ok=True)
        for name in ("conftest.py", "test_code.py", "__init__.py"):
            (folder / name).write_text(code, "utf-8")
    return left


def _sides(left: str, right: str = "right") -> list[str]:
    return [f"--msdump-left={left}", f"--msdump-right={right}"]


def _by_options(left: Path) -> list[str]:
    return _sides(left.name)


def _by_options_with_a_space(left: Path) -> list[str]:
    return ["--msdump-left", _LEFT, "--msdump-right", str(left.parent / "right")]


def _by_winding_path(left: Path) -> list[str]:
    return _sides(f"right/../{left.name}/.")


def _by_link(left: Path) -> list[str]:
    left.parent.joinpath("zz_link").symlink_to(left)
    return _sides("zz_link")


def _by_link_to_what_is_above(left: Path) -> list[str]:
    outside = left.parent.parent / f"{left.parent.name}-above"
    outside.symlink_to(left.parent)
    return _sides(str(outside / _LEFT))


def _with_a_link_that_leads_out(left: Path) -> list[str]:
    elsewhere = left.parent.parent / f"{left.parent.name}-elsewhere"
    shutil.move(left / "test_below", elsewhere)
    left.joinpath("test_below").symlink_to(elsewhere)
    return _sides(_LEFT)


def _by_ini(left: Path) -> list[str]:
    left.parent.joinpath("pytest.ini").write_text(f"[pytest]\nmsdump_left = {_LEFT}\nmsdump_right = right\n", "utf-8")
    return []


def _by_suite_file_of_rootdir(left: Path) -> list[str]:
    left.parent.joinpath("msdump.toml").write_text(f"[msdump]\nleft = '{_LEFT}'\nright = 'right'\n", "utf-8")
    return []


def _by_table_of_a_side(left: Path) -> list[str]:
    text = f"[msdump]\nleft = {{ path = '{_LEFT}', rank = 0 }}\nright = 'right'\n"
    left.parent.joinpath("msdump.toml").write_text(text, "utf-8")
    return []


def _by_suite_file_collected_later(left: Path) -> list[str]:
    folder = left.parent / "zz_suites"
    folder.mkdir()
    folder.joinpath("own.msdump.toml").write_text(f"[msdump]\nleft = '../{_LEFT}'\nright = '../right'\n", "utf-8")
    return []


def _by_pyproject(left: Path) -> list[str]:
    text = f"[tool.msdump]\nleft = '{_LEFT}'\nright = 'right'\n[tool.pytest.ini_options]\n"
    left.parent.joinpath("pyproject.toml").write_text(text, "utf-8")
    return []


def _by_named_suite_file(left: Path) -> list[str]:
    left.parent.joinpath("gate.toml").write_text(f"[msdump]\nleft = '{_LEFT}'\nright = 'right'\n", "utf-8")
    return ["--msdump-config=gate.toml"]


_NAMED: Sequence[Callable[[Path], list[str]]] = (
    _by_options,
    _by_options_with_a_space,
    _by_winding_path,
    _by_link,
    _by_link_to_what_is_above,
    _with_a_link_that_leads_out,
    _by_ini,
    _by_suite_file_of_rootdir,
    _by_table_of_a_side,
    _by_suite_file_collected_later,
    _by_pyproject,
    _by_named_suite_file,
)


def _tensors(folder: Path) -> int:
    return len(list(folder.glob("*.npy")))


@pytest.mark.parametrize("named", _NAMED, ids=lambda named: named.__name__.lstrip("_"))
def test_no_code_of_a_dump_runs_wherever_the_dump_is_named(pytester, left, ran, named):
    pytester.makepyfile(_TEST)
    result = pytester.runpytest(*named(left))
    assert not ran.exists(), ran.read_text("utf-8")
    result.assert_outcomes(passed=_tensors(left) + 2)


def test_no_code_runs_of_the_directory_that_mindspore_dumps_to(pytester, left, ran, monkeypatch):
    config = pytester.path / "dump.json"
    config.write_text(json.dumps({"common_dump_settings": {"path": str(left)}}), "utf-8")
    monkeypatch.setenv("MINDSPORE_DUMP_CONFIG", str(config))
    pytester.runpytest(*_sides("@env")).assert_outcomes(passed=_tensors(left) + 1)
    assert not ran.exists()


@pytest.mark.parametrize(
    "path", [".", _LEFT, f"{_LEFT}/test_below", "linked"], ids=["above", "dump", "below", "linked file"]
)
def test_no_code_of_a_dump_runs_when_the_paths_given_lead_there(pytester, left, ran, path):
    linked = pytester.mkdir("linked")
    (linked / "test_code.py").symlink_to(left / "test_code.py")
    (linked / "conftest.py").symlink_to(left / "conftest.py")
    pytester.runpytest(path, *_sides(_LEFT)).assert_outcomes(passed=_tensors(left) + 1)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["test_code.py", "test_below/test_code.py", "test_below/test_code.py::test_something"])
def test_a_test_of_a_dump_that_was_typed_is_refused(pytester, left, ran, name):
    result = pytester.runpytest(f"{left.name}/{name}", *_sides(_LEFT))
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: not found: *{name}"])
    assert not ran.exists()


def test_a_suite_file_in_a_dump_of_another_one_is_not_collected(pytester, left, ran):
    """Else it could name the folder of the tests as its own dump, and they would not run."""
    pytester.makepyfile(_TEST)
    _by_suite_file_collected_later(left)
    (left / "msdump.toml").write_text("[msdump]\nleft = '../test_of_ours'\nright = '.'\n", "utf-8")
    (pytester.mkdir("test_of_ours") / "test_more.py").write_text(_TEST, "utf-8")
    pytester.runpytest().assert_outcomes(passed=_tensors(left) + 3)
    assert not ran.exists()


def test_suite_files_in_dumps_of_each_other_are_refused(pytester, left, ran):
    _by_suite_file_collected_later(left)
    (left / "msdump.toml").write_text("[msdump]\nleft = '../zz_suites'\nright = '.'\n", "utf-8")
    result = pytester.runpytest()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: suite files that lie in dumps of each other: *"])
    assert not ran.exists()


@pytest.mark.parametrize("arguments", [[], [f"{_LEFT}/own.msdump.toml"], [_LEFT]], ids=["found", "typed", "folder"])
def test_a_suite_file_in_its_own_dump_is_collected(pytester, left, ran, arguments):
    (left / "own.msdump.toml").write_text("[msdump]\nleft = '.'\nright = '../right'\n", "utf-8")
    result = pytester.runpytest(*arguments)
    result.assert_outcomes(passed=_tensors(left) + 1)
    result.stdout.fnmatch_lines([f"{_LEFT}/own.msdump.toml *"])
    assert not ran.exists()


def test_what_is_called_like_a_dump_is_collected(pytester, left):
    (pytester.mkdir(f"{_LEFT}2") / "test_other.py").write_text(_TEST, "utf-8")
    pytester.runpytest(*_sides(_LEFT)).assert_outcomes(passed=_tensors(left) + 2)
