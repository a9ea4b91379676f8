"""The command loads what it is called for: a pair of files that agree has no use for graphs, pages or colours."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import cli

PROGRAM = """
import sys
from pytest_msdump.cli import main
code = main(sys.argv[1:])
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""

ENDING = """
import gc, sys
from pytest_msdump.cli import main
code = main()
print(code, gc.get_freeze_count() > 1000, gc.isenabled(), file=sys.stderr)
"""


def loaded(folder: Path, *words: str, **environment: str) -> tuple[int, set[str], str]:
    """Run the command with its output in a pipe; return exit code, loaded modules and what it said."""
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return ran.returncode, set(ran.stderr.split()), ran.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    right = np.random.default_rng(1).normal(size=10_000).astype("f4")
    for name, factor in (("left", 1.00001), ("right", 1.0), ("wrong", -1.0)):
        np.save(tmp_path / f"{name}.npy", right * np.float32(factor))
    return tmp_path


@pytest.mark.parametrize("text", ["", "0", "-3", "61", "many"])
def test_help_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("COLUMNS", text)
    assert cli._columns() == shutil.get_terminal_size().columns


@pytest.mark.e2e
def test_what_a_failing_pair_looks_like_is_still_told(folder: Path) -> None:
    code, _, said = loaded(folder, "compare", "wrong.npy", "right.npy")
    assert code == 1
    assert "sign" in said


@pytest.mark.e2e
def test_forced_colours_are_there_and_the_words_are_the_same(folder: Path) -> None:
    _, _, plain = loaded(folder, "compare", "wrong.npy", "right.npy")
    _, _, coloured = loaded(folder, "compare", "wrong.npy", "right.npy", FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[1;31mDRIFT" in coloured or "\x1b[1;31mFAIL" in coloured
    assert coloured.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == plain


@pytest.mark.e2e
def test_a_pipe_is_as_wide_as_the_environment_says(folder: Path) -> None:
    said = {
        text: loaded(folder, "compare", "wrong.npy", "right.npy", COLUMNS=text)[2] for text in ("80", "0", "", "150")
    }
    assert said["80"] == said["0"] == said[""]
    lengths = {text: max(len(line) for line in said[text].splitlines() if str(folder) not in line) for text in said}
    assert lengths["80"] <= 80 < 110 < lengths["150"] <= 150


def test_each_command_is_the_module_of_its_name() -> None:
    modules = cli._modules(())
    assert [module.NAME for module in modules] == list(cli._COMMANDS)
    assert [module.__name__ for module in cli._modules(["compare", "--help"])] == ["pytest_msdump.cli.compare"]


def test_an_unknown_command_is_told_all_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compere"]) == 4
    told = capsys.readouterr().err
    assert all(name in told for name in cli._COMMANDS)


def test_who_asks_for_the_version_gets_it_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._modules(["--version"]) == []
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("msdump ")


@pytest.mark.e2e
@pytest.mark.parametrize(("words", "code"), [(("compare", "left.npy", "right.npy"), 0), (("compare", "left.npy"), 4)])
def test_a_process_that_ends_with_the_command_searches_for_no_circles_at_its_end(
    folder: Path, words: tuple[str, ...], code: int
) -> None:
    ran = subprocess.run([sys.executable, "-c", ENDING, *words], cwd=folder, capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[-1] == f"{code} True True"


def test_a_process_that_goes_on_is_left_as_it_was(folder: Path) -> None:
    before = gc.get_freeze_count()
    assert cli.main(["compare", str(folder / "left.npy"), str(folder / "right.npy"), "--report-dir", str(folder)]) == 0
    assert (gc.get_freeze_count(), gc.isenabled()) == (before, True)
