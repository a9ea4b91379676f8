"""Makes this example: a small network computed by numpy, its reference, two runs of it as an Ascend device dumps them.

python make_dumps.py [--out FOLDER]

Nothing here needs a device, a framework or pytest-msdump: `dump_file.py` writes the bytes, `model_file.py` the JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dump_file import write_dump
from model_file import model, operator

Layers = dict[str, npt.NDArray[np.float32]]

# {time}/{device}/{model}/{model_id}/{index of the run}
TREE = "20260121093000/0/fused_conv/1/0"
RANDOM = np.random.default_rng(4)


def random(*shape: int) -> npt.NDArray[np.float32]:
    """Draw normal numbers."""
    return RANDOM.standard_normal(shape).astype(np.float32)


DATA, FILTERS, MATRIX = random(2, 3, 8, 8), random(19, 3, 3, 3) / 5, random(304, 21) / 17
SCALE, SHIFT = 1 + random(19, 1, 1) / 5, random(19, 1, 1) / 4


def convolution(image: npt.NDArray[np.float32], filters: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Correlate with 3 x 3 filters; one pixel of zeros around the image."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, filters)


def network(shift: npt.NDArray[np.float32]) -> Layers:
    """Compute what each layer puts out."""
    layers = {"data": DATA, "conv1": convolution(DATA, FILTERS)}
    layers["bn1"] = layers["conv1"] * SCALE + shift
    layers["relu1"] = np.maximum(layers["bn1"], 0)
    layers["pool1"] = layers["relu1"].reshape(2, 19, 4, 2, 4, 2).max(axis=(3, 5))
    layers["fc1"] = layers["pool1"].reshape(2, -1) @ MATRIX
    return layers


def write_reference(folder: Path, layers: Layers) -> None:
    """Write {op}.{index}.{timestamp}.npy of each layer."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, (name, values) in enumerate(layers.items()):
        np.save(folder / f"{name}.0.{1600000000000000 + place}.npy", values)


def write_run(folder: Path, layers: Layers) -> None:
    """Write what a device dumps, in float16: `data` and constants are not executed and not dumped."""
    folder = folder / TREE
    folder.mkdir(parents=True, exist_ok=True)
    half = {name: values.astype(np.float16) for name, values in layers.items()}
    write_dump(folder, "TransData", "trans_TransData_0", 2, half["data"], "NC1HWC0")
    write_dump(folder, "Conv2D", "conv1bn1relu1", 3, half["relu1"], "NC1HWC0")
    write_dump(folder, "MaxPool", "pool1", 4, half["pool1"], "NC1HWC0")
    write_dump(folder, "MatMulV2", "fc1", 5, half["fc1"], "FRACTAL_NZ")


def compiled(layers: Layers) -> dict[str, Any]:
    """Say what the compiler made of the network: one operator of three, and one that was not there before."""
    shapes = {name: values.shape for name, values in layers.items()}
    fused = operator(
        "conv1bn1relu1",
        "Conv2D",
        inputs=("trans_TransData_0:0", "conv1/weight:0"),
        originals=("conv1", "bn1", "relu1"),
        shape=shapes["relu1"],
    )
    return model(
        "fused_conv",
        [
            operator("data", "Data", originals=("data",), shape=shapes["data"]),
            operator("conv1/weight", "Const", shape=FILTERS.shape),
            operator("trans_TransData_0", "TransData", inputs=("data:0",), shape=shapes["data"]),
            fused,
            operator("pool1", "MaxPool", inputs=("conv1bn1relu1:0",), originals=("pool1",), shape=shapes["pool1"]),
            operator("fc1", "MatMulV2", inputs=("pool1:0",), originals=("fc1",), shape=shapes["fc1"]),
        ],
    )


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where to (default: here)")
    out = parser.parse_args().out
    right = network(SHIFT)
    # In the drifted run one channel of nineteen lost what batch normalisation adds; all that follows suffers from it.
    wrong = SHIFT.copy()
    wrong[18] = 0
    write_reference(out / "reference", right)
    write_run(out / "run", right)
    write_run(out / "drifted", network(wrong))
    (out / "fusion.json").write_text(json.dumps(compiled(right), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
