from pathlib import Path

import pytest

from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.errors import UnknownDumpFormatError

DATA = Path(__file__).parents[1] / "data"
HAZARDS = DATA / "hazards"
LENET = DATA / "lenet"
RELU = "ReLU.relu-op0.0.0.{}.output.0.DefaultFormat.Float32.npy"


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def coordinates(root):
    at = index(root).refs[0].key.op.at
    return (at.rank, at.net, at.graph, at.iteration)


def tensor_files(root):
    return {path for path in root.rglob("*.npy") if path.is_file()}


def test_a_loop_is_no_second_run():
    root = HAZARDS / "while_loop"
    dump = index(root)
    assert {ref.source.path for ref in dump.refs} == tensor_files(root)
    assert dump.older == dump.notes == dump.unexplained == ()
    assert {ref.key.op.at.graph for ref in dump.refs} == {0, 1, 3, 4}


def test_constants_have_no_iteration(tmp_path):
    touch(
        tmp_path,
        "rank_0/Net/0/constants/Parameter.data-1.0.0.5.output.0.DefaultFormat.Float32.npy",
        f"rank_0/Net/0/0/{RELU.format(6)}",
    )
    dump = index(tmp_path)
    assert [(ref.key.op.name, ref.key.op.at.iteration) for ref in dump.refs] == [("relu-op0", 0), ("data-1", None)]
    assert dump.unexplained == ()


def test_what_does_not_belong_is_unexplained(tmp_path):
    touch(tmp_path, f"rank_0/Net/0/0/{RELU.format(5)}")
    strangers = [
        "config.json",
        f"rank_0/Net/0/00/{RELU.format(5)}",
        "rank_0/Net/0/0/conv1.0.5.npy",
        "rank_0/Net/0/0/half.npy.tmp",
        f"rank_0/Net/0/0/deeper/{RELU.format(5)}",
        f"rank_0/Net/0/step1/{RELU.format(5)}",
        f"rank_0/Net/0/{RELU.format(5)}",
        f"rank_x/Net/0/0/{RELU.format(5)}",
        "rank_0/Net/0/0/1234.npy",
        "rank_0/Net/0/0/Add-op0.json",
        "rank_0/Net/0/0/libfoo.so.1",
        "rank_0/Net/0/0/Default--Add-op1_output_0.npy",
        "rank_0/Net/0/0/Add.Default_Add-op0.0.0.1795222398434088.9.1.2.3",
    ]
    touch(tmp_path, *strangers)
    dump = index(tmp_path)
    assert len(dump.refs) == 1
    assert sorted(path.as_posix() for path in dump.unexplained) == sorted(strangers)


def test_a_numbered_file_without_a_row_is_unexplained_and_a_row_without_a_file_is_told(tmp_path):
    folder = tmp_path / "rank_0/Net/0/0"
    touch(folder, "11.npy", "12.npy", "13.npy", "14.npy", RELU.format(5))
    rows = [
        f"11.npy,ReLU.{'x' * 300}-op0.0.0.6.input.0.DefaultFormat.Float16.npy",
        "13.npy,not a dump's name.npy",
        f"14.npy,{RELU.format(7)}",
        f"14.npy,{RELU.format(8)}",
        "../../../../etc/passwd.npy,Add.a.0.0.9.output.0.DefaultFormat.Float32.npy",
        "no comma",
    ]
    (folder / "mapping.csv").write_text("\n".join(rows))
    dump = index(tmp_path)
    assert {ref.source.path.name for ref in dump.refs} == {"11.npy", RELU.format(5)}
    assert {path.name for path in dump.unexplained} == {"12.npy", "13.npy", "14.npy"}
    assert dump.notes == (
        "rank_0/Net/0/0/mapping.csv gives several names to 14.npy",
        "rank_0/Net/0/0/mapping.csv names 1 that is not there, e.g. ../../../../etc/passwd.npy",
    )


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b"[" * 100_000, b"1" * 2**21])
def test_a_bad_config_is_a_note(tmp_path, content):
    touch(tmp_path, f"rank_0/Net/0/0/{RELU.format(5)}", "rank_0/.dump_metadata/config.json")
    (tmp_path / "rank_0/.dump_metadata/config.json").write_bytes(content)
    dump = index(tmp_path)
    assert dict(dump.labels) == {"net": "Net"}
    assert len(dump.notes) == 1
    assert dump.notes[0].startswith("rank_0/.dump_metadata/config.json ")
    assert any(word in dump.notes[0] for word in ("not JSON", "not a JSON object", "not text", "larger than 1 MiB"))


@pytest.mark.parametrize("below", ["", "rank_0", "rank_0/Lenet", "rank_0/Lenet/0", "rank_0/Lenet/0/0"])
def test_any_directory_of_a_tree_can_be_pointed_at(below):
    root = LENET / "target" / below
    assert coordinates(root) == (0, "Lenet", 0, 0)
    assert len(index(root).refs) == 53
    assert index(root).unexplained == ()


def test_a_tree_in_which_every_name_is_too_long_is_recognised(tmp_path):
    folder = touch(tmp_path, "rank_0/Net/0/0/1.npy") / "rank_0/Net/0/0"
    (folder / "mapping.csv").write_text(f"1.npy,ReLU.{'x' * 300}.0.0.6.input.0.DefaultFormat.Float16.npy\n")
    assert len(index(tmp_path).refs) == 1


def test_a_run_that_dumped_no_tensor_is_a_dump_without_tensors(tmp_path):
    touch(tmp_path, "rank_0/.dump_metadata/data_dump.json", "rank_0/graphs/ms_output_trace_code_graph_0.ir")
    dump = index(tmp_path)
    assert (dump.reader, dump.refs) == ("mindspore", ())


def test_several_trees_in_one_directory_are_not_mixed(tmp_path):
    touch(tmp_path, *(f"{run}/rank_0/Net/0/0/{RELU.format(5)}" for run in ("good", "bad")))
    with pytest.raises(UnknownDumpFormatError, match="has 2 below it; give one of them"):
        index(tmp_path)
