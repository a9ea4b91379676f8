from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from dump_builder import START, write_mindspore, write_reference
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core import registry
from pytest_msdump.core.dumps.base import index_dump
from pytest_msdump.core.dumps.npy_folder import NpyFileReader, NpyFolderReader
from pytest_msdump.core.errors import DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.testing.conformance import ReaderConformance

DATA = Path(__file__).parents[1] / "data"
READERS = registry.load("dumps", "Reader")


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def index(root):
    return index_dump(root)


def seen(dump):
    """(operator, slot, iteration, occurrence) in the dump's order."""
    return [(r.key.op.name, r.key.slot, r.key.op.at.iteration, r.key.op.at.occurrence) for r in dump.refs]


class TestFlatFolder(ReaderConformance):
    @pytest.fixture
    def reader(self):
        return NpyFolderReader()

    @pytest.fixture
    def dump_root(self):
        return DATA / "lenet" / "reference"


class TestNumberedFolders(ReaderConformance):
    @pytest.fixture
    def reader(self):
        return NpyFolderReader()

    @pytest.fixture
    def dump_root(self, tmp_path):
        for iteration in (0, 2, 11):
            write_reference(tmp_path / "ref" / str(iteration), {"a.b": np.arange(3), "c:1": np.ones(())})
        return touch(tmp_path / "ref", "readme.md", "0/half.npy", "more/a.0.1700000000000001.npy")


class TestSingleFile(ReaderConformance):
    @pytest.fixture
    def reader(self):
        return NpyFileReader()

    @pytest.fixture
    def dump_root(self, tmp_path):
        write_reference(tmp_path, {"fc1": np.arange(4.0)})
        return next(tmp_path.iterdir())


def test_lenet_reference_is_read_in_the_order_of_the_run():
    dump = index(DATA / "lenet" / "reference")
    names = ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "flatten", "fc1", "relu3", "fc2"]
    assert dump.reader == "npy-folder"
    assert [ref.key.address for ref in dump.refs] == [f"{name}:output:0" for name in names]
    assert [ref.place for ref in dump.refs] == list(range(10))
    assert {ref.key.op.op_type for ref in dump.refs} == {None}
    assert dump.unexplained == dump.older == dump.notes == ()


def test_a_flat_folder_is_iteration_0_of_no_rank_net_or_graph(tmp_path):
    write_reference(tmp_path, {"a": [1.0]})
    at = index(tmp_path).refs[0].key.op.at
    assert (at.rank, at.net, at.graph, at.iteration, at.occurrence) == (None, None, None, 0, 0)


def test_numbered_sub_folders_are_iterations_in_the_order_of_numbers(tmp_path):
    touch(tmp_path, "10/a.0.1700000000000005.npy", "9/a.0.1700000000000007.npy", "0/a.0.1700000000000009.npy")
    assert seen(index(tmp_path)) == [("a", 0, 0, 0), ("a", 0, 9, 0), ("a", 0, 10, 0)]


def test_files_beside_numbered_sub_folders_are_unexplained(tmp_path):
    touch(
        tmp_path,
        "0/a.0.1700000000000005.npy",
        "b.0.1700000000000006.npy",
        "notes.txt",
        "extra/c.0.1700000000000007.npy",
    )
    dump = index(tmp_path)
    assert seen(dump) == [("a", 0, 0, 0)]
    assert dump.unexplained == (
        Path("b.0.1700000000000006.npy"),
        Path("extra/c.0.1700000000000007.npy"),
        Path("notes.txt"),
    )


def test_a_numbered_sub_folder_without_tensors_leaves_the_folder_flat(tmp_path):
    touch(tmp_path, "7/picture.png", "b.0.1700000000000006.npy")
    dump = index(tmp_path)
    assert seen(dump) == [("b", 0, 0, 0)]
    assert dump.unexplained == (Path("7/picture.png"),)


def test_zeros_in_front_are_read_and_the_shorter_of_two_equal_numbers_counts(tmp_path):
    touch(tmp_path, "001/a.0.1700000000000005.npy", "2/a.0.1700000000000006.npy", "02/a.0.1700000000000007.npy")
    dump = index(tmp_path)
    assert seen(dump) == [("a", 0, 1, 0), ("a", 0, 2, 0)]
    assert dump.unexplained == (Path("02/a.0.1700000000000007.npy"),)


def test_operator_names_may_hold_anything_and_slots_need_not_follow_each_other(tmp_path):
    touch(
        tmp_path, "a.input.0.1234567890123456.npy", "a.input.4.1234567890123457.npy", "größe 层.0.1234567890123458.npy"
    )
    assert seen(index(tmp_path)) == [("a.input", 0, 0, 0), ("a.input", 4, 0, 0), ("größe 层", 0, 0, 0)]


