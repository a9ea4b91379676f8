"""Four processes of one run, as `test_torch_shards.py` starts them: RANK PORT FOLDER.

They record a model whose tensors are placed on a 2 x 2 mesh; and a transformer block (TP2 x CP2) and a mixture of
experts (EP4) that are cut by hand, once as they should be and once for each fault. Rank 0 records the references.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from pytest_msdump.record import Recorder

BATCH, TOKENS, WIDTH, HEADS, INNER, WORDS, TAIL, EXPERTS = 2, 8, 8, 4, 12, 16, 13, 8
DENSE = (
    "gradient_not_reduced",
    "gate_up_as_one_block",
    "mask_of_other_tokens",
    "sum_not_reduced",
    "replica_diverges",
    "loss_over_wrong_group",
    "rope_per_chunk",
    "not_zigzag",
    "stale_optimizer_state",
    "padding_counted",
    "tied_updated_twice",
    "remainder_dropped",
)
MOE = ("router_not_synchronised", "experts_permuted")


def draw(name, *shape):
    seed = sum(map(ord, name))
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 2


class Cut:
    """Where this process is: its place along two axes and its groups; one process alone without any."""

    def __init__(self, fault="", axes=None):
        self.fault, self.groups = fault, axes or {}
        self.at = {axis: (dist.get_rank(group), group.size()) for axis, group in self.groups.items()}

    def number(self, axis):
        return self.at.get(axis, (0, 1))

    def part(self, tensor, axis, dim=0):
        number, count = self.number(axis)
        return tensor.tensor_split(count, dim)[number].clone()

    def total(self, tensor, axis):
        """Sum over the ranks of an axis; gradients pass."""
        return Summed.apply(tensor, self.groups[axis]) if axis in self.groups else tensor

    def given(self, tensor, axis):
        """The same on all ranks of an axis; gradients are summed."""
        return Given.apply(tensor, self.groups[axis]) if axis in self.groups else tensor

    def tokens(self):
        """The tokens of this rank: of twice as many chunks one from the front and its mirror."""
        number, count = self.number("cp")
        if self.fault == "not_zigzag":
            return torch.arange(TOKENS).chunk(count)[number]
        chunks = torch.arange(TOKENS).chunk(2 * count)
        return torch.cat([chunks[number], chunks[-1 - number]])

    def everywhere(self, tensor):
        """Put the tokens of all ranks (dimension 1) into their order; gradients are summed."""
        if "cp" not in self.groups:
            return tensor
        mine = self.tokens()
        own = torch.zeros(tensor.shape[0], TOKENS, *tensor.shape[2:]).index_copy(1, mine, tensor)
        return self.given(self.total(own, "cp"), "cp")


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, tensor, group):
        made = tensor.clone()
        dist.all_reduce(made, group=group)
        return made

    @staticmethod
    def backward(_ctx, gradient):
        return gradient, None


class Given(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        made = gradient.clone()
        dist.all_reduce(made, group=ctx.group)
        return made, None


class Weighted(nn.Module):
    def __init__(self, cut, weight):
        super().__init__()
        self.cut, self.weight = cut, nn.Parameter(weight)


class Embed(Weighted):
    def forward(self, ids):
        return self.weight[ids]


class Head(nn.Module):
    def forward(self, x, weight):
        return x @ weight.T


class Column(Weighted):
    def forward(self, x):
        return self.cut.given(x, "tp") @ self.weight.T


class Row(Weighted):
    def forward(self, x):
        made = x @ self.weight.T
        return made if self.cut.fault == "sum_not_reduced" else self.cut.total(made, "tp")


class Norm(Weighted):
    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight


class Rope(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, tokens):
        at = torch.arange(len(tokens)) if self.cut.fault == "rope_per_chunk" else tokens
        return (at[:, None] * torch.tensor([1.0])).float() + 0.1


class Mask(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, tokens):
        if self.cut.fault == "mask_of_other_tokens":
            number, count = self.cut.number("cp")
            tokens = torch.arange(TOKENS).chunk(count)[number]
        return (tokens[:, None] >= torch.arange(TOKENS)).float()


class Loss(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, logits, labels, count):
        each = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        if self.cut.fault != "padding_counted":
            each = each * (labels.flatten() != 0)
        axis = "tp" if self.cut.fault == "loss_over_wrong_group" else "cp"
        return self.cut.total(each.sum() / count, axis)


def rotated(x, angle):
    first, second = x.chunk(2, -1)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Dense(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.embed, self.rope, self.mask = Embed(cut, draw("embed", WORDS, WIDTH)), Rope(cut), Mask(cut)
        for name in "qkv":
            setattr(self, name, Column(cut, cut.part(draw(name, WIDTH, WIDTH), "tp")))
        self.o = Row(cut, cut.part(draw("o", WIDTH, WIDTH), "tp", 1))
        self.norm = Norm(cut, draw("norm", WIDTH) + 1)
        both = draw("gate_up", 2 * INNER, WIDTH)
        blocks = [both] if cut.fault == "gate_up_as_one_block" else both.chunk(2)
        self.gate_up = Column(cut, torch.cat([cut.part(block, "tp") for block in blocks]))
        self.down = Row(cut, cut.part(draw("down", WIDTH, INNER), "tp", 1))
        tail = draw("tail", TAIL, WIDTH)
        self.tail = Column(cut, cut.part(tail[: TAIL - 1] if cut.fault == "remainder_dropped" else tail, "tp"))
        self.head, self.loss = Head(), Loss(cut)

    def forward(self, ids, labels, tokens):
        x, angle, mask = self.embed(ids), self.rope(tokens), self.mask(tokens)
        q, k, v = (one(x).unflatten(-1, (-1, WIDTH // HEADS)) for one in (self.q, self.k, self.v))
        q, k, v = rotated(q, angle), self.cut.everywhere(rotated(k, angle)), self.cut.everywhere(v)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).masked_fill(mask == 0, -1e9)
        x = x + self.o(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2))
        gate, up = self.gate_up(self.norm(x)).chunk(2, -1)
        x = x + self.down(functional.silu(gate) * up)
        self.tail(x.detach())
        count = BATCH * TOKENS if self.cut.fault == "padding_counted" else BATCH * TOKENS - 3
        return self.loss(self.head(x, self.embed.weight), labels, count)


class Expert(Weighted):
    def forward(self, x):
        return x @ self.weight.T


class Gate(Weighted):
    def forward(self, x):
        return (x @ self.weight.T).softmax(-1)


class Moe(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        number, count = cut.number("ep")
        weight = draw("router", EXPERTS, WIDTH)
        if cut.fault == "router_not_synchronised":
            weight = weight + number * draw("own", EXPERTS, WIDTH)
        self.router = Gate(cut, weight)
        self.mine = list(range(EXPERTS)[number * EXPERTS // count : (number + 1) * EXPERTS // count])
        order = self.mine[::-1] if cut.fault == "experts_permuted" else self.mine
        self.experts = nn.ModuleList(Expert(cut, draw(f"expert{n}", WIDTH, WIDTH)) for n in order)

    def forward(self, x):
        gates, x = self.cut.given(self.router(x), "ep"), self.cut.given(x, "ep")
        made = [gates[..., n, None] * expert(x) for n, expert in zip(self.mine, self.experts, strict=True)]
        return self.cut.total(torch.stack(made).sum(0), "ep")


def run_dense(cut, folder, **options):
    model = Dense(cut)
    ids = torch.randint(1, WORDS, (BATCH, TOKENS), generator=torch.Generator().manual_seed(5))
    labels = ids.roll(-1, 1)
    labels[0, -3:] = 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    # As a checkpoint has left it.
    for name, weight in model.named_parameters():
        if name == "q.weight":
            state = cut.part(draw("momentum", WIDTH, WIDTH), "tp")
            stale = cut.fault == "stale_optimizer_state" and cut.number("tp")[0] == 1
            optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(state) if stale else state
    with Recorder(folder).torch(model, directory=folder, optimizer=optimizer, parameters=True, **options):
        tokens = cut.tokens()
        model(ids[:, tokens], labels[:, tokens], tokens).backward()
        for name, weight in model.named_parameters():
            is_left_out = cut.fault == "gradient_not_reduced" and name == "norm.weight"
            if "cp" in cut.groups and weight.grad is not None and not is_left_out:
                dist.all_reduce(weight.grad, group=cut.groups["cp"])
        with torch.no_grad():
            if cut.fault == "replica_diverges" and dist.get_rank() == 3:
                model.norm.weight += 0.25
            if cut.fault == "tied_updated_twice":
                model.embed.weight -= 0.5 * model.embed.weight.grad
        optimizer.step()


def run_moe(cut, folder, **options):
    with Recorder(folder).torch(Moe(cut), directory=folder, parameters=True, **options) as recording:
        recording.model(draw("x", BATCH, TOKENS, WIDTH))


PLACEMENTS = {
    "rows": (Shard(0), Replicate()),
    "both": (Shard(0), Shard(1)),
    "twice": (Shard(0), Shard(0)),
    "uneven": (Replicate(), Shard(1)),
    "same": (Replicate(), Replicate()),
}


class Placed(nn.Module):
    """Tensors in many placements, as they are made by `place`."""

    def __init__(self, place):
        super().__init__()
        for name, placements in PLACEMENTS.items():
            weight = draw(name, 5 if name == "twice" else 6, 7)
            self.register_parameter(name, nn.Parameter(place(weight, placements)))
        self.weigh = Inner()

    def forward(self, x, y):
        return self.weigh(x, y)


class Inner(nn.Module):
    def forward(self, x, y):
        return x @ y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.down(self.up(x).relu())


def run_placed(folder, place, **options):
    given = (place(draw("x", 4, 6), (Shard(0), Shard(1))), place(draw("y", 6, 3), (Replicate(), Shard(0))))
    with Recorder(folder).torch(Placed(place), directory=f"{folder}", parameters=True, **options) as recording:
        recording.model(*given)


def run_net(folder, model, **options):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with Recorder(folder).torch(model, modules="down", directory=f"{folder}", optimizer=optimizer, **options):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()


def main(rank, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=4)
    folder = Path(folder)
    if rank == 0:
        alone = {"distributed": False}
        run_dense(Cut(), folder / "dense", **alone)
        run_moe(Cut(), folder / "moe", **alone)
        run_placed(folder / "placed_whole", lambda tensor, _: tensor, **alone)
        run_net(folder / "net_whole", Net(), **alone)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    run_placed(folder / "placed", lambda tensor, placements: distribute_tensor(tensor, mesh, placements))
    net = Net()
    parallelize_module(net, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    run_net(folder / "net", fully_shard(net, mesh=mesh["dp"]), mesh=mesh)

    both = {axis: init_device_mesh("cpu", (2, 2), mesh_dim_names=("cp", "tp")).get_group(axis) for axis in ("cp", "tp")}
    for fault in ("", *DENSE):
        run_dense(Cut(fault, both), folder / (fault or "dense_good"))
    for fault in ("", *MOE):
        run_moe(Cut(fault, {"ep": dist.group.WORLD}), folder / (fault or "moe_good"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
