"""A small file is read at once, and gives what a file read piece by piece gives, of one moment."""

from __future__ import annotations

import os
from contextlib import closing
from unittest import mock

import numpy as np
import pytest
from dumps.dumpmade import BF16, FLOAT, FLOAT16, INT8, INT32, dump2, message, op_output, put
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.dumps import stored_file
from pytest_msdump.dumps.array_reader import open_part
from pytest_msdump.dumps.npy import open_npy
from pytest_msdump.dumps.stored_file import StoredFile
from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.tensor import TensorSpec

CODES = ("<f4", ">f4", "<f2", ">f2", "<f8", ">i4", "|i1", "|u1", "|b1", "<u2", ">i8", "<c8", ">c16")
NUMBERS = {FLOAT: "<f4", FLOAT16: "<f2", INT8: "|i1", INT32: "<i4", BF16: "<u2"}
NAME = "Add.op.1.1.1600000000000001"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("held")


def drawn(draw, code):
    """An array of any bytes: NaN of all payloads, Inf and subnormals among them."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    dtype = np.dtype(code)
    count = int(np.prod(shape, dtype=int))
    content = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    return np.frombuffer(content, dtype, count).reshape(shape)


def told(opened, axes, ranges):
    """All that a view tells, and bytes of what it reads."""
    with closing(opened) as first:
        view = first if axes is None else first.permuted(axes)
        read = []
        for start, stop in ranges:
            block = view.read(start, stop)
            assert block.flags.writeable
            read.append((block.dtype, block.tobytes()))
        return view.spec, view.shape, view.size, read


def expected(array, axes, ranges):
    """Bytes that numpy reads."""
    flat = (array if axes is None else array.transpose(axes)).reshape(-1)
    return [flat[start:stop].astype(array.dtype.newbyteorder("=")).tobytes() for start, stop in ranges]


@st.composite
def looks(draw, code):
    array = drawn(draw, code)
    axes = draw(st.none() | st.permutations(range(array.ndim)).map(tuple))
    ranges = draw(st.lists(st.tuples(st.integers(0, array.size), st.integers(0, array.size)).map(sorted), max_size=3))
    return array, axes, [(0, array.size), *ranges]


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(CODES).flatmap(looks), st.booleans())
def test_an_array_file_reads_alike(folder, look, fortran):
    array, axes, ranges = look
    path = folder / "array.npy"
    np.save(path, np.array(array, order="F" if fortran else "C"))
    at_once = told(open_npy(path, TensorSpec()), axes, ranges)
    if array.dtype != bool:
        assert [content for _, content in at_once[-1]] == expected(array, axes, ranges)
    with mock.patch.object(stored_file, "_SMALL_BYTES", -1):
        assert told(open_npy(path, TensorSpec()), axes, ranges) == at_once


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(sorted(NUMBERS)), st.data(), st.binary(max_size=5))
def test_a_dump_file_reads_alike(folder, number, data, behind):
    array, axes, ranges = data.draw(looks(NUMBERS[number]))
    header = message(outputs=[op_output(number, array.shape, array.nbytes)])
    path = put(folder, NAME, dump2(header, array.tobytes(), behind))
    at_once = told(open_part(path, 0), axes, ranges)
    if number != BF16:
        assert [content for _, content in at_once[-1]] == expected(array, axes, ranges)
    with mock.patch.object(stored_file, "_SMALL_BYTES", -1):
        assert told(open_part(path, 0), axes, ranges) == at_once


def test_a_small_file_is_seen_at_one_moment(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(100.0))
    with closing(open_npy(path, TensorSpec())) as view:
        path.write_bytes(bytes(path.stat().st_size // 2))
        np.testing.assert_array_equal(view.read(0, 100), np.arange(100.0))


def test_what_is_done_to_a_block_is_not_done_to_the_next(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10.0))
    with closing(open_npy(path, TensorSpec())) as view:
        view.read(0, 10)[:] = -1.0
        np.testing.assert_array_equal(view.read(0, 10), np.arange(10.0))


def test_a_file_that_is_no_longer_all_there_is_refused(tmp_path):
    path = tmp_path / "cut"
    path.write_bytes(bytes(100))
    file = StoredFile(path)
    os.truncate(path, 40)
    file.hold()
    assert file.held(0, 10) is None
    with pytest.raises(TensorFileError, match="ends at byte 40, but had 100 bytes"):
        file.read_bytes(0, 100)


def test_a_disk_error_is_told_by_who_wants_the_bytes(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    path = tmp_path / "broken"
    path.write_bytes(bytes(100))
    file = StoredFile(path)
    monkeypatch.setattr(stored_file.os, "pread", broken)
    file.hold()
    monkeypatch.setattr(stored_file.os, "preadv", broken)
    with pytest.raises(TensorFileError, match="cannot be read at byte 0: Input/output error"):
        file.read_bytes(0, 100)


def test_nothing_is_read_after_close(tmp_path):
    path = tmp_path / "closed"
    path.write_bytes(bytes(100))
    file = StoredFile(path)
    file.hold()
    assert file.read_bytes(90, 10) == bytes(10)
    file.close()
    with pytest.raises(ValueError, match="read after close"):
        file.read_bytes(90, 10)


def test_no_more_is_held_than_a_small_file(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(stored_file._SMALL_BYTES + 1))
    file = StoredFile(path)
    file.hold()
    assert file.held(0, 1) is None
