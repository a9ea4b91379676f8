"""Peak memory and time of comparing two large float32 files that differ in every element.

python benchmarks/peak_memory.py            1 GiB a file, about 4 GiB of disk in the temporary folder
python benchmarks/peak_memory.py --mib 16   a quick look
python benchmarks/peak_memory.py --limit-mib 150   exit code 1 when a run needs more
python benchmarks/peak_memory.py --shards --mib 512   eight shards of that size against the whole: 12 GiB of disk
python benchmarks/peak_memory.py --logits 4096        so many tokens of 151,936 ids, judged as logits: 5 GiB of disk

Each comparison is a process of its own; its peak is the kernel's count (ru_maxrss), interpreter and numpy included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring.processes import Run, run

_SIDES = ("left", "right", "fortran")

# Run in a process of its own: a child's count of its peak begins with what its parent held when it was started.
_MAKE = """
import sys, numpy
folder, columns = sys.argv[1], int(sys.argv[2])
left = numpy.random.default_rng(1).random((columns, columns), dtype=numpy.float32) + 1
right = left * numpy.float32(1.0001)
assert (left != right).all()
numpy.save(folder + "/left/big.0.1600000000000001.npy", left)
numpy.save(folder + "/right/big.0.1600000000000002.npy", right)
numpy.save(folder + "/fortran/big.0.1600000000000003.npy", numpy.asfortranarray(right))
"""

# Shards of rows and of columns; the whole is written in bands, so that it is never in memory either.
_MAKE_SHARDS = """
import sys, numpy
from pathlib import Path
folder, columns, ranks = Path(sys.argv[1]), int(sys.argv[2]), 8
def new(name, rows, width):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return numpy.lib.format.open_memmap(path, "w+", "float32", (rows, width))
whole = new("right/big.npy", ranks * columns, columns)
parts = [new(f"by_columns/rank_{r}/big.npy", ranks * columns, columns // ranks) for r in range(ranks)]
for rank in range(ranks):
    band = numpy.random.default_rng(rank).random((columns, columns), dtype=numpy.float32) + 1
    at = slice(rank * columns, (rank + 1) * columns)
    whole[at] = band
    band *= numpy.float32(1.0001)
    new(f"by_rows/rank_{rank}/big.npy", columns, columns)[:] = band
    for part, columns_of_part in zip(parts, numpy.split(band, ranks, axis=1)):
        part[at] = columns_of_part
for name, dims in (("by_rows", "a[tp] b"), ("by_columns", "a b[tp]")):
    (folder / f"{name}.toml").write_text(
        f'[msdump]\\nleft = "{name}"\\nright = "right"\\n[msdump.shards]\\nleft = {{ axes = {{ tp = {ranks} }} }}\\n'
        f'[[msdump.dims]]\\nmatch = "*"\\ndims = "{dims}"\\n'
    )
"""


# Tables of logits, written in bands as well.
_MAKE_LOGITS = """
import sys, numpy
from pathlib import Path
folder, tokens, width = Path(sys.argv[1]), int(sys.argv[2]), 151936
sides = [
    numpy.lib.format.open_memmap(folder / side / "logits.0.1600000000000000.npy", "w+", "float32", (tokens, width))
    for side in ("left", "right")
]
for token in range(tokens):
    rng = numpy.random.default_rng(token)
    row = 3 * rng.standard_normal(width, dtype=numpy.float32)
    sides[1][token] = row
    sides[0][token] = row + numpy.float32(1e-5) * rng.standard_normal(width, dtype=numpy.float32)
(folder / "logits.toml").write_text(
    '[msdump]\\nleft = "left"\\nright = "right"\\nprofile = "generation"\\n'
    '[[msdump.rule]]\\nmatch = "logits"\\nlogits = true\\n'
)
"""


def main() -> int:
    """Make the files, compare them in four ways, delete them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=1024, help="size of each file (default: 1024)")
    parser.add_argument("--limit-mib", type=float, help="fail when a run peaks above this")
    parser.add_argument("--shards", action="store_true", help="compare eight shards with the whole instead")
    parser.add_argument("--logits", type=int, metavar="TOKENS", help="compare tables of logits instead")
    parser.add_argument("--dir", type=Path, help="where the files are made (default: the temporary folder)")
    arguments = parser.parse_args()
    columns = int((arguments.mib * 2**20 / 4) ** 0.5) // 8 * 8
    with tempfile.TemporaryDirectory(prefix="msdump_memory_", dir=arguments.dir) as name:
        folder = Path(name)
        for side in _SIDES:
            (folder / side).mkdir()
        make, list_runs = (_MAKE_SHARDS, sharded) if arguments.shards else (_MAKE, commands)
        rows = width = columns
        if arguments.logits:
            make, list_runs, rows, width = _MAKE_LOGITS, of_logits, arguments.logits, 151_936
        subprocess.run([sys.executable, "-c", make, name, str(rows)], check=True)
        print(f"float32, {rows} x {width}, {rows * width * 4 / 2**20:.0f} MiB a file, every element differs")
        print(f"{'run':<34} {'exit':>4} {'peak MiB':>9} {'seconds':>8}")
        runs = []
        for title, command in list_runs(folder):
            runs.append(measured(command, folder))
            print(f"{title:<34} {runs[-1].exit_code:>4} {runs[-1].peak_mib:>9.1f} {runs[-1].seconds:>8.2f}", flush=True)
    above = arguments.limit_mib is not None and any(run.peak_mib > arguments.limit_mib for run in runs)
    return int(above or any(run.exit_code for run in runs))


def commands(folder: Path) -> list[tuple[str, list[str]]]:
    """Return title and arguments of every run; all are within the default limits, so each should exit with 0."""
    left, right, fortran = (next((folder / side).glob("*.npy")) for side in _SIDES)
    gate = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(folder)]
    compare = ["-m", "pytest_msdump", "compare"]
    return [
        ("msdump compare, both C order", [*compare, str(left), str(right)]),
        ("msdump compare, right Fortran", [*compare, str(left), str(fortran)]),
        ("msdump compare, left Fortran", [*compare, str(fortran), str(left)]),
        ("pytest, both C order", [*gate, "--msdump-left=left", "--msdump-right=right"]),
        ("pytest, right Fortran", [*gate, "--msdump-left=left", "--msdump-right=fortran"]),
    ]


def sharded(folder: Path) -> list[tuple[str, list[str]]]:
    """Return title and arguments of the comparisons of shards, in the two ways they were cut."""
    compare = ["-m", "pytest_msdump", "compare", "--cache=off", "--config"]
    return [
        (f"8 shards, cut {way.replace('_', ' ')}", [*compare, str(folder / f"{way}.toml")])
        for way in ("by_rows", "by_columns")
    ]


def of_logits(folder: Path) -> list[tuple[str, list[str]]]:
    """Return title and arguments of the comparison of two tables of logits."""
    return [("logits", ["-m", "pytest_msdump", "compare", "--config", str(folder / "logits.toml")])]


def measured(arguments: list[str], folder: Path) -> Run:
    """Run one comparison with the working directory `folder`."""
    done = run([sys.executable, *arguments], folder)
    if done.exit_code:
        print(done.said, file=sys.stderr)
    return done


if __name__ == "__main__":
    sys.exit(main())
