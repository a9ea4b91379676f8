"""Make files of torch.save with torch, and values.npz with what torch says is in each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
    torch.bool, torch.complex32, torch.complex64, torch.complex128,
]  # fmt: skip
values = {}


def save(name: str, value: object, tensors: dict[str, torch.Tensor], **options: object) -> None:
    torch.save(value, HERE / name, **options)
    for tensor, content in tensors.items():
        plain = (
            content.dequantize() if content.is_quantized else content.detach().contiguous().resolve_conj().resolve_neg()
        )
        if content.dtype is torch.complex32:
            plain = plain.to(torch.complex64)
        elif str(content.dtype).startswith(("torch.bfloat", "torch.float8")):
            plain = plain.float()
        values[f"{name}/{tensor}"] = plain.numpy()


def of_dtype(dtype: torch.dtype) -> torch.Tensor:
    base = torch.arange(12).reshape(3, 4)
    if dtype.is_complex:
        return (base * 0.5 - 1j * base).to(dtype)
    if dtype is torch.float8_e8m0fnu:
        return (2.0 ** (base - 4)).to(dtype)
    return (base * 0.375 - 1 if dtype.is_floating_point else base - (5 if dtype.is_signed else 0)).to(dtype)


torch.manual_seed(0)
kinds = {str(dtype).removeprefix("torch."): of_dtype(dtype) for dtype in DTYPES}
save("dtypes.pt", kinds, kinds)

base = torch.arange(24.0).reshape(2, 3, 4)
views = {
    "whole": base,
    "transposed": base.transpose(0, 2),
    "step": base[:, :, ::2],
    "narrow": base[1:, 1:3, 1:],
    "expanded": base[:1, :1].expand(5, 3, 4),
    "scalar": base[1, 2, 3],
    "empty": base[:0],
    "overlapping": base.as_strided((3, 3), (1, 1), 2),
    "channels_last": torch.arange(48.0).reshape(1, 4, 3, 4).contiguous(memory_format=torch.channels_last),
    "conjugate": torch.arange(4).to(torch.complex64).mul(1 + 2j).conj(),
    "negative": torch.arange(4).to(torch.complex64).mul(1 + 2j).conj().imag,
    "quantised": torch.quantize_per_tensor(torch.arange(12.0).reshape(3, 4) / 7, 0.05, 3, torch.qint8),
}
save("views.pt", views, views)
save("one.pth", base, {"one": base})
save("parameter.pt", torch.nn.Parameter(base), {"parameter": base})
save("protocol_4.pt", (base, [base + 1]), {"0": base, "1.0": base + 1}, pickle_protocol=4)

model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3, bias=False))
model[2].weight = model[0].weight
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(2, 3)).sum().backward()
optimizer.step()
state = model.state_dict()
named = {
    f"optimizer.state.{key}.{name}": one
    for key, part in optimizer.state_dict()["state"].items()
    for name, one in part.items()
}
named |= {f"model.{name}": one for name, one in state.items()}
save("checkpoint.pt", {"model": state, "optimizer": optimizer.state_dict(), "epoch": 3, "note": "a text"}, named)

save("one_name_twice.pt", {1: base, "1": base, "other": base}, {"other": base})
save("no_values.pt", {
    "sparse": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(), "meta": torch.zeros(3, device="meta"),
    "channels": torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8),
    "plain": base,
}, {"plain": base})  # fmt: skip
torch.save(torch.nn.Linear(2, 2), HERE / "whole_module.pt")
torch.save(base, HERE / "legacy.pt", _use_new_zipfile_serialization=False)
# As Transformer Engine's DumpTensors does.
torch.save({"high_precision": base}, HERE / "engine.pt")
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), HERE / "script.pt")
np.savez_compressed(HERE / "values.npz", **values)
