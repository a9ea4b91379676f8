"""Dumps of a device and of original models, made by formulas of their own: nothing here is the package's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dumps import dumpmade

TIME = 1600000000000000
TYPES = {"float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int32": 7, "int64": 8, "float64": 12, "complex64": 16}
FORMATS = {"NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "FRACTAL_NZ": 29}
Array = npt.NDArray[Any]


def nc1hwc0(values: Array, block: int = 16) -> Array:
    """Element (n, c, h, w) at (n, c div 16, h, w, c mod 16); NaN, or the largest number, elsewhere."""
    count, channels, height, width = values.shape
    filler = np.nan if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    out = np.full((count, -(-channels // block), height, width, block), filler, values.dtype)
    for channel in range(channels):
        out[:, channel // block, :, :, channel % block] = values[:, channel]
    return out


def fractal_nz(values: Array, block: int = 16) -> Array:
    """Element (i, j) at (j div block, i div 16, i mod 16, j mod block)."""
    rows, columns = values.shape
    filler = np.nan if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    out = np.full((-(-columns // block), -(-rows // 16), 16, block), filler, values.dtype)
    for row in range(rows):
        for column in range(columns):
            out[column // block, row // 16, row % 16, column % block] = values[row, column]
    return out


def device(
    folder: Path,
    op_type: str,
    name: str,
    stored: Array,
    *,
    memory_format: str = "ND",
    original: tuple[int, ...] | None = None,
    groups: int | None = None,
    data_type: int | None = None,
    time: int = 0,
    slot_of_inputs: tuple[Array, ...] = (),
) -> Path:
    """Write one operator's dump: inputs in ND, one output."""
    output = dumpmade.op_output(
        TYPES[stored.dtype.name] if data_type is None else data_type,
        stored.shape,
        stored.nbytes,
        memory_format=FORMATS[memory_format],
        original=original,
        groups=groups,
    )
    inputs = [
        dumpmade.op_input(TYPES[one.dtype.name], one.shape, one.nbytes, original=one.shape) for one in slot_of_inputs
    ]
    header = dumpmade.message(outputs=[output], inputs=inputs, op_name=name)
    arrays = [np.ascontiguousarray(one).tobytes() for one in (*slot_of_inputs, stored)]
    return dumpmade.put(
        folder, f"{op_type}.{name.replace('/', '_')}.1.1.{TIME + time}", dumpmade.dump2(header, *arrays)
    )


def original(folder: Path, name: str, values: Array, *, form: str = "npy", time: int = 500) -> Path:
    """Write an original model's output: npy, or a .pb or .quant file with the data in the message."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('/', '_')}.0.{TIME + time}"
    if form == "npy":
        np.save(folder / f"{stem}.npy", values)
        return folder / f"{stem}.npy"
    output = dumpmade.op_output(TYPES[values.dtype.name], values.shape, 0, data=values.tobytes())
    return dumpmade.put(folder, f"{stem}.{form}", dumpmade.message(outputs=[output], version="1.0"))


def operator(
    name: str,
    op_type: str,
    originals: list[str] | None = None,
    *,
    inputs: tuple[str, ...] = (),
    origin: str | None = None,
    dtype: str = "DT_FLOAT16",
    **attributes: Any,
) -> dict[str, Any]:
    """Return an operator of a model's JSON; `originals` empty for one that the compiler inserted."""
    names = [name] if originals is None else originals
    described = {"_datadump_origin_name": {"s": origin if origin is not None else (names[-1] if names else "")}}
    described["_datadump_origin_output_index"] = {"i": 0}
    described |= {key: value for key, value in attributes.items() if value is not None}
    return {
        "name": name,
        "type": op_type,
        "input": list(inputs),
        "attr": [{"key": "_datadump_original_op_names", "value": {"list": {"s": names} if names else {}}}],
        "output_desc": [{"dtype": dtype, "attr": [{"key": key, "value": value} for key, value in described.items()]}],
    }


def rules(path: Path, *operators: dict[str, Any]) -> Path:
    """Write the JSON of a model."""
    numbered = [{"id": number, **one} for number, one in enumerate(operators)]
    path.write_text(json.dumps({"name": "net", "graph": [{"name": "net", "op": numbered}]}), encoding="utf-8")
    return path
