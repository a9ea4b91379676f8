"""How msprobe says that a tensor is cut over ranks: beside a DTensor of PyTorch, and beside a tensor of MindSpore.

References: mindstudio-probe 26.2, ``core/dump/data_dump/data_processor``: `get_dtensor_info` and `_analyze_tensor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_RANKS = 2**16
_LONGEST_NAME = 40
_KINDS = {"Shard": "dim", "Partial": "reduce_op"}


class PlacedShard(NamedTuple):
    """How a tensor is cut, in the dims language, and the group of its rank along each axis.

    `dims` is empty where each rank has the whole tensor. Where what msprobe says is not enough to put shards together,
    `dims` says that, and is none.
    """

    dims: str
    groups: Mapping[str, Sequence[int]] = {}


def placed(leaf: Mapping[str, Any], rank: int | None) -> PlacedShard | None:
    """Return how the tensor of an entry is cut; ``None`` where msprobe says nothing of it.

    >>> cut = [{"Shard": {"dim": 0}}, {"Replicate": {}}]
    >>> placed({"shape": [2, 8], "device_mesh": [[0, 1], [2, 3]], "placements": cut}, rank=1)
    PlacedShard(dims='d0[by2x2] d1 # by1x2:replicated', groups={'by2x2': [1, 3], 'by1x2': [0, 1]})
    """
    if rank is None:
        return None
    if leaf.get("device_mesh") is not None or leaf.get("placements"):
        return _of_pytorch(leaf, rank)
    if leaf.get("layout") or (isinstance(leaf.get("hsdp_shard_size"), int) and leaf["hsdp_shard_size"] > 1):
        return _of_mindspore(leaf, rank)
    return None


def _of_pytorch(leaf: Mapping[str, Any], rank: int) -> PlacedShard:
    said = leaf.get("placements")
    kinds = [_kind(one) for one in said] if isinstance(said, list) else []
    unclear = PlacedShard(" ".join(kind if value in (None, "") else f"{kind}({value})" for kind, value in kinds) or "?")
    mesh = _mesh_of(leaf.get("device_mesh"))
    # A strided cut is left out of the list.
    if mesh is None or mesh.ndim != len(kinds):
        return unclear
    cuts: list[list[int]] = [[] for _ in leaf["shape"]]
    sums = []
    for axis, (kind, value) in enumerate(kinds):
        if mesh.shape[axis] == 1:
            continue
        if kind == "Shard" and type(value) is int and 0 <= value < len(cuts):
            cuts[value].append(axis)
        elif kind == "Partial" and value == "sum":
            sums.append(axis)
        elif kind != "Replicate":
            return unclear
    # Of two axes that cut one dimension, older releases of PyTorch do not tell which one cuts first.
    if any(len(axes) > 1 for axes in cuts):
        return unclear
    return _of_mesh(mesh, None, cuts, sums, rank) or unclear


def _kind(placement: Any) -> tuple[str, Any]:
    kind, keys = next(iter(placement.items())) if isinstance(placement, dict) and placement else ("?", {})
    value = keys.get(_KINDS.get(kind, "")) if isinstance(keys, dict) else None
    return (kind, value) if kind in (*_KINDS, "Replicate") and str(value).isalnum() else ("?", None)


def _of_mindspore(leaf: Mapping[str, Any], rank: int) -> PlacedShard:
    layout = leaf.get("layout")
    said: Mapping[str, Any] = layout if isinstance(layout, dict) else {}
    lengths, names, partial = (_items(said.get(key)) for key in ("Device Matrix", "Alias Name", "Partial"))
    places = [_items(one) if isinstance(one, list) else [one] for one in _items(said.get("Tensor Map"))]
    mesh, unclear = _mesh_of(said.get("Rank List")), PlacedShard("?")
    # Which ranks an optimizer shares a weight between, and in what order, is not said.
    if mesh is None or leaf.get("hsdp_shard_size") or said.get("Interleaved") == "Yes":
        return unclear
    if not all(type(one) is int and 0 < one <= _MOST_RANKS for one in lengths) or prod(lengths) != mesh.size:
        return unclear
    if len(names) != len(lengths) or not all(map(_is_name, names)) or len(places) != len(leaf["shape"]):
        return unclear
    if not all(type(one) is int for place in places for one in place):
        return unclear
    # Axes are counted from the last one on; -1 is none.
    cuts = [[len(lengths) - 1 - one for one in place if one != -1] for place in places]
    used = [axis for axes in cuts for axis in axes]
    is_partial = len(partial) == len(lengths) and all(one in (None, "sum") for one in partial)
    if not set(used) <= {*range(len(lengths))} or len(used) != len(set(used)) or (partial and not is_partial):
        return unclear
    sums = [axis for axis, one in enumerate(partial) if one is not None]
    return _of_mesh(mesh.reshape(lengths), names, cuts, sums, rank) or unclear


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isidentifier() and len(value) <= _LONGEST_NAME


def _mesh_of(value: Any) -> NDArray[np.int64] | None:
    """Return the ranks of a mesh; ``None`` unless they are different numbers in a grid."""
    ranks: list[Any] = _items(value)
    shape = [len(ranks)]
    while ranks and isinstance(ranks[0], list):
        lengths = {len(one) if isinstance(one, list) else 0 for one in ranks}
        if len(lengths) > 1 or len(ranks) > _MOST_RANKS:
            return None
        shape += lengths
        ranks = [inner for one in ranks for inner in one]
    is_grid = all(type(one) is int and 0 <= one < _MOST_RANKS for one in ranks) and len(set(ranks)) == len(ranks)
    return np.array(ranks, np.int64).reshape(shape) if ranks and is_grid else None


def _of_mesh(
    mesh: NDArray[np.int64], names: Sequence[str] | None, cuts: Iterable[Sequence[int]], sums: Sequence[int], rank: int
) -> PlacedShard | None:
    """Return the dims of what axes of a mesh cut or sum; ``None`` where the mesh lacks the rank."""
    found = np.argwhere(mesh == rank)
    if not len(found):
        return None
    axes: dict[int, str] = {}
    groups: dict[str, Sequence[int]] = {}
    for axis in range(mesh.ndim):
        group = mesh[tuple(slice(None) if other == axis else at for other, at in enumerate(found[0]))].tolist()
        steps = {after - before for before, after in pairwise(group)}
        if len(group) > 1:
            # PyTorch's have no names here. Ranks by the same step are of one axis, in whichever mesh they are.
            axes[axis] = names[axis] if names else f"by{'_'.join(map(str, sorted(steps)))}x{len(group)}"
            if not axes[axis].isidentifier() or axes[axis] in groups:
                return None
            groups[axes[axis]] = group
    texts = [[axes[axis] for axis in cut if axis in axes] for cut in cuts]
    dims = [f"d{number}[{','.join(cut)}]" if cut else f"d{number}" for number, cut in enumerate(texts)]
    cutting = {name for cut in texts for name in cut}
    if not cutting and not any(axis in sums for axis in axes):
        return PlacedShard("", groups)
    notes = [
        f"{name}:{'partial' if axis in sums else 'replicated'}" for axis, name in axes.items() if name not in cutting
    ]
    return PlacedShard(" ".join([*dims, *(["#", *notes] if notes else [])]), groups)
