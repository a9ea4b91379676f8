"""Which process of a distributed run this one is, and the ranks that its groups have."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from pytest_msdump.core.dumps.file_names import number
from pytest_msdump.core.model.dump import DistributedRank

_AXIS = re.compile(r"[A-Za-z_]\w*", re.ASCII)
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
    """Return the ranks of this process's group in each dimension of PyTorch's device meshes; its place is in it.

    These are the `mesh` that is given, else those that weights are distributed over. Of two dimensions of one name the
    first counts.
    """
    found = [mesh] if mesh is not None else [getattr(weight, "device_mesh", None) for weight in weights]
    groups: dict[str, Sequence[int]] = {}
    for each in dict.fromkeys(one for one in found if one is not None):
        at = each.get_coordinate() or ()
        names = each.mesh_dim_names or tuple(f"axis{number}" for number in range(each.ndim))
        for axis, name in zip(range(len(at)), names, strict=True):
            group = each.mesh[tuple(slice(None) if other == axis else place for other, place in enumerate(at))]
            groups.setdefault(name, tuple(group.tolist()))
    return groups


def placement_of(tensor: Any, groups: Mapping[str, Sequence[int]]) -> str:
    """Return how a distributed tensor of PyTorch is placed, in the dims language, with the axes `groups`.

    It is empty for any other tensor, and for a placement that cannot be put together without doubt: a reduction other
    than a sum, a strided cut of a length that does not divide, a mesh whose groups are others.
    """
    mesh, placements = getattr(tensor, "device_mesh", None), getattr(tensor, "placements", ())
    if mesh is None or not placements:
        return ""
    own = groups_of(mesh, ())
    if not own or any(not _AXIS.fullmatch(axis) or groups.get(axis) != ranks for axis, ranks in own.items()):
        return ""
    cuts: list[list[str]] = [[] for _ in tensor.shape]
    notes: list[str] = []
    # From the last axis on: a strided cut is inside of the `split_factor` parts that later axes have made.
    for axis, placement in reversed(list(zip(own, placements, strict=True))):
        kind, within = type(placement).__name__, 1
        if kind == "Replicate" or (kind == "Partial" and placement.reduce_op == "sum"):
            notes.insert(0, f"{axis}:{'replicated' if kind == 'Replicate' else 'partial'}")
            continue
        if kind not in ("Shard", "_StridedShard"):
            return ""
        if kind == "_StridedShard":
            within = placement.split_factor
        before = cuts[placement.dim]
        outer = next((n for n in range(len(before) + 1) if prod(len(own[one]) for one in before[:n]) == within), None)
        if outer is None or (within > 1 and tensor.shape[placement.dim] % prod(map(len, own.values()))):
            return ""
        before.insert(outer, axis)
    dims = [f"d{number}[{','.join(axes)}]" if axes else f"d{number}" for number, axes in enumerate(cuts)]
    return " ".join([*dims, *(["#", *notes] if notes else [])])