def test_a_name_that_is_not_text_is_listed_like_any_other(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.0.1700000000000005.npy")).touch()
    assert [ref.key.op.name for ref in index(tmp_path).refs] == ["\udcff"]


def test_a_folder_written_twice_is_a_rerun_and_the_newest_is_compared(tmp_path):
    write_reference(tmp_path, {"a": [1.0], "b": [2.0]})
    write_reference(tmp_path, {"a": [3.0], "b": [4.0]}, start=START + 1000)
    dump = index(tmp_path)
    assert seen(dump) == [("a", 0, 0, 0), ("b", 0, 0, 0)]
    assert [np.load(ref.source.path).tolist() for ref in dump.refs] == [[3.0], [4.0]]
    assert [np.load(ref.source.path).tolist() for ref in dump.older] == [[1.0], [2.0]]
    assert dump.notes == ("re-run into the same directory: 2 older files left out of iteration 0",)


def test_a_module_used_twice_is_two_occurrences_in_the_place_of_the_first(tmp_path):
    touch(
        tmp_path,
        "conv.0.1700000000000001.npy",
        "relu.0.1700000000000002.npy",
        "fc.0.1700000000000003.npy",
        "relu.0.1700000000000004.npy",
        "out.0.1700000000000005.npy",
    )
    dump = index(tmp_path)
    assert seen(dump) == [("conv", 0, 0, 0), ("relu", 0, 0, 0), ("relu", 0, 0, 1), ("fc", 0, 0, 0), ("out", 0, 0, 0)]
    assert [ref.place for ref in dump.refs] == [0, 1, 1, 2, 3]


def test_layers_of_a_list_are_operators_of_their_own_names_and_no_second_run(tmp_path):
    touch(tmp_path, *(f"features.0.{layer}.npy" for layer in range(3)), f"head.0.{START}.npy")
    dump = index(tmp_path)
    assert sorted(seen(dump)) == [*((f"features.0.{layer}", 0, 0, 0) for layer in range(3)), ("head", 0, 0, 0)]
    assert dump.older == dump.unexplained == ()
    assert dump.notes == (
        (
            "3 files of which the last number is no time (15 or 16 digits, microseconds since 1970): each is an "
            "operator of its own name, e.g. features.0.0 of features.0.0.npy; a counter, or a time in another unit? "
            "`msdump rename` mends such names"
        ),
    )


def test_one_newer_file_of_a_flat_folder_leaves_the_others_compared_in_their_order(tmp_path):
    write_reference(tmp_path, {"a": [1.0], "b": [2.0], "c": [3.0]})
    write_reference(tmp_path, {"b": [4.0]}, start=START + 60_000_000)
    dump = index(tmp_path)
    assert [np.load(ref.source.path).tolist() for ref in dump.refs] == [[1.0], [4.0], [3.0]]
    assert [ref.place for ref in dump.refs] == [0, 1, 2]
    assert (dump.partial.newer, dump.partial.tensors) == (1, 3)


def test_tensors_of_one_time_go_by_name(tmp_path):
    touch(tmp_path, "b.0.1700000000000005.npy", "a.0.1700000000000005.npy", "a.1.1700000000000005.npy")
    assert seen(index(tmp_path)) == [("a", 0, 0, 0), ("a", 1, 0, 0), ("b", 0, 0, 0)]


def test_a_missing_path_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DumpNotFoundError, match=r"nowhere: no such directory"):
        index(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_path_that_cannot_be_is_missing_like_any_other(tmp_path, name):
    with pytest.raises(DumpNotFoundError):
        index(tmp_path / name)


@pytest.mark.parametrize("folder", ["", "a/b/c"])
def test_a_folder_without_files_at_any_depth_is_an_empty_dump(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    assert index(tmp_path) == Dump(root=tmp_path, reader="empty")


def test_files_that_no_reader_knows_are_a_short_error_that_begins_with_what_to_do(tmp_path):
    touch(tmp_path, f"{'deep/' * 10}{'a' * 200}.tensor")
    with pytest.raises(UnknownDumpFormatError) as caught:
        index(tmp_path)
    root, _, text = str(caught.value).partition(": ")
    assert root == str(tmp_path)
    assert "\n" not in text
    assert text.startswith("give the directory of a dump")
    assert "'deep/deep/deep/" in text
    assert all(name in text for name in READERS)
    assert len(text) < 340 - len("ERROR: /data/run/dump: ")


def test_the_example_in_that_error_is_the_first_by_name(tmp_path):
    touch(tmp_path, *(f"{number}.txt" for number in range(149, 99, -1)))
    with pytest.raises(UnknownDumpFormatError, match=r"'100\.txt'"):
        index(tmp_path)


def test_a_folder_with_something_that_is_no_file_is_not_empty(tmp_path):
    (tmp_path / "gone.npy").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnknownDumpFormatError, match=r"gone\.npy"):
        index(tmp_path)


def test_a_file_of_another_kind_is_unknown(tmp_path):
    touch(tmp_path, "model.onnx")
    with pytest.raises(UnknownDumpFormatError, match=r"model\.onnx"):
        index(tmp_path / "model.onnx")


def test_of_several_readers_the_most_specific_is_chosen(tmp_path):
    touch(tmp_path, "conv1.0.1700000000000005.npy", "ReLU.relu-op0.0.0.6.output.0.DefaultFormat.Float32.npy")
    dump = index(tmp_path)
    assert dump.reader == "mindspore"
    assert dump.unexplained == (Path("conv1.0.1700000000000005.npy"),)


@pytest.mark.parametrize(
    ("name", "address", "dtype"),
    [
        ("weights of conv.npy", "weights of conv:output:0", None),
        ("conv1.2.1795222398434088.npy", "conv1:output:2", None),
        ("ReLU.Default_ReLU-op0.0.0.5.input.1.DefaultFormat.Float16.npy", "Default_ReLU-op0:input:1", "float16"),
        ("LOUD.NPY", "LOUD:output:0", None),
    ],
)
def test_a_single_file_is_named_by_what_its_name_says(tmp_path, name, address, dtype):
    touch(tmp_path, name)
    (ref,) = index(tmp_path / name).refs
    assert ref.reader == "npy-file"
    assert (ref.key.address, ref.spec.dtype, ref.source.path) == (address, dtype, tmp_path / name)
    assert ref.key.op.at.iteration is None


def test_links_to_files_and_folders_are_followed(tmp_path):
    real = touch(tmp_path / "real", "0/a.0.1700000000000005.npy")
    root = tmp_path / "root"
    root.mkdir()
    (root / "0").symlink_to(real / "0")
    (root / "1").mkdir()
    (root / "1" / "b.0.1700000000000006.npy").symlink_to(real / "0" / "a.0.1700000000000005.npy")
    assert seen(index(root)) == [("a", 0, 0, 0), ("b", 0, 1, 0)]


def test_links_in_a_circle_and_links_to_nothing_end_as_unexplained(tmp_path):
    touch(tmp_path, "a.0.1700000000000005.npy", "sub/x.txt")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "b.0.1700000000000006.npy").symlink_to(tmp_path / "gone.npy")
    dump = index(tmp_path)
    assert seen(dump) == [("a", 0, 0, 0)]
    assert dump.unexplained == (Path("b.0.1700000000000006.npy"), Path("self"), Path("sub/up"), Path("sub/x.txt"))


