"""Finds and ends what a program has started: its process group, and on Linux also what has left the group."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["end_group", "end_marked", "new_mark", "running_in_group"]

_PROC = Path("/proc")
_ROUNDS = 50
_BETWEEN = 0.02


def new_mark() -> str:
    """Return the name of a variable that all descendants of one run inherit, and nobody else has.

    Who makes a session of its own is still known by it, and a run within a run has the variables of both.
    """
    return f"MSDUMP_RUN_{uuid.uuid4().hex}"


def running_in_group(group: int) -> int:
    """Count the processes of a group that run, without its leader; 0 where the system does not list them."""
    return sum(pid != group and _group_of(pid) == group for pid in _pids())


def end_group(group: int) -> None:
    """End every process of a group and wait until they have.

    The leader must not have been waited for: its number keeps the group's.
    """
    for _ in range(_ROUNDS):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        if not running_in_group(group):
            return
        time.sleep(_BETWEEN)


def end_marked(mark: str) -> None:
    """End every process that has inherited the mark, until there is none."""
    needle = f"{mark}=1".encode()
    for _ in range(_ROUNDS):
        # A list, not any(): each of them is ended.
        if not [pid for pid in _pids() if _end_if_marked(pid, needle)]:
            return
        time.sleep(_BETWEEN)


def _end_if_marked(pid: int, needle: bytes) -> bool:
    if pid == os.getpid() or not hasattr(os, "pidfd_open"):
        return False
    try:
        # Opened first: should the number become another's meanwhile, the handle is of the one that is gone.
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
    """Return the group of a process that runs; ``None`` for one that has ended."""
    try:
        # After the name, which may hold anything: state, parent, group.
        state, _, group = (_PROC / str(pid) / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(group)
