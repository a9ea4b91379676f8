"""Compare a made-up Ascend network with its original, through the fusion-mapping JSON, in one command.

python benchmarks/ascend_network.py                  2,000 operators of 4,000 elements
python benchmarks/ascend_network.py --operators 400 --elements 200000
python benchmarks/ascend_network.py --tool ARG …     another command line in place of ours; {left} {right} {fusion}
python benchmarks/ascend_network.py --make FOLDER    only write left/, right/ and fusion.json there

Of four operators one is three originals fused into one (NC1HWC0), one a matrix product (FRACTAL_NZ), one was renamed
(ND), and one is a TransData that the compiler put in (NC1HWC0). With ``--channels-in-blocks`` each has 16 channels, is
stored in NC1HWC0, and stands for one original or for three of them. Prints time and the kernel's count of peak memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent.parent / "example_suites" / "04_ascend_fused_conv"))

from dump_file import write_dump
from measuring.processes import run
from model_file import model, operator


class Kind(NamedTuple):
    """One kind of operator: its type, how it is stored, and of how many originals it was made."""

    op_type: str
    memory_format: str
    originals: int


MIXED = (
    Kind("Conv2D", "NC1HWC0", 3),
    Kind("MatMulV2", "FRACTAL_NZ", 1),
    Kind("Relu", "ND", 1),
    # Put in by the compiler: it carries on what the operator before it put out.
    Kind("TransData", "NC1HWC0", 0),
)
BLOCKED = (Kind("Conv2D", "NC1HWC0", 3), Kind("Relu", "NC1HWC0", 1))
_CHANNELS = 19


def main() -> int:
    """Make the network, compare it, delete it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--operators", type=int, default=2000, help="default: 2000")
    parser.add_argument("--elements", type=int, default=4000, help="of each tensor, about (default: 4000)")
    parser.add_argument("--channels-in-blocks", action="store_true", help="16 channels, every operator in NC1HWC0")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="only write the network, and keep it")
    parser.add_argument("--dir", type=Path, help="where the files are made (default: the temporary folder)")
    parser.add_argument("--tool", nargs=argparse.REMAINDER, help="what to run instead of msdump compare")
    arguments = parser.parse_args()
    channels, kinds = (16, BLOCKED) if arguments.channels_in_blocks else (_CHANNELS, MIXED)
    if arguments.make:
        make(arguments.make, arguments.operators, arguments.elements, channels, kinds)
        return 0
    with tempfile.TemporaryDirectory(prefix="msdump_network_", dir=arguments.dir) as name:
        folder = Path(name)
        make(folder, arguments.operators, arguments.elements, channels, kinds)
        command = arguments.tool or [
            *(sys.executable, "-m", "pytest_msdump", "compare", "{left}", "{right}", "-f", "{fusion}"),
            *("--report", "json,csv", "--report-dir", str(folder / "report")),
        ]
        places = {side: str(folder / side) for side in ("left", "right")} | {"fusion": str(folder / "fusion.json")}
        return measured([part.format(**places) for part in command], folder)


def make(folder: Path, operators: int, elements: int, channels: int, kinds: Sequence[Kind]) -> None:
    """Write both dumps and the JSON of the compiled model."""
    for side in ("left", "right"):
        (folder / side).mkdir()
    rng = np.random.default_rng(1)
    edge = max(1, round((elements / channels) ** 0.5))
    written: list[dict[str, Any]] = []
    for number in range(operators):
        kind = kinds[number % len(kinds)]
        if kind.originals:
            values = rng.standard_normal((1, channels, edge, edge)).astype(np.float32)
        written.append(_operator(folder, number, kind, values))
    (folder / "fusion.json").write_text(json.dumps(model("network", written)), encoding="utf-8")


def _operator(folder: Path, number: int, kind: Kind, values: npt.NDArray[np.float32]) -> dict[str, Any]:
    """Write one operator's file and its original's, and return its entry of the JSON."""
    name = f"block{number // 4}/op{number}"
    # One original only: of the same name, or of another one.
    one = f"old_{number}" if kind.op_type == "Relu" else name
    originals = {0: (), 1: (one,), 3: (f"{name}/conv", f"{name}/bn", f"{name}/relu")}[kind.originals]
    if kind.memory_format == "FRACTAL_NZ":
        values = values.reshape(-1, values.shape[-1])
    write_dump(folder / "left", kind.op_type, name, number, values.astype(np.float16), kind.memory_format)
    if originals:
        file = f"{originals[-1].replace('/', '_')}.0.{1600000000000000 + number}.npy"
        np.save(folder / "right" / file, values * np.float32(1.0001))
    inputs = (f"block{(number - 1) // 4}/op{number - 1}:0",) if number else ()
    return operator(name, kind.op_type, inputs=inputs, originals=originals, shape=values.shape)


def measured(command: list[str], folder: Path) -> int:
    """Run one command with the working directory `folder`; print what it took."""
    done = run(command, folder)
    print("\n".join(done.said.splitlines()[-4:]))
    print(f"exit {done.exit_code}, {done.seconds:.2f} seconds, peak {done.peak_mib:.0f} MiB")
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
