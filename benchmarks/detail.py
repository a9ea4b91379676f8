"""Time and peak memory of writing one operator element by element, through the vendor's own command line.

python benchmarks/detail.py                       5,000,000 float32 values
python benchmarks/detail.py --elements 100000     a quick look
python benchmarks/detail.py --limit-mib 200       exit code 1 when it needs more

The command is a process of its own; its peak is the kernel's count (ru_maxrss), interpreter and numpy included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from peak_memory import measured

# A process of its own: a child's count of its peak begins with what its parent held when it was started.
_MAKE = """
import sys, numpy
folder, count = sys.argv[1], int(sys.argv[2])
left = numpy.random.default_rng(1).standard_normal((1, 10, count // 100, 10), dtype=numpy.float32)
numpy.save(folder + "/left/big.0.1600000000000001.npy", left)
numpy.save(folder + "/right/big.0.1600000000000002.npy", left * numpy.float32(1.0001))
"""


def main() -> int:
    """Make two files, write their details in three ways, delete everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--elements", type=int, default=5_000_000, help="default: 5000000")
    parser.add_argument("--limit-mib", type=float, help="fail when a run peaks above this")
    parser.add_argument("--dir", type=Path, help="where the files are made (default: the temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msdump_detail_", dir=arguments.dir) as name:
        folder = Path(name)
        for side in ("left", "right"):
            (folder / side).mkdir()
        subprocess.run([sys.executable, "-c", _MAKE, name, str(arguments.elements)], check=True)
        print(f"float32, {arguments.elements} elements, every one differs")
        print(f"{'run':<34} {'exit':>4} {'peak MiB':>9} {'seconds':>8} {'on CPU':>8} {'MiB written':>12}")
        runs = []
        for title, command in commands():
            run = measured(command, folder)
            written = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file()) / 2**20
            times = f"{run.seconds:>8.2f} {run.cpu_seconds:>8.2f}"
            print(f"{title:<34} {run.exit_code:>4} {run.peak_mib:>9.1f} {times} {written:>12.1f}", flush=True)
            runs.append(run)
    above = arguments.limit_mib is not None and any(run.peak_mib > arguments.limit_mib for run in runs)
    return int(above or any(run.exit_code for run in runs))


def commands() -> list[tuple[str, list[str]]]:
    """Return title and arguments of every run; all are within the default limits, so each should exit with 0."""
    compat = [
        "-m",
        "pytest_msdump.compat.msaccucmp",
        "compare",
        "-m",
        "left",
        "-g",
        "right",
        "-out",
        "out",
        "-op",
        "big",
    ]
    return [
        ("msaccucmp -op, lists only", [*compat, "--ignore_single_op_result"]),
        ("msaccucmp -op", compat),
        ("msdump compare -d", ["-m", "pytest_msdump", "compare", "left", "right", "-d", "big", "-o", "out"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
