"""Models recorded with one wrong line or none, and when their modules and that line ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.blame.models import MODELS, Place
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
    """When modules began and ended, by name and call, and when the wrong line ran, and in which modules."""

    began: dict[tuple[str, int], int] = field(default_factory=dict)
    ended: dict[tuple[str, int], int] = field(default_factory=dict)
    around: list[str] = field(default_factory=list)
    wrong_at: list[int] = field(default_factory=list)


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
        ran.wrong_at.append(next(clock))
        ran.around = [*stack]

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
    """Return a model with random weights, and its input."""
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
            if run(*made(name, 0), None, "").wrong_at:
                yield wrong, block
    Place.wrong = ""
