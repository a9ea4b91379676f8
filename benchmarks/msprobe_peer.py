"""Two runs that msprobe dumped, one with a mistake, held to each other by this package and by msprobe's own compare.

``python benchmarks/msprobe_peer.py PYTHON``: PYTHON has torch and mindstudio-probe; this one needs neither. Prints what
each finds, its time and its peak memory, then how fast a .pt file of 128 MiB is read beside `numpy.load`.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from statistics import median

import numpy as np

from pytest_msdump.core.compare.opening import index, open_logical

RUN = """
import json, sys, torch
from msprobe.pytorch import PrecisionDebugger, seed_all

out, mistake, width = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
open(out + ".json", "w").write(json.dumps({
    "task": "tensor", "dump_path": out, "rank": [], "step": [], "level": "mix",
    "tensor": {"scope": [], "list": [], "data_mode": ["all"]}}))
seed_all(3)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(width), torch.nn.Linear(width, width)
        self.down = torch.nn.Linear(width, width)
        self.kind = "none"

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.up(self.norm(x)), approximate=self.kind)
        return x + self.down(hidden)

net = torch.nn.Sequential(*[Block() for _ in range(8)])
if mistake:
    net[5].kind = "tanh"
debugger = PrecisionDebugger(config_path=out + ".json")
for step in range(2):
    debugger.start(model=net)
    net(torch.randn(64, width)).square().mean().backward()
    debugger.stop()
    debugger.step()
"""
SAVE = "import sys, torch; torch.save(torch.arange(2**25, dtype=torch.float32), sys.argv[1])"


def timed(words: list[str], log: Path) -> tuple[int, float, float]:
    """Run a program; return its exit code, seconds and peak memory in MiB."""
    started = time.perf_counter()
    with log.open("wb") as stream:
        wide = {**os.environ, "COLUMNS": "300"}
        process = subprocess.Popen(words, stdout=stream, stderr=subprocess.STDOUT, env=wide)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.perf_counter() - started, usage.ru_maxrss / 1024


def compare(python: str, work: Path, width: int) -> None:
    """Make both runs, and compare them with either program."""
    for name, mistake in (("reference", 0), ("run", 1)):
        (work / "net.py").write_text(RUN)
        log = work / f"{name}.log"
        code, _, _ = timed(
            [python, "-W", "ignore", str(work / "net.py"), str(work / name), str(mistake), str(width)], log
        )
        if code:
            raise SystemExit(log.read_text()[-2000:])
    sides = [work / "run", work / "reference"]
    size = sum(path.stat().st_size for side in sides for path in side.rglob("*.pt")) / 2**20
    print(f"two runs, {len(list(work.rglob('*.pt')))} tensors, {size:.0f} MiB; gelu of block 5 is approximated in one")
    has_torch = any((Path(place) / "torch").is_dir() for place in sys.path)
    ours = [sys.executable, "-m", "pytest_msdump", "compare", *map(str, sides), "--io", "all", "--profile", "torch"]
    ours += ["--report-dir", str(work / "report"), "--quiet"]
    code, seconds, memory = timed(ours, work / "ours.log")
    where = "beside torch" if has_torch else "without torch"
    print(f"msdump compare, {where}: exit code {code}, {seconds:.1f} s, {memory:.0f} MiB")
    lines = (work / "ours.log").read_text().splitlines()
    print(
        "\n".join(
            f"    {line}" for line in lines if "tensors: " in line or line.lstrip().startswith(("first", "cause"))
        )
    )
    for step in ("step0", "step1"):
        folders = [next((side / step).iterdir()) for side in sides]
        words = ["-tp", str(folders[0] / "dump.json"), "-gp", str(folders[1] / "dump.json"), "-o", str(work / "theirs")]
        peer = [str(Path(python).with_name("msprobe")), "compare", *words]
        code, seconds, memory = timed(peer, work / "theirs.log")
        print(f"msprobe compare of {step}: exit code {code}, {seconds:.1f} s, {memory:.0f} MiB")
    for path in sorted((work / "theirs").rglob("*.csv")):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
        title = next((name for name in rows[0] if name.lower() in ("result", "accuracy reached or not")), "")
        print(f"    {path.name}: {dict(Counter(row[title] for row in rows)) if title else list(rows[0])}")
        first = next((row for row in rows if row.get(title) not in ("pass", "Yes", None)), None)
        print(f"    first that is not: {next(iter(first.values())) if first else 'none'}")


def speed(python: str, work: Path, runs: int = 7) -> None:
    """Read a large file in blocks, and an array of the same elements by numpy."""
    path, array = work / "large.pt", work / "large.npy"
    subprocess.run([python, "-c", SAVE, str(path)], check=True)
    np.save(array, np.arange(2**25, dtype=np.float32))
    (ref,) = index(path).refs
    seconds: dict[str, list[float]] = {"pt": [], "numpy": []}
    for _ in range(runs):
        started = time.perf_counter()
        np.load(array)
        seconds["numpy"].append(time.perf_counter() - started)
        started = time.perf_counter()
        with closing(open_logical(ref)) as view:
            for _block in view.blocks(2**18):
                pass
        seconds["pt"].append(time.perf_counter() - started)
    ours, theirs = median(seconds["pt"]), median(seconds["numpy"])
    print(f".pt of 128 MiB: {ours * 1000:.0f} ms in blocks, numpy.load {theirs * 1000:.0f} ms: {theirs / ours:.2f} x")


def main() -> None:
    """Do both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="a Python with torch and mindstudio-probe")
    parser.add_argument("--width", type=int, default=256)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments.python, Path(folder), arguments.width)
        speed(arguments.python, Path(folder))


if __name__ == "__main__":
    main()
