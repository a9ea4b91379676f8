"""CPU time and peak memory of this tree beside an older version, in alternating runs on one machine.

python benchmarks/beside_an_old_version.py OLD/.venv/bin/python              all cases, 400 MiB of disk and memory
python benchmarks/beside_an_old_version.py OLD/.venv/bin/python tiny large   some of them
python benchmarks/beside_an_old_version.py OLD/.venv/bin/python --small      a quick look that says nothing of speed

Each run is ``python -m pytest_msdump compare`` as a process of its own, by the Python of one tree and then by the
other's; CPU time is of that process. A ratio is the median of the ratios of neighbouring runs, so that a load that
comes and goes weighs on both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measuring.processes import Run, run


class Case(NamedTuple):
    """Pairs of float32 that differ by rounding, or, where they are `failing`, by a tenth."""

    title: str
    pairs: int
    elements: int
    failing: bool = False
    most_cpu: float | None = None
    most_peak: float | None = None


CASES = {
    "files": Case("two small files", 1, 16),
    "tiny": Case("4,000 × 16 elements", 4_000, 16, most_cpu=2.0),
    "network": Case("400 × 200,000 elements", 400, 200_000, most_cpu=1.3, most_peak=1.4),
    "large": Case("two files of 128 MiB", 1, 2**25, most_cpu=1.3, most_peak=1.4),
    "passing": Case("1,200 × 16 elements, all pass", 1_200, 16),
    "failing": Case("1,200 × 16 elements, all fail", 1_200, 16, failing=True),
}
# A failing run over a passing one, both of this tree.
MOST_OF_FAILING = 2.0

# Run in a process of its own: a child's count of its peak begins with what its parent held when it was started.
_MAKE = """
import os, sys, numpy
folder, pairs, elements, failing = sys.argv[1], *map(int, sys.argv[2:5])
values = numpy.random.default_rng(1).random(elements, dtype=numpy.float32) + 1
for side in ("left", "right"):
    os.makedirs(f"{folder}/{side}")
    if side == "right":
        values = values * numpy.float32(1.1) if failing else numpy.nextafter(values, numpy.float32(99))
    for number in range(pairs):
        numpy.save(f"{folder}/{side}/op{number}.0.{1600000000000000 + number}.npy", values)
"""


def main() -> int:
    """Make the data, run both trees in turns, print a line for each case; exit code 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("old", type=Path, help="the Python of the other tree, in which that one is installed")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--runs", type=int, default=5, help="runs of each tree (default: 5)")
    parser.add_argument("--small", action="store_true", help="two pairs of 16 elements, and no limits")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - CASES.keys():
        parser.error(f"no case {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    pythons = (Path(sys.executable), arguments.old.absolute())
    print(f"{'case':<30} {'CPU s':>7} {'old':>7} {'ratio':>6} {'MiB':>6} {'old':>6} {'ratio':>6}")
    kept, of_this = True, {}
    for name in arguments.cases or CASES:
        case = CASES[name]
        if arguments.small:
            case = case._replace(pairs=min(case.pairs, 2), elements=16, most_cpu=None, most_peak=None)
        ours, theirs = measured(case, pythons, arguments.runs)
        of_this[name] = median(one.cpu_seconds for one in ours)
        cpu = median(one.cpu_seconds / other.cpu_seconds for one, other in zip(ours, theirs, strict=True))
        peak = median(one.peak_mib / other.peak_mib for one, other in zip(ours, theirs, strict=True))
        numbers = [median(one.peak_mib for one in runs) for runs in (ours, theirs)]
        old = median(one.cpu_seconds for one in theirs)
        print(
            f"{case.title:<30} {of_this[name]:7.2f} {old:7.2f} {cpu:6.2f} {numbers[0]:6.0f} {numbers[1]:6.0f} "
            f"{peak:6.2f}{_kept(cpu, case.most_cpu)}{_kept(peak, case.most_peak)}",
            flush=True,
        )
        kept &= cpu <= (case.most_cpu or cpu) and peak <= (case.most_peak or peak)
    if {"passing", "failing"} <= of_this.keys() and not arguments.small:
        ratio = of_this["failing"] / of_this["passing"]
        print(f"failing over passing: {ratio:.2f}{_kept(ratio, MOST_OF_FAILING)}")
        kept &= ratio <= MOST_OF_FAILING
    return 0 if kept else 1


def measured(case: Case, pythons: tuple[Path, Path], runs: int) -> tuple[list[Run], list[Run]]:
    """Return the runs of both trees; the first of each, which compiles and fills caches, is not counted."""
    both: tuple[list[Run], list[Run]] = [], []
    with tempfile.TemporaryDirectory(prefix="msdump_beside_") as name:
        numbers = [str(int(number)) for number in (case.pairs, case.elements, case.failing)]
        subprocess.run([sys.executable, "-c", _MAKE, name, *numbers], check=True)
        for number in range(runs + 1):
            for python, done in zip(pythons, both, strict=True):
                command = [python, "-m", "pytest_msdump", "compare", "left", "right"]
                ran = run(command, Path(name), {"OMP_NUM_THREADS": "1"})
                if ran.exit_code != int(case.failing):
                    raise SystemExit(f"{python}: exit code {ran.exit_code}\n{ran.said[-2000:]}")
                done.extend([ran] if number else [])
    return both


def _kept(ratio: float, most: float | None) -> str:
    return "" if most is None else f"  {'ok' if ratio <= most else 'over'} (≤ {most:g})"


if __name__ == "__main__":
    sys.exit(main())
