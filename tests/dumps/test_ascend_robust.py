"""Whatever happens to a dump file on its way, the answer is its tensors or our own error, at a bounded price."""

import tracemalloc

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
from pytest_msdump.capabilities.ascend.reader import AscendReader
from pytest_msdump.capabilities.ascend.slices import open_sliced
from pytest_msdump.core.errors import MsdumpError, TensorFileError

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


def test_a_large_attribute_is_refused(tmp_path):
    attribute = sliced_json(threads=True, total=2, cuts=[[2]]) + " " * 2**23
    header = message(outputs=[op_output(FLOAT, (1,), 4)], attribute=attribute)
    pieces = [put(tmp_path, f"Add.op.1.1.{TIME + n}.4.0.{n}.0", dump2(header, bytes(4))) for n in (0, 1)]
    with pytest.raises(MsdumpError, match="it is damaged"):
        open_sliced(pieces, 0)
