"""Record models right and with one wrong line, compare them, and look where the causes lie.

``python -m benchmarks.blame OUT --mistakes 60 --seed 1``. The truth is where the wrong line ran: which modules were
open, and which had ended, by hooks of our own. A cause is exact if it contains that line and names the module whose
code it is, wide if it names one around that, and wrong if the line is elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from benchmarks.blame.borders import Borders, Made
from benchmarks.blame.models import Place
from benchmarks.blame.recorded import FROM_LIBRARIES, KEPT_APART, MODELS, WAYS, Ran, made, mistakes_of, run
from pytest_msdump.cli import main as main_of_msdump
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
    is_inside = any((not begun or min(begun) < until) and since < ends for since, until in ran.wrong_at)
    if region["module"] not in ("", *ran.around) or not is_inside:
        return "wrong"
    return "exact" if here in (region["module"] or ran.around[0], end) else "wide"


class Judge:
    """Counts what is said of mistakes, and keeps a line on each that is not exact."""

    def __init__(self, out: Path) -> None:
        self.verdicts: Counter[str] = Counter()
        self.by_way: dict[str, Counter[str]] = defaultdict(Counter)
        self.causes = self.accused = self.borders = self.near = 0
        self.lines: list[str] = []
        self._out = out

    def compare(self, left: Path, right: Path, *words: str) -> list[Any]:
        """Return the records of a comparison, in this process."""
        given = ["compare", left, right, "--report-dir", self._out / "report", *words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main_of_msdump([str(one) for one in given])
        return list(read_json(self._out / "report/results.json")["tensors"])

    def judge(self, name: str, wrong: str, block: int, way: str, seed: int, words: Collection[str] = ()) -> None:
        """Record a model with a mistake and without, unless that is there, and compare."""
        left_level, right_level = WAYS[way]
        left, right = self._out / "left", self._out / f"{name}_{right_level}_{seed}"
        if not right.exists():
            Place.wrong = ""
            run(*made(name, seed), right, right_level)
        shutil.rmtree(left, ignore_errors=True)
        Place.wrong, Place.block = wrong, block
        model, given = made(name, seed, renamed=way.startswith("renamed"))
        ran = run(model, given, left, left_level)
        records = self.compare(left, right, *words)
        if all(one["verdict"] in ("pass", "warn") for one in records):
            self.verdicts["within limits" if records else "not paired"] += 1
            return
        modules = {path or type(model).__name__ for path, _ in model.named_modules()}
        causes = {one["order"]: one for one in records if one.get("role") == "cause"}
        found = [verdict_of(one, ran, modules) for one in causes.values()]
        inside = [
            Borders(records, left, right, *self._made(name, wrong, way, seed)).inside(one) for one in causes.values()
        ]
        near, borders = (
            ([one for each in kind for one in each] for kind in zip(*inside, strict=True)) if inside else ([], [])
        )
        best = min(found, key=_ORDER.index, default="no cause")
        self.verdicts[best] += 1
        self.by_way[way][best] += 1
        self.causes += len(found)
        self.near += bool(near)
        self.borders += bool(borders)
        self.accused += found.count("wrong")
        if best != "exact" or len(found) > 1 or borders:
            said = [
                f"{one['left']['address']} ({what}): {one['role_reason']}"
                for one, what in zip(causes.values(), found, strict=True)
            ]
            about = f"{name}, {way}: {wrong} in {ran.around[-1]} ({block}): {'; '.join(said) or best}"
            self.lines.append(f"{about} {borders or ''} {near or ''}")

    @staticmethod
    def _made(name: str, wrong: str, way: str, seed: int) -> tuple[tuple[Made, Made], int]:
        """Return how the tensors of both runs are made, and when the wrong line had ended."""
        Place.wrong = wrong
        left = run(*made(name, seed, renamed=way.startswith("renamed")), None, "", watched=True)
        Place.wrong = ""
        right = run(*made(name, seed), None, "", watched=True)
        return (left.made, right.made), min((until for _, until in left.wrong_at), default=0)

    def summary(self) -> str:
        """Return the counts as one line, and one for each way of recording."""
        failing = sum(self.verdicts[one] for one in _ORDER)
        shares = ", ".join(f"{self.verdicts[one]} {one}" for one in (*_ORDER, "within limits", "not paired"))
        total = f"{shares}; {self.accused} wrong ones named; {self.causes / max(failing, 1):.2f} causes for a mistake; "
        ways = [f"  {way}: " + ", ".join(f"{n} {one}" for one, n in self.by_way[way].items()) for way in self.by_way]
        return "\n".join([f"{total}{self.borders} with an inner border, {self.near} with one on some way", *ways])


def main() -> None:
    """Draw mistakes and print what was said of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mistakes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--kept-apart", action="store_true", help="the models that nothing is mended by: counts alone")
    parser.add_argument("--io", default="output")
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    options = parser.parse_args()
    names = [name for name in MODELS if (name in KEPT_APART) == options.kept_apart]
    known = {name: list(mistakes_of(name)) for name in names}
    drawn, judge = random.Random(options.seed), Judge(options.out.absolute())
    for _ in range(options.mistakes):
        name = drawn.choice(names)
        ways = [one for one in options.ways if not one.startswith("renamed") or name not in FROM_LIBRARIES]
        judge.judge(name, *drawn.choice(known[name]), drawn.choice(ways), drawn.randrange(3), ["--io", options.io])
    print(judge.summary(), *judge.lines[: options.worst if not options.kept_apart else 0], sep="\n")


if __name__ == "__main__":
    main()
