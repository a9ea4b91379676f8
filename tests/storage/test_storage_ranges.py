"""Bytes of remote files: those of the version that was listed, no more than is needed, never many at a time."""

from __future__ import annotations

import os
import random
import re
import tempfile
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage.shelf import TroubledFileSystem

from pytest_msdump.capabilities.remote import listings
from pytest_msdump.capabilities.remote.listings import MOST_BYTES
from pytest_msdump.core.compare.opening import as_path, index, open_view
from pytest_msdump.core.dumps.array_reader import StridedReader
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.locations import StoredObject

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
pytestmark = pytest.mark.usefixtures("troubled")

CONTENT = random.Random(1).randbytes(3 * 2**20 + 17)


def stored(content: bytes = CONTENT, name: str = "a/b.npy"):
    TroubledFileSystem().pipe_file(f"/{name}", content)
    return as_path(f"troubled://{name}")


def fetched() -> list[tuple[int, int]]:
    return [(start, stop) for _, start, stop in TroubledFileSystem.asked]


@given(st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 2**19)), max_size=12))
@settings(deadline=None, max_examples=60)
def test_any_reads_give_the_bytes_of_the_file_in_pieces_of_bounded_size(reads):
    TroubledFileSystem.settled()
    with closing(StoredFile(stored())) as file:
        assert file.size == len(CONTENT)
        for start, length in reads:
            length = min(length, file.size - start)
            target = bytearray(length)
            file.read_into(memoryview(target), start)
            assert target == CONTENT[start : start + length]
    assert all(0 < stop - start <= MOST_BYTES for start, stop in fetched())


def test_memory_stays_bounded_however_large_the_tensor_is():
    with closing(StoredFile(stored(bytes(64 * 2**20)))) as file:
        target = memoryview(bytearray(2**20))
        tracemalloc.start()
        for start in range(0, file.size, len(target)):
            file.read_into(target, start)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # The storage in memory makes a copy of what it gives, as a connection does.
    assert peak < 3 * MOST_BYTES


def fetched_of(name: str) -> int:
    return sum(stop - start for path, start, stop in TroubledFileSystem.asked if path.endswith(name))


def test_of_a_dump_file_its_header_is_fetched_to_index_it_and_one_tensor_to_read_that(put, monkeypatch):
    monkeypatch.setattr(listings, "FIRST_BYTES", 512)
    url = put(GOLDEN / "a_fusion_nchw/left", "troubled")
    ref = next(ref for ref in index(as_path(url)).refs if ref.source.path.name.startswith("Conv2D."))
    size = ref.source.path.stat().st_size
    assert size > 20_000
    assert 0 < fetched_of(ref.source.path.name) <= 4096
    TroubledFileSystem.asked.clear()
    with closing(open_view(ref)) as view:
        assert fetched_of(ref.source.path.name) <= 4096 * 2
        view.read(0, view.size)
        assert 4096 < fetched_of(ref.source.path.name) < size // 2


