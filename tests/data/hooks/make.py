"""Make dumps with hooks of other projects: ``python make.py OUT [SGLANG]``, in an environment with transformers.

SGLANG is what its wheel (0.5.23) unpacks to: of it two modules are loaded alone, and what they import of the rest is
replaced by names without content. Without it the trees of Transformers alone are made. values.npz has what hooks of our own saw in the same runs, by
``dump/rank/step/module/call``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

STEPS = 2


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = torch.nn.Linear(4, 4), torch.nn.Tanh()

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return self.act(self.fc(x)) * mask


class Decoder(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block() for _ in range(layers)])
        # One module, called twice.
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask=torch.full((2, 4), 0.5))
        return self.norm(x)


class Net(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.model = Decoder(layers)
        self.lm_head = torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.model(x))


class Seen:
    """What the modules of a net gave, by our own hooks."""

    def __init__(self, net: torch.nn.Module, start: str) -> None:
        self.start, self.step, self.values, self._calls = start, 0, {}, {}
        for name, module in net.named_modules():
            if name:
                module.register_forward_hook(lambda _, __, result, name=name: self._keep(name, result))

    def _keep(self, name: str, result: torch.Tensor) -> None:
        key = f"{self.start}/step{self.step}/{name}"
        number = self._calls[key] = self._calls.get(key, -1) + 1
        self.values[f"{key}/{number}"] = result.detach().numpy().copy()


def network(rank: int = 0, layers: int = 1) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    torch.manual_seed(7)
    net = Net(layers)
    return net, [torch.randn(2, 4) + rank for _ in range(STEPS)]


def load_alone(root: Path, name: str) -> Any:
    """Load one module of SGLang; its other modules, and zmq, have any name in them, which means nothing."""

    class Anything(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    for other in (
        "zmq", "sglang", "sglang.srt", "sglang.srt.managers", "sglang.srt.managers.io_struct", "sglang.srt.utils",
        "sglang.srt.runtime_context", "sglang.srt.layers", "sglang.srt.layers.logits_processor",
        "sglang.srt.model_executor", "sglang.srt.model_executor.forward_batch_info",
    ):  # fmt: skip
        sys.modules.setdefault(other, Anything(other))
    spec = spec_from_file_location(name, root / f"sglang/srt/debug_utils/{name}.py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_dumper(rank: int, root: Path, out: Path, ranks: int) -> None:
    """SGLang's dumper: every module, weights and their gradients, and calls by hand."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29543", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    library = load_alone(root, "dumper")
    config = library.DumperConfig(
        enable=True, dir=str(out), exp_name="run", enable_grad=True, enable_model_value=True, enable_model_grad=True,
        non_intrusive_mode="all", enable_output_console=False,
    )  # fmt: skip
    dumper = library._Dumper(config=config)
    net, inputs = network(rank)
    seen = Seen(net, f"sglang_dumper/rank{rank}")
    dumper.register_non_intrusive_dumper(net)
    for step, x in enumerate(inputs[:1]):
        seen.step = step
        result = net(x)
        dumper.dump("logits", result, layer_id=9, dims="b v[tp]")
        result.square().mean().backward()
        dumper.dump_model(net)
        dumper.step()
        for name, weight in net.named_parameters():
            seen.values[f"sglang_dumper/rank{rank}/step{step}/{name}/grad"] = weight.grad.numpy().copy()
        net.zero_grad()
    np.savez_compressed(f"{out}.{rank}.npz", **seen.values)


def make_dumper(root: Path, out: Path, ranks: int = 2) -> dict[str, Any]:
    torch.multiprocessing.spawn(run_dumper, (root, out, ranks), ranks)
    values: dict[str, Any] = {}
    for path in sorted(out.parent.glob(f"{out.name}.*.npz")):
        values |= np.load(path)
        path.unlink()
    return values


# By kind of run: the tensors of the whole run, and how they are cut.
WHOLE = {
    "megatron": {
        "hidden": ((2, 8, 6), "b s[cp:zigzag,sp] h"),
        "qkv": ((2, 8, 12), "b s[cp:zigzag] (nh*hd)[tp]"),
        "out": ((2, 8, 4), "b s[cp:zigzag] h[tp:partial]"),
        "router": ((5,), "e # tp:replicated cp:replicated"),
    },
    "sglang": {
        "attention": ((7, 6), "t h[attn_tp]"),
        "experts": ((4, 3), "e[moe_ep] h # dp:=moe_dp"),
        "logits": ((7, 1, 10), "t 1 v # tp:replicated"),
        "ids": ((7,), "t # attn_tp:replicated"),
    },
    # The second data parallel group has no batch.
    "sglang_dp": {"attention": ((7, 6), "t h[attn_tp] # dp:=attn_dp"), "ids": ((7,), "t # dp:=attn_dp attn_tp:replicated")},
}


def whole(kind: str) -> dict[str, np.ndarray]:
    """Whole numbers: sums of them are exact."""
    drawn = np.random.default_rng(3)
    return {name: drawn.integers(-9, 9, shape).astype("f4") for name, (shape, _) in WHOLE[kind].items()}


def part(kind: str, name: str, values: np.ndarray, rank: int) -> np.ndarray:
    """What a rank has: tensor parallel ranks are neighbours."""
    tp, cp = rank % 2, rank // 2
    if kind.startswith("sglang"):
        values = values[:0] if kind == "sglang_dp" and cp else values
        cut = {"attention": lambda: np.split(values, 2, 1)[tp], "experts": lambda: np.split(values, 2)[tp]}
        return cut.get(name, lambda: values)()
    if name == "router":
        return values
    chunks = np.split(values, 4, axis=1)
    tokens = np.concatenate([chunks[cp], chunks[3 - cp]], axis=1)
    if name == "hidden":
        return np.split(tokens, 2, axis=1)[tp]
    return np.split(tokens, 2, axis=2)[tp] if name == "qkv" else tokens * 3 if tp else tokens * -2


