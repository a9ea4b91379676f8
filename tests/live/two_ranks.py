"""Two processes of one run, as `test_torch_ranks.py` starts them: RANK PORT FOLDER FAULT.

FAULT is ``none``, or ``relu``, where rank 1 has another activation.
"""

import os
import sys

import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from pytest_msdump.record import Recorder


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.act, self.down = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


def main(rank, port, folder, fault):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))

    model = nn.parallel.DistributedDataParallel(Net())
    if rank and fault == "relu":
        model.module.act = nn.GELU()
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "pp"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = Recorder(folder)
    with recorder.torch(model, directory=f"{folder}/dp", gradients=True, optimizer=optimizer, mesh=mesh) as recording:
        model(x).square().sum().backward()
        optimizer.step()
    assert recording.directory.name == f"rank_{rank}"

    sharded = Net()
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    parallelize_module(sharded, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), plan)
    with recorder.torch(sharded, directory=f"{folder}/tp", parameters=True):
        sharded(torch.ones(4, 8))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
