"""Any part of a file, in any order of its axes, is read as numpy reads it."""

import os
from contextlib import closing

import numpy as np
import pytest
from dumps.dumpmade import BF16, FLOAT, FLOAT16, INT8, INT32, dump2, message, op_output, put
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.ascend.dump_file import open_part
from pytest_msdump.capabilities.ascend.reader import AscendReader
from pytest_msdump.core.dumps import stored_file
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec

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


def seen(opened, axes, ranges):
    """All that a view says of itself, and bytes of what it reads."""
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
def test_an_array_file_is_read_as_numpy_reads_it(folder, look, fortran):
    array, axes, ranges = look
    path = folder / "array.npy"
    np.save(path, np.array(array, order="F" if fortran else "C"))
    *_, read = seen(open_npy(path, TensorSpec()), axes, ranges)
    if array.dtype != bool:
        assert [content for _, content in read] == expected(array, axes, ranges)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(sorted(NUMBERS)), st.data(), st.binary(max_size=5))
def test_a_dump_file_is_read_as_numpy_reads_it(folder, number, data, behind):
    array, axes, ranges = data.draw(looks(NUMBERS[number]))
    header = message(outputs=[op_output(number, array.shape, array.nbytes)])
    path = put(folder, NAME, dump2(header, array.tobytes(), behind))
    *_, read = seen(open_part(path, 0), axes, ranges)
    if number != BF16:
        assert [content for _, content in read] == expected(array, axes, ranges)


def test_what_is_done_to_a_block_is_not_done_to_the_next(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10.0))
    with closing(open_npy(path, TensorSpec())) as view:
        view.read(0, 10)[:] = -1.0
        np.testing.assert_array_equal(view.read(0, 10), np.arange(10.0))


def test_a_disk_error_names_the_file_and_the_byte(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    path = tmp_path / "broken"
    path.write_bytes(bytes(100))
    file = StoredFile(path)
    monkeypatch.setattr(stored_file.os, "preadv", broken)
    with pytest.raises(TensorFileError, match="broken: cannot be read at byte 0: Input/output error"):
        file.read_bytes(0, 100)


@pytest.mark.parametrize("how", ["written over", "put in its place"])
def test_a_dump_file_written_since_it_was_indexed_is_read_as_it_is_now(tmp_path, how):
    def content(data_type, size):
        # The shape's second length makes up for the type, so that both files are of one size.
        return dump2(message(outputs=[op_output(data_type, (1, 16 // size), 16)]), bytes(16))

    put(tmp_path, NAME, content(FLOAT, 4))
    (ref,) = AscendReader().index(tmp_path).refs
    path = ref.source.path
    before, new = path.stat(), content(FLOAT16, 2)
    assert len(new) == before.st_size
    if how == "written over":
        path.write_bytes(new)
    else:
        path.with_name("other").write_bytes(new)
        path.with_name("other").replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with closing(AscendReader().open(ref)) as view:
        assert (view.dtype, view.shape) == ("float16", (1, 8))