def in_parallel(library: Any, kind: str, rank: int) -> None:
    """Give the dumper's plugin the parallel state of Megatron or of SGLang's server, which alone is made up."""
    tp, cp = rank % 2, rank // 2
    plugin = next(one for one in library._plugins if one.name == kind.partition("_")[0])
    type(plugin)._available = True
    if kind == "megatron":
        known = {"tensor_model_parallel": (tp, 2), "context_parallel": (cp, 2), "tensor_and_context_parallel": (rank, 4)}
        state = SimpleNamespace()
        for group in (
            "tensor_model_parallel", "pipeline_model_parallel", "data_parallel", "context_parallel",
            "expert_model_parallel", "expert_tensor_parallel", "expert_data_parallel", "tensor_and_context_parallel",
            "expert_tensor_and_model_parallel",
        ):  # fmt: skip
            number, size = known.get(group, (0, 1))
            setattr(state, f"get_{group}_rank", lambda number=number: number)
            setattr(state, f"get_{group}_world_size", lambda size=size: size)
            setattr(state, f"get_{group}_src_rank", lambda: 0)
        for side in ("rank", "world_size"):
            setattr(state, f"get_virtual_pipeline_model_parallel_{side}", lambda: None)
        state.get_model_parallel_src_rank = lambda: 0
        type(plugin)._mpu = state
        arguments = SimpleNamespace(get_args=lambda: SimpleNamespace(sequence_parallel=True))
        sys.modules["megatron.training.global_vars"] = arguments
    else:
        ranks = dict.fromkeys(("tp", "moe_ep", "attn_tp"), (tp, 2))
        if kind == "sglang_dp":
            ranks = {"tp": (rank, 4), "attn_tp": (tp, 2), "attn_dp": (cp, 2)}
        axes = ("tp", "pp", "moe_ep", "moe_tp", "moe_dp", "attn_tp", "attn_dp", "attn_cp")
        numbers = {f"{axis}_rank": ranks.get(axis, (0, 1))[0] for axis in axes}
        sizes = {f"{axis}_size": ranks.get(axis, (0, 1))[1] for axis in axes}
        library.get_parallel = lambda: SimpleNamespace(**numbers, **sizes)
        type(plugin)._dp_attn = SimpleNamespace(get_moe_cp_size=lambda: 1, is_dp_attention_enabled=lambda: False)


def run_shards(rank: int, root: Path, out: Path, kind: str, ranks: int, port: int) -> None:
    """What a rank of a sharded run, or the one rank of a run of one, dumps by hand."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    library = load_alone(root, "dumper")
    for plugin in library._plugins:
        type(plugin)._available = False
    if ranks > 1:
        in_parallel(library, kind, rank)
    config = library.DumperConfig(enable=True, dir=str(out), exp_name="run", enable_output_console=False)
    dumper = library._Dumper(config=config)
    for name, values in whole(kind).items():
        mine = part(kind, name, values, rank) if ranks > 1 else values
        dumper.dump(name, torch.from_numpy(mine.copy()), dims=WHOLE[kind][name][1])
    dumper.dump("loss", torch.tensor(float(rank)))
    torch.distributed.destroy_process_group()


def make_shards(root: Path, out: Path) -> None:
    runs = (("megatron", 4), ("megatron", 1), ("sglang", 2), ("sglang", 1), ("sglang_dp", 4), ("sglang_dp", 1))
    for number, (kind, ranks) in enumerate(runs):
        folder = out / f"{kind}_{ranks}"
        torch.multiprocessing.spawn(run_shards, (root, folder, kind, ranks, 29550 + number), ranks)


def make_passes(root: Path, out: Path, ranks: int = 2) -> dict[str, Any]:
    """Forward hooks of SGLang, which vLLM had, too."""
    library = load_alone(root, "tensor_dump_forward_hook")
    values: dict[str, Any] = {}
    for rank in range(ranks):
        net, inputs = network(rank)
        seen = Seen(net, f"sglang_passes/rank{rank}")
        library.register_forward_hook_for_model(net, str(out), None, ranks, rank, 0)
        with torch.no_grad():
            for step, x in enumerate(inputs):
                seen.step = step
                net(x)
        values |= seen.values
    for number, path in enumerate(sorted(out.iterdir())):
        path.rename(path.with_name(re.sub(r"pid\d+", f"pid{number + 1}", path.name)))
    return values


def make_tree(out: Path, *, use_repr: bool) -> dict[str, Any]:
    """The debugger of Transformers: arrays beside the tree of modules, or their texts in it."""
    from transformers.model_debugging_utils import model_addition_debugger_context

    # Of more than two layers, those between are left out of the tree.
    net, inputs = network(layers=3)
    seen = Seen(net, out.name)
    with model_addition_debugger_context(net, debug_path=str(out), use_repr=use_repr, do_prune_layers=True):
        net(inputs[0])
    return seen.values


def make(out: Path, root: Path | None) -> None:
    values: dict[str, Any] = {}
    for name in ("sglang_dumper", "sglang_shards", "sglang_passes", "debug_tree", "debug_texts"):
        shutil.rmtree(out / name, ignore_errors=True)
    if root is not None:
        values |= make_dumper(root, out / "sglang_dumper")
        values |= make_passes(root, out / "sglang_passes")
        make_shards(root, out / "sglang_shards")
    values |= make_tree(out / "debug_tree", use_repr=False)
    values |= make_tree(out / "debug_texts", use_repr=True)
    np.savez_compressed(out / "values.npz", **values)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
