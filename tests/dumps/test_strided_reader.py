"""Gathering from a file: any order of axes, any range, any bound on memory gives numpy's answer."""

import os
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps import array_reader
from pytest_msdump.core.dumps.array_reader import ReusedMemory, StridedReader
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError

OFFSET = 7


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file of 2-byte elements, each of which holds its own place."""
    path = tmp_path_factory.mktemp("stored") / "elements"
    path.write_bytes(b"\xee" * OFFSET + np.arange(20000, dtype="<u2").tobytes())
    file = StoredFile(path)
    yield file
    file.close()


@st.composite
def gathers(draw):
    shape = draw(st.lists(st.integers(1, 9), max_size=5).map(tuple).filter(lambda lengths: prod(lengths) <= 20000))
    axes = tuple(draw(st.permutations(range(len(shape)))))
    block_bytes = draw(st.sampled_from([1, 2, 6, 34, 100, 500, 3200, 64000]))
    gap_bytes = draw(st.sampled_from([0, 2, 10, 8192]))
    size = prod(shape)
    ranges = draw(st.lists(st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted), max_size=6))
    step = draw(st.integers(1, size + 3))
    return shape, axes, block_bytes, gap_bytes, ranges, step


def strided(file, shape, axes, **bounds):
    """Return a reader of the stored block with its axes permuted, and numpy's answer."""
    array = np.arange(prod(shape), dtype="<u2").reshape(shape)
    strides = [array.strides[axis] // 2 for axis in axes]
    oracle = array.transpose(axes)
    return StridedReader(file, OFFSET, np.dtype("<u2"), oracle.shape, strides, **bounds), oracle.ravel()


@settings(deadline=None, max_examples=300)
@given(case=gathers())
@pytest.mark.full
def test_any_permutation_range_and_bound_gives_what_numpy_gives(stored, case):
    shape, axes, block_bytes, gap_bytes, ranges, step = case
    reader, oracle = strided(stored, shape, axes, block_bytes=block_bytes, gap_bytes=gap_bytes)
    for start, stop in ranges:
        assert np.array_equal(reader.read(start, stop), oracle[start:stop])
    blocks = [reader.read(low, min(low + step, oracle.size)).copy() for low in range(0, oracle.size, step)]
    assert np.array_equal(np.concatenate(blocks), oracle)


@pytest.fixture
def reads(monkeypatch):
    """Length of every read from a file, in bytes."""
    lengths = []
    preadv = os.preadv

    def counted(descriptor, targets, offset):
        lengths.append(sum(map(len, targets)))
        return preadv(descriptor, targets, offset)

    monkeypatch.setattr(array_reader.os, "preadv", counted)
    return lengths


def test_loop_over_small_blocks_reads_each_band_once(stored, reads):
    # 100 × 200 elements in Fortran order: 8 bands of 13 rows (5200 of 6400 bytes), each a walk through the whole file.
    reader, oracle = strided(stored, (200, 100), (1, 0), block_bytes=6400)
    for low in range(0, oracle.size, 50):
        reader.read(low, low + 50)
    assert sum(reads) <= 8 * oracle.nbytes
    assert max(reads) <= 6400 // 16


def test_long_gaps_are_skipped_and_short_ones_read_along(stored, reads):
    skipping, oracle = strided(stored, (100, 200), (1, 0), block_bytes=2**20, gap_bytes=0)
    assert np.array_equal(skipping.read(200, 300), oracle[200:300])
    assert sum(reads) == 2 * 100
    reads.clear()
    along, _ = strided(stored, (100, 200), (1, 0), block_bytes=2**20, gap_bytes=8192)
    assert np.array_equal(along.read(200, 300), oracle[200:300])
    assert len(reads) <= 2


def test_arrays_handed_out_are_the_callers_own(stored):
    reader, oracle = strided(stored, (20, 30), (1, 0), block_bytes=2**20)
    reader.read(0, 600)[:] = 0
    assert np.array_equal(reader.read(0, 600), oracle)


def test_scratch_is_aligned_to_pages_and_used_again():
    scratch = ReusedMemory()
    first = scratch.take(20_000, np.dtype("<f4"))
    again = scratch.take(10_000, np.dtype("<f8"))
    assert first.ctypes.data % 4096 == 0
    assert first.ctypes.data == again.ctypes.data
    assert (first.size, again.size) == (20_000, 10_000)
    assert scratch.take(10**6, np.dtype("<f8")).size == 10**6


@pytest.mark.parametrize("way", ["close", "nobody holds it"])
def test_a_file_is_closed_once_and_never_another_ones(tmp_path, way):
    path = tmp_path / "one"
    path.write_bytes(b"\1" * 10)
    file = StoredFile(path)
    descriptor = file.descriptor
    if way == "close":
        file.close()
        with pytest.raises(ValueError, match="read after close"):
            file.read_bytes(0, 1)
    else:
        del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    other = os.open(path, os.O_RDONLY)
    try:
        assert other == descriptor
        if way == "close":
            file.close()
            del file
        assert os.fstat(other).st_size == 10
    finally:
        os.close(other)


def test_bytes_beyond_the_end_are_an_error(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"\1" * 10)
    file = StoredFile(path)
    assert file.read_bytes(2, 3) == b"\1\1\1"
    os.truncate(path, 4)
    with pytest.raises(TensorFileError, match="ends at byte 4, but had 10 bytes when it was opened"):
        file.read_bytes(2, 8)


def test_file_that_shrinks_meanwhile_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "shrinks"
    path.write_bytes(b"\1" * 4000)
    file = StoredFile(path)
    dense = StridedReader(file, 0, np.dtype("u1"), (40, 100), (100, 1))
    turned = StridedReader(file, 0, np.dtype("u1"), (100, 40), (1, 100), gap_bytes=0)
    os.truncate(path, 1000)
    for reader in (dense, turned):
        with pytest.raises(TensorFileError, match="ends at byte 1000, but had 4000 bytes when it was opened"):
            reader.read(0, 4000)
    file.close()


def test_disk_error_while_reading_is_a_tensor_file_error(stored, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(array_reader.os, "preadv", broken)
    for axes in ((0, 1), (1, 0)):
        reader, _ = strided(stored, (4, 5), axes)
        with pytest.raises(TensorFileError, match="cannot be read at byte 7: Input/output error"):
            reader.read(0, 20)
