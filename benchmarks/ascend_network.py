"""Compare a made-up Ascend network with its original, through the fusion-mapping JSON, in one command.

python benchmarks/ascend_network.py                  2,000 operators of 4,000 elements
python benchmarks/ascend_network.py --operators 400 --elements 200000
python benchmarks/ascend_network.py --tool ARG …     another command line in place of ours; {left} {right} {fusion}

Of four operators one is three originals fused into one (NC1HWC0), one a matrix product (FRACTAL_NZ), one was renamed
(ND), and one is a TransData that the compiler put in (NC1HWC0). Prints time and the kernel's count of peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent.parent / "example_suites" / "04_ascend_fused_conv"))

from dump_file import write_dump
from model_file import model, operator

_CHANNELS = 19


def main() -> int:
    """Make the network, compare it, delete it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--operators", type=int, default=2000, help="default: 2000")
    parser.add_argument("--elements", type=int, default=4000, help="of each tensor, about (default: 4000)")
    parser.add_argument("--dir", type=Path, help="where the files are made (default: the temporary folder)")
    parser.add_argument("--tool", nargs=argparse.REMAINDER, help="what to run instead of msdump compare")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msdump_network_", dir=arguments.dir) as name:
        folder = Path(name)
        make(folder, arguments.operators, arguments.elements)
        command = arguments.tool or [
            *(sys.executable, "-m", "pytest_msdump", "compare", "{left}", "{right}", "-f", "{fusion}"),
            *("--report", "json,csv", "--report-dir", str(folder / "report")),
        ]
        places = {side: str(folder / side) for side in ("left", "right")} | {"fusion": str(folder / "fusion.json")}
        return measured([part.format(**places) for part in command], folder)


def make(folder: Path, operators: int, elements: int) -> None:
    """Write both dumps and the JSON of the compiled model."""
    for side in ("left", "right"):
        (folder / side).mkdir()
    rng = np.random.default_rng(1)
    edge = max(1, round((elements / _CHANNELS) ** 0.5))
    written: list[dict[str, Any]] = []
    for number in range(operators):
        # A TransData carries on what the operator before it put out.
        if number % 4 != 3:
            values = rng.standard_normal((1, _CHANNELS, edge, edge)).astype(np.float32)
        written.append(_operator(folder, number, values))
    (folder / "fusion.json").write_text(json.dumps(model("network", written)), encoding="utf-8")


def _operator(folder: Path, number: int, values: npt.NDArray[np.float32]) -> dict[str, Any]:
    """Write one operator's file and its original's, and return its entry of the JSON."""
    name = f"block{number // 4}/op{number}"
    originals = ((f"{name}/conv", f"{name}/bn", f"{name}/relu"), (name,), (f"old_{number}",), ())[number % 4]
    op_type = ("Conv2D", "MatMulV2", "Relu", "TransData")[number % 4]
    memory_format = ("NC1HWC0", "FRACTAL_NZ", "ND", "NC1HWC0")[number % 4]
    if memory_format == "FRACTAL_NZ":
        values = values.reshape(-1, values.shape[-1])
    write_dump(folder / "left", op_type, name, number, values.astype(np.float16), memory_format)
    if originals:
        file = f"{originals[-1].replace('/', '_')}.0.{1600000000000000 + number}.npy"
        np.save(folder / "right" / file, values * np.float32(1.0001))
    inputs = (f"block{(number - 1) // 4}/op{number - 1}:0",) if number else ()
    return operator(name, op_type, inputs=inputs, originals=originals, shape=values.shape)


def measured(command: list[str], folder: Path) -> int:
    """Run one command with the working directory `folder`; print what it took."""
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    print("\n".join(said.splitlines()[-4:]))
    # Linux counts in KiB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    print(f"exit {child.returncode}, {seconds:.2f} seconds, peak {usage.ru_maxrss / unit:.0f} MiB")
    return child.returncode


if __name__ == "__main__":
    sys.exit(main())
