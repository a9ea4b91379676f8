"""Files of torch.save: what torch wrote, with the values that it says, and files made by hand, byte by byte."""

import os
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from dumps.reading import elements, opened

from pytest_msdump.capabilities.tensor_files import torch_pickle
from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError

DATA = Path(__file__).parent.parent / "data" / "torch"
VALUES = np.load(DATA / "values.npz")
# Their shapes and types alone make them larger than a value.
SIX = np.arange(6, dtype="<f4").reshape(2, 3)


def contents(root):
    return {ref.key.op.name: elements(ref) for ref in index(root).refs}


def refused(root):
    with pytest.raises(UnknownDumpFormatError) as caught:
        index(root)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{root}: ")
    return str(caught.value)


def reason(root, name):
    (ref,) = (ref for ref in index(root).refs if ref.key.op.name == name)
    with pytest.raises(TensorFileError) as caught:
        elements(ref)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{root}: {name}: ")
    return str(caught.value)


# -- A pickle by hand ------------------------------------------------------------------------------------------------


def value(plain):
    return pickle.dumps(plain, 2)[2:-1]


def named(name):
    module, _, last = name.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


def called(name, *arguments):
    return named(name) + tuple_of(*arguments) + b"R"


def storage(key="0", kind="torch.FloatStorage", elements=6):
    return tuple_of(value("storage"), named(kind), value(key), value("cpu"), value(elements)) + b"Q"


def tensor(held=None, offset=0, shape=(2, 3), strides=(3, 1), *more):
    parts = (value(offset), value(shape), value(strides), value(False), called("collections.OrderedDict"))
    return called("torch._utils._rebuild_tensor_v2", held or storage(), *parts, *more)


def dict_of(**parts):
    return b"}(" + b"".join(value(name) + part for name, part in parts.items()) + b"u"


def archive(path, content, storages=None, *, order=b"little", protocol=2, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", b"\x80" + bytes([protocol]) + content + b".")
        if order is not None:
            file.writestr("archive/byteorder", order)
        for key, raw in ({"0": SIX.tobytes()} if storages is None else storages).items():
            file.writestr(f"archive/data/{key}", raw)
    return path


# -- The laws of every reader ----------------------------------------------------------------------------------------


# -- What torch wrote ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted({name.partition("/")[0] for name in VALUES.files}))
def test_tensors_are_what_torch_says_of_them(file):
    """`make.py` beside the files made them with torch, and the values with numpy."""
    expected = {name.partition("/")[2]: VALUES[name] for name in VALUES.files if name.startswith(f"{file}/")}
    refs = {ref.key.op.name: ref for ref in index(DATA / file).refs}
    assert expected.keys() <= refs.keys()
    for name, array in expected.items():
        found = elements(refs[name])
        assert found.shape == array.shape
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_a_tensor_that_is_the_whole_file_has_the_name_of_the_file():
    (ref,) = index(DATA / "one.pth").refs
    assert ref.key.address == "one:output:0"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sparse", "is sparse; save its .to_dense()"),
        ("csr", "is sparse; save its .to_dense()"),
        ("meta", "is on the device meta, which holds no values"),
        ("channels", "has a scale for each channel; save its .dequantize()"),
    ],
)
def test_what_has_no_values_is_an_error_of_its_own(name, words):
    assert words in reason(DATA / "no_values.pt", name)


def test_two_tensors_of_one_name_are_errors_and_the_others_are_read():
    assert [ref.key.op.name for ref in index(DATA / "one_name_twice.pt").refs] == ["1", "other"]
    assert "2 tensors of the file have this name" in reason(DATA / "one_name_twice.pt", "1")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("legacy.pt", r"torch.save(torch.load(FILE, weights_only=True), FILE)"),
        ("whole_module.pt", "names 'torch.nn.modules.linear.Linear', which is no tensor"),
        ("script.pt", "names '__torch__.torch.nn.modules.linear.Linear'"),
    ],
)
def test_what_is_no_file_of_tensors_is_refused_with_what_to_do(file, words):
    assert words in refused(DATA / file)


def test_only_the_asked_elements_are_read(tmp_path, monkeypatch):
    large = np.arange(2**20, dtype="<f4")
    path = archive(tmp_path / "a.pt", tensor(storage(elements=2**20), 7, (1000,), (1000,)), {"0": large.tobytes()})
    (ref,) = index(path).refs
    read, preadv = [], os.preadv

    def counting(descriptor, targets, offset):
        read.append(sum(map(len, targets)))
        return preadv(descriptor, targets, offset)

    monkeypatch.setattr(os, "preadv", counting)
    with closing(opened(ref)) as view:
        np.testing.assert_array_equal(view.read(500, 502), large[7::1000][500:502])
    assert sum(read) < 20_000


