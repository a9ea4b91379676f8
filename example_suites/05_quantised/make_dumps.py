"""Makes this example: a small network, its quantised twin as an Ascend device dumps it, and both rule files.

python make_dumps.py [--out FOLDER]

Bytes are written by `dump_file.py` of the example before. Quantising is what AMCT does to weights and activations: a
scale for each, and whole numbers of eight bits.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "04_ascend_fused_conv"))

from dump_file import nc1hwc0, output, write_dump  # noqa: E402 - the folder has to be named first

TIME = 1600000000000000
TREE = "20260121093500/0/quantised/1/0"


def convolution(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Correlate with 3 x 3 filters, one pixel of zeros around the image."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def quantised(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return whole numbers of eight bits, and what one of them is worth."""
    scale = float(np.abs(values).max() / 127)
    return np.rint(values / scale).astype(np.int8), scale


def operator(number: int, name: str, op_type: str, inputs: list[str], originals: list[str], dtype: str):
    """Return one operator as ATC and AMCT write it."""
    origin = {"key": "_datadump_origin_name", "value": {"s": originals[-1] if originals else ""}}
    index = {"key": "_datadump_origin_output_index", "value": {"i": 0}}
    names = {"list": {"s": originals}} if originals else {"list": {}}
    return {
        "id": number,
        "name": name,
        "type": op_type,
        "input": inputs,
        "attr": [{"key": "_datadump_original_op_names", "value": names}],
        "output_desc": [{"dtype": dtype, "attr": [origin, index]}],
    }


def compiled() -> dict[str, object]:
    """Return the JSON of the compiled, quantised model: the dequantisation and the ReLU became one operator."""
    operators = [
        operator(0, "data", "Data", [], ["data"], "DT_FLOAT16"),
        operator(1, "data_quant_layer", "AscendQuant", ["data:0"], ["data_quant_layer"], "DT_INT8"),
        operator(2, "conv1", "Conv2D", ["data_quant_layer:0"], ["conv1"], "DT_INT32"),
        operator(
            3,
            "conv1_dequant_layerrelu1",
            "AscendDequant",
            ["conv1:0"],
            ["conv1_dequant_layer", "relu1"],
            "DT_FLOAT16",
        ),
        operator(4, "scale1", "Mul", ["conv1_dequant_layerrelu1:0"], ["scale1"], "DT_FLOAT16"),
    ]
    return {"name": "quantised", "graph": [{"name": "quantised", "op": operators}]}


def quantisation() -> dict[str, object]:
    """Return AMCT's rules: what quantising made of each layer."""
    operators = [
        operator(0, "data", "Input", [], ["data"], "DT_FLOAT"),
        operator(1, "data_quant_layer", "Quant", ["data:0"], [], "DT_INT8"),
        operator(2, "conv1", "Convolution", ["data_quant_layer:0"], ["conv1"], "DT_FLOAT"),
        operator(3, "conv1_dequant_layer", "DeQuant", ["conv1:0"], ["conv1"], "DT_FLOAT16"),
        operator(4, "relu1", "ReLU", ["conv1_dequant_layer:0"], ["relu1"], "DT_FLOAT"),
        operator(5, "scale1", "Scale", ["relu1:0"], ["scale1"], "DT_FLOAT"),
    ]
    return {"name": "quantised", "graph": [{"name": "quantised", "op": operators}]}


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HERE, help="where to (default: here)")
    out = parser.parse_args().out
    rng = np.random.default_rng(5)
    data = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    weight = rng.standard_normal((19, 3, 3, 3)).astype(np.float32) / 5
    conv1 = convolution(data, weight)
    relu1 = np.maximum(conv1, 0)
    reference = {"data": data, "conv1": conv1, "relu1": relu1, "scale1": relu1 * np.float32(0.5)}
    (out / "reference").mkdir(parents=True)
    for place, (name, values) in enumerate(reference.items()):
        np.save(out / "reference" / f"{name}.0.{TIME + place}.npy", values)

    small_data, data_scale = quantised(data)
    small_weight, weight_scale = quantised(weight)
    whole = convolution(small_data.astype(np.int32), small_weight.astype(np.int32))
    relued = np.maximum(whole * (data_scale * weight_scale), 0).astype(np.float16)
    folder = out / "run" / TREE
    folder.mkdir(parents=True)
    write_dump(
        folder, "AscendQuant", "data_quant_layer", 1, TIME + 101, output(small_data, "NCHW", data.shape), small_data
    )
    write_dump(folder, "Conv2D", "conv1", 2, TIME + 102, output(whole, "NCHW", conv1.shape), whole)
    for task, (op_type, name, values) in enumerate(
        [("AscendDequant", "conv1_dequant_layerrelu1", relued), ("Mul", "scale1", (relued * np.float16(0.5)))], 3
    ):
        stored = nc1hwc0(values)
        write_dump(folder, op_type, name, task, TIME + 100 + task, output(stored, "NC1HWC0", values.shape), stored)
    for name, rules in (("fusion.json", compiled()), ("quant.json", quantisation())):
        (out / name).write_text(json.dumps(rules, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
