"""Makes this example: a small network, its quantised twin as an Ascend device dumps it, and both rule files.

python make_dumps.py [--out FOLDER]

Bytes and JSON are written by `dump_file.py` and `model_file.py` of the example before. Quantising is what AMCT does to
weights and activations: a scale for each, and whole numbers of eight bits.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "04_ascend_fused_conv"))

from dump_file import write_dump  # noqa: E402 - the folder has to be named first
from model_file import model, operator  # noqa: E402

TREE = "20260121093500/0/quantised/1/0"
RANDOM = np.random.default_rng(5)
DATA = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)
FILTERS = RANDOM.standard_normal((19, 3, 3, 3)).astype(np.float32) / 5


def convolution(image: npt.NDArray[Any], filters: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Correlate with 3 x 3 filters; one pixel of zeros around the image."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, filters)


def quantised(values: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], float]:
    """Return whole numbers of eight bits, and what one step of them is worth."""
    step = float(np.abs(values).max() / 127)
    return np.rint(values / step).astype(np.int8), step


def write_reference(folder: Path) -> None:
    """Write {op}.{index}.{timestamp}.npy of each layer of the original network, in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    conv1 = convolution(DATA, FILTERS)
    relu1 = np.maximum(conv1, 0)
    layers = {"data": DATA, "conv1": conv1, "relu1": relu1, "scale1": relu1 * np.float32(0.5)}
    for place, (name, values) in enumerate(layers.items()):
        np.save(folder / f"{name}.0.{1600000000000000 + place}.npy", values)


def write_run(folder: Path) -> None:
    """Write what a device dumps: the middle of it in whole numbers."""
    folder = folder / TREE
    folder.mkdir(parents=True, exist_ok=True)
    data, data_step = quantised(DATA)
    filters, filter_step = quantised(FILTERS)
    products = convolution(data.astype(np.int32), filters.astype(np.int32))
    relu1 = np.maximum(products * (data_step * filter_step), 0).astype(np.float16)
    write_dump(folder, "AscendQuant", "data_quant_layer", 1, data, "NC1HWC0")
    write_dump(folder, "Conv2D", "conv1", 2, products, "NC1HWC0")
    write_dump(folder, "AscendDequant", "conv1_dequant_layerrelu1", 3, relu1, "NC1HWC0")
    write_dump(folder, "Mul", "scale1", 4, relu1 * np.float16(0.5), "NC1HWC0")


def compiled() -> dict[str, Any]:
    """Say what the compiler made of the quantised network: dequantisation and ReLU became one operator."""
    image, maps = DATA.shape, (1, 19, 8, 8)
    quantisation = operator(
        "data_quant_layer",
        "AscendQuant",
        inputs=("data:0",),
        originals=("data_quant_layer",),
        shape=image,
        dtype="DT_INT8",
    )
    product = operator(
        "conv1", "Conv2D", inputs=("data_quant_layer:0",), originals=("conv1",), shape=maps, dtype="DT_INT32"
    )
    fused = operator(
        "conv1_dequant_layerrelu1",
        "AscendDequant",
        inputs=("conv1:0",),
        originals=("conv1_dequant_layer", "relu1"),
        shape=maps,
    )
    return model(
        "quantised",
        [
            operator("data", "Data", originals=("data",), shape=image),
            quantisation,
            product,
            fused,
            operator("scale1", "Mul", inputs=("conv1_dequant_layerrelu1:0",), originals=("scale1",), shape=maps),
        ],
    )


def amct() -> dict[str, Any]:
    """Say what quantising made of the original network. What holds quantised numbers has no origin."""
    quantisation = operator("data_quant_layer", "Quant", inputs=("data:0",), dtype="DT_INT8")
    product = operator(
        "conv1", "Convolution", inputs=("data_quant_layer:0",), originals=("conv1",), origin="", dtype="DT_INT32"
    )
    return model(
        "quantised",
        [
            operator("data", "Input", originals=("data",), dtype="DT_FLOAT"),
            quantisation,
            product,
            operator("conv1_dequant_layer", "DeQuant", inputs=("conv1:0",), originals=("conv1",)),
            operator("relu1", "ReLU", inputs=("conv1_dequant_layer:0",), originals=("relu1",), dtype="DT_FLOAT"),
            operator("scale1", "Scale", inputs=("relu1:0",), originals=("scale1",), dtype="DT_FLOAT"),
        ],
    )


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HERE, help="where to (default: here)")
    out = parser.parse_args().out
    write_reference(out / "reference")
    write_run(out / "run")
    for name, rules in (("fusion.json", compiled()), ("quant.json", amct())):
        (out / name).write_text(json.dumps(rules, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
