"""pytest: what an item costs beside one that does nothing, and what the plugin costs when nothing is compared."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from measuring.figures import Case, Limit
from measuring.processes import run

from cases.setting import FALLBACK, NotTimedError, Program, Setting

__all__ = ["OPTIONS", "dormant", "imports", "pytest_items"]

EMPTY = "only starts: empty test functions"
OURS = "pytest, one item an operator"
WITHOUT = "only starts: pytest -p no:msdump"
NUMPY = "pytest, one item an operator, MSDUMP_KERNEL=numpy"
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
_PYTEST = (sys.executable, "-m", "pytest", *OPTIONS)

# Two folders of npy files, and as many functions that do nothing.
_MAKE = """
import pathlib, sys, numpy
folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
random = numpy.random.default_rng(1)
for part in ("suite/left", "suite/right", "empty"):
    (folder / part).mkdir(parents=True)
for number in range(count):
    values = random.random(1024, dtype=numpy.float32) + 1
    name = f"op{number}.0.{1600000000000000 + number}.npy"
    numpy.save(folder / "suite" / "left" / name, values)
    numpy.save(folder / "suite" / "right" / name, values * numpy.float32(1.0001))
functions = "".join(f"def test_{number}():\\n    pass\\n\\n\\n" for number in range(count))
(folder / "empty" / "test_nothing.py").write_text(functions)
for part in ("suite", "empty"):
    (folder / part / "pytest.ini").write_text("[pytest]\\n")
"""

# pytest, whose imports by name become those of a statement: -X importtime does not see what importlib imports.
_SEEN = """
import importlib.util, sys

def import_module(name, package=None):
    name = importlib.util.resolve_name(name, package)
    __import__(name)
    return sys.modules[name]

importlib.import_module = import_module
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
_IMPORTED = re.compile(r"import time: +(?P<own>\d+) \| +(?P<with_below>\d+) \| (?P<indent> *)(?P<name>\S+)")


def pytest_items(setting: Setting) -> Iterator[Case]:
    """A suite of two thousand pairs, results.json written, against as many functions that do nothing."""
    count = 20 if setting.small else 2_000
    folder = setting.folder / "items"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", _MAKE, folder, str(count)], check=True)

    def checked(text: str) -> Callable[[str], None]:
        def check(said: str) -> None:
            if text not in said:
                raise NotTimedError(f"pytest should say '{text}', but says:\n{said[-2000:]}")

        return check

    suite = [*_PYTEST, "--rootdir", "items/suite", "-c", "items/suite/pytest.ini", "items/suite"]
    compared = [*suite, "--msdump-left=items/suite/left", "--msdump-right=items/suite/right"]
    empty = [*_PYTEST, "--rootdir", "items/empty", "-c", "items/empty/pytest.ini", "items/empty"]
    all_pass = checked(f"{count} tensors: {count} pass")
    programs = {
        EMPTY: Program(empty, only_starts=True, check=checked(f"{count} passed")),
        OURS: Program(compared, EMPTY, check=all_pass),
        NUMPY: Program(compared, EMPTY, FALLBACK, check=all_pass),
    }
    figures = setting.figures(programs)
    limits = [
        Limit("4", f"CPU of an item beyond one that does nothing: {name}", 1.0, each.cpu_beyond / count * 1e3, "ms")
        for name, each in figures.items()
        if not each.only_starts
    ]
    yield Case("pytest", f"{count:,} pairs of 1,024 float32 elements, an item each", figures, limits)


def dormant(setting: Setting) -> Iterator[Case]:
    """What pytest's start takes longer where the plugin is installed and nothing is compared."""
    folder = setting.folder / "dormant"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    times, modules = [], 0
    # Once for the byte code.
    for _ in range((2 if setting.small else 20) + 1):
        milliseconds, modules = imports(folder)
        times.append(milliseconds)
    del times[0]
    command = [*_PYTEST, "--rootdir", "dormant", "-c", "dormant/pytest.ini", "dormant"]
    programs = {
        WITHOUT: Program([*command, "-p", "no:msdump"], only_starts=True),
        "pytest": Program(command, WITHOUT),
    }
    figures = setting.figures(programs, 1 if setting.small else 10)
    title = f"pytest's own run of one empty test: our {modules} modules and what they import"
    limit = Limit(
        "4",
        f"imports of the dormant plugin by -X importtime, median of {len(times)}",
        10,
        statistics.median(times),
        "ms",
    )
    note = f"-X importtime, which counts time that passed, found from {min(times):.1f} to {max(times):.1f} ms"
    yield Case("dormant", title, figures, [limit], notes=[note])


def imports(folder: Path) -> tuple[float, int]:
    """Return the milliseconds of our modules with all that they import, and how many ours are."""
    done = run([sys.executable, "-X", "importtime", "-c", _SEEN, *OPTIONS], folder)
    if done.exit_code:
        raise NotTimedError(f"pytest ends with {done.exit_code}:\n{done.said[-2000:]}")
    milliseconds, modules = outermost(done.said)
    if not modules:
        raise NotTimedError(f"pytest imports nothing of pytest-msdump: is it installed for {sys.executable}?")
    return milliseconds, modules


def outermost(said: str) -> tuple[float, int]:
    """Add up the modules of ours that none of ours imports.

    Python prints a module behind what it imports, which is indented by two more.
    """
    microseconds = 0
    count = 0
    below: float | None = None
    for found in reversed([*_IMPORTED.finditer(said)]):
        depth = len(found["indent"])
        if below is not None and depth > below:
            count += found["name"].startswith("pytest_msdump")
            continue
        below = None
        if found["name"].split(".")[0] == "pytest_msdump":
            below = depth
            microseconds += int(found["with_below"])
            count += 1
    return microseconds / 1e3, count
