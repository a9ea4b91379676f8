"""What recording a PyTorch model costs: training steps without and with a recording, taken in turns in one process.

python benchmarks/recording.py                a small ResNet-like network and a transformer, 10 steps each way
python benchmarks/recording.py --steps 2      a quick look
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_msdump.capture.torch_modules import record

# What is recorded → its options.
_KINDS: dict[str, dict[str, Any]] = {
    "outputs": {},
    "outputs, inputs": {"inputs": True},
    "outputs, gradients": {"gradients": True},
    "operations": {"level": "op"},
}


def main() -> int:
    """Measure each kind of recording on each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10, help="steps each way (default: 10)")
    parser.add_argument("--dir", type=Path, help="where dumps are written (default: the temporary folder)")
    arguments = parser.parse_args()
    import torch

    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, medians of {arguments.steps} steps")
    print(f"{'network':<12} {'recorded':<20} {'plain ms':>9} {'recorded ms':>12} {'ratio':>6} {'files':>6} {'MiB':>6}")
    for network, (model, given) in networks().items():
        for kind, options in _KINDS.items():
            with tempfile.TemporaryDirectory(prefix="msdump_recording_", dir=arguments.dir) as folder:
                plain, recorded = measured(model, given, Path(folder), options, arguments.steps)
                files = [*(Path(folder) / "0").rglob("*.npy")]
                size = sum(path.stat().st_size for path in files) / 2**20
            ratio = recorded / plain
            print(
                f"{network:<12} {kind:<20} {plain * 1e3:>9.1f} {recorded * 1e3:>12.1f} {ratio:>6.2f}"
                f" {len(files):>6} {size:>6.1f}",
                flush=True,
            )
    return 0


def networks() -> dict[str, tuple[Any, Any]]:
    """Return models with their inputs: one that is mostly arithmetic, one of many small layers."""
    import torch
    from torch import nn

    def block(inside: int, outside: int) -> Any:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())

    convolutions = nn.Sequential(
        block(3, 32),
        block(32, 64),
        nn.MaxPool2d(2),
        block(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return {
        "convolutions": (convolutions, torch.randn(8, 3, 64, 64)),
        "transformer": (nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(8, 64, 128)),
    }


def measured(model: Any, given: Any, folder: Path, options: dict[str, Any], steps: int) -> tuple[float, float]:
    """Return the medians of the seconds of a step without and with a recording, its start and its end included."""

    def step() -> None:
        model.zero_grad()
        model(given).square().mean().backward()

    def recorded_step(number: int) -> Callable[[], None]:
        def run() -> None:
            with record(model, folder / str(number) / "dump", digests=False, iterations=True, **options):
                step()

        return run

    step()
    plain, recorded = [], []
    for number in range(steps):
        plain.append(timed(step))
        recorded.append(timed(recorded_step(number)))
    return statistics.median(plain), statistics.median(recorded)


def timed(run: Callable[[], None]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
