"""How far a long command is: a bar in a terminal, few lines in a log, nothing when it is short or quiet."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main, output
from pytest_msdump.cli.output import Progress
from pytest_msdump.record import DumpWriter

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Clock:
    """Each item takes so many seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stand in for standard error, in the test itself: between its phases pytest puts its own there."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def walk(seconds: float, count: int, *, quiet: bool = False, loops: int = 1) -> None:
    """Loops over items that take that long each."""
    clock = Clock()
    watch = Progress("msdump walk", quiet=quiet, clock=clock)
    for _ in range(loops):
        seen = []
        for item in watch(range(count), "steps"):
            seen.append(item)
            clock.now += seconds
        assert seen == list(range(count))


def test_a_log_gets_a_line_in_ten_seconds_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    walk(1.0, 35)
    assert capsys.readouterr().err.splitlines() == [f"msdump walk: {done} of 35 steps" for done in (10, 20, 30)]


def test_items_that_take_long_get_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    walk(60.0, 3)
    assert capsys.readouterr().err.splitlines() == [f"msdump walk: {done} of 3 steps" for done in (1, 2, 3)]


def test_time_counts_across_the_loops_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    walk(1.0, 6, loops=3)
    assert capsys.readouterr().err.splitlines() == ["msdump walk: 4 of 6 steps"]


def test_nothing_is_shown_of_what_is_short(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    walk(0.019, 100)
    assert capsys.readouterr() == ("", "")
    terminal = open_terminal(monkeypatch)
    walk(0.019, 100)
    assert terminal.getvalue() == ""


def test_a_terminal_gets_a_bar_that_goes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    walk(0.5, 10)
    shown = terminal.getvalue()
    assert "msdump walk: steps" in ANSI.sub("", shown)
    # Transient: the line is erased, and the cursor is shown again.
    assert shown.rindex("\x1b[2K") > shown.rindex("steps")
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert capsys.readouterr().out == ""


def test_the_bar_goes_when_the_loop_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    clock = Clock()
    watch = Progress("msdump walk", clock=clock)(range(10), "steps")
    for item in watch:
        clock.now += 1
        if item == 5:
            break
    watch.close()  # type: ignore[attr-defined]
    shown = terminal.getvalue()
    assert "msdump walk: steps" in ANSI.sub("", shown)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize("surroundings", [("CI", "true"), ("TERM", "dumb")])
def test_a_terminal_of_a_job_is_a_log(monkeypatch: pytest.MonkeyPatch, surroundings: tuple[str, str]) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv(*surroundings)
    walk(1.0, 15)
    assert terminal.getvalue() == "msdump walk: 10 of 15 steps\n"


def test_quiet_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    walk(60.0, 9, quiet=True)
    monkeypatch.setenv("CI", "true")
    walk(60.0, 9, quiet=True)
    assert terminal.getvalue() == ""


def test_what_does_not_know_its_length_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    for _ in Progress("msdump walk", clock=clock)(iter("abc"), "letters", 3):
        clock.now += 30
    assert capsys.readouterr().err.splitlines()[-1] == "msdump walk: 3 of 3 letters"


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[str, str]:
    """Two dumps of three tensors, one of which has another name on either side."""
    values = np.arange(60, dtype="float32")
    for side, name in (("left", "mine"), ("right", "theirs")):
        with DumpWriter(tmp_path / side, framework="numpy") as writer:
            for number, op in enumerate(("a", "b", name)):
                writer.write(op, np.cos(values * (number + 1)), op_type="Op")
    return str(tmp_path / "left"), str(tmp_path / "right")


COMMANDS = {
    "compare": (["compare", "LEFT", "RIGHT", "--report-dir", "OUT"], ["2 of 2 pairs"]),
    "match": (["match", "LEFT", "RIGHT", "--suggest"], ["3 of 3 tensors read", "1 of 1 right tensors tried"]),
    "inspect": (["inspect", "LEFT", "--check"], ["3 of 3 tensors"]),
    "overflow": (["overflow", "LEFT"], ["3 of 3 operators"]),
    "convert": (["convert", "LEFT", "--out", "OUT"], ["3 of 3 files"]),
}


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
@pytest.mark.parametrize("command", COMMANDS)
def test_each_long_command_says_how_far_it_is(
    dumps: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    quiet: tuple[str, ...],
) -> None:
    monkeypatch.setattr(output, "_BETWEEN_LINES_SECONDS", 0.0)
    words, told = COMMANDS[command]
    places = {"LEFT": dumps[0], "RIGHT": dumps[1], "OUT": str(tmp_path / "out")}
    assert main([*(places.get(word, word) for word in words), *quiet]) in (0, 1)
    lines = [line for line in capsys.readouterr().err.splitlines() if re.match(r"msdump \w+: \d+ of \d+ ", line)]
    for line in told:
        assert (f"msdump {command}: {line}" in lines) == (not quiet)
    assert not (quiet and lines)
