"""Strategy files of MindSpore: parameters are put together by them, and what they leave open is never guessed."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.shards.model import Mesh, parse_dims
from pytest_msdump.capabilities.shards.strategy import read_strategy
from pytest_msdump.capabilities.shards.views import ShardedView
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

# Two stages of four ranks, as MindSpore 2.10's `merge_pipeline_strategys` has written it; see live/mindspore_shards.py.
MERGED = base64.b64decode(
    "CAESFgoKTWF0TXVsLW9wMBIICAESBAgCCAESFgoKTWF0TXVsLW9wMBIICAASBAgCCAEaLAoLMS1oZWFkLmxhc3QSHQoCCAQSDQj/"
    "//////////8BCAAaACIAKAAwADgAGikKBjEtdGllZBIfCgQIAggCEg0IAAj///////////8BGgAiACgAMAA4ABomCgwwLWhlYWQu"
    "Zmlyc3QSFgoECAIIAhIECAEIABoAIgAoADAAOAAaKQoGMC10aWVkEh8KBAgCCAISDQgACP///////////wEaACIAKAAwADgA"
)
LAYOUTS = {
    "0-head.first": ([2, 2], [1, 0]),
    "0-tied": ([2, 2], [0, -1]),
    "1-head.last": ([4], [-1, 0]),
    "1-tied": ([2, 2], [0, -1]),
}


def item(matrix, maps, step=0, size=0, field=0):
    return {
        "dev_matrix": matrix,
        "tensor_map": maps,
        "opt_weight_shard_step": step,
        "opt_weight_shard_size": size,
        "field": field,
    }


def document(layouts, stage=0):
    """As MindSpore writes it."""
    node = {"MatMul-op0": {"stage": stage, "parallel_strategy": [[2, 1]]}}
    return {
        "current_stage": 1,
        "parallel_strategy_item": node,
        "parallel_layout_item": {name: item(*layout) for name, layout in layouts.items()},
    }


def write(path, layouts, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(layouts, **options)), "utf-8")
    return path


def test_a_file_of_mindspore_means_what_its_json_says(tmp_path):
    (tmp_path / "s.ckpt").write_bytes(MERGED)
    found = [
        read_strategy(path, name="s").parameters for path in (tmp_path / "s.ckpt", write(tmp_path / "s.json", LAYOUTS))
    ]
    assert found[0] == found[1]
    assert {name: {stage: one.dims for stage, one in stages.items()} for name, stages in found[0].items()} == {
        "head.first": {0: "d0[a1] d1[a0] # "},
        "head.last": {1: "d0 d1[a0] # "},
        "tied": dict.fromkeys((0, 1), "d0[a0] d1 # a1:replicated pp:replicated"),
    } | {"head_first": {0: "d0[a1] d1[a0] # "}, "head_last": {1: "d0 d1[a0] # "}}


# -- the oracle: numpy numbers ranks along a device matrix row by row, and cuts along one axis after the other --------


@st.composite
def layouts(draw):
    matrix = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    axes = draw(st.permutations(range(len(matrix))))
    nested = draw(st.booleans())
    maps, shape = [], []
    for _ in range(draw(st.integers(1, 3))):
        taken = [axes.pop() for _ in range(draw(st.integers(0, 2 if nested else 1))) if axes]
        maps.append((taken or [-1]) if nested else (taken or [-1])[0])
        shape.append(math.prod(matrix[-1 - axis] for axis in taken) * draw(st.integers(1, 2)))
    by_optimizer = draw(st.booleans()) and any(matrix[-1 - axis] > 1 for axis in axes)
    step = 0
    if by_optimizer:
        first = min(axis for axis in axes if matrix[-1 - axis] > 1)
        step = math.prod(matrix[len(matrix) - first :])
        shape[0] *= math.prod(matrix[-1 - axis] for axis in axes)
    return matrix, maps, shape, step


def shard_of(tensor, matrix, maps, rank, *, by_optimizer):
    at = np.unravel_index(rank, matrix)
    held = tensor
    used = []
    for dim, numbers in enumerate(maps):
        for axis in numbers if isinstance(numbers, list) else [numbers]:
            if axis != -1:
                used.append(len(matrix) - 1 - axis)
                held = np.split(held, matrix[-1 - axis], dim)[at[-1 - axis]]
    if by_optimizer:
        # The ranks that hold the same share it.
        same = [
            other
            for other in range(math.prod(matrix))
            if all(np.unravel_index(other, matrix)[axis] == at[axis] for axis in used)
        ]
        held = np.split(held, len(same))[same.index(rank)]
    return held


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts())
def test_any_layout_is_merged_bit_for_bit(tmp_path, drawn):
    matrix, maps, shape, step = drawn
    tensor = np.arange(math.prod(shape)).reshape(shape)
    strategy = read_strategy(write(tmp_path / "s.json", {"w": (matrix, maps, step, -1)}), name="s")
    places = {}
    for rank in range(math.prod(matrix)):
        placement = strategy.at("w", rank)
        mesh = Mesh(placement.axes)
        layout = parse_dims(placement.dims, where="here").layout(mesh)
        places[layout.place(mesh.coordinates(rank))] = shard_of(tensor, matrix, maps, rank, by_optimizer=step > 0)
    for copy in range(layout.copy_count):
        view = ShardedView([ArrayView(places[copy, n]) for n in range(math.prod(layout.grid))], layout)
        assert np.array_equal(view.read(0, view.size).reshape(view.shape), tensor)
    assert len(places) == math.prod(matrix)


# -- whole comparisons -------------------------------------------------------------------------------------------------

TIED, FIRST, LAST, HIDDEN = (np.random.default_rng(n).random((4, 8), "f4") for n in range(4))


def run(folder, *, change=lambda _rank, _name, values: values, leave_out=(), layouts=LAYOUTS):
    """Eight ranks, in two stages: the ends of a model, and what is handed from one to the other."""
    for rank in range(8):
        number = rank % 4
        own = {
            "tied": np.split(TIED, 2)[number % 2],
            "hidden": np.split(HIDDEN, 2)[number // 2],
            **(
                {"head.first": np.split(np.split(FIRST, 2)[number // 2], 2, 1)[number % 2]}
                if rank < 4
                else {"head.last": np.split(LAST, 4, 1)[number]}
            ),
        }
        for name, values in own.items():
            if (rank, name) not in leave_out:
                path = folder / f"left/rank_{rank}/{name}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, change(rank, name, values))
    (folder / "right").mkdir()
    for name, values in {"tied": TIED, "hidden": HIDDEN, "head.first": FIRST, "head.last": LAST}.items():
        np.save(folder / f"right/{name}.npy", values)
    if layouts is LAYOUTS:
        (folder / "strategy.ckpt").write_bytes(MERGED)
        return "strategy.ckpt"
    return write(folder / "strategy.json", layouts).name


AXES = "axes = { tp = 2, dp = 2, pp = 2 }, "
HIDDEN_DIMS = '[[msdump.dims]]\nmatch = "hidden"\ndims = "b[dp] h # tp:replicated pp:replicated"\n'


def found_in(folder, file, *, axes=AXES, dims=HIDDEN_DIMS):
    (folder / "m.toml").write_text(
        f'[msdump]\nleft = "left"\nright = "right"\n[msdump.shards]\nleft = {{ {axes}strategy = "{file}" }}\n{dims}',
        "utf-8",
    )
    planned = plan(load_suite(file=Path("m.toml"), options={}, directory=folder))
    records = build_report(planned, compare_plan(planned)).records
    return {one.left.address.rpartition(":output")[0]: one for one in records}


def test_without_axes_what_the_file_does_not_have_stays_each_ranks_own(tmp_path):
    file = run(tmp_path)
    (tmp_path / "m.toml").write_text(
        f'[msdump]\nleft = "left"\nright = "right"\n[msdump.shards]\nleft = {{ strategy = "{file}" }}\n', "utf-8"
    )
    planned = plan(load_suite(file=Path("m.toml"), options={}, directory=tmp_path))
    joined = {ref.key.op.name for ref in planned.left.refs if "shards" in ref.parts}
    assert joined == {"tied", "head.first", "head.last"}
    assert sum("hidden" in ref.key.op.name for ref in planned.left.refs) == 8


def test_a_copy_that_differs_on_another_stage_is_named(tmp_path):
    file = run(tmp_path, change=lambda rank, name, values: values + (rank == 7 and name == "tied"))
    told = found_in(tmp_path, file)["tied"].verdict.findings[0].message
    assert (told.code, told.parameters["rank"], told.parameters["first"]) == ("replica", "rank 7", "rank 1")


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (([2, 2], [1, 0], 0, 0, 3), "field=3"),
        (([2, 2], [0, -1], 1, 2), "opt_weight_shard_step=1"),
        (([2, 2], [0, -1], 2, 3), "size=3"),
    ],
)
def test_what_cannot_be_said_in_dims_is_an_error_of_its_tensor(tmp_path, layout, said):
    found = found_in(tmp_path, run(tmp_path, layouts={**LAYOUTS, "0-head.first": layout}))
    told = found["head.first"].verdict
    assert (told.outcome, told.findings[0].message.code) == ("error", "ambiguous")
    assert said in told.findings[0].sentence
    assert found["head.last"].equal


# -- what is no strategy file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"parallel_layout_item": {}}',
        '{"parallel_layout_item": 3}',
        '{"parallel_layout_item": {"w": 3}}',
        json.dumps({"parallel_layout_item": {"w": item([0], [0])}}),
        json.dumps({"parallel_layout_item": {"w": item([2**17], [0])}}),
        json.dumps({"parallel_layout_item": {"w": item([2] * 64, [0])}}),
        json.dumps({"parallel_layout_item": {"w": item([2], [1])}}),
        json.dumps({"parallel_layout_item": {"w": item([2], [-2])}}),
        json.dumps({"parallel_layout_item": {"w": item([2], [[[0]]])}}),
        json.dumps({"parallel_layout_item": {"w": item([2], [True])}}),
        json.dumps({"parallel_layout_item": {"w": item([2], [0], "x")}}),
        json.dumps({"parallel_layout_item": {"70000-w": item([2], [0])}}),
        "[" * 100_000,
    ],
)
def test_json_that_is_none_is_refused_in_a_line(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ConfigError, match=r"^here: ") as refused:
        read_strategy(tmp_path / "s.json", name="here")
    assert "\n" not in str(refused.value)


def _reads_or_refuses(path, raw):
    path.write_bytes(raw)
    try:
        read_strategy(path, name="here")
    except ConfigError as error:
        return str(error)
    return "here"


def test_a_file_cut_anywhere_is_read_or_refused_in_a_line(tmp_path):
    for end in range(len(MERGED)):
        said = _reads_or_refuses(tmp_path / "s.ckpt", MERGED[:end])
        assert said.startswith("here")
        assert "\n" not in said


@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, len(MERGED) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@pytest.mark.full
def test_a_damaged_file_is_read_or_refused_in_a_line(tmp_path, changes):
    raw = bytearray(MERGED)
    for place, byte in changes:
        raw[place] = byte
    said = _reads_or_refuses(tmp_path / "s.ckpt", bytes(raw))
    assert said.startswith("here")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('left = { strategy = "none.ckpt" }', "left.strategy: .*none.ckpt: there is no such file"),
        ('left = { axes = { tp = 2 }, from = "dir", strategy = "s.json" }', "left.strategy: is about ranks"),
        ('left = { strategy = "s3://bucket/s.json" }', "left.strategy must be a path of this machine"),
        ("left = { strategy = 3 }", "left.strategy must be a text"),
    ],
)
def test_the_suite_file_refuses_in_a_line(tmp_path, text, said):
    write(tmp_path / "s.json", LAYOUTS)
    (tmp_path / "m.toml").write_text(f'[msdump]\nleft = "a"\nright = "b"\n[msdump.shards]\n{text}\n', "utf-8")
    with pytest.raises(ConfigError, match=said) as refused:
        load_suite(file=Path("m.toml"), options={}, directory=tmp_path)
    assert "\n" not in str(refused.value)
