"""npz archives, safetensors files and folders of plain npy files: numpy, zipfile and safetensors are the oracles."""

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from dumps.reading import elements, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.tensor_files.npz import NpzReader
from pytest_msdump.capabilities.tensor_files.safetensors import SafetensorsReader
from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError

DATA = Path(__file__).parent.parent / "data" / "safetensors"

RNG = np.random.default_rng(0)
ARRAYS = {
    "conv10.weight": RNG.normal(size=(4, 3)).astype("<f4"),
    "conv2.weight": np.asfortranarray(RNG.normal(size=(3, 5)).astype(">f8")),
    "layers/0/bias": np.arange(7, dtype=np.int16),
    "scalar": np.array(3.5, np.float16),
    "empty": np.zeros((0, 3), np.float32),
    "large": RNG.normal(size=70_000).astype(np.float32),
}
IN_ORDER = ["conv2.weight", "conv10.weight", "empty", "large", "layers/0/bias", "scalar"]


def names(dump):
    return [ref.key.op.name for ref in dump.refs]


def contents(root):
    return {ref.key.op.name: elements(ref) for ref in index(root).refs}


def reason(ref):
    with pytest.raises(TensorFileError) as caught:
        elements(ref)
    assert "\n" not in str(caught.value)
    assert str(ref.source.path) in str(caught.value)
    return str(caught.value)


def assert_same(found, arrays):
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[name], array)


def save_tree(root, arrays):
    for name, array in arrays.items():
        path = root / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
    return root