def test_links_to_each_others_folders_are_followed_once(tmp_path):
    touch(tmp_path, "a.0.1700000000000005.npy", "x/1.txt", "y/2.txt")
    (tmp_path / "x" / "to_y").symlink_to(tmp_path / "y")
    (tmp_path / "y" / "to_x").symlink_to(tmp_path / "x")
    found = {path.as_posix() for path in index(tmp_path).unexplained}
    assert found == {"x/1.txt", "x/to_y/2.txt", "x/to_y/to_x", "y/2.txt", "y/to_x/1.txt", "y/to_x/to_y"}


def test_pipes_are_listed_and_never_opened(tmp_path):
    touch(tmp_path, "a.0.1700000000000005.npy")
    os.mkfifo(tmp_path / "b.0.1700000000000006.npy")
    assert index(tmp_path).unexplained == (Path("b.0.1700000000000006.npy"),)


def test_folders_deeper_than_any_dump_are_listed_by_name(tmp_path):
    touch(tmp_path, "a.0.1700000000000005.npy")
    (tmp_path / Path(*["d"] * 60)).mkdir(parents=True)
    touch(tmp_path / Path(*["d"] * 60), "far.txt")
    (path,) = index(tmp_path).unexplained
    assert set(path.parts) == {"d"}
    assert len(path.parts) < 60


def test_a_folder_that_cannot_be_listed_is_unexplained(tmp_path, monkeypatch):
    touch(tmp_path, "a.0.1700000000000005.npy", "locked/b.txt")
    listed = os.scandir

    def refusing(path):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert index(tmp_path).unexplained == (Path("locked"),)


def test_a_root_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    def refusing(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DumpNotFoundError, match="Permission denied"):
        index(tmp_path)


def test_the_order_of_writing_does_not_matter(tmp_path):
    names = [f"op{number}.0.{START + number % 3}.npy" for number in range(40)]
    touch(tmp_path / "one", *names)
    touch(tmp_path / "two", *reversed(names))
    assert seen(index(tmp_path / "one")) == seen(index(tmp_path / "two"))


FILE_NAMES = st.lists(
    st.sampled_from(["a", "op", ".", "0", "12", ".npy", "0.5.npy", "rank_0", "é", ".0.0.5.output.0.ND.npy"]),
    max_size=10,
)


@settings(deadline=None, max_examples=60)
@given(st.sets(FILE_NAMES.map("".join).filter(lambda name: name.strip(".")), min_size=1, max_size=6))
def test_whatever_the_names_every_file_is_listed_or_the_format_is_unknown(tmp_path_factory, names):
    root = touch(tmp_path_factory.mktemp("fuzz"), *names)
    try:
        dump = index(root)
    except UnknownDumpFormatError:
        return
    paths = [ref.source.path for ref in (*dump.refs, *dump.older)] + [root / path for path in dump.unexplained]
    assert sorted(paths) == sorted(root.iterdir())


def test_a_mindspore_tree_is_no_npy_folder(tmp_path):
    write_mindspore(tmp_path, [("ReLU", "Default/ReLU-op0", "output", 0, [1.0])])
    assert not NpyFolderReader().recognises(tmp_path)
