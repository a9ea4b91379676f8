"""Whatever happens to a dump file on its way, the answer is its tensors or our own error, at a bounded price."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import (
    FLOAT,
    TIME,
    chunk,
    dump2,
    message,
    nano,
    nano_tensor,
    one_output,
    op_output,
    put,
    sliced_json,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.ascend.dump_file import open_part, read_header
from pytest_msdump.capabilities.ascend.header import parse_header
from pytest_msdump.capabilities.ascend.reader import AscendReader
from pytest_msdump.capabilities.ascend.slices import open_sliced
from pytest_msdump.core.dumps.wire import Memory
from pytest_msdump.core.errors import MsdumpError, TensorFileError

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"


def dump_files():
    """Return the path of each dump file, one of those that hold the same."""
    found = {}
    for path in sorted(GOLDEN.glob("*/*/*")):
        is_dump = path.is_file() and path.suffix not in (".npy", ".csv", ".txt") and path.parent.name != "expected"
        if is_dump and path.stat().st_size > 8:
            found.setdefault(path.read_bytes(), path)
    return list(found.values())


FILES = dump_files()
SLACK_BYTES = 64 * 2**10
# The most entries that are believed in one header, as Python objects, whatever the size of the file.
ENTRIES_BYTES = 2 * 2**20


MANY = ("entries", "all in protobuf")


def read_all(path):
    """Open and read what a file holds: the bytes of each tensor, ``None`` where one, or the whole file, is refused."""
    try:
        header, *_ = read_header(path)
    except TensorFileError:
        return None
    return [read_one(path, part) for part in range(len(header.tensors))]


def read_one(path, part):
    try:
        with open_part(path, part) as view:
            values = view.read(0, view.size)
            assert values.size == view.size
            return values.tobytes()
    except TensorFileError:
        return None


def places(size, count=200):
    """Every byte of a small file, else so many places, those of the header among them."""
    if size <= count:
        return range(size)
    return sorted({*range(min(size, count // 2)), *np.linspace(0, size - 1, count // 2).astype(int).tolist()})


def name_of(path):
    return f"{path.parts[-3]}-{path.name}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_golden_file_that_is_cut_gives_the_tensors_that_are_left_or_our_error(path, tmp_path):
    whole = path.read_bytes()
    complete = read_all(path)
    ends = [tensor.start + tensor.size for tensor in parse_header(Memory(whole)).tensors]
    target = put(tmp_path, path.name, whole)
    for stop in reversed(places(len(whole))):
        os.truncate(target, stop)
        left = read_all(target)
        # The header is cut, or all is as it was but for tensors that reach beyond the end.
        assert left in (None, [one if end <= stop else None for one, end in zip(complete, ends, strict=True)])


def test_a_file_all_in_protobuf_that_is_cut_gives_its_first_tensors_or_our_error(tmp_path):
    data = [np.arange(count, dtype="<f4").tobytes() for count in (3, 40, 2)]
    whole = message(outputs=[op_output(FLOAT, (len(one) // 4,), 0, data=one) for one in data], version="1.0")
    target = put(tmp_path, f"Add.op.1.1.{TIME}", whole)
    assert read_all(target) == data
    found = []
    for stop in reversed(range(len(whole))):
        os.truncate(target, stop)
        found.append(read_all(target))
    assert all(left in (None, data[:1], data[:2]) for left in found)
    assert data[:2] in found


def slices_of(case):
    return sorted((GOLDEN / "l_ffts" / "left").glob(case))


def read_joined(pieces):
    try:
        view = open_sliced(pieces, 0)
    except TensorFileError:
        return None
    try:
        return view.read(0, view.size).tobytes()
    except TensorFileError:
        return None
    finally:
        view.close()


@pytest.mark.parametrize("case", ["*man_op*", "*auto_op*"])
@pytest.mark.parametrize("damaged", [0, 1])
def test_slices_of_which_one_is_damaged_are_joined_as_they_were_or_refused(case, damaged, tmp_path):
    pieces = [put(tmp_path, path.name, path.read_bytes()) for path in slices_of(case)]
    target, whole = pieces[damaged], pieces[damaged].read_bytes()
    joined = read_joined(pieces)
    assert joined is not None
    header = int.from_bytes(whole[:8], "little") + 8
    for place in places(header, 120):
        target.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        read_joined(pieces)
    for stop in places(len(whole)):
        target.write_bytes(whole[:stop])
        assert read_joined(pieces) in (None, joined)


@given(st.binary(max_size=80) | st.text('123456789,.Addop/ \n\r"', max_size=80).map(str.encode))
@settings(max_examples=150, deadline=None)
def test_whatever_a_mapping_file_holds_the_dump_is_indexed(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("mapped")
    put(folder, f"Add.op.1.1.{TIME}", one_output(np.ones(1, "<f4")))
    put(folder, "1", one_output(np.ones(1, "<f4")))
    put(folder, "mapping.csv", text)
    dump = AscendReader().index(folder)
    assert "op" in {ref.key.op.name for ref in dump.refs}
    assert len(dump.refs) + len(dump.older) + len(dump.unexplained) == 2


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
    pieces = [put(tmp_path, f"Add.op.1.1.{TIME + n}.4.0.{n}.0", dump2(header, bytes(4))) for n in (0, 1)]
    with pytest.raises(MsdumpError, match="it is damaged"):
        open_sliced(pieces, 0)


@pytest.mark.parametrize(
    "name", ["m_nano/left/Add.nano_op.1.2.1600000000000001", "b5_broken_files/left/Add.shortdata.8.3.1600000000000004"]
)
def test_no_number_in_a_header_makes_it_cost_more(name, tmp_path):
    whole = (GOLDEN / name).read_bytes()
    header = int.from_bytes(whole[:8], "little") + 8
    target = put(tmp_path, Path(name).name, whole)
    most = 0
    for place in range(header):
        for value in (0x00, 0x7F, 0xFF):
            target.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            most = max(most, peak_of(read_all, target))
    assert most <= 4 * len(whole) + SLACK_BYTES