# With 100 bytes for a band and no gap worth reading, every element of a row is a piece of the file by itself.
@pytest.mark.parametrize(("block_bytes", "gap_bytes"), [(2**20, 2**13), (6400, 0), (100, 0)])
def test_what_is_gathered_from_all_over_a_file_is_fetched_in_few_pieces(monkeypatch, block_bytes, gap_bytes):
    monkeypatch.setattr(listings, "FIRST_BYTES", 512)
    monkeypatch.setattr(listings, "MOST_BYTES", 2**14)
    values = np.arange(1.0, 200 * 50 + 1)
    with closing(StoredFile(stored(b"header" + values.tobytes()))) as file:
        reader = StridedReader(file, 6, values.dtype, (200, 50), (1, 200), block_bytes=block_bytes, gap_bytes=gap_bytes)
        rows = [reader.read(start, start + 50).tolist() for start in range(0, values.size, 50)]
    assert rows == values.reshape(50, 200).T.tolist()
    # Once through the file for each band of the rows, which is four times as large as that of a file of this machine.
    passes = -(-values.nbytes // (4 * block_bytes))
    assert len(fetched()) <= passes * (3 + values.nbytes // 2**14)


def test_nothing_is_read_from_a_closed_file():
    file = StoredFile(stored())
    file.close()
    with pytest.raises(ValueError, match=re.escape("troubled://a/b.npy: read after close()")):
        file.read_into(memoryview(bytearray(1)), 0)


def test_nothing_is_written_to_disk(put, monkeypatch, lenet):
    for name in ("mkdtemp", "mkstemp", "TemporaryFile"):
        monkeypatch.delattr(tempfile, name)
    for ref in index(as_path(put(lenet / "target", "troubled"))).refs:
        with closing(open_view(ref)) as view:
            assert view.read(0, view.size).size == view.size


def changed(name: str, content: bytes) -> None:
    """Write an object anew, at another time."""
    TroubledFileSystem().pipe_file(f"/{name}", content)


@pytest.mark.parametrize(
    "content", [CONTENT[::-1], CONTENT[:-8], CONTENT + b"more"], ids=["same size", "cut", "longer"]
)
def test_a_file_that_was_written_anew_while_it_is_read_is_an_error(content):
    with closing(StoredFile(stored())) as file:
        file.read_into(memoryview(bytearray(100)), 0)
        changed("a/b.npy", content)
        with pytest.raises(TensorFileError) as caught:
            file.read_into(memoryview(bytearray(100)), 2**20)
    assert str(caught.value) == (
        "troubled://a/b.npy: cannot be read at byte 1048576: has changed since its name was listed; "
        "compare again when nothing writes to it"
    )


def test_a_file_that_changes_while_its_bytes_come_is_an_error(troubled, monkeypatch):
    original = troubled.cat_file

    def slow(system, path, **words):
        data = original(system, path, **words)
        changed("a/b.npy", CONTENT[::-1])
        return data

    path = stored()
    assert path.exists() is False  # nothing was listed: the version is that of the moment when it is opened
    file = StoredFile(path)
    monkeypatch.setattr(troubled, "cat_file", slow)
    with pytest.raises(TensorFileError, match="has changed since its name was listed"):
        file.read_into(memoryview(bytearray(10)), 0)


def test_a_file_that_changed_since_it_was_listed_is_an_error_until_it_is_listed_again(put, tmp_path):
    np.save(tmp_path / "a.0.1700000000000001.npy", np.arange(1000.0))
    url = put(tmp_path, "troubled", "bucket/d")
    ref = index(as_path(url)).refs[0]
    np.save(tmp_path / "a.0.1700000000000001.npy", np.arange(1000.0) + 1)
    put(tmp_path, "troubled", "bucket/d")
    with pytest.raises(TensorFileError, match="has changed since its name was listed"):
        open_view(ref)
    with closing(open_view(index(as_path(url)).refs[0])) as view:
        assert view.read(0, 2).tolist() == [1.0, 2.0]


def test_a_file_that_has_gone_is_an_error(put, tmp_path):
    np.save(tmp_path / "a.0.1700000000000001.npy", np.arange(1000.0))
    ref = index(as_path(put(tmp_path, "troubled", "bucket/d"))).refs[0]
    TroubledFileSystem().rm("/bucket/d", recursive=True)
    with pytest.raises(TensorFileError, match="cannot be read at byte 0: no longer exists; compare again"):
        open_view(ref)


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (StoredObject(1, '"a"', "1"), StoredObject(1, '"a"', "2"), True),
        (StoredObject(1, '"a"', "1"), StoredObject(1, '"b"', "1"), False),
        (StoredObject(1, "", "1"), StoredObject(1, '"a"', "1"), True),
        (StoredObject(1, "", "1"), StoredObject(1, "", "2"), False),
        (StoredObject(1, "", ""), StoredObject(1, "", "2"), True),
        (StoredObject(1, '"a"', "1"), StoredObject(2, '"a"', "1"), False),
    ],
)
def test_a_version_is_known_by_the_etag_else_by_size_and_time(before, after, is_same):
    assert before.is_same(after) is after.is_same(before) is is_same


def test_a_storage_that_gives_more_than_was_asked_for_is_an_error(troubled, monkeypatch):
    monkeypatch.setattr(troubled, "cat_file", lambda *_, **__: CONTENT)
    with pytest.raises(TensorFileError, match="the storage cannot serve parts of files"):
        StoredFile(stored()).read_into(memoryview(bytearray(10)), 0)


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
