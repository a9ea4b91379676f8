"""What `.ci/run` promises: no lane passes because something was skipped, was not built, or was never committed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / ".ci/run").read_text("utf-8")
LIVE = ROOT / "tests/live"

LIVE_TESTS = {
    "a module": 'import pytest\npytest.importorskip("no_such_framework")\ndef test_it(): pass\n',
    "a test": 'import pytest\ndef test_it(): pytest.skip("no_such_framework")\n',
    "a mark": 'import pytest\n@pytest.mark.skipif(True, reason="no_such_framework")\ndef test_it(): pass\n',
}


@pytest.mark.e2e
@pytest.mark.parametrize("what", LIVE_TESTS)
def test_a_live_lane_fails_where_its_framework_is_missing(
    what: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest((LIVE / "conftest.py").read_text("utf-8"))
    pytester.makepyfile(LIVE_TESTS[what])
    monkeypatch.delenv("MSDUMP_LIVE", raising=False)
    assert pytester.runpytest_subprocess().ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    monkeypatch.setenv("MSDUMP_LIVE", "1")
    result = pytester.runpytest_subprocess()
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "was skipped, and MSDUMP_LIVE asks for it" in result.stdout.str()


def test_every_live_test_file_is_run_by_a_lane_that_demands_its_framework() -> None:
    lanes = [lane for lane in SCRIPT.split("\nlane_") if "MSDUMP_LIVE=1" in lane]
    named = re.findall(r"tests/live/(\S+\.py)", "\n".join(lanes))
    braces = [re.match(r"(.*)\{(.*)\}(.*)", name) for name in named]
    patterns = [
        *(name for name, brace in zip(named, braces, strict=True) if not brace),
        *(brace[1] + part + brace[3] for brace in braces if brace for part in brace[2].split(",")),
    ]
    run = {path.name for pattern in patterns for path in LIVE.glob(pattern)}
    assert run == {path.name for path in LIVE.glob("test_*.py")}


@pytest.mark.e2e
def test_lanes_see_tracked_files_alone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".ci").mkdir(parents=True)
    # Without its last line the script only defines its functions.
    (project / ".ci/run").write_text(SCRIPT.removesuffix('main "$@"\n'), "utf-8")
    (project / "committed.txt").write_text("before", "utf-8")
    git = ["git", "-C", project, "-c", "user.name=t", "-c", "user.email=t@t.invalid"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    (project / "committed.txt").write_text("changed", "utf-8")
    (project / "forgotten.txt").write_text("never added", "utf-8")
    subprocess.run(["bash", "-c", "source .ci/run; copy_tree copy"], cwd=project, check=True)
    copied = {path.relative_to(project / "copy").as_posix() for path in (project / "copy").rglob("*.*")}
    assert copied >= {"committed.txt"}
    assert "forgotten.txt" not in copied
    assert (project / "copy/committed.txt").read_text("utf-8") == "changed"


@pytest.mark.parametrize("lane", ["main", "py310_numpy1_pytest8", "py313"])
def test_the_lanes_that_measure_with_the_kernel_demand_it(lane: str) -> None:
    body = re.search(rf"^lane_{lane}\(\) \{{.*?\}}$", SCRIPT, re.MULTILINE | re.DOTALL)
    assert body is not None
    assert "demand_kernel" in body[0]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("cases", "kept"), [("3", ["[0]", "[2]", "[4]"]), ("1", ["[0]"]), ("12", [f"[{n}]" for n in range(7)])]
)
def test_what_starts_processes_and_most_of_many_cases_are_full(
    cases: str, kept: list[str], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest((ROOT / "tests/conftest.py").read_text("utf-8"))
    pytester.makeini("[pytest]\nmarkers =\n    e2e\n    full\n")
    pytester.makepyfile(
        test_it="""
        import pytest
        @pytest.mark.parametrize("n", range(7))
        def test_many(n): pass
        @pytest.mark.e2e
        def test_process(): pass
        def test_alone(): pass
        """
    )
    monkeypatch.setenv("MSDUMP_CASES", cases)
    collected = {}
    for which in ("full", "not full"):
        done = pytester.runpytest_subprocess("--collect-only", "-q", "-m", which)
        collected[which] = [line.partition("::")[2] for line in done.outlines if "::" in line]
    assert collected["not full"] == [*(f"test_many{case}" for case in kept), "test_alone"]
    assert len(collected["full"]) + len(collected["not full"]) == 9
    assert "test_process" in collected["full"]


@pytest.mark.e2e
@pytest.mark.parametrize(("kernel", "code"), [("compiled", 0), ("numpy (it was not built)", 1)])
def test_a_kernel_that_was_not_built_ends_a_lane(kernel: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "functions").write_text(SCRIPT.removesuffix('main "$@"\n'), "utf-8")
    for name, text in (("gcc", ""), (".venv/bin/msdump", f"echo 'msdump 0.2.0 (kernel: {kernel})'\n")):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}", "utf-8")
        program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", 'source ./functions; PATH="$PWD:$PATH"; demand_kernel'],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == code


@pytest.mark.e2e
def test_a_setuptools_that_is_too_old_is_refused_in_one_sentence(tmp_path: Path) -> None:
    shutil.copy(ROOT / "setup.py", tmp_path)
    (tmp_path / "setuptools.py").write_text('__version__ = "65.5.0"\nExtension = setup = None\n', "utf-8")
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "setuptools 65.5.0 is too old to build pytest-msdump",
        "it needs 77 or newer: pip install 'setuptools>=77'",
    ]
