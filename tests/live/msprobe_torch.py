"""Two ranks of a training by PyTorch, dumped by msprobe: FOLDER NAME…, see `msprobe_forks.py`."""

import sys

import torch
import torch.distributed
from msprobe.pytorch import PrecisionDebugger
from msprobe_forks import start


class Block(torch.nn.Module):
    def __init__(self, kind, saw):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(6), torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)
        self.kind, self.saw = kind, saw

    def forward(self, x):
        normed = self.norm(x)
        wide = self.up(normed)
        hidden = torch.nn.functional.gelu(wide, approximate=self.kind)
        narrow = self.down(hidden)
        total = x + narrow
        self.saw("Functional.layer_norm:output:0", normed)
        self.saw("Functional.linear:output:0", wide)
        self.saw("Functional.gelu:output:0", hidden)
        self.saw("Functional.linear:output:0", narrow)
        self.saw("Tensor.__add__:output:0", total)
        return total


def array(value):
    return value.detach().numpy()


def run(one):
    def saw(address, value):
        one.saw(address, array(value))

    store = f"file://{one.folder / one.name}.store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=one.rank, world_size=2)
    torch.manual_seed(3)
    net = torch.nn.Sequential(Block("none", saw), Block("tanh" if one.is_wrong else "none", saw))
    for path, module in net.named_modules():
        if path:
            forward, backward = one.hooks(path, array)
            module.register_forward_hook(forward)
            module.register_full_backward_hook(backward)
    debugger = PrecisionDebugger(config_path=str(one.config))
    for one.step in range(2):
        net.zero_grad()
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * one.step + one.rank), requires_grad=True)
        debugger.start(model=net)
        loss = net(x).square().mean()
        loss.backward()
        reduced = loss.detach().clone()
        torch.distributed.all_reduce(reduced, group=torch.distributed.group.WORLD)
        debugger.stop()
        debugger.step()
        saw("Tensor.mean:output:0", loss)
        saw("Distributed.all_reduce:output:0", reduced)
        for path, weight in net.named_parameters():
            saw(f"{path}:output:0", weight)
            saw(f"{path}/grad:output:0", weight.grad)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    raise SystemExit(start(run, sys.argv[1:], ranks=2))
