"""One small run in every layout that MindSpore has had: the same tensors, and the same values, whoever wrote them."""

from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import TIME, put
from dumps.reading import opened as open_ref

from pytest_msdump.assertions import assert_dumps_close
from pytest_msdump.core.compare.opening import index as index_in_order
from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.dumps.dump_tree import mindspore_place
from pytest_msdump.core.errors import UnknownDumpFormatError
from pytest_msdump.core.model.tensor import Coordinates

GENERATIONS = Path(__file__).parents[1] / "data" / "generations"
DATE = "20260131235959"

CONV, BIAS = "Default_conv1-Conv2d_Conv2D-op1", "Default_conv1-Conv2d_BiasAdd-op2"
RELU = "ReLU.relu-op0.0.0.5.output.0.DefaultFormat.Float32.npy"
# Values of one iteration, by hand: (0 … 11 + 100 i) / 8, and that plus one in half precision.
TENSORS = {
    (CONV, "Conv2D", "output", 0): ("float32", 0.0),
    (BIAS, "BiasAdd", "input", 0): ("float32", 0.0),
    (BIAS, "BiasAdd", "output", 0): ("float16", 1.0),
}
# tree, reader, rank, net, graph, iterations
TREES = [
    ("g1", "mindspore", 0, "Net", None, (0, 1)),
    ("g1_bare_device", "mindspore", 0, "Net", None, (0, 1)),
    ("g1b", "mindspore", 0, "Net", None, (0,)),
    ("g2", "ascend", 0, "Net", 0, (0, 1)),
    ("g3", "mindspore", 0, "Net", 0, (0, 1)),
    ("g4", "mindspore", 0, "Net", 0, (0, 1)),
    ("g5", "ascend", 0, "Net", 0, (0, 1)),
    ("g6_npy", "mindspore", 0, "Net", 0, (0, 1)),
    ("g6_bin", "ascend", 0, "Net", 0, (0, 1)),
    ("g7_npy", "mindspore", 0, "Net", 0, (0, 1)),
    ("g7_bin", "ascend", 0, "Net", 0, (0, 1)),
    ("g7b_files", "ascend", 0, None, None, (0,)),
    ("g7b_folders", "ascend", 0, None, None, (0,)),
    ("g7b_npy", "mindspore", 0, None, None, (0,)),
    ("converted_shape", "converted", 0, "Net", 0, (0, 1)),
    ("converted_plain", "converted", 0, "Net", 0, (0, 1)),
    ("converted_msnpy", "mindspore", 0, "Net", 0, (0, 1)),
    ("mixed", "mindspore", 0, "Net", 0, (0, 1)),
]
SAME = [*(tree for tree, *_ in TREES), "g3_unscoped", "g2_not_sunk"]


def values(ref):
    view = open_ref(ref)
    try:
        return view.dtype, view.shape, view.read(0, view.size).copy()
    finally:
        view.close()


def touch(root, *names):
    for name in names:
        put((root / name).parent, (root / name).name, b"")
    return root


def test_every_checked_in_tree_is_tested():
    assert {path.name for path in GENERATIONS.iterdir() if path.is_dir()} == set(SAME)


@pytest.mark.parametrize(("tree", "reader", "rank", "net", "graph", "iterations"), TREES)
def test_a_tree_holds_the_tensors_of_the_run(tree, reader, rank, net, graph, iterations):
    dump = index(GENERATIONS / tree)
    assert dump.reader == reader
    assert dump.unexplained == dump.older == dump.notes == ()
    expected = {
        (op, op_type, io, slot, Coordinates(rank, net, graph, iteration, 0))
        for op, op_type, io, slot in TENSORS
        for iteration in iterations
    }
    assert len(dump.refs) == len(expected)
    found = {(ref.key.op.name, ref.key.op.op_type, ref.key.io, ref.key.slot, ref.key.op.at) for ref in dump.refs}
    assert found == expected


