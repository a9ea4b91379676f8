"""Which process of a distributed run this one is, and the ranks that its groups have."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_msdump.dumps.file_names import number
from pytest_msdump.model.dump import DistributedRank

__all__ = ["groups_of", "this_rank"]

# Rank and number of processes, as torchrun, Open MPI and MindSpore's msrun set them.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("RANK_ID", "RANK_SIZE"),
)


def this_rank() -> DistributedRank | None:
    """Return which process of several this one is; ``None`` where it runs alone.

    ``torch.distributed`` says so once it is initialised; until then the variables of torchrun, Open MPI or msrun.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, size = int(distributed.get_rank()), int(distributed.get_world_size())
        return DistributedRank(rank, size) if size > 1 else None
    for names in _VARIABLES:
        own, count = (number(os.environ.get(name, "")) for name in names)
        if own is not None and count is not None and own < count:
            return DistributedRank(own, count) if count > 1 else None
    return None


def groups_of(mesh: Any, weights: Iterable[Any]) -> Mapping[str, Sequence[int]]:
    """Return the ranks of this process's group in each named dimension of PyTorch's device meshes.

    These are the `mesh` that is given, else those that weights are distributed over.
    """
    found = [mesh] if mesh is not None else [getattr(weight, "device_mesh", None) for weight in weights]
    groups: dict[str, Sequence[int]] = {}
    for each in dict.fromkeys(one for one in found if one is not None):
        at = each.get_coordinate() or ()
        for axis, name in zip(range(len(at)), each.mesh_dim_names or (), strict=False):
            group = each.mesh[tuple(slice(None) if other == axis else place for other, place in enumerate(at))]
            groups[name] = tuple(group.tolist())
    return groups
