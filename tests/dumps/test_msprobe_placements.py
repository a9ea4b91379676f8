"""What msprobe says of DTensors and of MindSpore's layouts puts the tensors of ranks together, or says why not."""

import json

import numpy as np
import pytest

from pytest_msdump.capabilities.msprobe.placements import placed
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

WHOLE = np.arange(48, dtype="f4").reshape(8, 6)
MESH = [[0, 2], [1, 3]]


def shard(dim):
    return {"Shard": {"dim": dim}}


REPLICATE, PARTIAL = {"Replicate": {}}, {"Partial": {"reduce_op": "sum"}}


def layout(tensor_map, **more):
    return {
        "layout": {"Device Matrix": [2, 2], "Alias Name": ["dp", "tp"], "Interleaved": "No", "Tensor Map": tensor_map,
                   "Rank List": [0, 2, 1, 3], **more}
    }  # fmt: skip


def rows(row, column):  # noqa: ARG001
    return WHOLE[4 * row : 4 * row + 4]


def cells(row, column):
    return WHOLE[4 * row : 4 * row + 4, 3 * column : 3 * column + 3]


def terms(row, column):  # noqa: ARG001
    return WHOLE if column else 0 * WHOLE


def copies(row, column):  # noqa: ARG001
    return WHOLE


def blocks(row, column):
    return WHOLE[4 * row + 2 * column :][:2]


def of_torch(*placements, mesh=MESH):
    return {"device_mesh": mesh, "placements": list(placements)}


SAID = {
    "rows": (rows, of_torch(shard(0), REPLICATE), layout([1, -1])),
    "rows and columns": (cells, of_torch(shard(0), shard(1)), layout([1, 0])),
    "terms of a sum": (terms, of_torch(REPLICATE, PARTIAL), layout([-1, -1], Partial=[None, "sum"])),
    "copies": (copies, of_torch(REPLICATE, REPLICATE), layout([-1, -1])),
    "rows by both axes": (blocks, None, layout([[1, 0], -1])),
}


def written(root, part_of, said):
    """Write a tree of four ranks, each with what `part_of` gives for its place in the mesh."""
    for rank in range(4):
        folder = root / f"step0/rank{rank}"
        (folder / "dump_tensor_data").mkdir(parents=True)
        part = part_of(rank % 2, rank // 2) if said else part_of(0, 0)
        name = "Module.fc.Linear.forward.0.output.0.npy"
        np.save(folder / "dump_tensor_data" / name, part)
        leaf = {"type": "", "dtype": "torch.float32", "shape": [*part.shape], "data_name": name, **said}
        data = {"Module.fc.Linear.forward.0": {"input_args": [], "input_kwargs": {}, "output": [leaf]}}
        (folder / "dump.json").write_text(json.dumps({"task": "tensor", "level": "L0", "data": data}))
    return root


def compared(tmp_path, part_of, said, *more):
    left = written(tmp_path / "left", part_of, said)
    np.save(tmp_path / "fc.npy", WHOLE)
    right = tmp_path / "right/dump_tensor_data"
    right.mkdir(parents=True)
    np.save(right / "Module.fc.Linear.forward.0.output.0.npy", WHOLE)
    code = main(["compare", str(left), str(right.parent), f"--report-dir={tmp_path}/out", "--cache=off", *more])
    return code, read_json(tmp_path / "out/results.json")["tensors"]


CASES = [(name, said) for name, (_, *both) in SAID.items() for said in both if said is not None]


@pytest.mark.parametrize(("name", "said"), CASES, ids=[name for name, _ in CASES])
def test_ranks_are_put_together_as_msprobe_says(name, said, tmp_path):
    code, records = compared(tmp_path, SAID[name][0], said)
    assert code == 0
    # Each rank that has the whole tensor is compared with the reference.
    assert len(records) == (4 if name == "copies" else 1)
    assert all(one["verdict"] == "pass" and one["equal"] for one in records)


@pytest.mark.parametrize("said", [of_torch(shard(0), shard(1)), layout([1, 0])], ids=["torch", "mindspore"])
def test_a_rank_that_is_wrong_fails(said, tmp_path):
    code, [record] = compared(tmp_path, lambda row, column: cells(row, column) + (row > column), said)
    assert (code, record["verdict"]) == (1, "fail")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        # A strided cut of FSDP and tensor parallelism: two cuts of one dimension, or one cut too few.
        (of_torch(shard(0), shard(0)), "Shard(0) Shard(0)"),
        (of_torch(shard(0)), "Shard(0)"),
        (of_torch(shard(0), {"Partial": {"reduce_op": "avg"}}), "Shard(0) Partial(avg)"),
        (of_torch(shard(0), {"Other": {}}), "Shard(0) ?"),
        (layout([1, -1]) | {"hsdp_shard_size": 2}, "?"),
        ({"hsdp_shard_size": 4}, "?"),
        (layout([1, -1], Interleaved="Yes"), "?"),
        (layout([1, -1], Partial=[None, "max"]), "?"),
    ],
)
def test_what_is_not_enough_is_an_error_that_says_so(said, shown, tmp_path, capsys):
    code, [record] = compared(tmp_path, rows, said)
    assert (code, record["verdict"]) == (1, "error")
    assert f"its ranks say {shown}; add a [[msdump.dims]]" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "said",
    [
        of_torch(shard(2), REPLICATE),
        of_torch(shard(0), REPLICATE, mesh=[[0, 1], [1, 3]]),
        of_torch(shard(0), REPLICATE, mesh=[[0, 1], [3]]),
        of_torch(shard(0), REPLICATE, mesh=[[4, 5], [6, 7]]),
        of_torch(shard(0), REPLICATE, mesh="[[0, 1]]"),
        {"device_mesh": None, "placements": [7]},
        layout([2, -1]),
        layout([1]),
        layout(["1", -1]),
        layout([1, 1]),
        layout([1, -1], **{"Rank List": [0, 1]}),
        layout([1, -1], **{"Device Matrix": [2, -2]}),
        layout([1, -1], **{"Alias Name": ["a b", "]"]}),
        {"layout": "x"},
    ],
)
def test_what_contradicts_itself_is_no_placement(said):
    assert placed({"shape": [4, 6], **said}, 1).dims.split()[0] in ("?", "Shard(0)", "Shard(2)")


def test_without_a_rank_or_a_placement_nothing_is_said():
    assert placed({"shape": [4, 6], **of_torch(shard(0), REPLICATE)}, None) is None
    assert placed({"shape": [4, 6], "dtype": "torch.float32"}, 0) is None
