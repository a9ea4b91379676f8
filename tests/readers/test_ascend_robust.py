"""Whatever happens to a dump file on its way, the answer is its tensors or our own error, at a bounded price."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from readers.dumpmade import FLOAT, TIME, chunk, dump2, message, nano, nano_tensor, op_output, put, sliced_json

from pytest_msdump.errors import MsdumpError, TensorFileError
from pytest_msdump.readers.ascend_file import open_part, read_header
from pytest_msdump.readers.ascend_header import parse_header
from pytest_msdump.readers.wire import Memory

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
# One of each file that is the same on both sides, so that the run stays short.
FILES = sorted(
    path for path in GOLDEN.glob("*/left/*") if path.suffix not in (".npy", ".csv", ".txt") and path.stat().st_size > 0
) + sorted(GOLDEN.glob("*/right/*.pb"))
SLACK_BYTES = 64 * 2**10
# The most entries that are believed in one header, as Python objects, whatever the size of the file.
ENTRIES_BYTES = 2 * 2**20


MANY = ("entries", "all in protobuf")


def read_all(path):
    """Open and read what a file holds; return how many tensors could be read and how many were refused."""
    read, refused = 0, 0
    try:
        header, _ = read_header(path)
    except TensorFileError:
        return read, 1
    for part in range(len(header.tensors)):
        outcome = read_one(path, part)
        read, refused = read + outcome, refused + (not outcome)
    return read, refused


def read_one(path, part):
    try:
        with open_part(path, part) as view:
            assert view.read(0, view.size).size == view.size
    except TensorFileError:
        return False
    return True


def places(size, count=200):
    """Every byte of a small file, else so many places, those of the header among them."""
    if size <= count:
        return range(size)
    return sorted({*range(min(size, count // 2)), *np.linspace(0, size - 1, count // 2).astype(int).tolist()})


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_a_golden_file_that_is_cut_gives_tensors_or_our_error(path, tmp_path):
    whole = path.read_bytes()
    tensors = len(parse_header(Memory(whole)).tensors)
    complete = read_all(path)[0]
    target = tmp_path / path.name
    for stop in places(len(whole)):
        target.write_bytes(whole[:stop])
        read, refused = read_all(target)
        assert read + refused in (1, tensors)
        # Something of the last tensor is always missing, unless no bytes belong to it.
        assert read < complete or complete == 0 or stop_is_behind_data(whole, stop)


def stop_is_behind_data(whole, stop):
    tensors = parse_header(Memory(whole)).tensors
    return all(tensor.start + tensor.size <= stop for tensor in tensors)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_a_golden_file_with_flipped_bits_gives_tensors_or_our_error(path, tmp_path):
    whole = path.read_bytes()
    random = np.random.default_rng(len(whole))
    target = tmp_path / path.name
    header_bytes = min(len(whole), 8 + int.from_bytes(whole[:8], "little"))
    for place in places(header_bytes, 120):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        target.write_bytes(damaged)
        # Anything but our own error would come through here.
        read_all(target)


def peak_of(action, path):
    tracemalloc.start()
    try:
        action(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def forged():
    """Small files that promise, or cost, far more than they are."""
    huge = 2**40
    yield "shape", dump2(message(outputs=[op_output(FLOAT, (huge,), 4 * huge)]), bytes(64))
    yield "size", dump2(message(outputs=[op_output(FLOAT, (2,), 2**63)]), bytes(4))
    yield "header length", (60 * 2**20).to_bytes(8, "little") + bytes(64)
    yield "text", dump2(chunk(6, b"n" * 100_000))
    yield "entries", dump2(chunk(3, b"") * 60_000)
    yield "dimensions", dump2(chunk(3, chunk(3, chunk(1, b"\x01" * 200_000))))
    yield "single dimensions", dump2(chunk(3, chunk(3, b"\x08\x01" * 100_000)))
    yield "unknown fields", dump2(chunk(99, b"") * 10_000 + message(outputs=[op_output(FLOAT, (1,), 4)]), bytes(4))
    yield "attributes", dump2(chunk(7, chunk(2, b"{}")) * 10_000)
    yield "nano count", nano([], [nano_tensor("output", 1, (2**40,), 2**62)])
    yield "all in protobuf", chunk(3, b"") * 60_000


@pytest.mark.parametrize(("name", "content"), list(forged()), ids=[name for name, _ in forged()])
def test_a_forged_file_costs_no_more_than_its_size_allows(name, content, tmp_path):
    path = put(tmp_path, f"Add.op.1.1.{TIME}", content)
    read_all(path)  # what is imported or cached at first use is not the file's price
    assert peak_of(read_all, path) <= 4 * len(content) + (ENTRIES_BYTES if name in MANY else SLACK_BYTES)


def test_golden_files_cost_no_more_than_their_size_allows():
    for path in FILES:
        assert peak_of(read_all, path) <= 4 * path.stat().st_size + SLACK_BYTES, path


def test_a_large_attribute_is_refused(tmp_path):
    attribute = sliced_json(threads=True, total=2, cuts=[[2]]) + " " * 2**23
    header = message(outputs=[op_output(FLOAT, (1,), 4)], attribute=attribute)
    from pytest_msdump.readers.ffts import open_sliced

    pieces = [put(tmp_path, f"Add.op.1.1.{TIME + n}.4.0.{n}.0", dump2(header, bytes(4))) for n in (0, 1)]
    with pytest.raises(MsdumpError, match="it is damaged"):
        open_sliced(pieces, 0)