@pytest.mark.parametrize("tree", [tree for tree, *_ in TREES])
def test_a_tree_holds_the_values_of_the_run(tree):
    for ref in index(GENERATIONS / tree).refs:
        dtype, added = TENSORS[ref.key.op.name, ref.key.op.op_type, ref.key.io, ref.key.slot]
        expected = (np.arange(12) + 100 * ref.key.op.at.iteration) / 8 + added
        assert values(ref)[:2] == (dtype, (1, 2, 2, 3))
        assert values(ref)[2].tolist() == expected.tolist()


@pytest.mark.parametrize("tree", SAME)
def test_a_tree_equals_the_same_data_of_todays_release(tree):
    assert_dumps_close(GENERATIONS / tree, GENERATIONS / "g4", io="all", profile="bitwise")


def test_names_without_their_scope_are_told_by_the_execution_order():
    labels = {ref.key.op.label for ref in index_in_order(GENERATIONS / "g3_unscoped").refs}
    assert labels == {"Default/conv1-Conv2d/Conv2D-op1", "Default/conv1-Conv2d/BiasAdd-op2"}


@pytest.mark.parametrize(
    ("path", "below", "expected"),
    [
        ("iteration_3", "", (None, None, None, 3)),
        ("device_7/iteration_3", "", (7, None, None, 3)),
        # A bare number or a name above the root would be anybody's.
        ("5/iteration_3", "", (None, None, None, 3)),
        ("5/iteration_3", "iteration_3", (None, None, None, 3)),
        ("Net/5/iteration_3", "5/iteration_3", (5, None, None, 3)),
        ("Net/5/iteration_3", "Net/5/iteration_3", (5, "Net", None, 3)),
        ("rank_2/Net/1/9", "", (2, "Net", 1, 9)),
        ("rank_2/Net/1/constants", "1/constants", (2, "Net", 1, None)),
        (f"4/{DATE}/3/Model/8/1", f"4/{DATE}/3/Model/8/1", (3, "Model", 8, 4)),
        (f"4/{DATE}/3/Model/8/1", f"{DATE}/3/Model/8/1", (3, "Model", 8, 1)),
        (f"{DATE}/3/Model/8/1", "", (3, "Model", 8, 1)),
        (f"{DATE}/3", f"{DATE}/3", (3, None, None, 0)),
        (f"{DATE}/3/Add_op", f"{DATE}/3/Add_op", (3, None, None, 0)),
        (f"copied/{DATE}", DATE, (None, None, None, 0)),
        ("3/Net_graph_2/2/6", "3/Net_graph_2/2/6", (3, "Net", 2, 6)),
        ("3/Net_graph_2/2/6", "Net_graph_2/2/6", (3, "Net", 2, 6)),
        ("3/Model/8/1", "3/Model/8/1", (3, "Model", 8, 1)),
        ("3/Add_op", "3/Add_op", (3, None, None, 0)),
    ],
)
def test_a_path_tells_the_coordinates(tmp_path, path, below, expected):
    root = tmp_path / path
    for _ in Path(below).parts:
        root = root.parent
    place = mindspore_place(root, Path(below).parts)
    assert (place.at.rank, place.at.net, place.at.graph, place.at.iteration) == expected


@pytest.mark.parametrize(
    "path",
    [
        "a/b/device_0/iteration_0",
        "Net/card0/iteration_0",
        "Net/iteration_0",
        "Net/device_0/iteration_x",
        "Net/device_0/iteration_00",
        "Net/device_01/iteration_0",
        "run/rank_0/Net/0/0",
        "rank_00/Net/0/0",
        "rank_0/Net/00/0",
        f"{DATE}/x/Model/8/1",
    ],
)
def test_other_paths_hold_no_tensors(tmp_path, path):
    assert mindspore_place(tmp_path, Path(path).parts) is None


