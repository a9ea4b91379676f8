"""Placements of manifests, numbers that count from 0 on each rank, and blocks of unequal shares."""

from __future__ import annotations

import itertools
import math
import os
import sys
from dataclasses import dataclass, make_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.record.manifest import placement_of
from pytest_msdump.capabilities.shards.model import DimsEntry, Mesh, Renumbering, Sharding, ShardLayout, parse_dims
from pytest_msdump.capabilities.shards.sharding import put_together
from pytest_msdump.capabilities.shards.views import ShardedView
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import DistributedRank, Dump
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter


def layout_of(dims, **sizes):
    layout = parse_dims(dims, where="here").layout(Mesh(tuple(sizes.items())))
    assert isinstance(layout, ShardLayout), layout
    return layout


def whole(views, layout):
    view = ShardedView(views, layout)
    return view.read(0, view.size).reshape(view.shape)


def ceil_chunks(array, parts, axis=0):
    """As PyTorch cuts: parts of one length from the front, then a shorter one, then empty ones."""
    step = -(-array.shape[axis] // parts)
    return np.split(array, [min(step * n, array.shape[axis]) for n in range(1, parts)], axis)


# -- blocks side by side ---------------------------------------------------------------------------------------------


@settings(max_examples=600, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 2), st.integers(1, 3))
def test_heads_of_grouped_queries_are_merged(tp, kv, groups, dim, cp, tokens):
    """Queries, keys and values as Megatron-LM lays them: each rank has its heads of all three."""
    heads = {"q": kv * groups * tp, "k": kv * tp, "v": kv * tp}
    full = {name: np.random.default_rng(n).random((2 * cp * tokens, n * dim)) for name, n in heads.items()}
    views = []
    for c, t in itertools.product(range(cp), range(tp)):
        mine = np.concatenate([np.split(one, tp, axis=1)[t] for one in full.values()], axis=1)
        chunks = np.split(mine, 2 * cp)
        views.append(ArrayView(np.concatenate([chunks[c], chunks[2 * cp - 1 - c]])))
    layout = layout_of(f"t[cp:zigzag] (q:{groups}+k+v)[tp]", cp=cp, tp=tp)
    assert whole(views, layout).tobytes() == np.concatenate([*full.values()], axis=1).tobytes()


