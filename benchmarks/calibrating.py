"""Measure what limits from a perturbed run cost: the extra run of the reference, and reading both.

python benchmarks/calibrating.py          needs torch and torchvision; a minute of one core, and 2 GB below DIR
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from live_networks import resnet18

from pytest_msdump.capabilities.calibrate.engine import calibrate
from pytest_msdump.record import Perturbation, Recorder

RUNS = 5
TENSORS, ELEMENTS = 1000, 1 << 18


def main() -> int:
    """Measure, and print two lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dir", type=Path, help="where dumps are written (default: the temporary folder)")
    parser.add_argument("--batch", type=int, default=4, help="images of 224 pixels (default: 4)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        plain, extra = recorded(Path(name), arguments.batch)
        print(f"ResNet-18, {arguments.batch} images: recorded {plain:.3f} s, perturbed and recorded {extra:.3f} s")
        print(f"an extra run: {extra / plain:.2f} × a recorded run")
        print(f"{TENSORS} tensors of {ELEMENTS * 4 / 1e6:.2f} MB, two runs: {read_both(Path(name)):.2f} s")
    return 0


def recorded(folder: Path, batch: int) -> tuple[float, float]:
    """Return the medians of seconds that a recorded forward run takes, and that a perturbed one takes; in turns."""
    model = resnet18().eval()
    images = torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(RUNS + 1):
        for is_perturbed, seconds in taken.items():
            began = time.perf_counter()
            with (
                torch.no_grad(),
                Recorder(".").torch(model, directory=folder / "run", perturb=Perturbation(1) if is_perturbed else None),
            ):
                model(images)
            seconds.append(time.perf_counter() - began)
            shutil.rmtree(folder / "run")
    # The first of each warms up.
    return median(taken[False][1:]), median(taken[True][1:])


def read_both(folder: Path) -> float:
    """Return the seconds that a limits file takes from a reference of many tensors and one perturbed run."""
    numbers = np.random.default_rng(0)
    values = numbers.standard_normal(ELEMENTS).astype(np.float32)
    for run, scale in (("reference", 0.0), ("perturbed", 2.0**-23)):
        (folder / run).mkdir()
        for index in range(TENSORS):
            noisy = values * np.float32(1 + scale * (1 + index % 3))
            np.save(folder / run / f"op{index}.0.{1700000000000000 + index}.npy", noisy)
    began = time.perf_counter()
    found = calibrate(folder / "reference", [folder / "perturbed"])
    seconds = time.perf_counter() - began
    assert len(found.tensors) == TENSORS
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
