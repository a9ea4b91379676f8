"""A value after a space never makes pytest judge by other files than it would find without it."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

_LOOSE = "[pytest]\n"
_STRICT = "[pytest]\nmsdump_profile = strict\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project, where pytest is started."""
    folder = pytester.mkdir("project")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def sides(project: Path) -> tuple[Path, Path]:
    """Dumps outside of the project: they differ by what only the profile strict minds."""
    outside = project.parent / "dumps"
    right = np.random.default_rng(1).normal(size=1000).astype("f4")
    for side, factor in (("left", 1.0005), ("right", 1.0)):
        (outside / side).mkdir(parents=True)
        np.save(outside / side / "conv.0.1700000000000001.npy", right * np.float32(factor))
    return outside / "left", outside / "right"


def _spaced(sides: tuple[Path, Path]) -> list[str]:
    return ["--msdump-left", str(sides[0]), "--msdump-right", str(sides[1])]


def _joined(sides: tuple[Path, Path]) -> list[str]:
    return [f"--msdump-left={sides[0]}", f"--msdump-right={sides[1]}"]


def _assert_refused(result: pytest.RunResult, sides: tuple[Path, Path], *names: str) -> None:
    assert result.ret == 4
    (line,) = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    assert line.endswith(f"type {shlex.join(_joined(sides))}")
    assert all(name in line for name in names)


@pytest.mark.parametrize("name", ["pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"])
def test_a_lost_ini_file_is_refused(pytester, project, sides, name):
    text = {"setup.cfg": _STRICT.replace("pytest", "tool:pytest")}.get(name, _STRICT)
    if name == "pyproject.toml":
        text = "[tool.pytest.ini_options]\nmsdump_profile = 'strict'\n"
    (project / name).write_text(text, "utf-8")
    pytester.runpytest(*_joined(sides)).assert_outcomes(passed=1, failed=1)
    _assert_refused(pytester.runpytest(*_spaced(sides)), sides, name, "ini file")


def test_a_path_of_an_output_option_after_a_space_is_refused_and_what_follows_a_switch_is_not(pytester, project, sides):
    (project / "pytest.ini").write_text(_STRICT, "utf-8")
    bundle = sides[0].parent / "bundle"
    bundle.mkdir()
    result = pytester.runpytest(*_joined(sides), "--msdump-bundle", str(bundle))
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: *ini file* type --msdump-bundle={bundle}"])
    pytester.runpytest(*_joined(sides), "--msdump-all", str(project)).assert_outcomes(passed=1, failed=1)


def test_a_lost_ini_file_of_a_folder_above_is_refused(pytester, project, sides, monkeypatch):
    (project / "pytest.ini").write_text(_STRICT, "utf-8")
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    _assert_refused(pytester.runpytest(*_spaced(sides)), sides, "pytest.ini")


def test_an_ini_file_that_lies_beside_the_dump_is_not_taken(pytester, sides):
    (sides[0].parent / "pytest.ini").write_text(_LOOSE, "utf-8")
    _assert_refused(pytester.runpytest(*_spaced(sides)), sides, "pytest.ini")
    pytester.runpytest(*_joined(sides)).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("msdump.toml", "[msdump]\nprofile = 'strict'\n"),
        ("pyproject.toml", "[tool.msdump]\nprofile = 'strict'\n"),
    ],
)
def test_a_lost_suite_file_is_refused(pytester, project, sides, name, text):
    (project / name).write_text(text, "utf-8")
    pytester.runpytest(*_joined(sides)).assert_outcomes(passed=1, failed=1)
    _assert_refused(pytester.runpytest(*_spaced(sides)), sides, name, "suite file")


def test_other_conftest_files_are_refused(pytester, project, sides):
    """The common folder of project and dumps becomes rootdir, and a conftest.py there is loaded."""
    above = pytester.path / "conftest.py"
    (project / "setup.py").touch()
    above.write_text("def pytest_collection_modifyitems(items): items.clear()\n", "utf-8")
    pytester.runpytest(*_joined(sides)).assert_outcomes(passed=2)
    _assert_refused(pytester.runpytest(*_spaced(sides)), sides, str(above), "conftest.py files")


@pytest.mark.parametrize("typed", [["-c", "pytest.ini"], ["test_own.py"]], ids=["ini file", "a path"])
def test_what_was_typed_decides_where_pytest_finds_the_same_files(pytester, project, sides, typed):
    (project / "pytest.ini").write_text(_STRICT, "utf-8")
    (project / "test_own.py").write_text("def test_own(): pass\n", "utf-8")
    result = pytester.runpytest(*typed, *_spaced(sides), "--rootdir=.")
    if typed == ["-c", "pytest.ini"]:
        result.assert_outcomes(passed=2, failed=1)
    else:
        _assert_refused(result, sides, "pytest.ini")
