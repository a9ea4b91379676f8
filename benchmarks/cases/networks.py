"""Networks through their fusion JSON: few large tensors, and very many tiny ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring.figures import Case, Figure, Limit
from measuring.processes import run

from cases.environments import vendor_script
from cases.setting import (
    FALLBACK,
    IMPORTS_NUMPY,
    NO_KERNEL,
    REPORT,
    NotTimedError,
    Program,
    Setting,
    msdump,
    numpy_start,
    search_path,
    sought,
)

__all__ = ["PAIR_MEMORY", "all_pass", "network", "tiny"]

_MAKE = Path(__file__).parent.parent / "ascend_network.py"

# With the vendor's table as well, but where the name says otherwise.
OURS = "msdump compare -f"
JSON_ALONE = "msdump compare -f, default report"
NUMPY = "msdump compare -f, MSDUMP_KERNEL=numpy"
TWO = "msdump compare -f --jobs 2"
NUMPY_TWO = "msdump compare -f --jobs 2, MSDUMP_KERNEL=numpy"
VENDOR = "the vendor's compare"
VENDOR_STARTS = "only starts: the vendor's compare"
PAIR_MEMORY = "bytes of memory a pair"
# Seconds of release 26.2.0 on two cores without load, with a stand-in for the part of CANN that reads headers.
RECORDED = {"network": 17.1, "tiny": 49.0}
_REPORTS = ("--report", "json,csv")
_LIBRARY = "libascend_dump_parser.so"
# What was counted, and how many lines the vendor's table has below its titles.
_COUNTS = """
import json, os
with open("results.json", encoding="utf-8") as file:
    counts = json.load(file)["counts"]
rows = sum(1 for _ in open("ops.csv", encoding="utf-8")) - 1 if os.path.exists("ops.csv") else 0
print(json.dumps({**counts, "rows": rows}))
"""


def network(setting: Setting) -> Iterator[Case]:
    """Four hundred operators of 200,000 elements: NC1HWC0, FRACTAL_NZ and ND, fused, renamed and put in."""
    operators, elements = (20, 2000) if setting.small else (400, 200_000)
    _make(setting.folder / "network", operators, elements)
    figures = setting.figures(_programs(setting, "network", operators) | _by_two(setting, "network", operators))
    limit = Limit("3", "the vendor's seconds over ours, whole process", 20, None, at_least=True)
    of_json, of_two = (replace(limit, text=f"{limit.text}: {how}") for how in ("default report", "--jobs 2"))
    yield Case(
        "network",
        f"{operators} operators of about {elements:,} float16 elements against float32, through the fusion JSON",
        figures,
        [
            _faster(setting, figures, one, program, "network")
            for one, program in ((limit, OURS), (of_json, JSON_ALONE), (of_two, TWO))
        ],
        notes=_recorded(figures, "network"),
    )


def tiny(setting: Setting) -> Iterator[Case]:
    """Four thousand operators of 1,024 elements in NC1HWC0, and ten times as many."""
    few, many = (8, 80) if setting.small else (4_000, 40_000)
    for count in (few, many):
        _make(setting.folder / f"tiny{count}", count, 1024, "--channels-in-blocks")
    figures = setting.figures(_programs(setting, f"tiny{few}", few) | _by_two(setting, f"tiny{few}", few))
    # In turns of their own: behind so many others' files, everything would begin with what was pushed out by them.
    more = setting.figures(_programs(replace(setting, vendor=None), f"tiny{many}", many))
    titled = {f"{name}, {many:,} operators": figure for name, figure in more.items()}
    figures |= {title: replace(figure, program=title) for title, figure in titled.items()}
    faster = Limit("3", "the vendor's seconds over ours, whole process", 25, None, at_least=True)
    limits = [
        *(
            _faster(setting, figures, replace(faster, text=f"{faster.text}: {how}", bound=bound), program, "tiny")
            for how, program, bound in (
                ("kernel", OURS, 25),
                ("kernel, default report", JSON_ALONE, 25),
                ("kernel, --jobs 2", TWO, 15),
                ("fallback", NUMPY, 10),
                ("fallback, --jobs 2", NUMPY_TWO, 10),
            )
        ),
        *(
            Limit(
                "3",
                f"CPU of {many:,} operators over that of {few:,}: {program}",
                11,
                more[program].cpu_seconds / figures[program].cpu_seconds,
            )
            for program in (OURS, NUMPY)
        ),
    ]
    # Between few and many: the start is in neither.
    rates = {
        program: (more[program].cpu_seconds - figures[program].cpu_seconds) / (many - few) for program in (OURS, NUMPY)
    }
    rates[PAIR_MEMORY] = (more[OURS].peak_mib - figures[OURS].peak_mib) * 2**20 / (many - few)
    title = f"{few:,} operators of 1,024 float16 elements in NC1HWC0 against float32, through the fusion JSON"
    yield Case("tiny", title, figures, limits, notes=_recorded(figures, "tiny"), rates=rates)


def _make(folder: Path, operators: int, elements: int, *words: str) -> None:
    folder.mkdir()
    count = ["--operators", str(operators), "--elements", str(elements)]
    subprocess.run([sys.executable, _MAKE, *count, *words, "--make", folder], check=True)


def _programs(setting: Setting, name: str, operators: int) -> dict[str, Program]:
    words, told = _words(name), _told(setting, name, operators)
    of_json = told | {"check": all_pass(setting.folder, operators)}
    return {
        IMPORTS_NUMPY: numpy_start(),
        OURS: Program(msdump(*words, *_REPORTS), IMPORTS_NUMPY, **told),
        JSON_ALONE: Program(msdump(*words), IMPORTS_NUMPY, **of_json),
        NUMPY: Program(msdump(*words, *_REPORTS), IMPORTS_NUMPY, FALLBACK, **told),
        **_vendor(setting, name),
    }


def _by_two(setting: Setting, name: str, operators: int) -> dict[str, Program]:
    """The same in two processes; peaks are those of the larger one."""
    words, told = [*_words(name), *_REPORTS, "--jobs", "2"], _told(setting, name, operators)
    return {
        TWO: Program(msdump(*words), IMPORTS_NUMPY, **told),
        NUMPY_TWO: Program(msdump(*words), IMPORTS_NUMPY, FALLBACK, **told),
    }


def _told(setting: Setting, name: str, operators: int) -> dict[str, Any]:
    return {"check": all_pass(setting.folder, operators, operators), "reads": setting.folder / name}


def _words(name: str) -> list[str]:
    return ["compare", f"{name}/left", f"{name}/right", "-f", f"{name}/fusion.json", "--quiet"]


def all_pass(folder: Path, operators: int, rows: int = 0) -> Callable[[str], None]:
    """Hold that every operator that was dumped was compared, passes, and has its row in the vendor's table, if any."""

    def check(_: str) -> None:
        if not (folder / REPORT / "results.json").exists():
            raise NotTimedError(f"{operators} operators should pass, but there is no results.json")
        # Read by another process: what this one holds is in the peak of whatever it starts from then on.
        counts = json.loads(run([sys.executable, "-c", _COUNTS], folder / REPORT).said)
        if (counts["pass"], counts["rows"]) != (operators, rows):
            raise NotTimedError(f"{operators} operators should pass, with {rows} rows, but counts are {counts}")

    return check


