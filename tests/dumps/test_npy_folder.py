import os
from pathlib import Path

import pytest
from dump_builder import START
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.errors import DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.core.model.dump import Dump


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def seen(dump):
    """(operator, slot, iteration, occurrence) in the dump's order."""
    return [(r.key.op.name, r.key.slot, r.key.op.at.iteration, r.key.op.at.occurrence) for r in dump.refs]


# Each law: files, the last digits of their times behind a colon; what is listed, and what is unexplained.
LISTED = {
    "numbered sub-folders are iterations in the order of numbers": (
        ["10/a.0:05", "9/a.0:07", "0/a.0:09"], [("a", 0, 0, 0), ("a", 0, 9, 0), ("a", 0, 10, 0)], [],
    ),
    "files beside numbered sub-folders are unexplained": (
        ["0/a.0:05", "b.0:06", "notes.txt", "extra/c.0:07"], [("a", 0, 0, 0)], ["b.0:06", "extra/c.0:07", "notes.txt"],
    ),
    "a numbered sub-folder without tensors leaves the folder flat": (
        ["7/picture.png", "b.0:06"], [("b", 0, 0, 0)], ["7/picture.png"],
    ),
    "zeros in front are read, and the shorter of two equal numbers counts": (
        ["001/a.0:05", "2/a.0:06", "02/a.0:07"], [("a", 0, 1, 0), ("a", 0, 2, 0)], ["02/a.0:07"],
    ),
    "names may hold anything, and slots need not follow each other": (
        ["a.input.0:56", "a.input.4:57", "größe 层.0:58"],
        [("a.input", 0, 0, 0), ("a.input", 4, 0, 0), ("größe 层", 0, 0, 0)], [],
    ),
    "a module used twice is two occurrences in the place of the first": (
        ["conv.0:01", "relu.0:02", "fc.0:03", "relu.0:04", "out.0:05"],
        [("conv", 0, 0, 0), ("relu", 0, 0, 0), ("relu", 0, 0, 1), ("fc", 0, 0, 0), ("out", 0, 0, 0)], [],
    ),
    "tensors of one time go by name": (
        ["b.0:05", "a.0:05", "a.1:05"], [("a", 0, 0, 0), ("a", 1, 0, 0), ("b", 0, 0, 0)], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("law", LISTED)
def test_every_file_is_listed_as_what_its_name_and_folder_say(tmp_path, law):
    def named(file):
        name, colon, time = file.partition(":")
        return f"{name}.17000000000000{time}.npy" if colon else name

    files, listed, unexplained = LISTED[law]
    dump = index(touch(tmp_path, *map(named, files)))
    assert (seen(dump), dump.unexplained) == (listed, tuple(Path(named(file)) for file in unexplained))


def test_every_call_of_a_module_has_the_place_of_the_first(tmp_path):
    touch(tmp_path, *(f"{op}.0.170000000000000{time}.npy" for time, op in enumerate(("conv", "relu", "fc", "relu"))))
    assert [ref.place for ref in index(tmp_path).refs] == [0, 1, 1, 2]


def test_layers_of_a_list_are_operators_of_their_own_names_and_no_second_run(tmp_path):
    touch(tmp_path, *(f"features.0.{layer}.npy" for layer in range(3)), f"head.0.{START}.npy")
    dump = index(tmp_path)
    assert sorted(seen(dump)) == [*((f"features.0.{layer}", 0, 0, 0) for layer in range(3)), ("head", 0, 0, 0)]
    assert dump.older == dump.unexplained == ()
    # Nothing says when they ran.
    assert (dump.refs[0].key.op.name, dump.refs[0].place) == ("head", 0)
    assert {ref.place for ref in dump.refs[1:]} == {None}
    assert dump.notes == (
        (
            "3 files without a time at the end of the name (15 or 16 digits, microseconds since 1970): each is an "
            "operator of its own name, e.g. features.0.0 of features.0.0.npy; a counter, or a time in another unit? "
            "`msdump rename` mends such names"
        ),
    )


def test_a_missing_path_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DumpNotFoundError, match=r"nowhere: no such directory"):
        index(tmp_path / "nowhere")


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
    assert "'deep/deep" in text
    assert "docs/reference/dump_formats.md" in text
    assert len(text) < 352 - len("ERROR: /data/run/dump: ")


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