def npz(path, arrays=ARRAYS, *, compressed=False):
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def safetensors(path, tensors, *, metadata=None, data=None):
    """Write a file by the format's own words; `tensors` are name to (dtype, shape, bytes)."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, payload) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(payload)]}
        at += len(payload)
    return raw_safetensors(
        path, json.dumps(header), b"".join(one[2] for one in tensors.values()) if data is None else data
    )


def raw_safetensors(path, header, data=b"", *, length=None):
    text = header if isinstance(header, bytes) else header.encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


# -- The laws of every reader ----------------------------------------------------------------------------------------


# -- What is in them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [save_tree, npz, lambda path, arrays: npz(path, arrays, compressed=True)])
def test_arrays_are_what_numpy_saved_in_the_order_of_their_names(tmp_path, write):
    root = write(tmp_path / "a.npz", ARRAYS)
    dump = index(root)
    assert names(dump) == IN_ORDER
    assert [ref.key.address for ref in dump.refs] == [f"{name}:output:0" for name in IN_ORDER]
    assert_same(contents(root), ARRAYS)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text("ab01٣.²", min_size=1, max_size=8), min_size=2, max_size=8, unique=True), st.randoms())
def test_any_names_have_one_order(tmp_path_factory, found, rng):
    path = tmp_path_factory.mktemp("order") / "a.npz"
    orders = []
    for _ in range(2):
        rng.shuffle(found)
        with zipfile.ZipFile(path, "w") as archive:
            for name in found:
                archive.writestr(f"{name}.npy", b"")
        orders.append(names(NpzReader().index(path)))
        path.unlink()
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(found)


def test_a_file_of_the_safetensors_package_has_the_values_that_were_saved():
    """`make.py` beside it made the file with torch and safetensors, and the values with numpy."""
    expected = np.load(DATA / "values.npz")
    dump = index(DATA / "all.safetensors")
    assert set(names(dump)) == set(expected.files)
    for ref in dump.refs:
        name = ref.key.op.name
        assert ref.spec.dtype == name.partition("/")[0]
        np.testing.assert_array_equal(elements(ref), expected[name])
    assert dump.labels == (("metadata format", "pt"), ("metadata made by", "make.py"))


@pytest.mark.parametrize("compressed", [False, True])
def test_archives_of_more_than_4_gib_or_65535_members_are_read(tmp_path, monkeypatch, compressed):
    # zipfile writes the larger fields from these limits on, which are lowered here.
    monkeypatch.setattr("zipfile.ZIP64_LIMIT", 100)
    monkeypatch.setattr("zipfile.ZIP_FILECOUNT_LIMIT", 1)
    path = npz(tmp_path / "a.npz", compressed=compressed)
    assert b"PK\x06\x06" in path.read_bytes()
    assert_same(contents(path), ARRAYS)


def test_bytes_before_and_a_comment_behind_an_archive_do_not_matter(tmp_path):
    path = npz(tmp_path / "a.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"of yesterday"
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    assert_same(contents(path), ARRAYS)


def test_a_stored_member_is_read_where_it_is_and_no_further(tmp_path, monkeypatch):
    path = npz(tmp_path / "a.npz", {"small": np.ones(3), "large": np.zeros(2**20)})
    refs = {ref.key.op.name: ref for ref in index(path).refs}
    read = []
    preadv = os.preadv

    def counting(descriptor, targets, offset):
        read.append(sum(map(len, targets)))
        return preadv(descriptor, targets, offset)

    monkeypatch.setattr(os, "preadv", counting)
    elements(refs["small"])
    assert sum(read) < 1000
    assert path.stat().st_size > 8 * 2**20


def test_a_compressed_member_is_unpacked_once_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    values = RNG.normal(size=(300, 500))
    (ref,) = index(npz(tmp_path / "a.npz", {"a": values}, compressed=True)).refs
    view = opened(ref)
    read, own = [], StoredFile.read_bytes
    monkeypatch.setattr(StoredFile, "read_bytes", lambda *places: read.append(places) or own(*places))
    for _ in range(3):
        np.testing.assert_array_equal(view.permuted((1, 0)).read(0, view.size).reshape(500, 300), values.T)
    assert len(read) == len(set(read))
    assert list((tmp_path / "tmp").iterdir()) == []
    view.close()
    with pytest.raises(ValueError, match="read after close"):
        view.read(0, 1)


def test_members_that_are_no_arrays_are_unexplained_and_their_names_lead_nowhere(tmp_path):
    path = npz(tmp_path / "a.npz", {"a": np.ones(2)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.mkdir("folder") if hasattr(archive, "mkdir") else archive.writestr("folder/", b"")
        archive.writestr("readme.txt", b"text")
        archive.writestr("/etc/passwd", b"text")
        archive.writestr(".npy", b"text")
        archive.writestr(zipfile.ZipInfo(""), b"text")
        for name in ("../../up", "/abs", "text"):
            archive.writestr(f"{name}.npy", b"this is no array")
    dump = index(path)
    assert [one.as_posix() for one in dump.unexplained] == [".", ".npy", "etc/passwd", "readme.txt"]
    assert sorted(names(dump)) == ["../../up", "/abs", "a", "text"]
    reasons = {ref.key.op.name: reason(ref) for ref in dump.refs if ref.key.op.name != "a"}
    assert all("is not an npy file" in text for text in reasons.values())


def test_what_save_weights_adds_is_no_tensor(tmp_path):
    path = npz(tmp_path / "a.npz", {"a": np.ones(2), "msdump.json": np.zeros(9, np.uint8)})
    dump = index(path)
    assert names(dump) == ["a"]
    assert "assert_same_weights" in " ".join(dump.notes)


# -- Folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "run1/conv1.0.1700000000000005",
        "a/b/c/ReLU.Default_relu-op0.0.0.1700000000000005.output.0.DefaultFormat.Float32",
        "a/b/c/Add.add.1.1.1700000000000005.output.0",
    ],
)
def test_files_of_another_format_in_the_wrong_place_are_not_taken_for_plain_names(tmp_path, name):
    save_tree(tmp_path, {name: np.ones(1), "plain": np.ones(1)})
    with pytest.raises(UnknownDumpFormatError):
        index(tmp_path)


# -- Files that are not what they claim to be ------------------------------------------------------------------------


def central(path):
    """Return where the first entry of the central directory is."""
    return path.read_bytes().index(b"PK\x01\x02")


def poke(path, at, form, value):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(struct.pack(form, value))


def refused(path):
    with pytest.raises(UnknownDumpFormatError) as caught:
        index(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


def test_no_directory_is_read_that_is_larger_than_any(tmp_path):
    path, size = tmp_path / "a.npz", 20 * 2**20
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, 1, 1, size, 0, 0))
    assert "20971520 bytes, at most 16777216 are believed" in refused(path)


def test_an_archive_without_members_is_a_dump_without_tensors(tmp_path):
    assert index(npz(tmp_path / "a.npz", {})).refs == ()


def test_pickled_objects_are_refused_and_the_others_are_read(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "pwned"),))

    np.savez(tmp_path / "a.npz", ok=np.ones(2), bad=np.array([Bomb(), 1], object), allow_pickle=True)
    refs = {ref.key.op.name: ref for ref in index(tmp_path / "a.npz").refs}
    assert "never loaded" in reason(refs["bad"])
    assert elements(refs["ok"]).tolist() == [1, 1]
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("raw.npy", pickle.dumps(Bomb()))
    refs = {ref.key.op.name: ref for ref in index(tmp_path / "a.npz").refs}
    assert "looks like a pickle" in reason(refs["raw"])
    assert not (tmp_path / "pwned").exists()


def test_a_name_that_is_there_twice_means_neither(tmp_path):
    path = npz(tmp_path / "a.npz", {"a": np.ones(2), "b": np.ones(2)})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("a.npy", path.read_bytes()[:10])
    refs = {ref.key.op.name: ref for ref in index(path).refs}
    assert refs.keys() == {"a", "b"}
    assert "2 members of the archive have this name" in reason(refs["a"])
    assert elements(refs["b"]).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("compressed", "at", "form", "value", "words"),
    [
        (False, 8, "<H", 1, "is encrypted"),
        (False, 10, "<H", 14, "method 14"),
        (True, 24, "<I", 2**31, "cannot be the 2147483648 that its directory claims"),
        (False, 24, "<I", 100, "cannot be the 100"),
        (True, 24, "<I", 2000, "holds more than the 2000 bytes"),
        (True, 24, "<I", 8200, "does not hold what the archive's directory says"),
        (True, 16, "<I", 1, "does not hold what the archive's directory says"),
        (True, 20, "<I", 20, "cannot be the 8128|does not hold|cannot be unpacked"),
        (False, 42, "<I", 3, "does not begin where"),
        (False, 42, "<I", 2**31 - 2, "outside of the archive"),
    ],
)
def test_a_directory_that_lies_about_a_member_is_the_members_error(tmp_path, compressed, at, form, value, words):
    path = npz(tmp_path / "a.npz", {"a": RNG.normal(size=1000), "b": np.ones(3)}, compressed=compressed)
    poke(path, central(path) + at, form, value)
    dump = index(path)
    assert names(dump) == ["a", "b"]
    text = reason(dump.refs[0])
    assert any(word in text for word in words.split("|")), text
    assert elements(dump.refs[1]).tolist() == [1, 1, 1]


@pytest.mark.parametrize("compressed", [False, True])
def test_members_that_lie_across_each_other_are_refused(tmp_path, compressed):
    path = npz(tmp_path / "a.npz", {"a": np.ones(1000), "b": np.ones(1000), "c": np.ones(3)}, compressed=compressed)
    content = path.read_bytes()
    second = content.index(b"PK\x01\x02", central(path) + 1)
    poke(path, second + 42, "<I", 0)
    refs = {ref.key.op.name: ref for ref in index(path).refs}
    assert "lies across another one" in reason(refs["b"])
    assert "lies across another one" in reason(refs["a"])
    assert elements(refs["c"]).size == 3


def test_members_before_the_beginning_of_the_archive_are_refused(tmp_path):
    path = npz(tmp_path / "a.npz", {"a": np.zeros(3)})
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\5\6") + 16
    # Where the directory begins: zipfile counts members from the difference to where it is.
    struct.pack_into("<I", content, at, struct.unpack_from("<I", content, at)[0] + 1000)
    path.write_bytes(content)
    (ref,) = index(path).refs
    assert "outside of the archive" in reason(ref)


def test_damage_inside_a_compressed_member_is_found(tmp_path):
    path = npz(tmp_path / "a.npz", {"a": RNG.normal(size=100_000)}, compressed=True)
    poke(path, path.stat().st_size // 2, "<Q", 2**60 + 12345)
    (ref,) = index(path).refs
    assert "archive is damaged" in reason(ref)


def test_a_member_that_does_not_fit_on_the_disk_is_not_begun(tmp_path, monkeypatch):
    (ref,) = index(npz(tmp_path / "a.npz", {"a": np.zeros(2**20)}, compressed=True)).refs
    usage = type("Usage", (), {"free": 2**20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert "TMPDIR" in reason(ref)


def test_an_archive_that_changes_between_index_and_open_is_noticed(tmp_path):
    path = npz(tmp_path / "a.npz", {"a": np.ones(2)})
    (ref,) = index(path).refs
    npz(path, {"b": np.ones(200)})
    assert "run again" in reason(ref)
    path.unlink()
    assert "cannot be opened" in reason(ref)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"", "is not JSON"),
        (b"[]", "is no table"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a":' * 100_000, "is not JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "is not JSON"),
        (b'{"a": 1}', "exactly dtype, shape and data_offsets"),
        (json.dumps({"a": ENTRY | {"more": 1}}), "exactly dtype, shape and data_offsets"),
        (json.dumps({"a": ENTRY | {"dtype": 1}}), "no dtype"),
        (json.dumps({"a": ENTRY | {"shape": [-2]}}), "no shape"),
        (json.dumps({"a": ENTRY | {"shape": [2.0]}}), "no shape"),
        (json.dumps({"a": ENTRY | {"shape": [True, 2]}}), "no shape"),
        (json.dumps({"a": ENTRY | {"shape": [1] * 40}}), "no shape"),
        (json.dumps({"a": ENTRY | {"shape": 2}}), "no shape"),
        (json.dumps({"a": ENTRY | {"shape": [3]}}), "8 bytes for shape (3,) of float32"),
        (json.dumps({"a": ENTRY | {"shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}), "0 bytes for shape"),
        (json.dumps({"a": ENTRY | {"data_offsets": [8, 0]}}), "no beginning and end"),
        (json.dumps({"a": ENTRY | {"data_offsets": [0, 8, 9]}}), "no beginning and end"),
        (json.dumps({"a": ENTRY | {"data_offsets": [-8, 0]}}), "no beginning and end"),
        (json.dumps({"a": ENTRY | {"data_offsets": [4, 12]}}), "overlap or leave gaps"),
        (json.dumps({"a": ENTRY, "b": ENTRY}), "overlap or leave gaps"),
        (json.dumps({"a": ENTRY, "b": ENTRY | {"data_offsets": [4, 12]}}), "overlap or leave gaps"),
        (json.dumps({"a": ENTRY, "b": ENTRY | {"data_offsets": [8, 16]}}), "cut off after 8 of 16 bytes"),
        (json.dumps({}), "explains 0 bytes of data, and there are 8"),
        (json.dumps({"__metadata__": {"a": 1}, "a": ENTRY}), "not a table of texts"),
        (json.dumps({"__metadata__": [], "a": ENTRY}), "not a table of texts"),
        (json.dumps({"a": ENTRY, "b": ENTRY}).replace("b", "a"), "'a' is there twice"),
    ],
)
def test_a_header_that_breaks_the_format_is_one_line(tmp_path, header, words):
    assert words in refused(raw_safetensors(tmp_path / "a.safetensors", header, b"\0" * 8))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut off after 0 bytes"),
        (b"1234567", "cut off after 7 bytes"),
        ((2**63).to_bytes(8, "little"), "9223372036854775808 bytes long, at most 100000000 are believed"),
        ((10**8).to_bytes(8, "little") + b"{}", "cut off inside its header, 10 of 100000008 bytes"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
    ],
)
def test_a_file_without_a_header_is_one_line(tmp_path, content, words):
    (tmp_path / "a.safetensors").write_bytes(content)
    assert words in refused(tmp_path / "a.safetensors")


def test_a_type_that_is_unknown_is_the_error_of_its_tensor_alone(tmp_path):
    path = safetensors(
        tmp_path / "a.safetensors",
        {"f4": ("F4", (4,), b"12"), "ok": ("I32", (1,), b"\1\0\0\0"), "": ("U8", (1,), b"1")},
    )
    refs = {ref.key.op.name: ref for ref in index(path).refs}
    assert "data type F4 cannot be decoded" in reason(refs["f4"])
    assert elements(refs["ok"]).tolist() == [1]


def test_ten_thousand_tensors_are_opened_in_a_time_that_does_not_grow_with_their_square(tmp_path):
    count = 10_000
    path = safetensors(
        tmp_path / "a.safetensors",
        {f"model.layers.{n}.weight": ("F32", (1,), struct.pack("<f", n)) for n in range(count)},
    )
    parsed = []
    reader = SafetensorsReader()
    own = reader.contents_of
    reader.contents_of = lambda file: parsed.append(file) or own(file)
    dump = reader.index(path)
    for ref in dump.refs:
        reader.open(ref).close()
    assert len(dump.refs) == count
    assert len(parsed) == 1


# -- Remote ----------------------------------------------------------------------------------------------------------
