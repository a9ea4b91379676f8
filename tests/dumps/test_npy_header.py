"""The npy header: what numpy.save writes is understood, everything else is refused with a sentence."""

import inspect
import io
import os
import sys
import tracemalloc
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.core.dumps.npy import open_npy, parse_header
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec


def saved(array, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version)
    return stream.getvalue()


def forged(text, *, version=(1, 0), payload=b""):
    body = text.encode("latin-1")
    length = len(body).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + body + payload


def header(descr="'<f4'", fortran="False", shape="(3,)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}          \n"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("descr", ["<f4", ">i8", "|b1", "<c16"])
def test_header_agrees_with_numpy(version, fortran, shape, descr):
    array = np.zeros(shape, descr, order="F" if fortran else "C")
    data = saved(array, version)
    parsed = parse_header(data, where="here")
    stream = io.BytesIO(data)
    np.lib.format.read_magic(stream)
    oracle = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    want_shape, want_fortran, want_dtype = oracle(stream)
    assert parsed.version == version
    assert (parsed.shape, parsed.fortran_order, parsed.descr) == (want_shape, want_fortran, want_dtype.str)
    assert parsed.data_offset == stream.tell()


def test_version_3_header_is_read_as_utf_8():
    # A field name outside latin-1 makes numpy choose version 3: it must reach the sentence about records.
    with pytest.warns(UserWarning, match="format 3.0"):
        data = saved(np.zeros(2, [("größe_€", "<f4")]))
    parsed = parse_header(data, where="here")
    assert parsed.version == (3, 0)
    assert parsed.descr == [("größe_€", "<f4")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'Shape': (3,)}",
        "{'descr', 'fortran_order', 'shape'}",
        header(shape="3"),
        header(shape="[3]"),
        header(shape="(-3,)"),
        header(shape="(3.0,)"),
        header(shape="(True,)"),
        header(shape="('3',)"),
        header(shape="(3l,)"),
        header(shape="(3LL,)"),
        header(shape="(L,)"),
        header(descr="b'<f4'"),
        header(shape=f"({2**63},)"),
        header(shape="(" + "9" * 5000 + ",)"),
        header(shape="(" + "1," * 33 + ")"),
        header(shape="(03,)"),
        header(shape="(1_0,)"),
        header(shape="(1+2j,)"),
        header(fortran="0"),
        header(fortran="None"),
        header(fortran="'False'"),
        header(descr="'\\x3cf4'"),
        header(descr="__import__('os').getpid()"),
        header(descr="{[]: 1}"),
        header() * 2,
        "(" * 5000,
        "-" * 60000,
        "{" * 60000,
        "[" * 90 + "]" * 90,
        "[" * 199 + "]" * 199,
        "'" * 59999,
        "\0" * 64,
    ],
    ids=lambda text: text.strip()[:40] + f"…{len(text)}",
)
def test_header_of_anything_but_a_plain_array_is_refused(text):
    with pytest.raises(TensorFileError, match="its npy header"):
        parse_header(forged(text, version=(2, 0)), where="here")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "text",
    [
        header(shape="(3L,)"),
        header(shape="(2L, 10L, 1)"),
        header(shape="(0L,)", fortran="True"),
        header(descr="[('3L', '<f4')]", shape="(3L,)"),
        "{u'descr': u'<f4', u'fortran_order': False, u'shape': (3,)}",
        '{"shape": (3,), "fortran_order": False, "descr": "<f4"}',
        "  {'descr':'>f8','fortran_order':True,'shape':(2,3)}\t \n\n",
    ],
)
def test_a_header_of_another_writer_or_of_python_2_says_what_numpy_reads_in_it(text, version):
    data = forged(text, version=version)
    stream = io.BytesIO(data)
    np.lib.format.read_magic(stream)
    oracle = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        # numpy tells of Python 2.
        warnings.simplefilter("ignore")
        shape, fortran, dtype = oracle(stream)
    if version == (3, 0) and "L," in text:
        # There was no Python 2 any more, and numpy refuses it.
        with pytest.raises(TensorFileError, match="its npy header"):
            parse_header(data, where="here")
    else:
        parsed = parse_header(data, where="here")
        # Records keep their names.
        assert (parsed.shape, parsed.fortran_order) == (shape, fortran)
        assert np.dtype(parsed.descr) == dtype


