"""Runs a program to its end or to its time limit, and leaves nothing of it: no process, no temporary directory."""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NoReturn

from pytest_msdump.capture.leftovers import end_group, end_marked, new_mark, running_in_group
from pytest_msdump.capture.log_tail import LogTail
from pytest_msdump.errors import ConfigError, ProgramError

__all__ = ["DEFAULT_TIMEOUT", "Ran", "checked_timeout", "own_folder", "run_process"]

DEFAULT_TIMEOUT = 600.0
_LOOK_EVERY = 0.02
# How long what the program started may go on when the program itself has ended: processes of a pool are about to end.
_GRACE = 2.0
# How long a program that is told to end may take to say where it hangs.
_LAST_WORDS = 1.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended well.

    Parameters
    ----------
    title : str
        What was run, as errors call it.
    directory : Path
        Where it was to dump to.
    command : tuple of str
        What was started.
    seconds : float
        How long it took.
    printed : str
        The end of what it printed.
    question : str
        What to look for when it dumped nothing.
    """

    title: str
    directory: Path
    command: tuple[str, ...]
    seconds: float
    printed: str
    question: str = ""

    def failed(self, what: str) -> NoReturn:
        """Raise `ProgramError`: what was wrong with the run although it ended well, and what it printed."""
        raise ProgramError(told(f"{self.title} {what}", self.printed))


def told(sentence: str, printed: str) -> str:
    """Return the text of an error: the sentence, then what the program printed."""
    if not printed.strip():
        return f"{sentence}; it printed nothing"
    lines = "\n".join(f"  | {line}" for line in printed.rstrip().splitlines())
    return f"{sentence}; the end of what it printed:\n{lines}"


def checked_timeout(timeout: float) -> float:
    """Return the time limit in seconds.

    Raises
    ------
    ConfigError
        It is no positive number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ConfigError(f"timeout is {timeout!r}; give the seconds that the program may take, e.g. timeout=600")
    return float(timeout)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make a temporary folder for one run and remove it with all that is in it, read-only folders too."""
    folder = Path(tempfile.mkdtemp(prefix="msdump_"))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    # Bottom up would stop at folders that may not be entered.
    for path, folders, files in os.walk(folder):
        for name in folders:
            inner = Path(path, name)
            if not inner.is_symlink():
                with suppress(OSError):
                    inner.chmod(0o700)
        for name in files:
            with suppress(OSError):
                Path(path, name).unlink()
    for path, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            inner = Path(path, name)
            with suppress(OSError):
                inner.unlink() if inner.is_symlink() else inner.rmdir()
    with suppress(OSError):
        folder.rmdir()


def run_process(
    command: Sequence[str | PathLike[str]],
    *,
    title: str,
    directory: Path,
    timeout: float,
    environment: Mapping[str, str],
    cwd: str | PathLike[str] | None = None,
    question: str = "",
    tells_where: bool = False,
    show: Callable[[str], object] | None = None,
) -> Ran:
    """Run a program, showing what it prints as it comes, and end all that it has started.

    Parameters
    ----------
    command : sequence of str or path
        The program and its arguments. No shell is involved.
    title : str
        What errors call it.
    directory : Path
        Where it is to dump to; handed on.
    timeout : float
        Seconds.
    environment : mapping of str to str
        All variables of the program.
    cwd : path, optional
        Where it runs; here by default.
    question : str
        See `Ran`.
    tells_where : bool
        Whether it prints where it is when it gets SIGABRT, as Python does with PYTHONFAULTHANDLER.
    show : callable, optional
        Takes each piece of what it prints; ``sys.stdout.write`` by default.

    Raises
    ------
    ConfigError
        It cannot be started.
    ProgramError
        It failed, or did not end in time; the text has the end of what it printed.
    """
    if not hasattr(os, "waitid"):
        raise ConfigError(f"{title}: programs are run on Linux only; run it by hand and open its dump")
    words = tuple(os.fspath(word) for word in command)
    mark = new_mark()
    started = time.monotonic()
    process = _start(words, title, {**environment, mark: "1"}, cwd)
    tail = LogTail(show or _shown)
    watched = _Watched(process, tail)
    try:
        in_time = watched.until_end(started + timeout)
        if in_time:
            watched.until_silent(time.monotonic() + _GRACE)
        elif tells_where:
            _ask_where(process)
            watched.until_end(time.monotonic() + _LAST_WORDS)
        left = running_in_group(process.pid)
    finally:
        end_group(process.pid)
        end_marked(mark)
        watched.close()
    seconds = time.monotonic() - started
    if not in_time:
        raise ProgramError(told(f"{title} did not end within its time limit of {timeout:g} s and was ended", tail.text))
    if process.returncode:
        raise ProgramError(told(f"{title} {_how(process.returncode)} after {seconds:.1f} s", tail.text))
    if left:
        tail.feed(f"[msdump: {title} left {left} process{'es' if left > 1 else ''} running; ended]\n".encode())
    return Ran(title, directory, words, seconds, tail.text, question)


def _start(
    words: Sequence[str], title: str, environment: Mapping[str, str], cwd: str | PathLike[str] | None
) -> subprocess.Popen[bytes]:
    try:
        # What runs is what the caller asked for; a session of its own is what can be ended as a whole.
        return subprocess.Popen(  # noqa: S603
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        where = f" in {os.fspath(cwd)}" if cwd is not None else ""
        why = getattr(error, "strerror", None) or str(error) or "there is no command"
        raise ConfigError(f"{title} cannot be started{where}: {why}") from error


class _Watched:
    """A process whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes], tail: LogTail) -> None:
        self._process = process
        self._tail = tail
        if process.stdout is None:
            raise RuntimeError("the process has no pipe")
        self._pipe = process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe, selectors.EVENT_READ)
        self._silent = False

    def until_end(self, deadline: float) -> bool:
        """Read until the process has ended; tell whether it has before the deadline."""
        while not self._ended():
            if time.monotonic() >= deadline:
                return False
            self._read()
        return True

    def until_silent(self, deadline: float) -> None:
        """Read until nobody can write any more, and nothing of the group is left."""
        while time.monotonic() < deadline and not (self._silent and not running_in_group(self._process.pid)):
            self._read()

    def close(self) -> None:
        """Take the process from the system's table, and read what is still in the pipe."""
        self._process.wait()
        # A pipe holds less than this many pieces; somebody who escaped could go on for ever.
        for _ in range(64):
            if self._silent or not self._selector.select(0):
                break
            self._read()
        self._tail.finish()
        self._selector.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ended(self) -> bool:
        # Not taken from the system's table yet: its number cannot become another's before the group was ended.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self) -> None:
        if self._silent:
            time.sleep(_LOOK_EVERY)
            return
        if self._selector.select(_LOOK_EVERY):
            piece = os.read(self._pipe, _CHUNK)
            self._silent = not piece
            self._tail.feed(piece)


def _ask_where(process: subprocess.Popen[bytes]) -> None:
    """Let Python print where each thread is; without a core file of a program that only hangs."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        _, hard = resource.prlimit(process.pid, resource.RLIMIT_CORE)
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, hard))
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGABRT)


def _how(code: int) -> str:
    if code > 0:
        return f"failed with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system does that when memory runs out)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"


def _shown(text: str) -> None:
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode("ascii"))
    sys.stdout.flush()
