"""Functions for worker processes, in a module that these can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

SEVERAL_PIPES = 8 << 20


def times_seven(number: int) -> int:
    return 7 * number


def process(number: int) -> tuple[int, int]:
    time.sleep(0.01)
    return number, os.getpid()


def raises_at_7(number: int) -> float:
    return 1 / (number - 7)


def deadly_at_13(number: int) -> int:
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies_at_first(path: Path) -> str:
    """Kill the worker unless it has been here before."""
    marks = path.parent
    try:
        (marks / f"{path.name} begun").touch(exist_ok=False)
    except FileExistsError:
        return path.name
    if path.name in ("3", "20"):
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def several_pipes(_: int) -> bytes:
    return bytes(SEVERAL_PIPES)


def takes_long(path: Path) -> None:
    (path / f"{os.getpid()}").touch()
    time.sleep(120)


def environment(name: str) -> str | None:
    time.sleep(0.1)
    return os.environ.get(name)
