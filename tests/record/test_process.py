"""A program ends, or is ended, and nothing of it is left; what it printed is told."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pytest_msdump.capabilities.record.process import (
    LogTail,
    Ran,
    checked_timeout,
    own_folder,
    run_process,
    running_in_group,
)
from pytest_msdump.core.errors import ConfigError, ProgramError

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
    pytest.mark.usefixtures("temporary"),
]


def python(code: str, tmp_path: Path, *, timeout: float = 30, **options: Any) -> Ran:
    return run_process(
        [sys.executable, "-c", dedent(code)],
        title="it",
        directory=tmp_path,
        timeout=timeout,
        environment={**os.environ, **options.pop("variables", {})},
        **options,
    )


def alive(pid_file: Path) -> bool:
    """Whether the process that wrote its number runs on; one that is being ended has ten seconds on a busy machine."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid_file.read_text()}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state in "ZX":
            return False
        time.sleep(0.1)
    return True


SLEEPER = "import os, pathlib, time; pathlib.Path({file!r}).write_text(str(os.getpid())); time.sleep(300)"


def sleeping(file: Path) -> str:
    """Code that starts a process which writes its number, and waits until it has."""
    return dedent(
        f"""
        import os, pathlib, subprocess, sys, time
        def start(**options):
            subprocess.Popen([sys.executable, "-c", {SLEEPER.format(file=str(file))!r}], **options)
            while not (os.path.exists({str(file)!r}) and os.path.getsize({str(file)!r})):
                time.sleep(0.01)
        """
    )


@pytest.mark.e2e
def test_what_it_prints_is_shown_as_it_comes_and_its_end_is_kept(tmp_path: Path) -> None:
    shown: list[tuple[float, str]] = []
    ran = python(
        "import os, time; os.write(1, b'first\\n'); time.sleep(0.5); os.write(1, b'second\\n')",
        tmp_path,
        show=lambda text: shown.append((time.monotonic(), text)),
    )
    assert [text for _, text in shown] == ["first\n", "second\n"]
    assert shown[1][0] - shown[0][0] > 0.3
    assert ran.printed == "first\nsecond"
    assert ran.command[0] == sys.executable
    assert ran.seconds >= 0.5


@pytest.mark.e2e
def test_what_it_prints_goes_to_the_tests_own_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python("import sys; print('out', flush=True); print('err', file=sys.stderr)", tmp_path)
    assert capsys.readouterr().out == "out\nerr\n"


@pytest.mark.e2e
def test_an_exit_code_is_an_error_with_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(
        ProgramError, match=r"^it failed with exit code 3 after \d+\.\d s; the end of what it"
    ) as caught:
        python("import sys; [print('line', n) for n in range(1000)]; sys.exit(3)", tmp_path)
    lines = str(caught.value).splitlines()
    assert lines[1] == "  | ..."
    assert lines[2:] == [f"  | line {n}" for n in range(960, 1000)]


@pytest.mark.e2e
def test_an_exception_is_told_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"(?s)exit code 1 .*\| ValueError: no such layer"):
        python("raise ValueError('no such layer')", tmp_path)


@pytest.mark.e2e
def test_one_that_prints_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"it failed with exit code 7 after [\d.]+ s; it printed nothing$"):
        python("import os; os._exit(7)", tmp_path)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "said"), [("SIGKILL", "SIGKILL (the system does that when memory runs out)"), ("SIGSEGV", "SIGSEGV")]
)
def test_one_that_a_signal_ends_is_told_so(name: str, said: str, tmp_path: Path) -> None:
    code = f"""
        import os, resource, signal
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        print("about to die", flush=True)
        os.kill(os.getpid(), signal.{name})
        """
    with pytest.raises(ProgramError) as caught:
        python(code, tmp_path)
    assert str(caught.value).startswith(f"it was ended by {said} after ")
    assert str(caught.value).endswith("\n  | about to die")


@pytest.mark.e2e
def test_one_that_hangs_is_ended_at_its_time_limit(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ProgramError, match=r"(?s)time limit of 2 s and was ended; .*\| before"):
        python("print('before', flush=True)\nimport time\ntime.sleep(300)", tmp_path, timeout=2)
    assert time.monotonic() - started < 60


@pytest.mark.e2e
def test_python_says_where_it_hangs(tmp_path: Path) -> None:
    code = "import time\ndef step_of_the_optimizer():\n    time.sleep(300)\nstep_of_the_optimizer()"
    with pytest.raises(ProgramError, match=r"(?s)did not end .*line 3 in step_of_the_optimizer"):
        python(code, tmp_path, timeout=3, prints_where=True, variables={"PYTHONFAULTHANDLER": "1"}, cwd=tmp_path)
    assert not list(tmp_path.glob("core*"))


