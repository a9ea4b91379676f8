"""What a recording costs that one leaves switched on: recorded over plain steps, opening, memory, and bytes a tensor.

python benchmarks/leave_on.py                          every network, 1 and 2 threads: an hour
python benchmarks/leave_on.py resnet18 --threads 1     one network
python benchmarks/leave_on.py --peers PYTHON           beside mindstudio-probe, which this Python has
python benchmarks/leave_on.py --kinds sketch full      some kinds; with --cpu, limits on time of processors
python benchmarks/leave_on.py small --rounds 1         whether it works; its figures say nothing

Each round times so many plain steps, and then as many in one recording, its end included; the ratio is the median of
the rounds' ratios, so what else the machine does weighs on both alike. Digests and the graph are part of every figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from live_networks import NETWORKS
from measuring.processes import Run, run
from measuring.tables import table
from recorded_steps import KINDS, PEER_KINDS, PLAIN

_STEPS = Path(__file__).with_name("recorded_steps.py")
_TITLES = (
    *("network", "threads", "recorded", "ratio", "limit", "ratio of CPU", "plain ms", "recorded ms", "opening ms"),
    *("MiB above plain", "tensors", "KB a tensor", "MB"),
)
# Kind → the most that a recorded step may take of a plain one, with the compiled kernel and without.
LIMITS = {
    "sketch": (1.15, 1.4),
    "sketch+gradients": (1.3, 1.8),
    "full": (1.4, None),
    "full+gradients+parameters": (2.2, None),
}
MINDSPORE_LIMIT = 1.3
MOST_MIB = 200
# Of a reference of sketches of outputs.
MOST_KB_A_TENSOR, MOST_MB = 10, 2


class Job(NamedTuple):
    """One process that measures kinds of recordings of one network."""

    network: str
    threads: int
    kinds: Sequence[str]
    python: str
    kernel: str = "compiled"


def main() -> int:
    """Measure, print a table, and say what is over its limit."""
    assert __doc__
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of the framework (default: 1 2)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, metavar="KIND", help=f"of {', '.join(KINDS)}, no peaks")
    parser.add_argument("--cpu", action="store_true", help="hold the time on processors to the limits")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind (default: 5)")
    parser.add_argument("--steps", type=int, default=3, help="in each recording (default: 3)")
    parser.add_argument("--peers", metavar="PYTHON", help="one that has mindstudio-probe and the networks' packages")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where a limit is not kept")
    parser.add_argument("--dir", type=Path, help="where dumps are written (default: the temporary folder)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network {unknown[0]}; networks: {', '.join(NETWORKS)}")
    networks = arguments.networks or [name for name in NETWORKS if name != "small"]
    print(_setting(arguments.rounds, arguments.steps), flush=True)
    over, everything = [], []
    print(table(_TITLES, []), flush=True)
    with tempfile.TemporaryDirectory(prefix="msdump_leave_on_", dir=arguments.dir) as name:
        for job in _jobs(networks, arguments.threads, arguments.peers, arguments.kinds):
            for row in _rows(job, arguments, Path(name)):
                over += row["over"]
                everything.append(row)
                print("| " + " | ".join(row["cells"]) + " |", flush=True)
    print("\nnetworks: " + "; ".join(f"{name}: {NETWORKS[name].title}" for name in networks))
    print("limits: " + ("; ".join(over) if over else "all kept"))
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")
    return int(arguments.strict and bool(over))


def _jobs(
    networks: Sequence[str], threads: Sequence[int], peers: str | None, only: Sequence[str] | None
) -> Iterator[Job]:
    for network in networks:
        kinds = [kind for kind in only or KINDS if NETWORKS[network].trains or "+" not in kind]
        for count in threads:
            yield Job(network, count, kinds, sys.executable)
            if network != "mindspore":
                sketches = [kind for kind in kinds if kind.startswith("sketch")]
                if only is None:
                    yield Job(network, count, sketches, sys.executable, "numpy")
                # It has one configuration a process.
                yield from (Job(network, count, [kind], peers) for kind in PEER_KINDS if peers)


def _rows(job: Job, arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what was measured of each kind, with the cells of its row and the limits that it broke."""
    steps = arguments.steps
    said = _started(job, arguments.rounds, steps, folder, job.kinds).said
    measured = json.loads(said.splitlines()[-1])
    peaks = {}
    if job.kernel == "compiled" and arguments.kinds is None:
        # numpy holds no more than blocks beside it.
        peaks = {kind: _started(job, 0, steps, folder, [kind]).peak_mib for kind in (PLAIN, *measured)}
    for kind, found in measured.items():
        peak = peaks[kind] - peaks[PLAIN] if peaks else None
        pairs = [(*plain, *recorded) for plain, recorded in zip(found["plain"], found["recorded"], strict=True)]
        ratio, cpu = (statistics.median(one[2 + n] / one[n] for one in pairs) for n in (0, 1))
        plain, recorded = (statistics.median(one[n] for one in pairs) for n in (0, 2))
        kb, mb = found["bytes"] / found["tensors"] / 1e3, found["bytes"] / 1e6
        most = _limit(job, kind)
        name = kind if job.kernel == "compiled" else f"{kind}, {job.kernel}"
        where = f"{job.network}, {job.threads} threads, {name}"
        held = cpu if arguments.cpu else ratio
        over = [f"{where}: {held:.2f} × is over {most}"] if most and held > most else []
        if kind in KINDS and peak is not None and peak > MOST_MIB:
            over.append(f"{where}: {peak:.0f} MiB is over {MOST_MIB}")
        if kind == "sketch" and (kb > MOST_KB_A_TENSOR or mb > MOST_MB):
            over.append(f"{where}: {kb:.1f} KB a tensor and {mb:.2f} MB, of {MOST_KB_A_TENSOR} and {MOST_MB}")
        cells = [
            *(job.network, str(job.threads), name, f"{ratio:.2f}", f"{most:.2f}" if most else "", f"{cpu:.2f}"),
            *(f"{seconds * 1e3:.0f}" for seconds in (plain, recorded)),
            # The peer opens one in each step.
            f"{statistics.median(found['opening']) * 1e3:.0f}" if kind in KINDS else "",
            *("" if peak is None else f"{peak:.0f}", str(found["tensors"]), f"{kb:.1f}", f"{mb:.2f}"),
        ]
        yield {"job": job._asdict(), "kind": kind, **found, "mib": peak, "cells": cells, "over": over}


def _limit(job: Job, kind: str) -> float | None:
    """Return what a step may take of a plain one; nothing is asked of peers, and of a network without work to do."""
    if job.network in ("small", "decoder"):
        # Of a decoder recording.py has the limits.
        return None
    if job.network == "mindspore":
        return MINDSPORE_LIMIT if kind == "sketch" else None
    return LIMITS[kind][job.kernel == "numpy"] if kind in LIMITS else None


def _started(job: Job, rounds: int, steps: int, folder: Path, kinds: Sequence[str]) -> Run:
    """Run one process; an error of it ends the benchmark."""
    command = [job.python, _STEPS, job.network, str(job.threads), str(rounds), str(steps), folder, *kinds]
    done = run(command, folder, {"MSDUMP_KERNEL": job.kernel, "OMP_NUM_THREADS": str(job.threads), "GLOG_v": "3"})
    if done.exit_code:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.exit_code}:\n{done.said[-2000:]}")
    return done


def _setting(rounds: int, steps: int) -> str:
    """One sentence on where this was measured."""
    return (
        f"{time.strftime('%B %Y')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, medians of {rounds} "
        f"rounds of {steps} steps\n"
    )


if __name__ == "__main__":
    sys.exit(main())
