"""Measure what rounding does to networks and what mistakes do, and hold limits from one perturbed run against both.

python benchmarks/limits.py                       every network, then the tables: twenty minutes of one core
python benchmarks/limits.py cnn lstm              these networks
python benchmarks/limits.py resnet18_224 --steps 4 --variants 16 --places 0       of the usual size, harmless runs
python benchmarks/limits.py --controls            limits earned from 19 control runs, resampled from a pool
python benchmarks/limits.py --tables              the tables of what was measured before

Every run is a line of DIR/NETWORK.jsonl, so that what was measured stays when the program is stopped.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import torch
from rounding.mistakes import mistakes_of
from rounding.networks import NETWORKS, Network, made
from rounding.runs import Setting, Tensor, harmless, perturbed, random_controls, run
from rounding.scores import ROUNDING, Distances, distances, worst_slice
from rounding.tables import control_lines, read, tables

HALVES = (torch.bfloat16, torch.float16)
# The perturbation that says what a coarser type does.
COARSE = 2.0**-12
OWN = ROUNDING["float32"]


def main() -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all but the last without"
    )
    parser.add_argument(
        "--dir", type=Path, default=Path("limits_results"), metavar="DIR", help="where runs are written"
    )
    parser.add_argument("--variants", type=int, default=30, metavar="N", help="harmless runs of each network (30)")
    parser.add_argument("--places", type=int, default=2, metavar="N", help="places of each mistake in a network (2)")
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="steps each network is trained for (150)")
    parser.add_argument("--controls", action="store_true", help="measure control runs and resample them")
    parser.add_argument("--pool", type=int, default=130, metavar="N", help="control runs of each network (130)")
    parser.add_argument("--draws", type=int, default=200, metavar="N", help="resamplings (200)")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    if unknown := set(arguments.networks) - {*NETWORKS}:
        parser.error(f"no network is called {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    # What is deprecated in other packages, and what a compiler says of its own limits.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    arguments.dir.mkdir(parents=True, exist_ok=True)
    names = arguments.networks or [
        *(("vit", "cnn") if arguments.controls else (name for name, plan in NETWORKS.items() if plan.is_small))
    ]
    suffix = ".controls.jsonl" if arguments.controls else ".jsonl"
    for name in names:
        if not arguments.tables:
            began = time.process_time()
            with (arguments.dir / f"{name}{suffix}").open("w", encoding="utf-8") as out:
                _Measuring(made(name, arguments.steps), out)(arguments)
            print(f"{name}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    found = [read(path) for name in names if (path := arguments.dir / f"{name}{suffix}").exists()]
    lines = control_lines(found, arguments.draws) if arguments.controls else tables(found)
    print(*lines, sep="\n")
    return 0


class _Measuring:
    """All runs of one network, each written when it is measured."""

    def __init__(self, network: Network, out: TextIO) -> None:
        self.network, self.out = network, out
        self.reference = run(network, Setting())
        self.sizes = [(one.operator, one.is_gradient, one.values.numel()) for one in self.reference]

    def __call__(self, arguments: argparse.Namespace) -> None:
        self.put("network", name=self.network.name, tensors=self.sizes)
        self.bases()
        if arguments.controls:
            for setting in random_controls(self.network, arguments.pool):
                self.measure("control", setting)
            return
        settings = harmless(self.network, arguments.variants)
        for setting in settings:
            self.measure("harmless", setting, with_slices=True)
        # A less accurate formula, not counted among the harmless ones.
        self.measure("formula", Setting(order="moments"))
        golden = run(self.network, Setting(dtype=torch.float64))
        for mistake in mistakes_of(self.network, arguments.places) if arguments.places else ():
            found = run(self.network, Setting(), change=mistake.change)
            exact = run(self.network, Setting(dtype=torch.float64), change=mistake.change)
            # The mistake alone, without rounding: both sides are float64.
            size = _short(distances(exact, golden))
            self.put("mistake", name=mistake.kind, at=mistake.at, far=self.far(found), alone=size)
        if arguments.places:
            self.halves(settings)

    def bases(self) -> None:
        """Measure what limits can come from: perturbed runs, and one of float64."""
        for seed in (1, 2, 3):
            self.put("perturbed", seed=seed, far=self.far(self.run(perturbed(seed, OWN))))
        self.put("input", far=self.far(self.run(perturbed(1, OWN, weights=False))))
        self.put("coarse", far=self.far(self.run(perturbed(1, COARSE))))
        golden = run(self.network, Setting(dtype=torch.float64))
        self.put("golden", far=_short(distances(self.reference, golden)))

    def halves(self, settings: Sequence[Setting]) -> None:
        """Measure runs that store and compute in 16 bits, good and wrong."""
        for dtype in HALVES:
            for setting in (Setting(), *(one for one in settings[::3] if not one.compiled)):
                self.measure("half", replace(setting, dtype=dtype), with_slices=True)
            for mistake in mistakes_of(self.network, 1):
                found = self.attempt(lambda mistake=mistake, dtype=dtype: run(
                    self.network, Setting(dtype=dtype), change=mistake.change))  # fmt: skip
                if found:
                    name = str(dtype).removeprefix("torch.")
                    self.put("half mistake", name=mistake.kind, at=mistake.at, dtype=name, far=self.far(found))

    def measure(self, kind: str, setting: Setting, *, with_slices: bool = False) -> None:
        """Run in this setting, and write how far the run is from the reference."""
        found = self.attempt(lambda: run(self.network, setting))
        if not found:
            return
        more = {"slices": [*self.slices(found, ROUNDING[setting.type_name])]} if with_slices else {}
        self.put(kind, name=setting.name, dtype=setting.type_name, far=self.far(found), **more)

    def run(self, perturb: Callable[..., torch.Tensor]) -> list[Tensor]:
        return run(self.network, Setting(), perturb=perturb)

    def attempt(self, function: Callable[[], list[Tensor]]) -> list[Tensor]:
        """Return what a run gives, or nothing where PyTorch has no such kernel, and say so."""
        try:
            return function()
        except (RuntimeError, NotImplementedError) as error:
            print(f"{self.network.name}: not run: {error!s:.120}", file=sys.stderr)
            return []

    def far(self, found: Sequence[Tensor]) -> Distances:
        return _short(distances(found, self.reference))

    def slices(self, found: Sequence[Tensor], rounding: float) -> Iterator[float | None]:
        lefts = {one.operator: one.values for one in found}
        for tensor in self.reference:
            other = lefts.get(tensor.operator)
            has_shape = other is not None and other.shape == tensor.values.shape
            yield worst_slice(other, tensor.values, rounding) if has_shape else None

    def put(self, kind: str, **values: Any) -> None:
        self.out.write(json.dumps({"kind": kind, **values}) + "\n")
        self.out.flush()


def _short(far: Distances) -> Distances:
    """Return distances of four digits, which is what the lines are short for."""
    return Distances(*([float(f"{value:.4g}") for value in some] for some in far))


if __name__ == "__main__":
    sys.exit(main())
