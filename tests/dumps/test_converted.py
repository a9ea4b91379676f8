from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import TIME, one_output, put

from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.dumps.file_names import parse_converted
from pytest_msdump.core.dumps.mindspore import MindSporeReader

FILE = f"Conv2D.conv1.3.1.{TIME}"
ONES = np.ones((1, 2), "<f4")


def save(folder, name, values=ONES):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "array.npy", values)
    (folder / "array.npy").rename(folder / name)


@pytest.mark.parametrize(
    ("behind", "tensor"),
    [
        ("output.0.npy", ("output", 0, None, False, None)),
        ("input.12.npy", ("input", 12, None, False, None)),
        ("output.0.2x19x5x7.npy", ("output", 0, "2x19x5x7", True, None)),
        ("output.1.7.npy", ("output", 1, "7", True, None)),
        ("output.0.NC1HWC0.npy", ("output", 0, "NC1HWC0", False, "NC1HWC0")),
    ],
)
@pytest.mark.parametrize("file", [FILE, f"Conv2D.conv1.3.{TIME}", f"Conv2D.conv1.3.1.{TIME}.4.11.0.2"])
def test_a_name_is_a_dumps_with_the_tensor_behind_it(file, behind, tensor):
    parsed = parse_converted(f"{file}.{behind}")
    assert (parsed.io, parsed.slot, parsed.form, parsed.has_shape, parsed.memory_format) == tensor
    assert (parsed.dump.op_type, parsed.dump.op, parsed.dump.task, parsed.dump.timestamp) == (
        "Conv2D",
        "conv1",
        3,
        TIME,
    )


def test_names_that_were_too_long_are_found_through_the_mapping_file(tmp_path):
    save(tmp_path, "3bc9dc4b55ad3d5e92e6ad7fa2a6b6b7.npy")
    save(tmp_path, "unknown.npy")
    (tmp_path / "mapping.csv").write_text(f"3bc9dc4b55ad3d5e92e6ad7fa2a6b6b7.npy,{FILE}.output.0.npy\n")
    dump = index(tmp_path)
    assert [ref.key.address for ref in dump.refs] == ["conv1:output:0"]
    assert dump.unexplained == (Path("unknown.npy"),)


def test_no_file_is_lost_when_two_names_stand_for_one(tmp_path):
    save(tmp_path, "1.npy")
    save(tmp_path, "2.npy")
    (tmp_path / "mapping.csv").write_text(f"1.npy,{FILE}.output.0.npy\n2.npy,{FILE}.output.0.npy\n")
    dump = index(tmp_path)
    assert len(dump.refs) + len(dump.older) == 2


@pytest.mark.parametrize("form", ["", ".1x2", ".NC1HWC0"])
@pytest.mark.parametrize("file", [FILE, f"Conv2D.1600000000000001.3.1.{TIME}"])
def test_beside_the_dumps_they_were_made_of_the_dumps_are_read(tmp_path, form, file):
    put(tmp_path, FILE, one_output(np.zeros(1, "<f4")))
    save(tmp_path, f"{file}.output.0{form}.npy")
    dump = index(tmp_path)
    assert (dump.reader, [ref.source.path.name for ref in dump.refs], dump.unexplained) == ("ascend", [FILE], ())
    assert dump.notes == (
        f"1 file made of dumps that are still beside them, which are read instead, e.g. {file}.output.0{form}.npy",
    )


@pytest.mark.parametrize("behind", ["DefaultFormat.npy", "DefaultFormat.Float32.npy"])
def test_where_mindspore_wrote_arrays_itself_dumps_and_what_was_made_of_others_are_read_too(tmp_path, behind):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    put(folder, FILE, one_output(ONES))
    save(folder, f"Add.Default_Add-op0.1.1.{TIME + 1}.output.0.{behind}")
    save(folder, f"Mul.Default_Mul-op0.2.1.{TIME + 2}.output.0.1x2.npy")
    save(folder, f"Sub.Default_Sub-op0.2.{TIME + 3}.output.0.npy")
    dump = index(tmp_path)
    names = ["conv1", "Default_Add-op0", "Default_Mul-op0", "Default_Sub-op0"]
    assert (dump.reader, [ref.key.op.name for ref in dump.refs]) == ("mindspore", names)
    assert [ref.reader for ref in dump.refs] == ["ascend", "mindspore", "mindspore", "mindspore"]
    assert dump.unexplained == ()
    for ref in dump.refs:
        view = MindSporeReader().open(ref)
        assert view.read(0, 2).tolist() == [1.0, 1.0]
        assert view.spec.shape == (1, 2)
        view.close()
    assert [ref.spec.memory_format for ref in dump.refs] == ["ND", "DefaultFormat", None, None]


def test_of_what_was_made_of_a_dump_beside_it_the_dump_is_read_in_a_mixed_tree_too(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    put(folder, FILE, one_output(np.zeros(1, "<f4")))
    save(folder, f"{FILE}.output.0.1x2.npy")
    save(folder, f"Add.Default_Add-op0.1.1.{TIME + 1}.output.0.DefaultFormat.npy")
    dump = index(tmp_path)
    assert [ref.source.path.name for ref in dump.refs if ref.key.op.name == "conv1"] == [FILE]
    assert (dump.reader, dump.unexplained) == ("mindspore", ())
    assert dump.notes == (
        (
            "1 file made of dumps that are still beside them, which are read instead, e.g. "
            f"rank_0/Net/0/0/{FILE}.output.0.1x2.npy"
        ),
    )