@pytest.mark.parametrize(
    "path", sorted((Path(np.lib.__file__).parent / "tests" / "data").glob("*.npy")), ids=lambda path: path.name
)
def test_files_that_numpy_is_tested_with_are_read_or_refused_in_a_sentence(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = np.load(path)
        except ValueError:
            with pytest.raises(TensorFileError, match="pickled Python objects"):
                open_npy(path, TensorSpec(None, None))
            return
    with closing(open_npy(path, TensorSpec(None, None))) as view:
        assert view.spec.shape == wanted.shape
        np.testing.assert_array_equal(view.read(0, view.size), wanted.ravel())


def test_nested_header_is_refused_also_deep_inside_another_call():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        with pytest.raises(TensorFileError, match="its npy header"):
            parse_header(forged("[" * 199 + "]" * 199), where="here")
    finally:
        sys.setrecursionlimit(limit)


def test_header_length_is_bounded_before_it_is_believed(tmp_path):
    path = tmp_path / "long.npy"
    for length in (2**16 + 1, 2**32 - 1):
        path.write_bytes(b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") + b"{" * 100)
        with pytest.raises(TensorFileError, match=f"claims to be {length} bytes long"):
            open_npy(path, TensorSpec())


def test_header_longer_than_the_first_read_is_read_whole(tmp_path):
    path = tmp_path / "padded.npy"
    text = header().rstrip() + " " * 20000 + "\n"
    path.write_bytes(forged(text, payload=np.arange(3, dtype="<f4").tobytes()))
    with open_npy(path, TensorSpec()) as view:
        assert view.read(0, 3).tolist() == [0, 1, 2]
    os.truncate(path, 10000)
    with pytest.raises(TensorFileError, match=r"cut off inside its header, 10000 of \d+ bytes"):
        open_npy(path, TensorSpec())


@pytest.mark.parametrize("shape", [f"({2**50},)", f"({2**62}, {2**62})", f"({2**63 - 1},)"])
def test_huge_shape_in_a_tiny_file_allocates_nothing(tmp_path, shape):
    path = tmp_path / "huge.npy"
    path.write_bytes(forged(header(shape=shape), payload=b"\0" * 12))
    tracemalloc.start()
    try:
        with pytest.raises(TensorFileError, match=r"cut off after 12 of \d+ bytes"):
            open_npy(path, TensorSpec())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**19


def test_huge_lengths_beside_a_zero_are_an_empty_tensor(tmp_path):
    path = tmp_path / "empty.npy"
    path.write_bytes(forged(header(shape=f"({2**62}, 0, {2**62})", fortran="True")))
    with open_npy(path, TensorSpec()) as view:
        assert view.size == 0
        assert view.read(0, 0).shape == (0,)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", r"is empty \(0 bytes\); the run was probably killed while writing"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n", "run `git lfs pull`"),
        (b"PK\x03\x04rest of an archive", "zip archive"),
        (b"\x1f\x8b\x08rest", "gzip"),
        (b"\x80\x04\x95pickled", "pickle, which is never loaded"),
        (b"hello, world", r"not an npy file \(it begins with b'hello,'\)"),
        (b"\x93NUMPX\x01\x00v\x00", "not an npy file"),
        (b"\x93NUMPY\x04\x00v\x00" + b" " * 200, r"npy version 4\.0; known: 1\.0, 2\.0, 3\.0"),
        (b"\x93NUMPY\x01\x01v\x00" + b" " * 200, r"npy version 1\.1"),
    ],
)
def test_other_files_are_named_for_what_they_are(data, sentence):
    with pytest.raises(TensorFileError, match="^here: .*" + sentence):
        parse_header(data, where="here")