def test_a_differing_copy_of_a_key_head_is_found(tmp_path):
    q, k = np.arange(8, dtype="f4"), np.arange(8, 10, dtype="f4")
    for rank in range(4):
        (tmp_path / f"left/rank_{rank}").mkdir(parents=True)
        head = k[rank // 2] + (rank == 3)
        np.save(tmp_path / f"left/rank_{rank}/qk.npy", np.append(q[2 * rank : 2 * rank + 2], head))
    (tmp_path / "right").mkdir()
    np.save(tmp_path / "right/qk.npy", np.concatenate([q, k]))
    (tmp_path / "m.toml").write_text(
        '[msdump]\nleft = "left"\nright = "right"\n[msdump.shards]\nleft = { axes = { tp = 4 } }\n'
        '[[msdump.dims]]\nmatch = "qk"\ndims = "(q:2+k/2)[tp]"\n'
    )
    planned = plan(load_suite(file=Path("m.toml"), options={}, directory=tmp_path))
    (found,) = build_report(planned, compare_plan(planned)).records
    told = found.verdict.findings[0].message
    assert (found.verdict.outcome, told.code, told.parameters["place"]) == ("fail", "replica", (9,))
    assert (told.parameters["rank"], told.parameters["first"]) == ("rank 3", "rank 2")


# -- cuts that PyTorch makes -----------------------------------------------------------------------------------------


@settings(max_examples=800, deadline=None)
@given(st.data(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
def test_uneven_and_strided_cuts_are_merged(data, rows, columns, tp, dp):
    """FSDP2 cuts what TP has left: the mesh says dp, tp; the cut is tp, then dp. Parts are of unequal length."""
    tensor = np.arange(rows * columns).reshape(rows, columns)
    inner, outer = data.draw(st.sampled_from([(0, 0), (0, 1), (1, 1)]))
    shards = {
        (d, t): ceil_chunks(one, dp, inner)[d]
        for t, one in enumerate(ceil_chunks(tensor, tp, outer))
        for d in range(dp)
    }
    cuts = [[], []]
    cuts[outer].append("tp")
    cuts[inner].append("dp")
    layout = layout_of(
        " ".join(f"d{n}[{','.join(one)}]" if one else f"d{n}" for n, one in enumerate(cuts)), dp=dp, tp=tp
    )
    views = {layout.place({"dp": d, "tp": t})[1]: ArrayView(shards[d, t]) for d, t in shards}
    assert whole([views[n] for n in sorted(views)], layout).tobytes() == tensor.tobytes()


Shard = make_dataclass("Shard", ["dim"])
Strided = make_dataclass("_StridedShard", ["dim", "split_factor"])
Replicate = make_dataclass("Replicate", [])
Partial = make_dataclass("Partial", ["reduce_op"])
Maximum = make_dataclass("_MaskPartial", ["reduce_op"])


@dataclass(eq=False)
class DeviceMesh:
    """The part of PyTorch's device mesh that is asked for, seen from its first rank."""

    mesh: Any
    mesh_dim_names: tuple[str, ...] | None

    @property
    def ndim(self):
        return self.mesh.ndim

    def get_coordinate(self):
        return [0] * self.mesh.ndim


@pytest.mark.parametrize(
    ("placements", "text"),
    [
        ([Shard(0), Replicate()], "d0[dp] d1 # tp:replicated"),
        ([Shard(1), Shard(1)], "d0 d1[dp,tp]"),
        ([Strided(1, 2), Shard(1)], "d0 d1[tp,dp]"),
        ([Strided(1, 4), Shard(1)], ""),
        ([Strided(0, 2), Shard(0)], ""),
        ([Partial("sum"), Replicate()], "d0 d1 # dp:partial tp:replicated"),
        ([Partial("avg"), Replicate()], ""),
        ([Maximum("sum"), Replicate()], ""),
    ],
)
def test_placements_in_the_dims_language(placements, text):
    mesh = DeviceMesh(np.arange(4).reshape(2, 2), ("dp", "tp"))
    groups = {"dp": (0, 2), "tp": (0, 1)}
    tensor = make_dataclass("DTensor", ["device_mesh", "placements", "shape"])(mesh, placements, (5, 8))
    assert placement_of(tensor, groups) == text
    assert placement_of(tensor, {**groups, "tp": (0, 3)}) == ""
    assert placement_of(np.zeros(3), groups) == ""
    if text:
        parse_dims(text, where="here")


# -- numbers in names ------------------------------------------------------------------------------------------------


def ref_of(name, rank, mark):
    key = TensorKey(OpKey(name, Coordinates(rank=rank)), "output", 0)
    return TensorRef(key, TensorSpec(), TensorSource(Path("run"), mark), "npy-folder")


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_layers_of_stages_and_experts_of_ranks_get_their_numbers(data, tp, pp, chunks, ep):
    """The oracle deals layers to stages in turn, and experts to ranks, as Megatron-LM does."""
    each = data.draw(st.lists(st.integers(1, 3), min_size=pp * chunks, max_size=pp * chunks))
    experts = data.draw(st.integers(1, 3))
    layers = iter(range(sum(each)))
    refs, wanted = [], {}
    for turn, count in enumerate(each):
        for local, layer in enumerate([next(layers) for _ in range(count)]):
            for t, e, n in itertools.product(range(tp), range(ep), range(experts)):
                rank = t + tp * e + tp * ep * (turn % pp)
                mark = f"{layer}-{e * experts + n}-{t}"
                refs.append(ref_of(f"chunks.{turn // pp}.layers.{local}.experts.{n}.w1", rank, mark))
                wanted.setdefault(f"layers.{layer}.experts.{e * experts + n}.w1", []).append((t, mark))
    rules = (
        Renumbering("pp", "chunks.{chunk}.layers.{n} -> layers.{n}", tuple(each)),
        Renumbering("ep", "experts.{n}", (experts,)),
    )
    mesh = Mesh((("tp", tp), ("ep", ep), ("pp", pp)), renumber=rules)
    entry = DimsEntry("*", parse_dims("h[tp]", where="here"))
    found = put_together(Dump(Path("run"), "npy-folder", tuple(refs)), "left", Sharding({"left": mesh}, dims=(entry,)))
    made = {ref.key.op.name: ref.parts["shards"] for ref in found.refs}
    assert {name: one.problem for name, one in made.items()} == dict.fromkeys(wanted)
    assert {name: [ref.source.name for ref in one.copies[0]] for name, one in made.items()} == {
        name: [mark for _, mark in sorted(marks)] for name, marks in wanted.items()
    }


@pytest.mark.parametrize(
    ("names", "each", "said"),
    [
        ("layers.x", (2,), "must have one {n}"),
        ("a.{chunk}.layers.{n}", (2,), "need '-> NAMES'"),
        ("layers.{n}", (), "each must be 1 or more"),
        ("layers.{n}", (0,), "each must be 1 or more"),
    ],
)
def test_rules_that_mean_nothing_are_refused(names, each, said):
    with pytest.raises(ConfigError, match=said):
        Renumbering("pp", names, each, "here")


def test_a_number_beyond_what_a_rank_has_is_refused_and_not_guessed():
    rule = Renumbering("pp", "layers.{n}", (2, 1), "here")
    assert [rule.renamed(f"m.layers.{n}.w", at, 2) for n, at in ((0, 0), (1, 0), (0, 1))] == [
        "m.layers.0.w",
        "m.layers.1.w",
        "m.layers.2.w",
    ]
    assert rule.renamed("players.1", 0, 2) is None
    for at in (1, 2):
        with pytest.raises(ConfigError, match="correct each"):
            rule.renamed("layers.1", at, 2)


# -- placements of manifests -----------------------------------------------------------------------------------------

X = np.arange(24, dtype="f4").reshape(4, 6)


def record(folder, *, placement="a[tp] b # dp:replicated", change=None, leave_out=None, groups=None):
    """Record four ranks, dp 2 x tp 2, whose numbers are not in Megatron-LM's order."""
    for rank in range(4):
        tp, dp = divmod(rank, 2)
        said = {"tp": [dp, 2 + dp], "dp": [2 * tp, 2 * tp + 1]} if groups is None else groups(rank)
        with DumpWriter(folder, distributed=DistributedRank(rank, 4, said)) as writer:
            shard = X[2 * tp : 2 * tp + 2].copy()
            if rank == change:
                shard[1, 2] += 1
            if rank != leave_out:
                writer.write("x", shard, placement=placement if isinstance(placement, str) else placement[rank])
            writer.write("own", X, placement="")


def outcome(folder, text="", name="x"):
    (folder / "m.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{text}', "utf-8")
    with DumpWriter(folder / "right") as writer:
        writer.write("x", X)
        writer.write("own", X)
    planned = plan(load_suite(file=Path("m.toml"), options={}, directory=folder))
    records = build_report(planned, compare_plan(planned)).records
    found = [one for one in records if one.left.address.startswith(name)]
    first = found[0].verdict
    code = first.findings[0].message if first.findings else None
    return first.outcome, code and code.code, len(found), code


def test_a_differing_copy_is_found_by_its_rank(tmp_path):
    record(tmp_path / "left", change=3)
    told = outcome(tmp_path)
    assert told[:3] == ("fail", "replica", 1)
    assert (told[3].parameters["rank"], told[3].parameters["first"]) == ("rank 3", "rank 2")


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ({"leave_out": 3}, "incomplete", None),
        ({"placement": "a[tp] b"}, "ambiguous", "ambiguous_axis"),
        ({"placement": "a[tp] b["}, "ambiguous", "ambiguous_placements"),
        (
            {"placement": ["a[tp] b # dp:replicated"] * 3 + ["a b[tp] # dp:replicated"]},
            "ambiguous",
            "ambiguous_placements",
        ),
        (
            {
                "groups": lambda rank: (
                    {"tp": [rank], "dp": [0, 1, 2, 3]} if rank == 3 else {"tp": [0, 1, 2], "dp": [rank]}
                )
            },
            "ambiguous",
            "ambiguous_placements",
        ),
    ],
)
def test_what_manifests_leave_open_is_never_guessed(tmp_path, options, code, why):
    record(tmp_path / "left", **options)
    told = outcome(tmp_path)
    assert told[:3] == ("error", code, 1)
    assert why is None or told[3].parameters["why"].code == why


def test_the_suite_wins_over_manifests(tmp_path):
    record(tmp_path / "left", placement="a b[tp] # dp:replicated")
    text = '[msdump.shards]\nleft = { from = "meta" }\n[[msdump.dims]]\nmatch = "x"\ndims = "a[tp] b # dp:replicated"\n'
    assert outcome(tmp_path, text)[:3] == ("pass", None, 1)


# -- tokens ----------------------------------------------------------------------------------------------------------

TOKENS = '[msdump.shards]\ntokens = { ids = "ids", pad = 0 }\n'
ROWS = [[5, 6, 7], [8, 9], [5, 0, 4, 3, 2]]


def batch(rows, width=None, *, side="right", pad=0, seed=0):
    """A batch of ids and what a model makes of each token: padding gets noise of its own."""
    width = width or max(map(len, rows))
    ids = np.full((len(rows), width), pad, np.int64)
    hidden = np.random.default_rng(seed).random((len(rows), width, 3), np.float32)
    for row, tokens in enumerate(rows):
        at = slice(0, len(tokens)) if side == "right" else slice(width - len(tokens), width)
        ids[row, at] = tokens
        hidden[row, at] = [np.random.default_rng([*tokens[: n + 1]]).random(3) for n in range(len(tokens))]
    return ids, hidden


def packed(rows):
    _, hidden = batch(rows)
    return np.concatenate([np.array(row) for row in rows]), np.concatenate(
        [hidden[n, : len(row)] for n, row in enumerate(rows)]
    )


def compare_tokens(folder, left, right, text=TOKENS):
    for side, arrays in (("left", left), ("right", right)):
        (folder / side).mkdir()
        for name, values in zip(("ids", "hidden", "mask"), arrays, strict=False):
            np.save(folder / side / f"{name}.npy", values)
    (folder / "m.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{text}', "utf-8")
    planned = plan(load_suite(file=Path("m.toml"), options={}, directory=folder))
    return {one.left.address: one for one in build_report(planned, compare_plan(planned)).records}


@pytest.mark.parametrize(
    "right",
    [
        batch(ROWS, side="left", seed=1),
        batch(ROWS, 9, side="left", seed=1),
        batch(ROWS[::-1], side="left", seed=1),
    ],
    ids=["left", "wider", "another order"],
)
def test_batches_of_other_padding_are_compared_token_by_token(tmp_path, right):
    left = batch(ROWS)
    found = compare_tokens(tmp_path, left, right)
    assert {name: (one.equal, one.left.shape, one.right.shape) for name, one in found.items()} == {
        "ids:output:0": (True, (10,), (10,)),
        "hidden:output:0": (True, (10, 3), (10, 3)),
    }


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (batch([[5, 6, 7], [8, 1], [5, 0, 4, 3, 2]]), "differ from token 4 on"),
        (batch(ROWS[:2]), "10 left, 5 right"),
        ((np.zeros((0, 4), np.int64),), "10 left, 0 right"),
        ((np.zeros((2, 2, 2), np.int64),), "ids have one or two dimensions"),
    ],
)
def test_other_tokens_are_refused(tmp_path, right, said):
    with pytest.raises(ConfigError, match=said):
        compare_tokens(tmp_path, batch(ROWS), right)


def test_sequences_that_cannot_be_told_apart_are_not_guessed(tmp_path):
    rows = [[5, 6], [5, 6], [7, 8]]
    with pytest.raises(ConfigError, match="their order is ambiguous"):
        compare_tokens(tmp_path, batch(rows), batch(rows[::-1]))


# -- SGLang's own comparator as a second oracle ------------------------------------------------------------------------

COMPARATOR = "sglang.srt.debug_utils.comparator"
# What the server side of its dumper asks for; comparing needs none of it.
SERVER = (
    "zmq",
    "sglang.srt.managers",
    "sglang.srt.managers.io_struct",
    "sglang.srt.runtime_context",
    "sglang.srt.utils",
)


@pytest.fixture(scope="module")
def sglang():
    """The modules of its unpacked wheel, which MSDUMP_SGLANG names; beside PyTorch and einops, or it is an error."""
    folder = os.environ.get("MSDUMP_SGLANG")
    if not folder:
        pytest.skip("MSDUMP_SGLANG names no unpacked wheel")
    names = {
        "parallel_info": "aligner.unsharder.parallel_info",
        "unsharder": "aligner.unsharder.planner",
        "unshard": "aligner.unsharder.executor",
        "reorderer": "aligner.reorderer.planner",
        "reorder": "aligner.reorderer.executor",
        "types": "aligner.unsharder.types",
        "dims_spec": "dims_spec",
    }
    torch, stubs = import_module("torch"), {name: MagicMock() for name in SERVER}
    # What these packages do when they are imported needs the server.
    packages = {name: ModuleType(name) for name in ("sglang", "sglang.srt")}
    for name, package in packages.items():
        package.__path__ = [str(Path(folder, *name.split(".")))]
    with patch.dict(sys.modules, stubs | packages):
        modules = {name: import_module(f"{COMPARATOR}.{path}") for name, path in names.items()}
        return SimpleNamespace(torch=torch, **modules)


def theirs(sglang, text, sizes, shards, lengths):
    """Merge the shards, by place on the mesh, as SGLang does."""
    infos = [
        {
            sglang.dims_spec.ParallelAxis(axis): sglang.types.AxisInfo(axis_rank=number, axis_size=size)
            for (axis, size), number in zip(sizes.items(), at, strict=True)
            if size > 1
        }
        for at in shards
    ]
    return theirs_of(sglang, text, infos, [sglang.torch.from_numpy(shard) for shard in shards.values()], lengths)


def theirs_of(sglang, text, infos, shards, lengths=()):
    """Merge the shards, by what each rank says of itself."""
    spec, options = sglang.dims_spec.parse_dims(text), {"thd_global_seq_lens": list(lengths) or None}
    names = [dim.sanitized_name for dim in spec.dims]
    tensors = [sglang.dims_spec.apply_dim_names(shard, names) for shard in shards]
    replicated = frozenset(axis for axis in spec.replicated_axes if any(axis in info for info in infos))
    for step in sglang.unsharder.compute_unsharder_plan(
        spec.dims, infos, explicit_replicated_axes=replicated, **options
    ):
        tensors = sglang.unshard.execute_unsharder_plan(step, tensors).tensors
    for step in sglang.reorderer.compute_reorderer_plans(spec.dims, infos, **options) if any(infos) else ():
        tensors = sglang.reorder.execute_reorderer_plan(step, tensors)
    (found,) = tensors
    return sglang.dims_spec.without_dim_names(found).numpy()


def ours(text, sizes, shards, lengths):
    layout = parse_dims(text, where="here", lengths=lengths).layout(Mesh(tuple(sizes.items())))
    places = {layout.place(dict(zip(sizes, at, strict=True))): shard for at, shard in shards.items()}
    view = ShardedView([ArrayView(places[0, n]) for n in range(math.prod(layout.grid))], layout)
    return view.read(0, view.size).reshape(view.shape)


@pytest.mark.e2e
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_sglangs_comparator_and_ours_make_one_tensor(sglang, data):
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
    np.testing.assert_array_equal(ours(merged, sizes, shards, lengths), theirs(sglang, text, sizes, shards, lengths))
