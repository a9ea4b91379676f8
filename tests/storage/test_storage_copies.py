"""Bytes of remote files: the right ones, each fetched once, no more than is asked for, and never many at a time."""

from __future__ import annotations

import errno
import os
import random
import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage.shelf import TroubledFileSystem

from pytest_msdump.errors import TensorFileError
from pytest_msdump.pipeline.indexing import index
from pytest_msdump.pipeline.opening import as_path, open_view
from pytest_msdump.readers.buffers import StoredFile, StridedReader
from pytest_msdump.storage import copies

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
pytestmark = pytest.mark.usefixtures("troubled")

CONTENT = random.Random(1).randbytes(3 * 2**20 + 17)


def stored(content: bytes = CONTENT, name: str = "a/b.npy"):
    TroubledFileSystem().pipe_file(f"/{name}", content)
    return as_path(f"troubled://{name}")


def open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def fetched() -> list[tuple[int, int]]:
    return [(start, stop) for _, start, stop in TroubledFileSystem.asked]


@given(st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 2**19)), max_size=12))
@settings(deadline=None, max_examples=60)
def test_any_reads_give_the_files_bytes_and_fetch_each_at_most_once(reads):
    TroubledFileSystem.settled()
    with closing(StoredFile(stored())) as file:
        assert file.size == len(CONTENT)
        for start, length in reads:
            length = min(length, file.size - start)
            target = bytearray(length)
            file.read_into(memoryview(target), start)
            assert target == CONTENT[start : start + length]
        ranges = sorted(fetched())
        assert all(before[1] <= after[0] for before, after in pairwise(ranges))
        # Whoever takes the descriptor reads where he likes.
        assert os.pread(file.descriptor, file.size, 0) == CONTENT
        assert sum(stop - start for start, stop in fetched()) == len(CONTENT)


def test_a_header_is_fetched_by_itself_and_who_reads_on_gets_more_each_time():
    with closing(StoredFile(stored(bytes(20 * 2**20)))) as file:
        file.read_into(memoryview(bytearray(100)), 0)
        assert fetched() == [(0, 2**15)]
        for start in range(0, file.size, 2**14):
            file.read_into(memoryview(bytearray(2**14)), start)
    lengths = [stop - start for start, stop in fetched()]
    assert lengths[:4] == [2**15, 2**18, 2**21, 2**23]
    assert max(lengths) == 2**23
    assert len(lengths) < 8


def test_a_large_read_is_fetched_in_pieces():
    with closing(StoredFile(stored(bytes(20 * 2**20)))) as file:
        file.read_into(memoryview(bytearray(file.size)), 0)
    assert max(stop - start for start, stop in fetched()) == 2**23


def fetched_of(name: str) -> int:
    return sum(stop - start for path, start, stop in TroubledFileSystem.asked if path.endswith(name))


def test_of_a_dump_file_its_header_is_fetched_to_index_it_and_one_tensor_to_read_that(put, monkeypatch):
    monkeypatch.setattr(copies, "_BLOCK_BYTES", 512)
    url = put(GOLDEN / "a_fusion_nchw/left", "troubled")
    ref = next(ref for ref in index(as_path(url)).refs if ref.source.path.name.startswith("Conv2D."))
    size = ref.source.path.stat().st_size
    assert size > 20_000
    assert 0 < fetched_of(ref.source.path.name) <= 4096
    TroubledFileSystem.asked.clear()
    with closing(open_view(ref)) as view:
        assert fetched_of(ref.source.path.name) <= 4096
        view.read(0, view.size)
        assert 4096 < fetched_of(ref.source.path.name) < size // 2


def test_indexing_npy_files_fetches_nothing_of_them(troubled, put, lenet):
    url = put(lenet / "target", "troubled")
    troubled.asked.clear()
    assert len(index(as_path(url)).refs) == 53
    assert not [path for path, *_ in troubled.asked if path.endswith(".npy")]


# With 100 bytes for a band and no gap worth reading, every element of a row is a piece of the file by itself.
@pytest.mark.parametrize(("block_bytes", "gap_bytes"), [(2**20, 2**13), (6400, 0), (100, 0)])
def test_what_is_gathered_from_all_over_a_file_is_fetched_once(monkeypatch, block_bytes, gap_bytes):
    monkeypatch.setattr(copies, "_BLOCK_BYTES", 512)
    monkeypatch.setattr(copies, "_MOST_BLOCKS", 2)
    values = np.arange(1.0, 200 * 50 + 1)
    with closing(StoredFile(stored(b"header" + values.tobytes()))) as file:
        reader = StridedReader(file, 6, values.dtype, (200, 50), (1, 200), block_bytes=block_bytes, gap_bytes=gap_bytes)
        rows = [reader.read(start, start + 50).tolist() for start in range(0, values.size, 50)]
    assert rows == values.reshape(50, 200).T.tolist()
    ranges = sorted(fetched())
    assert all(before[1] <= after[0] for before, after in pairwise(ranges))


def test_closing_gives_the_local_file_back():
    path = stored()
    before = open_files()
    file = StoredFile(path)
    file.read_into(memoryview(bytearray(len(CONTENT))), 0)
    assert len(open_files()) == len(before) + 1
    file.close()
    assert open_files() == before
    with pytest.raises(ValueError, match=re.escape("troubled://a/b.npy: read after close()")):
        file.read_into(memoryview(bytearray(1)), 0)


def test_a_file_that_is_shorter_than_it_was_listed_is_an_error(put, tmp_path):
    np.save(tmp_path / "a.0.1700000000000001.npy", np.arange(1000.0))
    url = put(tmp_path, "troubled", "bucket/d")
    ref = index(as_path(url)).refs[0]
    stored((tmp_path / "a.0.1700000000000001.npy").read_bytes()[:-8], "bucket/d/a.0.1700000000000001.npy")
    with pytest.raises(TensorFileError, match="gave 8120 bytes for bytes 0 to 8128; the file has changed"):
        open_view(ref)
    assert index(as_path(url)).refs[0].source.path.stat().st_size == 8120


def test_a_storage_that_gives_more_than_was_asked_for_is_an_error(troubled, monkeypatch):
    monkeypatch.setattr(troubled, "cat_file", lambda *_, **__: CONTENT)
    with pytest.raises(TensorFileError, match="or the storage cannot serve parts of files"):
        StoredFile(stored()).read_into(memoryview(bytearray(10)), 0)


def test_a_full_disk_is_told_with_what_to_do(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(TensorFileError) as caught:
        StoredFile(stored()).read_into(memoryview(bytearray(10)), 0)
    assert str(caught.value).startswith("troubled://a/b.npy: cannot be read at byte 0: No space left on device; there")
    assert str(caught.value).endswith("or where TMPDIR says")


@pytest.mark.parametrize("size", [0, 1, 2**20 + 1])
def test_a_stream_reads_bytes_lines_and_parts(size):
    content = (b"a,b\r\n" * (size // 5 + 1))[:size]
    path = stored(content, "a/b.csv")
    with path.open("rb") as stream:
        assert stream.read() == content
        stream.seek(-min(3, size), os.SEEK_END)
        assert stream.read() == content[size - min(3, size) :]
        stream.seek(size + 10)
        assert stream.read(5) == b""
    with path.open("r", encoding="ascii", newline="\n") as stream:
        assert list(stream) == content.decode().splitlines(keepends=True)
    assert path.read_bytes() == content
    assert path.read_text("ascii") == content.decode().replace("\r\n", "\n").replace("\r", "\n")
