"""What every case is given, and the programs that several of them run."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring.figures import Figure, Sample, in_turn
from measuring.processes import Run, run

__all__ = ["FALLBACK", "NO_KERNEL", "REPORT", "NotTimedError", "Program", "Setting", "msdump"]

FALLBACK = {"MSDUMP_KERNEL": "numpy"}
NO_KERNEL = "no compiled kernel here"
REPORT = "msdump-report"

_PYTHON = sys.executable


class NotTimedError(Exception):
    """A program did not do what was to be timed."""


@dataclass(frozen=True)
class Program:
    """A command line whose run is a sample.

    Attributes
    ----------
    beyond
        The name of the program that only starts; ``None`` when the last line that this one prints tells what the work
        alone took, as JSON with ``seconds`` and ``cpu_seconds``.
    exits
        Exit codes that are right.
    check
        Given what it printed, raises `NotTimedError` where something else was done than what was to be timed.
    reads
        A folder whose files are to be in the page cache.
    """

    command: Sequence[str | Path]
    beyond: str | None = None
    environment: Mapping[str, str] | None = None
    exits: Sequence[int] = (0,)
    only_starts: bool = False
    check: Callable[[str], None] | None = None
    reads: Path | None = None


@dataclass(frozen=True)
class Setting:
    """Where and how often.

    Attributes
    ----------
    kernel
        Whether our compiled kernel is there.
    vendor, peers
        Pythons that the vendor's package, and other comparisons, are installed for.
    """

    folder: Path
    runs: int
    small: bool
    kernel: bool
    vendor: Path | None = None
    peers: Path | None = None

    def figures(self, programs: Mapping[str, Program], runs: int | None = None) -> dict[str, Figure]:
        """Run the programs in turn, after one run of each that does not count: it makes byte code and warms caches.

        Raises
        ------
        NotTimedError
            A program ended with an exit code that is not one of its own, or its check said so.
        """
        if not self.small:
            in_turn({name: self._sampler(name, program) for name, program in programs.items()}, 1)
        timed = {name: self._sampler(name, program) for name, program in programs.items()}
        samples = in_turn(timed, runs or self.runs)
        figures: dict[str, Figure] = {}
        # Those that only start come first: the others are beyond them.
        for name in sorted(programs, key=lambda name: not programs[name].only_starts):
            program = programs[name]
            base = figures[program.beyond] if program.beyond else None
            figures[name] = Figure(name, samples[name], base, program.only_starts)
        return {name: figures[name] for name in programs}

    def _sampler(self, name: str, program: Program) -> Callable[[], Sample]:
        def sample() -> Sample:
            # Nobody's check is to find what another run wrote.
            shutil.rmtree(self.folder / REPORT, ignore_errors=True)
            if program.reads:
                into_page_cache(program.reads)
            done: Run = run(program.command, self.folder, program.environment)
            if done.exit_code not in program.exits:
                raise NotTimedError(
                    f"{name}: exit code {done.exit_code}: {' '.join(map(str, program.command))}\n{done.said}"
                )
            if program.check:
                program.check(done.said)
            if program.beyond or program.only_starts:
                return Sample(done.seconds, done.cpu_seconds, done.peak_mib)
            told = json.loads(done.said.splitlines()[-1])
            return Sample(told["seconds"], told["cpu_seconds"], done.peak_mib)

        return sample


def into_page_cache(folder: str | Path) -> None:
    """Read all files below a folder: an operating system may have dropped what nobody read for some seconds.

    File by file, and without a Path of each: a list of all, and the table of names that pathlib interns, would make
    this process larger, and what it holds is in the peak of all that it starts.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                into_page_cache(entry.path)
                continue
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
                while file.read(1 << 20):
                    pass


IMPORTS_NUMPY = "only starts: import numpy"


def numpy_start(python: str | Path = _PYTHON) -> Program:
    """Start an interpreter and import numpy."""
    return Program([python, "-c", "import numpy"], only_starts=True)


def msdump(*words: str | Path) -> list[str | Path]:
    """Return the command line of our command."""
    return [_PYTHON, "-m", "pytest_msdump", *words]


def has_kernel(folder: Path) -> bool:
    """Tell whether our command computes with the compiled kernel when nothing is asked for."""
    return "kernel: compiled" in run(msdump("--version"), folder).said


def without_kl(folder: Path) -> bool:
    """Tell whether our command knows how to leave a metric out."""
    return "--without" in run(msdump("compare", "--help"), folder).said


def sought(name: str, places: Sequence[Path]) -> Path | None:
    """Return the first of these folders that holds such a file."""
    return next((place / name for place in places if (place / name).exists()), None)


def search_path(variable: str) -> list[Path]:
    """Return the folders that a variable of the environment lists."""
    return [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]


def numpy_release(folder: Path) -> str:
    """Return numpy's release; asked of another process, which stays as large as it will."""
    return run([_PYTHON, "-c", "import numpy; print(numpy.__version__)"], folder).said.strip()
