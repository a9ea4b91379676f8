"""Make logs of DebugMode: ``python make.py OUT``, in an environment with PyTorch 2.14.

values.npz has what the calls of run.json and types.json gave, as DebugMode itself keeps it, by ``FILE/place/slot``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils._debug_mode import DebugMode

RANKS = 4
BOTH = ["norm", "hash_tensor"]
TYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


class Block(torch.nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.fc, self.wrong = torch.nn.Linear(4, 4), wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.fc(x))
        return x * 1.01 if self.wrong else x * 1.0


class Net(torch.nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(False), Block(wrong)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        # In place, and of two results.
        return x.add_(1).sort(dim=1).values


def save(out: Path, name: str, mode: Any, values: dict[str, Any]) -> None:
    path = out / f"{name}.json"
    DebugMode.save_logs(mode.logs, path)
    # Where this program and PyTorch are is of no interest.
    text = path.read_text().replace(str(Path(__file__).parent), "/home/user").replace(sys.prefix, "/env")
    path.write_text(text)
    for place, call in enumerate(mode.logs):
        found = torch.utils._pytree.tree_leaves((call.record or {}).get("output"))
        for slot, tensor in enumerate(one for one in found if isinstance(one, torch.Tensor)):
            array = tensor.detach()
            wide = array.dtype.is_floating_point and array.dtype not in (torch.float64, torch.float32, torch.float16)
            values[f"{name}/{place}/{slot}"] = (array.float() if wide else array).numpy().copy()


def run(out: Path, name: str, values: dict[str, Any], hash_fn: Any = BOTH, wrong: bool = False, **options: Any) -> None:
    """A step of training."""
    torch.manual_seed(5)
    net, x = Net(wrong), torch.randn(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with DebugMode(record_nn_module=True, **options) as mode, DebugMode.record_outputs():
        with DebugMode.log_tensor_hashes(hash_fn, hash_inputs=True):
            net(x).square().mean().backward()
            optimizer.step()
    save(out, name, mode, values)


def types(out: Path, values: dict[str, Any]) -> None:
    torch.manual_seed(6)
    with DebugMode(record_ids=True) as mode, DebugMode.record_outputs(), DebugMode.log_tensor_hashes(BOTH):
        for dtype in TYPES:
            (torch.randn(3, 5) * 8).to(torch.complex64 if dtype.is_complex else torch.float32).to(dtype).clone()
        torch.tensor([1.0, float("nan")]).clone()
        torch.tensor([1.0, -float("inf")]).clone()
        torch.empty(0, 3).clone()
        torch.tensor(-2.5).clone()
    save(out, "types", mode, values)


def functions(out: Path) -> None:
    """Functions of torch as well, and what no tensor is hashed of."""
    torch.manual_seed(5)
    net, x = Net(False), torch.randn(2, 4)
    with DebugMode(record_nn_module=True, record_torchfunction=True) as mode, DebugMode.log_tensor_hashes():
        net(x)
    save(out, "functions", mode, {})
    with DebugMode() as mode:
        net(x)
    save(out, "without_hashes", mode, {})


def kernels(out: Path) -> None:
    """A kernel of Triton as its launcher logs it; there is no GPU to run one on."""
    device = SimpleNamespace(synchronize=lambda _: None, current_device=lambda: 0)
    torch.manual_seed(7)
    with DebugMode() as mode, DebugMode.log_tensor_hashes(hash_inputs=True):
        tensors = {"in_ptr0": torch.randn(4), "out_ptr0": torch.zeros(4)}
        call = mode.record_triton_kernel("triton_poi_fused_relu_0", {**tensors, "xnumel": 4})
        tensors["out_ptr0"].copy_(tensors["in_ptr0"].relu())
        call.finalize(device)
    save(out, "kernels", mode, {})


def rank(number: int, out: Path, port: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.distributed.init_process_group(
        "gloo", rank=number, world_size=RANKS, init_method=f"tcp://127.0.0.1:{port}"
    )
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(8)
    x = distribute_tensor(torch.randn(8, 8), mesh, [Shard(0)])
    weight = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])
    with DebugMode() as mode, DebugMode.log_tensor_hashes(BOTH):
        (x @ weight).redistribute(mesh, [Replicate()])
    save(out, f"rank_{number}", mode, {})
    torch.distributed.destroy_process_group()


def make(out: Path) -> None:
    values: dict[str, Any] = {}
    (out / "ranks").mkdir(parents=True, exist_ok=True)
    run(out, "run", values, record_stack_trace=True)
    run(out, "wrong", {}, record_stack_trace=True, wrong=True)
    run(out, "norm", {}, "norm")
    run(out, "xor", {}, "hash_tensor")
    types(out, values)
    functions(out)
    kernels(out)
    torch.multiprocessing.spawn(rank, (out / "ranks", 29571), RANKS)
    np.savez_compressed(out / "values.npz", **values)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