# -- Made by hand ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("Float", "f4"), ("Double", "f8"), ("Half", "f2"), ("Long", "i8"), ("ComplexFloat", "c8"), ("Char", "i1")],
)
def test_a_big_endian_file_has_the_same_values(tmp_path, kind, dtype):
    content = tensor(storage(kind=f"torch.{kind}Storage"))
    path = archive(tmp_path / "a.pt", content, {"0": SIX.astype(f">{dtype}").tobytes()}, order=b"big")
    np.testing.assert_array_equal(contents(path)["a"], SIX.astype(dtype))


def test_bfloat16_and_complex32_of_a_big_endian_file_have_the_same_values(tmp_path):
    upper = (SIX.view("<u4") >> 16).astype(">u2").tobytes()
    path = archive(tmp_path / "a.pt", tensor(storage(kind="torch.BFloat16Storage")), {"0": upper}, order=b"big")
    np.testing.assert_array_equal(contents(path)["a"], SIX)
    parts = called("collections.OrderedDict") + named("torch.complex32")
    about = (value(0), value((3,)), value((1,)), value(False))
    content = called(
        "torch._utils._rebuild_tensor_v3", storage(kind="torch.UntypedStorage", elements=12), *about, parts
    )
    path = archive(tmp_path / "b.pt", content, {"0": SIX.astype(">f2").tobytes()}, order=b"big")
    np.testing.assert_array_equal(contents(path)["b"], SIX.ravel()[::2] + 1j * SIX.ravel()[1::2])


def test_a_file_of_an_old_release_without_an_order_of_bytes_is_little_endian(tmp_path):
    np.testing.assert_array_equal(contents(archive(tmp_path / "a.pt", tensor(), order=None))["a"], SIX)


def test_conjugate_and_negative_are_done(tmp_path):
    raw = {"0": (SIX + 2j).astype("<c8").tobytes()}
    held = storage(kind="torch.ComplexFloatStorage")
    for about, expected in (
        ({"conj": True}, SIX - 2j),
        ({"neg": True}, -SIX - 2j),
        ({"conj": True, "neg": True}, 2j - SIX),
        ({}, SIX + 2j),
    ):
        path = archive(tmp_path / "a.pt", tensor(held, 0, (2, 3), (3, 1), value(about)), raw)
        np.testing.assert_array_equal(contents(path)["a"], expected)


def test_a_quantised_tensor_has_the_values_that_it_stands_for(tmp_path):
    scheme = tuple_of(named("torch.per_tensor_affine"), value(0.5), value(3))
    held = storage(kind="torch.QInt8Storage")
    content = called("torch._utils._rebuild_qtensor", held, value(0), value((2, 3)), value((3, 1)), scheme)
    path = archive(tmp_path / "a.pt", content, {"0": SIX.astype("i1").tobytes()})
    np.testing.assert_array_equal(contents(path)["a"], (SIX - 3) * 0.5)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(1, (2, 3), (3, 1)), (0, (2, 3), (3, 2)), (0, (7,), (1,)), (2**62, (1,), (1,)), (0, (2,), (2**62,))],
)
def test_strides_beyond_the_storage_are_an_error_of_this_tensor_alone(tmp_path, offset, shape, strides):
    path = archive(tmp_path / "a.pt", dict_of(bad=tensor(None, offset, shape, strides), good=tensor()))
    assert "reaches beyond its storage" in reason(path, "bad")
    (good,) = (ref for ref in index(path).refs if ref.key.op.name == "good")
    np.testing.assert_array_equal(elements(good), SIX)


def test_a_view_that_repeats_its_storage_is_read_up_to_a_bound(tmp_path):
    path = archive(
        tmp_path / "a.pt", dict_of(much=tensor(None, 0, (2**40,), (0,)), some=tensor(None, 4, (3, 2), (0, 1)))
    )
    assert "repeats its storage beyond what can be compared" in reason(path, "much")
    (some,) = (ref for ref in index(path).refs if ref.key.op.name == "some")
    np.testing.assert_array_equal(elements(some), [[4, 5]] * 3)


def test_a_storage_that_is_not_there_or_shorter_is_an_error_of_its_tensors(tmp_path):
    path = archive(
        tmp_path / "a.pt", dict_of(absent=tensor(storage("9")), short=tensor(storage("1"))), {"1": bytes(23)}
    )
    assert "its storage '9' is not in the file" in reason(path, "absent")
    assert "reaches beyond its storage" in reason(path, "short")


def test_a_compressed_archive_is_refused(tmp_path):
    assert "compressed or encrypted" in refused(archive(tmp_path / "a.pt", tensor(), compression=zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b"no archive at all", "is not a zip archive"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path, content, words):
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    assert words in refused(path)


def test_an_archive_of_something_else_is_refused(tmp_path):
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "no tensors")
    assert "torch.save did not write it" in refused(path)


def test_an_unknown_order_of_bytes_is_refused(tmp_path):
    assert "neither little nor big" in refused(archive(tmp_path / "a.pt", tensor(), order=b"middle"))


