"""How fast comparisons are, beside reading the files and beside other tools; one line for each limit that was set.

python benchmarks/speed.py                      every case, five runs each: half an hour, and 3 GiB of files
python benchmarks/speed.py pair dormant         only these
python benchmarks/speed.py --small --no-vendor  whether the harness works; its figures say nothing
python benchmarks/speed.py --json FILE          every run as well

Every program is a process of its own, and all of one case run in turn. CPU is what the kernel counted of the process
and its children, so other work on the machine disturbs it less than the time; "beyond start" takes away what the same
interpreter needs to import numpy (for the vendor's tool: its own imports). The floor is reading both files in pieces of
1 MiB. The vendor's package is installed from PyPI into a cache folder the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cases.environments import PEERS, VENDOR, VENDOR_RELEASE, cache_folder, environment
from cases.files import index, torch_file
from cases.items import dormant, pytest_items
from cases.networks import network, tiny
from cases.pair import ITEM_BYTES, pair, pair1g
from cases.scale import NEEDED, scale
from cases.setting import Setting, has_kernel, numpy_release
from measuring.figures import Case
from measuring.tables import as_text, as_values

CASES: dict[str, Callable[[Setting], Iterator[Case]]] = {
    **{f"pair-{dtype}": partial(pair, dtype) for dtype in ITEM_BYTES},
    "pair1g": pair1g,
    "network": network,
    "tiny": tiny,
    "index": index,
    "torch-file": torch_file,
    "pytest": pytest_items,
    "dormant": dormant,
}
_PAIR = [name for name in CASES if name.startswith("pair-")]


def main() -> int:
    """Run the cases; exit code 1 when a limit was not kept and that was asked for."""
    arguments = _arguments()
    cache = arguments.cache or cache_folder()
    with tempfile.TemporaryDirectory(prefix="msdump_speed_", dir=arguments.dir) as name:
        folder = Path(name)
        setting = Setting(
            folder=folder,
            runs=arguments.runs or (1 if arguments.small else 5),
            small=arguments.small,
            kernel=has_kernel(folder),
            vendor=None if arguments.no_vendor else environment(cache, "vendor", VENDOR),
            peers=_peers(arguments.peers, cache),
        )
        machine = _machine(setting)
        print(machine, flush=True)
        done = []
        for chosen in _chosen(arguments.cases):
            for measured in CASES[chosen](setting):
                case = _of_small_data(measured) if arguments.small else measured
                print(f"\n{as_text(case)}", flush=True)
                done.append(case)
    if arguments.json:
        arguments.json.write_text(json.dumps(_values(machine, done), indent=1) + "\n", encoding="utf-8")
    cases = {case.name: case for case in done}
    if cases.keys() >= {*NEEDED}:
        print(f"\n{scale(cases, kernel=setting.kernel)}")
    return int(arguments.strict and not all(limit.kept for case in done for limit in case.limits))


def _arguments() -> argparse.Namespace:
    assert __doc__
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; pair: all of its four")
    parser.add_argument("--runs", type=int, help="of each program (default: 5)")
    parser.add_argument("--small", action="store_true", help="tiny data, one run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a limit is missed or not measured")
    parser.add_argument("--no-vendor", action="store_true", help=f"without mindstudio-probe {VENDOR_RELEASE}")
    parser.add_argument(
        "--peers",
        nargs="?",
        const="",
        metavar="PYTHON",
        help="with PyTorch and Polygraphy, of this Python; without one they are installed, which takes gigabytes",
    )
    parser.add_argument("--dir", type=Path, help="where data is made (default: the temporary folder)")
    parser.add_argument("--cache", type=Path, help=f"where environments are kept (default: {cache_folder()})")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.cases if name not in ("pair", *CASES)]
    if unknown:
        parser.error(f"no case {unknown[0]}; cases: pair, {', '.join(CASES)}")
    if arguments.peers and not Path(arguments.peers).is_file():
        parser.error(f"--peers {arguments.peers}: no Python is there")
    return arguments


def _of_small_data(case: Case) -> Case:
    """No limit is of small data."""
    return replace(case, limits=[replace(limit, measured=None, why="small data") for limit in case.limits])


def _chosen(named: list[str]) -> list[str]:
    """Return the cases of these names, each once, in the order of the table."""
    asked = {*named, *(_PAIR if "pair" in named else ())} or {*CASES}
    return [name for name in CASES if name in asked]


def _peers(asked: str | None, cache: Path) -> Path | None:
    if asked is None:
        return None
    return Path(asked).absolute() if asked else environment(cache, "peers", PEERS)


def _machine(setting: Setting) -> str:
    """One sentence on where this was measured."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    load = f"{os.getloadavg()[0]:.1f}"
    kernel = "with the compiled kernel" if setting.kernel else "without the compiled kernel"
    return (
        f"{time.strftime('%B %Y')}, {model}, {os.cpu_count()} cores, load {load} before, Python "
        f"{platform.python_version()}, numpy {numpy_release(setting.folder)}, {kernel}, "
        f"{'1 run' if setting.runs == 1 else f'medians of {setting.runs} runs'}"
    )


def _values(machine: str, cases: list[Case]) -> dict[str, Any]:
    return {"machine": machine, "cases": {case.name: as_values(case) for case in cases}}


if __name__ == "__main__":
    sys.exit(main())
