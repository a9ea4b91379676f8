"""Make all.safetensors with the safetensors package and torch, and values.npz with what torch says is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "complex64": torch.complex64,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint64": torch.uint64,
    "uint32": torch.uint32,
    "uint16": torch.uint16,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
WIDER = {torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}

tensors = {}
for name, dtype in DTYPES.items():
    base = torch.arange(12).reshape(3, 4)
    values = base - 5 if dtype.is_signed else base
    tensors[f"{name}/weight"] = (values * 0.375 if dtype.is_floating_point else values).to(dtype)
tensors["float32/scalar"] = torch.tensor(2.5)
tensors["float32/empty"] = torch.zeros((0, 3))
save_file(tensors, HERE / "all.safetensors", metadata={"format": "pt", "made by": "make.py"})
np.savez(HERE / "values.npz", **{
    name: (tensor.float() if tensor.dtype in WIDER else tensor).numpy() for name, tensor in tensors.items()
})  # fmt: skip
