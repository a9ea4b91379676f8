"""Record models right and with one wrong line, compare them, and look where the causes lie.

``python -m benchmarks.blame OUT --mistakes 60 --seed 1``. The truth is where the wrong line ran: which modules were
open, and which had ended, by hooks of our own. Printed are the shares of mistakes whose cause contains that line, of
causes that end where the mistake ends, right modules that are accused, and causes for one mistake.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.blame.models import MODELS, Place
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.record import Recorder

LEVELS: dict[str, dict[str, Any]] = {
    "module": {},
    "inputs": {"inputs": True},
    "both": {"level": "both"},
    "operation": {"level": "operation"},
}
_BLOCKS = (0, 1, 2, 100, 101, 202, 300)


@dataclass
class Ran:
    """When modules began and ended, by name and call, and when the wrong line ran first."""

    began: dict[tuple[str, int], int] = field(default_factory=dict)
    ended: dict[tuple[str, int], int] = field(default_factory=dict)
    around: list[str] = field(default_factory=list)
    wrong_at: int | None = None


def run(model: torch.nn.Module, given: torch.Tensor, folder: Path | None, level: str) -> Ran:
    """Run a model, recorded if there is a folder."""
    ran, clock, stack = Ran(), iter(range(1_000_000)), list[str]()
    calls: Counter[str] = Counter()

    def begin(name: str) -> Any:
        def hook(*_: Any) -> None:
            ran.began[name, calls[name]] = next(clock)
            stack.append(name)

        return hook

    def end(name: str) -> Any:
        def hook(*_: Any) -> None:
            ran.ended[name, calls[name]] = next(clock)
            calls[name] += 1
            stack.pop()

        return hook

    def note() -> None:
        if ran.wrong_at is None:
            ran.wrong_at, ran.around = next(clock), [*stack]

    Place.note = staticmethod(note)
    for name, module in model.named_modules():
        module.register_forward_pre_hook(begin(name or type(model).__name__))
        module.register_forward_hook(end(name or type(model).__name__))
    torch.manual_seed(0)
    with torch.no_grad():
        if folder is None:
            model(given)
        else:
            with Recorder(folder.parent).torch(model, directory=folder, **LEVELS[level]):
                model(given)
    return ran


def made(name: str, seed: int) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(seed)
    build, inputs = MODELS[name]
    return build().eval(), inputs(seed)


def mistakes_of(name: str) -> Iterator[tuple[str, int]]:
    """Yield each mistake of a model with a block that it can be made in."""
    Place.wrong = ""
    Place.known.clear()
    run(*made(name, 0), None, "")
    for wrong in list(Place.known):
        for block in _BLOCKS:
            Place.wrong, Place.block = wrong, block
            if run(*made(name, 0), None, "").wrong_at is not None:
                yield wrong, block
    Place.wrong = ""


def module_of(name: str, modules: dict[str, int]) -> str:
    """Return the module of a recorded name: an operation's is the one that it ran in."""
    while name and name not in modules:
        name = name.rpartition("/")[0] if "/" in name else name.rpartition(".")[0]
    return name


def verdict_of(cause: dict[str, Any], ran: Ran, modules: dict[str, int]) -> str:
    """Return ``"exact"``, ``"wide"`` or ``"wrong"``."""
    assert ran.wrong_at is not None
    label = cause["left"]["address"].rsplit(":", 2)[0]
    region = (cause.get("role_why") or {}).get("region")
    here = ran.around[-1]
    if region is None:
        own = module_of(label, modules)
        return "wrong" if own not in ran.around else "exact" if own == here else "wide"
    end = module_of(region["end"], modules)
    times = ran.began if region["io"] == "input" and end == region["end"] else ran.ended
    first = [
        min(time for (name, _), time in ran.ended.items() if name == one) for one in region["after"] if one in modules
    ]
    is_behind = any(time < ran.wrong_at for time in first) or not first
    is_before = any(time > ran.wrong_at for (name, _), time in times.items() if name == end)
    if region["module"] not in ("", *ran.around) or not is_behind or not is_before:
        return "wrong"
    return "exact" if (region["module"] or ran.around[0]) == here or end == here else "wide"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mistakes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=10)
    options = parser.parse_args()
    out = options.out.absolute()
    known = [(name, *one) for name in MODELS for one in mistakes_of(name)]
    drawn = random.Random(options.seed)
    cases = [(*drawn.choice(known), drawn.choice(list(LEVELS)), drawn.randrange(3)) for _ in range(options.mistakes)]
    counts: Counter[str] = Counter()
    causes = accused = 0
    told: list[str] = []
    for name, wrong, block, level, seed in cases:
        right = out / f"{name}_{level}_{seed}"
        if not right.exists():
            Place.wrong = ""
            run(*made(name, seed), right, level)
        left = out / "left"
        shutil.rmtree(left, ignore_errors=True)
        Place.wrong, Place.block = wrong, block
        model, given = made(name, seed)
        ran = run(model, given, left, level)
        modules = {one: 0 for one, _ in model.named_modules()} | {type(model).__name__: 0}
        subprocess.run([sys.executable, "-m", "pytest_msdump", "compare", left, right, "--report-dir", out / "report"], capture_output=True, check=False)  # fmt: skip
        records = read_json(out / "report/results.json")["tensors"]
        found = {one["order"]: one for one in records if one.get("role") == "cause"}
        verdicts = [verdict_of(one, ran, modules) for one in found.values()]
        best = min(verdicts, key=["exact", "wide", "wrong"].index, default="none")
        is_seen = any(one["verdict"] not in ("pass", "warn") for one in records)
        counts[best if is_seen else "not seen"] += 1
        if is_seen:
            causes += len(found)
            accused += verdicts.count("wrong")
        if is_seen and (best not in ("exact",) or len(found) > 1):
            named = [
                one["left"]["address"] + " " + json.dumps((one.get("role_why") or {}).get("region")) + " " + verdict
                for one, verdict in zip(found.values(), verdicts, strict=True)
            ]
            told.append(f"{name} {level}: {wrong} in {ran.around[-1]}: {'; '.join(named) or 'no cause'}")
    seen = sum(counts.values()) - counts["not seen"]
    print(
        f"{seen} of {len(cases)} mistakes fail; {dict(counts)}; right accused {accused}; causes each {causes / max(seen, 1):.2f}"
    )
    print("\n".join(told[: options.worst]))


if __name__ == "__main__":
    main()
