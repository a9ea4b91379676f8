"""DTensors on four ranks, dumped by msprobe, and the whole tensors on one: FOLDER WORLD_SIZE."""

import json
import sys
from pathlib import Path

import torch
from msprobe.pytorch import PrecisionDebugger
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

PLACEMENTS = {
    "rows": (Shard(0), Replicate()),
    "cells": (Shard(0), Shard(1)),
    "terms": (Replicate(), Partial()),
    "copies": (Replicate(), Replicate()),
    # Which of the two axes cuts first msprobe does not say.
    "blocks": (Shard(0), Shard(0)),
}


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Net(torch.nn.ModuleDict):
    def forward(self, tensors):
        return [self[name](tensor) for name, tensor in tensors.items()]


def main(rank, folder, world_size):
    store = f"file://{folder}/{world_size}.store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=world_size)
    torch.manual_seed(0)
    tensors = {name: torch.randn(8, 6) for name in PLACEMENTS}
    if world_size > 1:
        mesh = init_device_mesh("cpu", (2, 2))
        tensors = {name: distribute_tensor(tensor, mesh, PLACEMENTS[name]) for name, tensor in tensors.items()}
    config = Path(folder, f"{world_size}_{rank}.json")
    task = {"scope": [], "list": [], "data_mode": ["all"]}
    values = {"task": "tensor", "dump_path": f"{folder}/{world_size}", "rank": [], "step": [], "level": "L0"}
    config.write_text(json.dumps(values | {"tensor": task}))
    net = Net({name: Double() for name in PLACEMENTS})
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start(model=net)
    net(tensors)
    debugger.stop()
    debugger.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    size = int(sys.argv[2])
    torch.multiprocessing.spawn(main, (sys.argv[1], size), nprocs=size)
