"""The command's numpy has no threads of its own, unless somebody asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_THREADS = """
import os, sys
from pathlib import Path
from pytest_msdump.cli import main
assert "numpy" not in sys.modules
code = main(sys.argv[1:])
threads = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Threads:"))
print(code, threads.split()[1], os.environ.get("OPENBLAS_NUM_THREADS"), "numpy" in sys.modules)
"""
_MINE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS")

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how many threads a process has")


def ended(tmp_path: Path, **environment: str) -> list[str]:
    for side in ("left", "right"):
        # Large ones: a pair of small files needs no numpy.
        np.save(tmp_path / f"{side}.npy", np.ones(10_000))
    inherited = {name: value for name, value in os.environ.items() if name not in _MINE}
    words = ["compare", "left.npy", "right.npy"]
    done = subprocess.run(
        [sys.executable, "-c", _THREADS, *words],
        cwd=tmp_path,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()


@on_linux
def test_the_command_has_one_thread_and_leaves_the_environment_alone(tmp_path: Path) -> None:
    assert ended(tmp_path) == ["0", "1", "None", "True"]


@on_linux
def test_who_says_how_many_threads_gets_them(tmp_path: Path) -> None:
    assert ended(tmp_path, OPENBLAS_NUM_THREADS="2") == ["0", str(min(2, len(os.sched_getaffinity(0)))), "2", "True"]
