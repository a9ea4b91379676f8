"""Makes this example: a small network computed by numpy, its reference, two runs of it as an Ascend device dumps them.

python make_dumps.py [--out FOLDER]

Nothing here needs a device, a framework or pytest-msdump: `dump_file.py` writes the bytes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from dump_file import fractal_nz, nc1hwc0, output, write_dump

TIME = 1600000000000000
# {time}/{device}/{model}/{model_id}/{index of the run}
TREE = "20260121093000/0/fused_conv/1/0"


def convolution(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Correlate with 3 x 3 filters, one pixel of zeros around the image."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def network(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what each layer of the original network puts out, in float32."""
    data = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    weight = rng.standard_normal((19, 3, 3, 3)).astype(np.float32) / 5
    scale, shift = rng.uniform(0.5, 1.5, 19).astype(np.float32), rng.standard_normal(19).astype(np.float32) / 10
    conv1 = convolution(data, weight)
    bn1 = conv1 * scale[:, None, None] + shift[:, None, None]
    relu1 = np.maximum(bn1, 0)
    pool1 = relu1.reshape(2, 19, 4, 2, 4, 2).max(axis=(3, 5))
    fc1 = pool1.reshape(2, -1) @ (rng.standard_normal((304, 21)).astype(np.float32) / 17)
    return {"data": data, "conv1": conv1, "bn1": bn1, "relu1": relu1, "pool1": pool1, "fc1": fc1}


def write_reference(folder: Path, layers: dict[str, np.ndarray]) -> None:
    """Write op.index.timestamp.npy of each layer."""
    folder.mkdir(parents=True)
    for place, (name, values) in enumerate(layers.items()):
        np.save(folder / f"{name}.0.{TIME + place}.npy", values)


def write_run(folder: Path, layers: dict[str, np.ndarray]) -> None:
    """Write what a device dumps: one operator for conv1, bn1 and relu1, and one that the compiler put in."""
    folder = folder / TREE
    folder.mkdir(parents=True)
    half = {name: values.astype(np.float16) for name, values in layers.items()}
    stored = {name: nc1hwc0(half[name]) for name in ("data", "relu1", "pool1")}
    operators = (
        ("TransData", "trans_TransData_0", "data"),
        ("Conv2D", "conv1bn1relu1", "relu1"),
        ("MaxPool", "pool1", "pool1"),
    )
    for task, (op_type, name, layer) in enumerate(operators, 2):
        message = output(stored[layer], "NC1HWC0", half[layer].shape)
        write_dump(folder, op_type, name, task, TIME + 100 + task, message, stored[layer])
    matrix = fractal_nz(half["fc1"])
    write_dump(folder, "MatMulV2", "fc1", 5, TIME + 105, output(matrix, "FRACTAL_NZ", half["fc1"].shape), matrix)


def operator(number: int, name: str, op_type: str, inputs: list[str], originals: list[str], shape: tuple[int, ...]):
    """Return one operator as ATC writes it into the JSON of a compiled model."""
    names = {"list": {"s": originals}} if originals else {"list": {}}
    attributes = [{"key": "_datadump_original_op_names", "value": names}]
    described = {}
    if originals:
        described["attr"] = [
            {"key": "_datadump_origin_name", "value": {"s": originals[-1]}},
            {"key": "_datadump_origin_output_index", "value": {"i": 0}},
            {"key": "_datadump_origin_format", "value": {"s": "NCHW" if len(shape) == 4 else "ND"}},
            {"key": "origin_shape", "value": {"list": {"i": list(shape)}}},
        ]
    return {
        "id": number,
        "name": name,
        "type": op_type,
        "input": inputs,
        "attr": attributes,
        "output_desc": [{"dtype": "DT_FLOAT16", **described}],
    }


def model(layers: dict[str, np.ndarray]) -> dict[str, object]:
    """Return the JSON of the compiled model."""
    shapes = {name: values.shape for name, values in layers.items()}
    operators = [
        operator(0, "data", "Data", [], ["data"], shapes["data"]),
        operator(1, "conv1/weight", "Const", [], [], (19, 3, 3, 3)),
        operator(2, "trans_TransData_0", "TransData", ["data:0"], [], shapes["data"]),
        operator(
            3,
            "conv1bn1relu1",
            "Conv2D",
            ["trans_TransData_0:0", "conv1/weight:0"],
            ["conv1", "bn1", "relu1"],
            shapes["relu1"],
        ),
        operator(4, "pool1", "MaxPool", ["conv1bn1relu1:0"], ["pool1"], shapes["pool1"]),
        operator(5, "fc1", "MatMulV2", ["pool1:0"], ["fc1"], shapes["fc1"]),
    ]
    return {"name": "fused_conv", "graph": [{"name": "fused_conv", "op": operators}]}


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where to (default: here)")
    out = parser.parse_args().out
    layers = network(np.random.default_rng(4))
    write_reference(out / "reference", layers)
    write_run(out / "run", layers)
    # The drifted run: one filter of nineteen lost its bias, and all that follows is computed from that.
    drifted = dict(layers)
    drifted["relu1"] = layers["relu1"].copy()
    drifted["relu1"][:, 17] = np.maximum(layers["bn1"][:, 17] - 0.25, 0)
    drifted["pool1"] = drifted["relu1"].reshape(2, 19, 4, 2, 4, 2).max(axis=(3, 5))
    write_run(out / "drifted", drifted)
    (out / "fusion.json").write_text(json.dumps(model(layers), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
