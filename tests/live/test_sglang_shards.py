"""SGLang's own comparator puts the same shards together. Needs its `debug_utils` (the unpacked wheel), and PyTorch."""

from __future__ import annotations

import importlib
import itertools
import math
import sys
from unittest.mock import MagicMock, patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_msdump.comparison.opening import ArrayView
from pytest_msdump.layouts.sharded import ShardedView
from pytest_msdump.model.shards import Mesh, parse_dims

torch = pytest.importorskip("torch")
COMPARATOR = "sglang.srt.debug_utils.comparator"
# What the server side of its dumper asks for; comparing needs none of it.
SERVER = (
    "zmq",
    "sglang.srt.managers",
    "sglang.srt.managers.io_struct",
    "sglang.srt.runtime_context",
    "sglang.srt.utils",
)
with patch.dict(sys.modules, {name: MagicMock() for name in SERVER}):
    unsharder = pytest.importorskip(f"{COMPARATOR}.aligner.unsharder.planner")
    unshard = importlib.import_module(f"{COMPARATOR}.aligner.unsharder.executor")
    reorderer = importlib.import_module(f"{COMPARATOR}.aligner.reorderer.planner")
    reorder = importlib.import_module(f"{COMPARATOR}.aligner.reorderer.executor")
    types = importlib.import_module(f"{COMPARATOR}.aligner.unsharder.types")
    dims_spec = importlib.import_module(f"{COMPARATOR}.dims_spec")

pytestmark = pytest.mark.live


def theirs(text, sizes, shards, lengths):
    """Merge the shards, by place on the mesh, as SGLang does."""
    spec = dims_spec.parse_dims(text)
    infos = [
        {
            dims_spec.ParallelAxis(axis): types.AxisInfo(axis_rank=number, axis_size=size)
            for (axis, size), number in zip(sizes.items(), at, strict=True)
            if size > 1
        }
        for at in shards
    ]
    options = {"thd_global_seq_lens": list(lengths) or None}
    names = [dim.sanitized_name for dim in spec.dims]
    tensors = [dims_spec.apply_dim_names(torch.from_numpy(shard), names) for shard in shards.values()]
    replicated = frozenset(axis for axis in spec.replicated_axes if sizes[axis.value] > 1)
    for plan in unsharder.compute_unsharder_plan(spec.dims, infos, explicit_replicated_axes=replicated, **options):
        tensors = unshard.execute_unsharder_plan(plan, tensors).tensors
    for plan in reorderer.compute_reorderer_plans(spec.dims, infos, **options) if math.prod(sizes.values()) > 1 else ():
        tensors = reorder.execute_reorderer_plan(plan, tensors)
    (found,) = tensors
    return dims_spec.without_dim_names(found).numpy()


def ours(text, sizes, shards, lengths):
    layout = parse_dims(text, where="here", lengths=lengths).layout(Mesh(tuple(sizes.items())))
    places = {layout.place(dict(zip(sizes, at, strict=True))): shard for at, shard in shards.items()}
    view = ShardedView([ArrayView(places[0, n]) for n in range(math.prod(layout.grid))], layout)
    return view.read(0, view.size).reshape(view.shape)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_sglangs_comparator_and_ours_make_one_tensor(data):
    cp, tp, ep, dp = (data.draw(st.integers(low, 3)) for low in (2, 1, 1, 1))
    form = data.draw(st.sampled_from(["packed", "zigzag", "plain", "both", "sum"]))
    sizes = {"cp": cp, "tp": tp, "ep": ep, "dp": dp}
    lengths = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)) if form == "packed" else []
    lengths = [2 * cp * length for length in lengths]
    notes = "# ep:replicated dp:replicated"
    text, merged = {
        "packed": (f"t[cp:zigzag] h[tp] {notes}", f"t[cp:zigzag+packed] h[tp] {notes}"),
        "zigzag": (f"b s[cp:zigzag] h[tp] {notes}",) * 2,
        "plain": (f"b s[cp] h[tp] {notes}",) * 2,
        "both": (f"b s h[cp,tp] {notes}",) * 2,
        "sum": (f"b s[cp] h[tp:partial] {notes}",) * 2,
    }[form]
    rows = sum(lengths) // cp if form == "packed" else 2 * data.draw(st.integers(1, 3))
    shape = (rows, 4) if form == "packed" else (2, rows, 4)
    made = {}
    shards = {}
    for at in itertools.product(*map(range, sizes.values())):
        # Sums of whole numbers are exact in any order.
        made.setdefault(at[:2], np.random.default_rng([*at[:2]]).integers(0, 99, shape).astype("f4"))
        shards[at] = made[at[:2]]
    used = {axis: size for axis, size in sizes.items() if size > 1}
    if not all(axis in used for axis in ("ep", "dp")):
        left_out = [f"{axis}:replicated" for axis in ("ep", "dp") if axis not in used]
        for note in left_out:
            text, merged = text.replace(note, ""), merged.replace(note, "")
        text, merged = text.rstrip(" #"), merged.rstrip(" #")
    np.testing.assert_array_equal(ours(merged, sizes, shards, lengths), theirs(text, sizes, shards, lengths))
