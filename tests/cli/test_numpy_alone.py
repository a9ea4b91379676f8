"""The command's numpy has no threads of its own, unless somebody asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.e2e

_THREADS = """
import os, sys
from pathlib import Path
from pytest_msdump.cli import main
assert "numpy" not in sys.modules
code = main()
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


_BEFORE = """
import importlib.machinery, importlib.util, os, sys

class Finder:
    # As that of a package that is installed to be edited: it alone knows where numpy is.
    found = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "numpy":
            return None
        self.found.append(name)
        return importlib.machinery.PathFinder.find_spec(name, path or WHERE, target)

from pytest_msdump.cli import main

WHERE = [entry for entry in sys.path if os.path.isdir(os.path.join(entry, "numpy"))]
{sees_path} or [sys.path.remove(entry) for entry in WHERE]
sys.meta_path.insert(0, Finder())
"""


def said(program: str, folder: Path) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in _MINE}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=inherited, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("sees_path", [True, False])
def test_whoever_else_finds_numpy_is_asked(tmp_path: Path, sees_path: bool) -> None:
    for side in ("left", "right"):
        np.save(tmp_path / f"{side}.npy", np.ones(10_000))
    program = (
        _BEFORE.format(sees_path=sees_path) + "sys.argv = ['msdump', 'compare', 'left.npy', 'right.npy']\n"
        "code = main()\nprint(code, Finder.found[:1], os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    )
    assert said(program, tmp_path) == "0 ['numpy'] None"


def test_a_program_that_calls_a_command_keeps_its_numpy(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pytest_msdump.cli import main\nbefore = [*sys.meta_path]\n"
        "main(['match', 'nowhere', 'nowhere'])\nprint(sys.meta_path == before)\n"
    )
    assert said(program, tmp_path) == "True"


def test_who_only_looks_for_numpy_sees_it(tmp_path: Path) -> None:
    program = (
        "import importlib.util, sys\nfrom pytest_msdump.cli.numpy_alone import keep_numpy_alone\n"
        "plain = importlib.util.find_spec('numpy')\nkeep_numpy_alone()\n"
        "found = [importlib.util.find_spec('numpy') for _ in range(2)]\n"
        "names = {one.loader.get_filename('numpy') for one in found}\n"
        "print(names == {plain.origin}, all(one.loader.is_package('numpy') for one in found), 'numpy' in sys.modules)\n"
    )
    assert said(program, tmp_path) == "True True False"
