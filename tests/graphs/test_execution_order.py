from __future__ import annotations

from pathlib import Path

import pytest
from dump_builder import START, write_mindspore
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.graphs.execution_order import find_orders, read_order, read_orders, with_order
from pytest_msdump.core.dumps.mindspore import MindSporeReader
from pytest_msdump.core.dumps.npy_folder import NpyFolderReader
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.dump import Dump, in_order
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, mangle

DATA = Path(__file__).parents[1] / "data"
LENET = DATA / "lenet" / "target"
HEADER = "NodeExecutionOrder-FullNameWithScope\n"


def at(rank: int | None, graph: int, net: str | None = None) -> Coordinates:
    return Coordinates(rank=rank, net=net, graph=graph)


def dump_of(*refs, older=(), notes=()):
    return Dump(Path("dump"), "mindspore", in_order(refs), older=older, notes=notes)


def tensor(name, *, op_type="Op", place=None, rank=0, graph=0, iteration=0, occurrence=0, time=0):
    at = Coordinates(rank, "Net", graph, iteration, occurrence)
    source = TensorSource.of(Path(f"{op_type}.{name}.{time}.npy"), time)
    return TensorRef(TensorKey(OpKey(name, at, op_type), "output", 0), TensorSpec(), source, "mindspore", place)


def names(dump):
    return [ref.key.op.label for ref in dump.refs]


def ordered(root):
    dump = MindSporeReader().index(root)
    orders, notes = read_orders(find_orders(root))
    return with_order(dump, orders, notes=notes)


def test_a_real_order_gives_true_names_and_places():
    dump = ordered(LENET)
    true_names = (LENET / "rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().splitlines()[1:]
    placed = {ref.key.op.true_name: ref.place for ref in dump.refs if ref.key.op.op_type != "Parameter"}
    assert placed == {name: place for place, name in enumerate(true_names)}
    assert {ref.place for ref in dump.refs if ref.key.op.op_type == "Parameter"} == {None}
    assert dump.notes == ()


@pytest.mark.parametrize("below", ["", "rank_0", "rank_0/Lenet", "rank_0/Lenet/0", "rank_0/Lenet/0/0"])
def test_the_order_is_found_from_any_directory_of_the_tree(below):
    assert set(find_orders(LENET / below)) == {at(0, 0)}
    assert "Default/conv1-Conv2d/Conv2D-op0" in names(ordered(LENET / below))


def test_an_order_without_operators_leaves_places_by_time(tmp_path):
    write_mindspore(tmp_path, [("B", "B-op0", "output", 0, [1.0]), ("A", "A-op0", "output", 0, [1.0])])
    (tmp_path / "rank_0/execution_order/ms_execution_order_graph_0.csv").write_text(HEADER)
    assert [(ref.key.op.label, ref.place) for ref in ordered(tmp_path).refs] == [("B-op0", 0), ("A-op0", 1)]


def test_two_names_written_as_one_leave_the_true_name_unknown_and_say_so():
    dump = dump_of(tensor("a_b_c"), tensor("d_e"))
    result = with_order(dump, {at(0, 0): ["a/b_c", "d/e", "a_b/c", "x/y_z", "x_y/z"]})
    assert [(ref.key.op.true_name, ref.place) for ref in result.refs] == [(None, 0), ("d/e", 1)]
    assert result.notes == ("a/b_c and a_b/c are both written as a_b_c: its true name is unknown",)


def test_names_without_scope_are_found_when_only_one_operator_has_them():
    dump = dump_of(tensor("Conv2D-op12"), tensor("ReLU-op0"))
    result = with_order(dump, {at(0, 0): ["Default/a/ReLU-op0", "Default/b/ReLU-op0", "Default/b/Conv2D-op12"]})
    assert [(ref.key.op.label, ref.place) for ref in result.refs] == [("Default/b/Conv2D-op12", 2), ("ReLU-op0", None)]


def test_a_parameter_takes_no_operators_name():
    result = with_order(dump_of(tensor("a_b", op_type="Parameter"), tensor("c")), {at(0, 0): ["a/b", "c"]})
    assert [(ref.key.op.op_type, ref.key.op.true_name, ref.place) for ref in result.refs] == [
        ("Op", "c", 1),
        ("Parameter", None, None),
    ]


def test_older_runs_get_true_names_too():
    result = with_order(dump_of(tensor("a_b"), older=(tensor("a_b"),)), {at(0, 0): ["a/b"]})
    assert [ref.key.op.true_name for ref in result.older] == ["a/b"]


def test_reference_folders_are_left_as_they_are():
    dump = NpyFolderReader().index(DATA / "lenet/reference")
    assert with_order(dump, {at(None, 0): ["conv1"], at(0, 0): ["conv1"]}) == dump


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "first line"),
        (b"Default/A-op0\n", "first line"),
        (b"\x89PNG\xff", "not text"),
        (HEADER.encode() + b"a\xff", "not text"),
    ],
)
def test_a_file_that_is_no_order_is_an_error_for_one_and_a_note_for_many(tmp_path, content, reason):
    path = tmp_path / "ms_execution_order_graph_4.csv"
    path.write_bytes(content)
    with pytest.raises(MsdumpError, match=reason):
        read_order(path)
    orders, (note,) = read_orders({at(0, 4): path})
    assert orders == {}
    assert str(path) in note
    assert note.endswith("operators of graph 4 are ordered by time")