# -- What would run code ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "posix.system", "os.system", "nt.system", "subprocess.Popen", "builtins.eval", "builtins.exec",
        "builtins.getattr", "__builtin__.eval", "builtins.__import__", "torch.load", "torch.hub.load",
        "torch._utils._rebuild_device_tensor_from_numpy", "numpy.core.multiarray._reconstruct", "pickle.loads",
        "torch.nn.modules.linear.Linear", "operator.attrgetter", "torch.float32.__class__", "torch.Size.__new__",
    ],
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4])
def test_any_other_name_is_refused_by_name_and_never_called(tmp_path, name, protocol):
    module, _, last = name.rpartition(".")
    named_so = named(name) if protocol == 2 else value(module) + value(last) + b"\x93"
    marker = tmp_path / "marker"
    path = archive(tmp_path / "a.pt", named_so + tuple_of(value(f"touch {marker}")) + b"R", protocol=protocol)
    assert f"names {name!r}, which is no tensor" in refused(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [
        # An instance by INST, by NEWOBJ, by OBJ, a class by a number of copyreg, and a persistent text.
        b"(V1\nios\nsystem\n",
        named("torch.Size") + b")\x81",
        b"(" + named("torch.Size") + b"o",
        b"\x82\x01",
        b"Pa\n",
        b"S'\\X'\n",
        b"\x97",
    ],
)
def test_operations_that_make_other_objects_are_refused(tmp_path, content):
    assert "which no file of tensors needs" in refused(archive(tmp_path / "a.pt", content))


def test_attributes_of_an_object_that_hold_tensors_are_refused_and_others_passed_over(tmp_path):
    made = called("collections.OrderedDict")
    assert "tensors as attributes" in refused(archive(tmp_path / "a.pt", made + dict_of(x=tensor()) + b"b"))
    path = archive(tmp_path / "b.pt", dict_of(x=tensor(), y=made + value({"_metadata": 1}) + b"b"))
    assert list(contents(path)) == ["x"]


def bounded(call):
    """Return what it returns; it takes less than 30 MiB."""
    tracemalloc.start()
    try:
        return call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 30 * 2**20


def test_a_high_number_in_the_memo_takes_no_memory(tmp_path):
    """The C unpickler of Python makes a list of so many places."""
    path = archive(tmp_path / "a.pt", tensor() + b"r" + struct.pack("<I", 2**27))
    np.testing.assert_array_equal(bounded(lambda: contents(path))["a"], SIX)


def test_lengths_that_are_not_there_take_no_memory(tmp_path):
    for operation in (b"\x8d" + struct.pack("<Q", 2**40), b"\x8b" + struct.pack("<I", 2**30), b"X" + b"\xff" * 4):
        path = archive(tmp_path / "a.pt", operation)
        assert "is damaged" in bounded(lambda path=path: refused(path))


def test_lists_of_lists_of_lists_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_pickle, "_MAX_NAMES", 2**15)
    ten_of = [b"](" + (b"h" + bytes([level])) * 10 + b"eq" + bytes([level + 1]) for level in range(30)]
    laughs = b"](" + b"]q\x00" + b"".join(ten_of) + b"e"
    path = archive(tmp_path / "a.pt", laughs)
    assert "lists within lists beyond any file of tensors" in bounded(lambda: refused(path))


def test_a_list_in_itself_and_very_deep_lists_are_refused(tmp_path):
    for content in (b"]q\x00h\x00a", b"]" * 10_000 + b"a" * 9_999):
        path = archive(tmp_path / "a.pt", content)
        assert "lists within lists" in bounded(lambda path=path: refused(path))


def test_more_operations_than_any_file_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_pickle, "_MAX_OPERATIONS", 1000)
    assert "more than 1000 operations" in refused(archive(tmp_path / "a.pt", b"N0" * 1000 + tensor()))


@pytest.mark.parametrize(
    "content",
    [
        tensor(storage(elements=-1)), tensor(None, -1), tensor(None, 0, (2, -3)), tensor(None, 0, (2, 3), (3, -1)),
        tensor(None, 0, (2, 3), (3,)), tensor(None, True), tensor(None, 0, (2.0, 3)), tensor(value(3)),
        tensor(storage(kind="torch.float32")), called("torch._utils._rebuild_tensor_v2"), b"}(]Nu", value(3) + b"a",
        b"Q", b"R", b"u", b"t", b"h\x07", b"0", b"b", tensor(None, 0, (1,) * 65, (1,) * 65), b"(Nu",
        tensor(storage("0") + b"0N"),
    ],
)  # fmt: skip
def test_what_torch_never_writes_is_refused(tmp_path, content):
    refused(archive(tmp_path / "a.pt", content))


# -- Damage ----------------------------------------------------------------------------------------------------------


def outcome(root):
    """The values of a damaged file, where it still has some; anything but an error of ours fails the test."""
    try:
        return [elements(ref) for ref in index(root).refs]
    except (UnknownDumpFormatError, TensorFileError) as error:
        return None if "\n" not in str(error) else pytest.fail(f"of several lines: {error}")


def test_a_pickle_that_is_cut_anywhere_is_refused(tmp_path):
    content = dict_of(x=tensor())
    for length in range(len(content)):
        assert not outcome(archive(tmp_path / "a.pt", content[:length])), length
