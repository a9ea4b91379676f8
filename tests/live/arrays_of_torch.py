"""Run by PyTorch's interpreter: every code of every type it has goes to a dump and comes back as PyTorch reads it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from pytest_msdump import assert_close, open_dump
from pytest_msdump.record import DumpWriter

warnings.simplefilter("ignore")

WIDE = ("float32", "float64", "complex64", "complex128", "int16", "int32", "int64", "uint16", "uint32", "uint64")
BYTES = ("uint8", "int8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
HALVES = ("float16", "bfloat16", "complex32")


def tensors() -> dict[str, torch.Tensor]:
    noise = torch.from_numpy(np.random.default_rng(7).integers(0, 256, 4096, np.uint8))
    made = {name: noise.clone().view(getattr(torch, name)) for name in WIDE}
    made |= {name: torch.arange(256, dtype=torch.int32).to(torch.uint8).view(getattr(torch, name)) for name in BYTES}
    codes = torch.from_numpy(np.arange(2**16, dtype=np.uint16).view(np.int16))
    made |= {name: codes.clone().view(getattr(torch, name)) for name in HALVES[:2]}
    return made | {"complex32": codes.clone().view(torch.complex32), "bool": torch.tensor([True, False])}


def numbers(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype == torch.complex32:
        return torch.view_as_real(tensor).float().numpy().reshape(-1).view(np.complex64)
    if tensor.dtype == torch.bfloat16 or str(tensor.dtype).startswith("torch.float8"):
        return tensor.float().numpy()
    return tensor.numpy()


def main(folder: Path) -> None:
    made = tensors()
    with DumpWriter(folder, framework="torch", version=torch.__version__) as writer:
        for name, tensor in made.items():
            writer.write(name, tensor)
    dump = open_dump(folder)
    for name, tensor in made.items():
        read, expected = dump.read(name), numbers(tensor)
        np.testing.assert_array_equal(read, expected, err_msg=name)
        assert dump.open(name).dtype == name.removesuffix("fnu") or name.endswith("fnuz"), name
        if name in WIDE:
            assert read.tobytes() == expected.tobytes(), name
    x = torch.randn(3, 4, requires_grad=True)
    assert_close(x, x.detach().numpy())
    assert_close((x * 2).bfloat16().T, (x * 2).bfloat16().float().detach().numpy().T)
    assert_close(torch.eye(3).to_sparse(), np.eye(3, dtype="float32"))
    assert_close(torch.tensor([1 + 2j]).conj(), np.array([1 - 2j], "complex64"))
    assert_close(torch.ones(()).to(torch.float8_e5m2), torch.ones(()))
    print(f"{len(made)} types")  # noqa: T201


main(Path(sys.argv[1]))