def test_what_could_not_be_read_is_told_by_the_dump(tmp_path):
    write_mindspore(tmp_path, [("B", "B-op0", "output", 0, [1.0])])
    (tmp_path / "rank_0/execution_order/ms_execution_order_graph_0.csv").write_bytes(b"\xff")
    dump = ordered(tmp_path)
    assert [ref.place for ref in dump.refs] == [0]
    assert len(dump.notes) == 1


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "ms_execution_order_graph_0.csv"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(MsdumpError, match="larger than 64 MiB"):
        read_order(path)


def test_a_missing_file_is_an_error_of_ours(tmp_path):
    with pytest.raises(MsdumpError, match="there is no such file"):
        read_order(tmp_path / "ms_execution_order_graph_0.csv")


@pytest.mark.parametrize("content", ["{}a/b\nc\n", "{}a/b\nc", "{}\na/b\n\nc\n\n", "\ufeff{}a/b\r\nc\r\n"])
def test_line_ends_blank_lines_and_byte_order_marks_do_not_matter(tmp_path, content):
    path = tmp_path / "order.csv"
    path.write_bytes(content.format(HEADER).encode())
    assert read_order(path) == ("a/b", "c")


def test_a_rerun_keeps_its_order_and_older_files_their_names():
    dump = ordered(DATA / "hazards/rerun_same_dir")
    assert list(dict.fromkeys(names(dump))) == ["Default/Mul-op0", "Default/ReLU-op0", "s", "a"]
    assert {ref.key.op.true_name for ref in dump.older} == {"Default/Mul-op0", "Default/ReLU-op0", None}
    assert len(dump.notes) == 1


NAMES = st.text("ab/._-", min_size=1, max_size=4)


@settings(deadline=None, max_examples=150)
@given(st.lists(NAMES, max_size=8), st.lists(NAMES.map(mangle), max_size=6, unique=True))
def test_an_order_changes_neither_which_tensors_there_are_nor_tells_a_wrong_name(order, files):
    dump = dump_of(*(tensor(name, place=place, time=START) for place, name in enumerate(files)))
    result = with_order(dump, {at(0, 0): order})
    assert {ref.source for ref in result.refs} == {ref.source for ref in dump.refs}
    assert result.refs == in_order(result.refs)
    for ref in result.refs:
        true_name = ref.key.op.true_name
        assert true_name is None or mangle(true_name).endswith(ref.key.op.name)


def flat(root, net, device, names, iteration=0):
    """A tree of release 1.3: files have neither time nor graph."""
    folder = root / net / device / f"iteration_{iteration}"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name.replace('/', '--')}_output_0_shape_1_Float32_NCHW.bin").write_bytes(bytes(4))


def order_file(folder, graph, names):
    (folder / "execution_order").mkdir(exist_ok=True)
    path = folder / "execution_order" / f"ms_execution_order_graph_{graph}.csv"
    path.write_text(HEADER + "".join(f"{name}\n" for name in names))


@pytest.mark.parametrize("device", ["0", "device_0"])
def test_releases_before_1_5_keep_orders_by_net(tmp_path, device):
    for net, order in (("One", ["Default/B-op1", "Default/A-op2"]), ("Two", ["Default/A-op2", "Default/B-op1"])):
        flat(tmp_path, net, device, sorted(order))
        order_file(tmp_path / net / device, 0, order)
    assert set(find_orders(tmp_path)) == {at(0, 0, "One"), at(0, 0, "Two")}
    assert names(ordered(tmp_path)) == ["Default/B-op1", "Default/A-op2", "Default/A-op2", "Default/B-op1"]


def test_files_without_graph_and_time_have_the_orders_of_all_graphs(tmp_path):
    flat(tmp_path, "Net", "device_0", ["Default/A-op4", "Default/B-op3", "Default/C-op1"])
    order_file(tmp_path / "Net" / "device_0", 10, ["Default/A-op4"])
    order_file(tmp_path / "Net" / "device_0", 2, ["Default/C-op1", "Default/B-op3"])
    assert names(ordered(tmp_path)) == ["Default/C-op1", "Default/B-op3", "Default/A-op4"]


def test_the_asynchronous_dump_before_1_5_keeps_orders_by_device(tmp_path):
    order_file_folder = tmp_path / "3"
    order_file_folder.mkdir()
    order_file(order_file_folder, 0, ["Default/A-op1"])
    assert set(find_orders(tmp_path)) == {at(3, 0)}
    assert set(find_orders(tmp_path / "3" / "Net_graph_0" / "0")) == {at(3, 0)}
