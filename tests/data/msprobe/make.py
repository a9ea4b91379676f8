"""Make trees with msprobe 26.2.0: ``make.py torch [NAME…]`` and, where MindSpore is, ``make.py mindspore``.

values.npz has what hooks of our own saw in the same runs of PyTorch. Paths of the machine are taken out of the JSON
files, and process ids out of names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PATHS = [(re.compile(r"/[^ \",]*/(lib/python3)"), r"/env/\1"), (re.compile(r"/[^ \",]*/make\.py"), "net.py")]


def config(task: str, level: str, out: Path, mode: str, data_mode: str = "all") -> str:
    own = {"scope": [], "list": [], "data_mode": [data_mode], "summary_mode": mode}
    path = Path(f"{out}.{os.getpid()}.json")
    path.write_text(
        json.dumps({"task": task, "dump_path": str(out), "rank": [], "step": [], "level": level, task: own})
    )
    return str(path)


def clean(out: Path) -> None:
    for path in out.parent.glob(f"{out.name}.*.json"):
        path.unlink()
    for path in sorted(out.rglob("*"), reverse=True):
        if path.suffix == ".json":
            text = path.read_text()
            for pattern, better in PATHS:
                text = pattern.sub(better, text)
            values = json.loads(text)
            if "dump_data_dir" in values:
                values["dump_data_dir"] = values["dump_data_dir"] and "dump_tensor_data"
            path.write_text(json.dumps(values, indent=1))
        elif re.fullmatch(r"proc\d+", path.name):
            path.rename(path.with_name("proc1"))


def run_torch(rank: int, task: str, level: str, out: Path, mode: str, ranks: int, steps: int) -> None:
    import torch
    from msprobe.pytorch import PrecisionDebugger, seed_all

    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29541", RANK=str(rank), WORLD_SIZE=str(ranks))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    seed_all(3)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act, self.head = (
                torch.nn.Linear(3, 4),
                torch.nn.Tanh(),
                torch.nn.ModuleList([torch.nn.Linear(4, 4)]),
            )

        def forward(self, x: torch.Tensor, scale: float, *, mask: torch.Tensor) -> torch.Tensor:
            hidden = self.act(self.fc(x))
            hidden = self.head[0](hidden)
            return self.head[0](hidden) * mask * scale

    net, seen, calls = Net(), {}, {}

    def keep(name: str) -> object:
        def hook(_: object, __: object, result: torch.Tensor) -> None:
            number = calls[step, name] = calls.get((step, name), -1) + 1
            seen[f"step{step}/rank{rank}/{name}/{number}"] = result.detach().numpy().copy()

        return hook

    for name, module in net.named_modules():
        if name and name != "head":
            module.register_forward_hook(keep(name))
    debugger = PrecisionDebugger(config_path=config(task, level, out, mode))
    for step in range(steps):
        debugger.start(model=net)
        result = net(torch.randn(2, 3) + rank, 2.0, mask=torch.ones(2, 4))
        result.square().mean().backward()
        # Does nothing but at the level debug.
        debugger.save({"pair": [result, result.exp()], "count": 2}, "result")
        debugger.stop()
        debugger.step()
        seen[f"step{step}/rank{rank}/result/0"] = result.detach().numpy().copy()
        for name, weight in net.named_parameters():
            seen[f"step{step}/rank{rank}/{name}/grad"] = weight.grad.numpy().copy()
        net.zero_grad()
    np.savez_compressed(f"{out}.{rank}.npz", **seen)


def run_gelu(_: int, out: Path, kind: str) -> None:
    """Save a forward pass of two blocks; `kind` is the GELU of the second."""
    import torch
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(3)

    class Block(torch.nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.norm, self.up, self.kind = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), kind

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = self.up(self.norm(x))
            return x + torch.nn.functional.gelu(wide, approximate=self.kind)

    net = torch.nn.Sequential(Block("none"), Block(kind))
    debugger = PrecisionDebugger(config_path=config("tensor", "mix", out, "statistics", "forward"))
    debugger.start(model=net)
    net(torch.randn(3, 4)).square().mean()
    debugger.stop()
    debugger.step()


def make_torch(wanted: list[str]) -> None:
    import torch.multiprocessing

    values = dict(np.load(HERE / "values.npz"))
    trees = [
        ("tensor_L0", "tensor", "L0", "statistics", 2, 1),
        ("statistics_mix", "statistics", "mix", "md5", 1, 2),
        ("xor_L0", "statistics", "L0", "xor", 1, 1),
        ("debug", "tensor", "debug", "statistics", 1, 1),
        ("debug_statistics", "statistics", "debug", "statistics", 1, 1),
        ("structure", "structure", "mix", "statistics", 1, 1),
    ]
    for name, task, level, mode, ranks, steps in trees:
        if wanted and name not in wanted:
            continue
        out = HERE / name
        shutil.rmtree(out, ignore_errors=True)
        torch.multiprocessing.spawn(run_torch, (task, level, out, mode, ranks, steps), ranks)
        clean(out)
        for path in sorted(HERE.glob(f"{name}.*.npz")):
            values |= {f"{name}/{key}": array for key, array in np.load(path).items()}
            path.unlink()
    np.savez_compressed(HERE / "values.npz", **values)
    for name, kind in (("gelu", "none"), ("gelu_wrong", "tanh")):
        if not wanted or name in wanted:
            shutil.rmtree(HERE / name, ignore_errors=True)
            torch.multiprocessing.spawn(run_gelu, (HERE / name, kind))
            clean(HERE / name)


def make_mindspore() -> None:
    import mindspore as ms
    from mindspore import mint, nn
    from msprobe.mindspore import PrecisionDebugger

    # There is none for the CPU, and msprobe calls it for its statistics.
    mint.norm = lambda x, *_, **__: ms.Tensor(np.float32(np.linalg.norm(x.asnumpy())))
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act = nn.Dense(3, 4), nn.Tanh()

        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return self.act(self.fc(x))

    out = HERE / "mindspore_mix"
    shutil.rmtree(out, ignore_errors=True)
    net = Net()
    debugger = PrecisionDebugger(config_path=config("tensor", "mix", out, "statistics"))
    step = ms.value_and_grad(lambda x: (net(x) ** 2).mean(), None, net.trainable_params())
    debugger.start(net)
    step(ms.Tensor(np.random.RandomState(0).randn(2, 3).astype("f4")))
    debugger.stop()
    debugger.step()
    clean(out)


if __name__ == "__main__":
    make_torch(sys.argv[2:]) if sys.argv[1] == "torch" else make_mindspore()
