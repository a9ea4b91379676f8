"""What is around the arithmetic: CPU of a start, of very many tiny tensors, and of equal ones.

python benchmarks/lean.py                             all rows: 1.1 GiB of disk, five runs each
python benchmarks/lean.py tiny equal                  some of them
python benchmarks/lean.py --old OLD/.venv/bin/python  the start beside that of another version
python benchmarks/lean.py --small                     a quick look that says nothing of speed

Each row is ``msdump compare`` beside a peer, as processes in turns; a ratio is the median of the ratios of neighbouring
runs. A start is counted beyond ``python -c "import numpy"``, all else as a whole process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measuring.processes import run

_LOOP = """
import os, numpy
for name in sorted(os.listdir("left")):
    left, right = numpy.load(f"left/{name}"), numpy.load(f"right/{name}")
"""
_DISTANCE = _LOOP + "    numpy.linalg.norm(left - right) / numpy.linalg.norm(right)\n"
# Run in a process of its own: a child's count of its peak begins with what its parent held when it was started.
_MAKE = """
import os, sys, numpy
folder, pairs, elements, equal = sys.argv[1], *map(int, sys.argv[2:5])
draw = numpy.random.default_rng(1)
for side in ("left", "right"):
    os.makedirs(f"{folder}/{side}")
for number in range(pairs):
    values = draw.random(elements, dtype=numpy.float32) + 1
    for side, array in (("left", values if equal else numpy.nextafter(values, numpy.float32(9))), ("right", values)):
        numpy.save(f"{folder}/{side}/op{number}.0.{1600000000000000 + number}.npy", array)
"""
_OURS = ("-m", "pytest_msdump", "compare", "--quiet")
_FILE = "op0.0.1600000000000000.npy"


class Row(NamedTuple):
    """Pairs that differ by rounding or are `equal`, the code of a `peer` (none: another version), the largest ratio."""

    title: str
    pairs: int
    elements: int
    peer: str
    most: float
    equal: bool = False


ROWS = {
    "start": Row("two small files, beyond numpy, over another version", 1, 64, "", 0.6),
    "tiny": Row("4,000 × 16 elements, over numpy.load and a distance", 4_000, 16, _DISTANCE, 2.5),
    "equal": Row("2 × 518 MB in 318 equal tensors, over numpy.load", 318, 407_232, _LOOP, 1.5, equal=True),
}


def main() -> int:
    """Make the data, run both in turns, print a line for each row; exit code 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; by default all")
    parser.add_argument("--old", type=Path, metavar="PYTHON", help="in which another version is installed")
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--small", action="store_true", help="two pairs of 16 elements, and no limits")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - ROWS.keys():
        parser.error(f"no row {', '.join(sorted(unknown))}; known: {', '.join(ROWS)}")
    print(f"{'row':<54} {'CPU s':>7} {'peer':>7} {'ratio':>6}")
    kept = True
    for name in arguments.rows or ROWS:
        row = ROWS[name]
        if name == "start" and arguments.old is None:
            print(f"{row.title:<54} give --old")
            continue
        with tempfile.TemporaryDirectory(prefix="msdump_lean_") as folder:
            ours, theirs = measured(row, Path(folder), arguments)
        ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
        word = "" if arguments.small else f"  {'ok' if ratio <= row.most else 'over'} (≤ {row.most:g})"
        print(f"{row.title:<54} {median(ours):7.2f} {median(theirs):7.2f} {ratio:6.2f}{word}", flush=True)
        kept &= arguments.small or ratio <= row.most
    return 0 if kept else 1


def measured(row: Row, folder: Path, arguments: argparse.Namespace) -> tuple[list[float], list[float]]:
    """Return CPU seconds of both; the first runs, which compile and fill caches, are not counted."""
    python, is_start = sys.executable, not row.peer
    size = (min(row.pairs, 2), 16) if arguments.small else (row.pairs, row.elements)
    subprocess.run([python, "-c", _MAKE, folder, *map(str, (*size, int(row.equal)))], check=True)
    compare = [*_OURS, *(f"{side}/{_FILE}" if is_start else side for side in ("left", "right"))]
    commands: list[list[str | Path]] = [[python, *compare], [python, "-c", row.peer]]
    if is_start:
        commands = [[python, *compare], [arguments.old.absolute(), *compare], [python, "-c", "import numpy"]]
    seconds: list[list[float]] = [[] for _ in commands]
    for _ in range(arguments.runs + 1):
        for command, of in zip(commands, seconds, strict=True):
            ran = run(command, folder, {"OMP_NUM_THREADS": "1"})
            if ran.exit_code:
                raise SystemExit(f"{command}: exit code {ran.exit_code}\n{ran.said[-2000:]}")
            of.append(ran.cpu_seconds)
    counted = [of[1:] for of in seconds]
    if is_start:
        counted = [[one - numpy for one, numpy in zip(of, counted[2], strict=True)] for of in counted[:2]]
    return counted[0], counted[1]


if __name__ == "__main__":
    sys.exit(main())
