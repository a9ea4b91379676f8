"""Runs a program to its end or time limit, and leaves nothing of it: no process, no temporary directory."""

from __future__ import annotations

import codecs
import math
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NoReturn

from pytest_msdump.core.errors import ConfigError, ProgramError

DEFAULT_TIMEOUT = 600.0
_LOOK_EVERY_SECONDS = 0.02
# How long what the program started may go on when the program itself has ended: processes of a pool are about to end.
_GRACE_SECONDS = 2.0
# How long a program that is asked to end may take to say where it hangs.
_LAST_WORDS_SECONDS = 1.0
_CHUNK_BYTES = 1 << 16
# What a person reads of a long log, and the most that is kept of lines without end.
_LOG_LINES = 40
_LOG_CHARACTERS = 1 << 14
_PROC = Path("/proc")
_KILL_ROUNDS = 50
_BETWEEN_ROUNDS_SECONDS = 0.02


def running_in_group(group: int) -> int:
    """Count the running processes of a group, without its leader; 0 where the system does not list them."""
    return sum(pid != group and _group_of(pid) == group for pid in _pids())


def end_group(group: int) -> None:
    """End a whole group and wait; nothing may have waited for its leader, whose number keeps the group's."""
    for _ in range(_KILL_ROUNDS):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        if not running_in_group(group):
            return
        time.sleep(_BETWEEN_ROUNDS_SECONDS)


def end_marked(mark: str) -> None:
    """End every process that has inherited the mark, until there is none."""
    needle = f"{mark}=1".encode()
    for _ in range(_KILL_ROUNDS):
        # A list, not any(): each of them is ended.
        if not [pid for pid in _pids() if _end_if_marked(pid, needle)]:
            return
        time.sleep(_BETWEEN_ROUNDS_SECONDS)


def _end_if_marked(pid: int, needle: bytes) -> bool:
    if pid == os.getpid() or not hasattr(os, "pidfd_open"):
        return False
    try:
        # Opened first: should the number go to another process meanwhile, the handle is of the one that is gone.
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if needle not in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def _pids() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _group_of(pid: int) -> int | None:
    """Return the group of a running process; ``None`` for one that has ended."""
    try:
        # After the name, which may hold anything: state, parent, group.
        state, _, group = (_PROC / str(pid) / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(group)


class LogTail:
    """The end of a log; `show` gets each piece of text as it comes."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._kept = ""
        self._cut = False

    @property
    def text(self) -> str:
        """The last lines; a first line of dots where there were more."""
        lines = self._kept.splitlines()
        cut = self._cut or len(lines) > _LOG_LINES
        return "\n".join((["..."] if cut else []) + lines[-_LOG_LINES:])

    def feed(self, piece: bytes) -> None:
        """Add a piece; a character may be cut in two."""
        self._take(self._decoder.decode(piece))

    def finish(self) -> None:
        """Note that there is no more."""
        self._take(self._decoder.decode(b"", final=True))

    def _take(self, text: str) -> None:
        if not text:
            return
        self._show(text)
        kept = self._kept + text
        self._cut |= len(kept) > _LOG_CHARACTERS
        self._kept = kept[-_LOG_CHARACTERS:]


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended well: what errors call it, where it was to dump to, its command, and how it went."""

    title: str
    directory: Path
    command: tuple[str, ...]
    seconds: float
    printed: str
    question: str = ""

    def fail(self, what: str) -> NoReturn:
        """Raise `ProgramError`: what was wrong with the run although it ended well, and what it printed."""
        raise ProgramError(_with_log(f"{self.title} {what}", self.printed))


def _with_log(sentence: str, printed: str) -> str:
    if not printed.strip():
        return f"{sentence}; it printed nothing"
    lines = "\n".join(f"  | {line}" for line in printed.rstrip().splitlines())
    return f"{sentence}; the end of what it printed:\n{lines}"


def checked_timeout(timeout: float) -> float:
    """Return the time limit in seconds; raise `ConfigError` where it is no positive number."""
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
        # rmtree stops at folders that may not be entered.
        for path, folders, _ in os.walk(folder):
            for inner in (Path(path, name) for name in folders):
                if not inner.is_symlink():
                    with suppress(OSError):
                        inner.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def run_process(
    command: Sequence[str | PathLike[str]],
    *,
    title: str,
    directory: Path,
    timeout: float,
    environment: Mapping[str, str],
    cwd: str | PathLike[str] | None = None,
    question: str = "",
    prints_where: bool = False,
    show: Callable[[str], object] | None = None,
) -> Ran:
    """Run a program, showing what it prints as it comes, and end all that it has started."""
    if not hasattr(os, "waitid"):
        raise ConfigError(f"{title}: programs are run on Linux only; run it by hand and open its dump")
    words = tuple(os.fspath(word) for word in command)
    # Finds those of this run that made a session of their own; a run within a run has the variables of both.
    mark = f"MSDUMP_RUN_{uuid.uuid4().hex}"
    started = time.monotonic()
    process = _start(words, title, {**environment, mark: "1"}, cwd)
    tail = LogTail(show or _print)
    watched = _Watched(process, tail)
    try:
        in_time = watched.until_end(started + timeout)
        if in_time:
            watched.until_silent(time.monotonic() + _GRACE_SECONDS)
        elif prints_where:
            _ask_where(process)
            watched.until_end(time.monotonic() + _LAST_WORDS_SECONDS)
        left = running_in_group(process.pid)
    finally:
        end_group(process.pid)
        end_marked(mark)
        watched.close()
    seconds = time.monotonic() - started
    if not in_time:
        raise ProgramError(
            _with_log(f"{title} did not end within its time limit of {timeout:g} s and was ended", tail.text)
        )
    if process.returncode:
        raise ProgramError(_with_log(f"{title} {_ending(process.returncode)} after {seconds:.1f} s", tail.text))
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
    """A running process, whose output is read as it comes."""

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
        """Read until the process has ended; return whether it has before the deadline."""
        while not self._ended():
            if time.monotonic() >= deadline:
                return False
            self._read()
        return True

    def until_silent(self, deadline: float) -> None:
        """Read until the pipe is closed, and no process of the group is left."""
        while time.monotonic() < deadline and not (self._silent and not running_in_group(self._process.pid)):
            self._read()

    def close(self) -> None:
        """Take the process from the system's table, and read what is still in the pipe."""
        self._process.wait()
        # A pipe holds less than this many pieces; a process that escaped could go on for ever.
        for _ in range(64):
            if self._silent or not self._selector.select(0):
                break
            self._read()
        self._tail.finish()
        self._selector.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ended(self) -> bool:
        # Left in the system's table: its number cannot go to another process before the group was ended.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self) -> None:
        if self._silent:
            time.sleep(_LOOK_EVERY_SECONDS)
            return
        if self._selector.select(_LOOK_EVERY_SECONDS):
            piece = os.read(self._pipe, _CHUNK_BYTES)
            self._silent = not piece
            self._tail.feed(piece)


def _ask_where(process: subprocess.Popen[bytes]) -> None:
    """Let Python print where each thread is, without leaving a core file."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        _, hard = resource.prlimit(process.pid, resource.RLIMIT_CORE)
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, hard))
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGABRT)


def _ending(code: int) -> str:
    if code > 0:
        return f"failed with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system does that when memory runs out)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode("ascii"))
    sys.stdout.flush()
