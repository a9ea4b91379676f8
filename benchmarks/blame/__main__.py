"""Record models right and with one wrong line, compare them, and look where the causes lie.

``python -m benchmarks.blame OUT --mistakes 60 --seed 1``. The truth is where the wrong line ran: which modules were
open, and which had ended, by hooks of our own. A cause is exact if it contains that line and names the module whose
code it is, wide if it names one around that, and wrong if the line is elsewhere.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from benchmarks.blame.models import MODELS, Place
from benchmarks.blame.recorded import LEVELS, Ran, made, mistakes_of, run
from pytest_msdump.core.report.json_report import read_json

_ORDER = ("exact", "wide", "wrong", "no cause")


def module_of(name: str, modules: Collection[str]) -> str:
    """Return the module of a recorded name: an operation's is the one that it ran in."""
    while name and name not in modules:
        name = name.rpartition("/")[0] if "/" in name else name.rpartition(".")[0]
    return name


def verdict_of(cause: Mapping[str, Any], ran: Ran, modules: Collection[str]) -> str:
    """Return ``"exact"``, ``"wide"`` or ``"wrong"``."""
    label, region = cause["left"]["address"].rsplit(":", 2)[0], (cause.get("role_why") or {}).get("region")
    here = ran.around[-1]
    if region is None:
        own = module_of(label, modules)
        return "wrong" if own not in ran.around else "exact" if own == here else "wide"
    end = module_of(region["end"], modules)
    times = ran.began if region["io"] == "input" and end == region["end"] else ran.ended
    ended = [[time for (name, _), time in ran.ended.items() if name == one] for one in region["after"]]
    begun = [min(times) for times in ended if times]
    ends = max((time for (name, _), time in times.items() if name == end), default=0)
    # A line that runs at each step may be wrong from a later one on.
    is_inside = any((not begun or min(begun) < time) and time < ends for time in ran.wrong_at)
    if region["module"] not in ("", *ran.around) or not is_inside:
        return "wrong"
    return "exact" if here in (region["module"] or ran.around[0], end) else "wide"


class Judge:
    """Counts what is said of mistakes, and keeps a line on each that is not exact."""

    def __init__(self, out: Path) -> None:
        self.verdicts: Counter[str] = Counter()
        self.causes = self.accused = 0
        self.lines: list[str] = []
        self._out = out

    def judge(self, name: str, wrong: str, block: int, level: str, seed: int) -> None:
        """Record a model with a mistake and without, unless that is there, and compare."""
        left, right = self._out / "left", self._out / f"{name}_{level}_{seed}"
        if not right.exists():
            Place.wrong = ""
            run(*made(name, seed), right, level)
        shutil.rmtree(left, ignore_errors=True)
        Place.wrong, Place.block = wrong, block
        model, given = made(name, seed)
        ran = run(model, given, left, level)
        words = [sys.executable, "-m", "pytest_msdump", "compare", left, right, "--report-dir", self._out / "report"]
        subprocess.run(words, capture_output=True, check=False)
        records = read_json(self._out / "report/results.json")["tensors"]
        if all(one["verdict"] in ("pass", "warn") for one in records):
            self.verdicts["within limits"] += 1
            return
        modules = {path or type(model).__name__ for path, _ in model.named_modules()}
        causes = {one["order"]: one for one in records if one.get("role") == "cause"}
        found = [verdict_of(one, ran, modules) for one in causes.values()]
        best = min(found, key=_ORDER.index, default="no cause")
        self.verdicts[best] += 1
        self.causes += len(found)
        self.accused += found.count("wrong")
        if best != "exact" or len(found) > 1:
            said = [
                f"{one['left']['address']} ({what}): {one['role_reason']}"
                for one, what in zip(causes.values(), found, strict=True)
            ]
            self.lines.append(f"{name} {level}: {wrong} in {ran.around[-1]}: {'; '.join(said) or best}")

    def summary(self) -> str:
        """Return the counts as one line."""
        failing = self.verdicts.total() - self.verdicts["within limits"]
        shares = ", ".join(f"{self.verdicts[one]} {one}" for one in (*_ORDER, "within limits"))
        return f"{shares}; {self.accused} wrong ones named; {self.causes / max(failing, 1):.2f} causes for a mistake"


def main() -> None:
    """Draw mistakes and print what was said of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mistakes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=10)
    options = parser.parse_args()
    known = [(name, *one) for name in MODELS for one in mistakes_of(name)]
    drawn, judge = random.Random(options.seed), Judge(options.out.absolute())
    for _ in range(options.mistakes):
        judge.judge(*drawn.choice(known), drawn.choice(list(LEVELS)), drawn.randrange(3))
    print(judge.summary(), *judge.lines[: options.worst], sep="\n")


if __name__ == "__main__":
    main()