def _vendor(setting: Setting, name: str) -> dict[str, Program]:
    """The vendor's command, where the part of CANN is that it cannot read a header without."""
    toolkit = search_path("ASCEND_TOOLKIT_HOME") or [Path("/usr/local/Ascend/ascend-toolkit/latest")]
    places = [*search_path("LD_LIBRARY_PATH"), *(place / "tools/adump/lib64" for place in toolkit)]
    if not setting.vendor or not sought(_LIBRARY, places):
        return {}
    command: list[str | Path] = [setting.vendor, vendor_script(setting.vendor), "compare"]
    (setting.folder / "vendor").mkdir(exist_ok=True)
    words = ["-m", f"{name}/left", "-g", f"{name}/right", "-f", f"{name}/fusion.json", "-out", "vendor"]
    return {
        VENDOR_STARTS: Program([*command, "-h"], only_starts=True),
        # 2: some operator of the JSON was not dumped.
        VENDOR: Program([*command, *words], VENDOR_STARTS, exits=(0, 2), reads=setting.folder / name),
    }


def _recorded(figures: Mapping[str, Figure], name: str) -> list[str]:
    if VENDOR in figures:
        return []
    how = f"on two cores without load and with a stand-in for {_LIBRARY} of CANN, which is not here"
    return [f"the vendor's tool took {RECORDED[name]:g} seconds, recorded earlier {how}"]


def _faster(setting: Setting, figures: Mapping[str, Figure], limit: Limit, program: str, name: str) -> Limit:
    if "kernel" in limit.text and not setting.kernel:
        return replace(limit, why=NO_KERNEL)
    measured = VENDOR in figures
    seconds = figures[VENDOR].seconds if measured else RECORDED[name]
    why = "" if measured else f"of the recorded {seconds:g} s"
    return replace(limit, measured=seconds / figures[program].seconds, why=why)
