"""How far a long command is: a bar in a terminal, few lines in a log, nothing when it is short or quiet."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.report import progress
from pytest_msdump.core.report.progress import Progress
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


class Lines(io.StringIO):
    """Says when something of the work has come."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self.came = threading.Event()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if "indexing" in text:
            self.came.set()
        return written


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


def test_quiet_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    walk(60.0, 9, quiet=True)
    monkeypatch.setenv("CI", "true")
    walk(60.0, 9, quiet=True)
    assert terminal.getvalue() == ""


def test_a_step_in_a_log_gets_lines_only_when_it_is_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Progress("msdump walk").step("indexing"):
        pass
    assert capsys.readouterr() == ("", "")
    lines = Lines()
    monkeypatch.setattr(progress, "_BETWEEN_LINES_SECONDS", 0.001)
    monkeypatch.setattr(sys, "stderr", lines)
    with Progress("msdump walk").step("indexing"):
        assert lines.came.wait(60)
    assert re.fullmatch(r"(msdump walk: indexing, 0 s\n)+", lines.getvalue())


def test_a_step_on_a_terminal_is_shown_while_it_lasts_and_then_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Lines(is_terminal=True)
    monkeypatch.setattr(progress, "_SHORT_SECONDS", 0.001)
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("msdump walk").step("indexing"):
        assert terminal.came.wait(60)
    shown = terminal.getvalue()
    assert "msdump walk: indexing" in ANSI.sub("", shown)
    assert shown.rindex("\x1b[2K") > shown.rindex("indexing")


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
    "inspect ": (["inspect", "LEFT"], ["3 of 3 headers"]),
    "overflow": (["overflow", "LEFT"], ["3 of 3 operators"]),
    "convert": (["convert", "LEFT", "--out", "OUT"], ["3 of 3 files"]),
    "init": (["init", "LEFT", "RIGHT", "-o", "OUT"], ["1 of 1 right tensors tried"]),
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
    monkeypatch.setattr(progress, "_BETWEEN_LINES_SECONDS", 0.0)
    words, told = COMMANDS[command]
    places = {"LEFT": dumps[0], "RIGHT": dumps[1], "OUT": str(tmp_path / "out")}
    assert main([*(places.get(word, word) for word in words), *quiet]) in (0, 1)
    lines = [line for line in capsys.readouterr().err.splitlines() if re.match(r"msdump \w+: \d+ of \d+ ", line)]
    for line in told:
        assert (f"msdump {command.strip()}: {line}" in lines) == (not quiet)
    assert not (quiet and lines)


# -- on a real terminal, and in pytest ---------------------------------------------------------------------------------

# Everything is shown at once, and work begins when it is.
AT_ONCE = """
import threading
from rich.progress import Progress as Bars
from pytest_msdump.core.report import progress

progress._SHORT_SECONDS = 0.0
drawn, add_task = threading.Event(), Bars.add_task

def add_and_say(*words, **options):
    task = add_task(*words, **options)
    drawn.set()
    return task

class Drawing(threading.Thread):
    def start(self):
        drawn.clear()
        super().start()
        drawn.wait(60)

Bars.add_task, progress.Thread = add_and_say, Drawing
"""


def on_a_terminal(words: list[str], folder: Path) -> str:
    """Run Python with these arguments in a pseudo-terminal, and return what it shows."""
    master, slave = pty.openpty()
    surroundings = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    surroundings |= {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, *words], stdout=slave, stderr=slave, cwd=folder, env=surroundings
    ) as process:
        os.close(slave)
        shown = b""
        with suppress(OSError):
            while part := os.read(master, 65536):
                shown += part
        os.close(master)
        assert process.wait(60) in (0, 1)
    return shown.decode()


@pytest.mark.e2e
def test_a_command_on_a_terminal_draws_a_bar_and_leaves_only_its_report(dumps: tuple[str, str], tmp_path: Path) -> None:
    call = f"{AT_ONCE}from pytest_msdump.cli import main; main(['compare', *{list(dumps)!r}])"
    shown = on_a_terminal(["-c", call], tmp_path)
    assert "msdump compare: pairs" in ANSI.sub("", shown)
    quiet = on_a_terminal(["-c", call.replace("['compare'", "['compare', '--quiet'")], tmp_path)
    assert "msdump compare:" not in quiet
    assert "\x1b[2K" not in quiet
