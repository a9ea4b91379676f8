"""Commands as whole processes: time, time on a processor, peak memory.

Whoever measures peaks stays small: a child's count of its peak begins with what its parent held when it was started, so
nothing here imports numpy. What the caller has set for Python, pytest and us is not handed on: options of pytest could
leave the plugin out, or have it find all pairs in a cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Run", "run"]


_OURS_TO_SET = ("MSDUMP_", "PYTEST_", "PYTHONDONTWRITEBYTECODE")


class Run(NamedTuple):
    """One process: exit code, what it printed, its peak resident memory, its time, and that of it on a processor."""

    exit_code: int
    said: str
    peak_mib: float
    seconds: float
    cpu_seconds: float


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> Run:
    """Run one command with the working directory `folder`; of `environment`, variables that differ from ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_OURS_TO_SET)}
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**ours, **(environment or {})},
    )
    assert child.stdout is not None
    with child.stdout as stdout:
        said = stdout.read()
    # Counts its own children, those that it waited for, as well.
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    # Linux counts in KiB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Run(child.returncode, said, usage.ru_maxrss / unit, seconds, usage.ru_utime + usage.ru_stime)