@pytest.mark.e2e
def test_one_that_minds_no_signal_is_ended_too(tmp_path: Path) -> None:
    code = """
        import os, pathlib, signal, time
        for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        pathlib.Path("pid").write_text(str(os.getpid()))
        time.sleep(300)
        """
    with pytest.raises(ProgramError, match="did not end within its time limit"):
        python(code, tmp_path, timeout=3, prints_where=True, cwd=tmp_path)
    assert not alive(tmp_path / "pid")


# The second leaves the group, the third has no variable that tells whose it is.
@pytest.mark.e2e
@pytest.mark.parametrize("how", ["", "start_new_session=True", "env={}"])
@pytest.mark.parametrize("then", ["time.sleep(300)", "sys.exit(3)", "os.kill(os.getpid(), 9)"])
def test_what_it_started_is_ended_with_it(how: str, then: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(ProgramError):
        python(sleeping(pid) + f"start({how})\n{then}\n", tmp_path, timeout=2)
    assert not alive(pid)


@pytest.mark.e2e
@pytest.mark.parametrize("how", ["", "start_new_session=True", "stdout=subprocess.DEVNULL"])
def test_what_a_good_program_leaves_running_is_ended(how: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    ran = python(
        sleeping(pid) + f"start({how})\nprint('done')\nos._exit(0)\n".replace("os._exit", "sys.exit"), tmp_path
    )
    assert not alive(pid)
    assert ran.printed.startswith("done")
    assert ("[msdump: it left 1 process running; ended]" in ran.printed) == ("session" not in how)


@pytest.mark.e2e
def test_children_that_end_soon_are_waited_for(tmp_path: Path) -> None:
    code = """
        import os, time
        if os.fork() == 0:
            time.sleep(0.4)
            print("child is done", flush=True)
            os._exit(0)
        print("parent is done", flush=True)
        os._exit(0)
        """
    assert python(code, tmp_path).printed == "parent is done\nchild is done"


@pytest.mark.e2e
def test_a_fork_of_a_fork_is_ended(tmp_path: Path) -> None:
    code = """
        import os, pathlib, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                pathlib.Path("pid").write_text(str(os.getpid()))
                time.sleep(300)
            os._exit(0)
        while not os.path.exists("pid") or not os.path.getsize("pid"):
            time.sleep(0.01)
        raise SystemExit(1)
        """
    with pytest.raises(ProgramError):
        python(code, tmp_path, cwd=tmp_path)
    assert not alive(tmp_path / "pid")


@pytest.mark.e2e
def test_an_interrupted_test_leaves_no_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        python(sleeping(pid) + "start()\nprint('now', flush=True)\ntime.sleep(300)", tmp_path, show=interrupt)
    assert not alive(pid)


@pytest.mark.e2e
def test_it_reads_nothing_from_the_keyboard(tmp_path: Path) -> None:
    keyboard, typed = os.pipe()
    before = os.dup(0)
    os.dup2(keyboard, 0)
    try:
        with pytest.raises(ProgramError, match="EOFError"):
            python("input()", tmp_path, timeout=10)
    finally:
        os.dup2(before, 0)
        for descriptor in (keyboard, typed, before):
            os.close(descriptor)


@pytest.mark.e2e
def test_a_log_without_end_is_read_and_only_its_end_kept(tmp_path: Path) -> None:
    ran = python("import sys; sys.stdout.write('x' * 50_000_000 + 'end')", tmp_path, show=lambda _: None)
    assert len(ran.printed) < 20_000
    assert ran.printed.endswith("xend")


@pytest.mark.e2e
@pytest.mark.parametrize("command", [["/no/such/program"], ["/etc"], [], ["a\0b"]])
def test_what_cannot_be_started_is_the_callers_error(command: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it cannot be started: "):
        run_process(command, title="it", directory=tmp_path, timeout=1, environment={})


@pytest.mark.e2e
def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it cannot be started in /no/such/folder: No such file"):
        python("", tmp_path, cwd="/no/such/folder")


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), True, "5", None])
def test_a_time_limit_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ConfigError, match="give the seconds"):
        checked_timeout(timeout)


def test_the_folder_of_a_run_is_removed_with_all_that_is_in_it(tmp_path: Path, temporary: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    with own_folder() as folder:
        locked = folder / "a/b"
        locked.mkdir(parents=True)
        (locked / "file").write_text("")
        (locked / "file").chmod(0)
        locked.chmod(0o500)
        (folder / "a").chmod(0)
        (folder / "link").symlink_to(outside)
    assert list(temporary.iterdir()) == []
    assert (outside / "kept").read_text() == "kept"


def test_a_character_that_comes_in_two_pieces_is_one() -> None:
    shown: list[str] = []
    tail = LogTail(shown.append)
    for piece in ("层".encode()[:1], "层".encode()[1:], b"\xff", "é".encode()[:1]):
        tail.feed(piece)
    tail.finish()
    assert "".join(shown) == tail.text == "层\ufffd\ufffd"


def test_nothing_is_counted_of_a_group_that_is_not_there() -> None:
    assert running_in_group(2**22 + 1) == 0