def test_side_files_of_every_generation_are_known(tmp_path):
    side_files = [
        *(f"rank_0/.dump_metadata/{name}.json" for name in ("data_dump", "hccl")),
        "rank_0/graphs/ms_output_trace_code_graph_0.ir",
        "rank_0/execution_order/ms_execution_order_graph_0.csv",
        "rank_0/hccl.json",
        *(f"rank_0/Net/0/0/{name}" for name in ("statistic.csv", "mapping.csv", "ReLU.Default_ReLU-op0.json")),
        ".metadata/data_dump.json",
        "Net/device_0/graphs/ms_output_trace_code_graph_0.pb",
        "Net/device_0/execution_order/ms_execution_order_graph_0.csv",
        "0/graphs/ms_output_trace_code_graph_0.ir",
        "acl_dump_0.json",
        "ge_proto_00000001_graph_1_Build.txt",
        "ge_onnx_00000001_graph_1_Build.pbtxt",
        f"0/{DATE}/0/Net/1/0/statistic.csv",
        f"0/{DATE}/0/Net/1/0/mapping.csv",
        f"0/{DATE}/0/Net/1/0/Add.Default_Add-op0.1.2.{TIME}.csv",
        f"0/{DATE}/0/Net/1/0/Opdebug.Node_OpDebug.1.2.{TIME}.output.0.json",
        f"0/{DATE}/0/Net/1/0/Opdebug.Node_OpDebug.1.2.{TIME}",
    ]
    strangers = ["graph.txt", "Net/device_0/other/file", f"0/{DATE}/0/Net/1/0/results.csv"]
    touch(tmp_path, *side_files, *strangers, f"0/{DATE}/0/Net/1/0/{RELU}")
    dump = index(tmp_path)
    assert len(dump.refs) == 1
    assert {path.as_posix() for path in dump.unexplained} == set(strangers)
    assert dump.notes == (
        (
            "2 files of the overflow check (Opdebug), which are not tensors, e.g. "
            f"0/{DATE}/0/Net/1/0/Opdebug.Node_OpDebug.1.2.{TIME}"
        ),
    )


@pytest.mark.parametrize(
    ("tree", "labels"),
    [
        ("g6_npy", {"time": DATE, "device": "0", "model": "Net", "model id": "0", "net": "Net"}),
        ("g7b_npy", {"time": DATE, "device": "0"}),
        ("g1", {"net": "Net"}),
    ],
)
def test_what_else_a_path_tells_is_a_label(tree, labels):
    assert dict(index(GENERATIONS / tree).labels) == labels


@pytest.mark.parametrize("path", ["other/statistic.csv", "Add.Default_Add-op0.csv", f"a/b/c/Add.x.1.2.{TIME}.csv"])
def test_tables_at_other_places_are_no_dump(tmp_path, path):
    touch(tmp_path, path)
    with pytest.raises(UnknownDumpFormatError):
        index(tmp_path)


def test_padding_of_an_array_is_not_compared(tmp_path):
    logical = np.arange(2 * 19 * 3 * 4, dtype="<f4").reshape(2, 19, 3, 4)
    stored = np.full((2, 32, 3, 4), 7e7, "<f4")
    stored[:, :19] = logical
    left, right = (tmp_path / side / "rank_0" / "Net" / "0" / "0" for side in ("left", "right"))
    for folder in (left, right):
        folder.mkdir(parents=True)
    blocks = np.ascontiguousarray(stored.reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2))
    np.save(left / "Conv2D.conv-op1.1.1.5.output.0.NC1HWC0.npy", blocks)
    np.save(right / "Conv2D.conv-op1.1.1.5.output.0.DefaultFormat.npy", logical)
    assert_dumps_close(tmp_path / "left", tmp_path / "right", profile="bitwise")
    name = "Default--conv-op1_output_0_shape_2_2_3_4_16_Float32_NC1HWC0.bin"
    put(tmp_path / "bins" / "Net" / "device_0" / "iteration_0", name, blocks.tobytes())
    (right / "Conv2D.conv-op1.1.1.5.output.0.DefaultFormat.npy").rename(
        right / "Conv2D.Default_conv-op1.1.1.5.output.0.DefaultFormat.npy"
    )
    assert_dumps_close(tmp_path / "bins", tmp_path / "right", profile="bitwise")
