"""What is kept because a dump has very many files that are alike: the same answers, and no answer of another file."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.ascend.header import parse_header
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.npy import parse_header as parse_npy
from pytest_msdump.core.dumps.wire import Memory, WireSpan, fields
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.files import names_kept

numbers = st.integers(1, 15)


def varint(value):
    content = b""
    while value >= 0x80:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


contents = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=200))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 40), contents), max_size=12), st.integers(0, 40))
def test_a_small_message_has_the_fields_that_were_written(written, before):
    message = b"".join(field(*one) for one in written)
    found = list(fields(Memory(b"\xff" * before + message), WireSpan(before, before + len(message))))
    assert [one.number for one in found] == [number for number, _ in written]
    for one, (_, content) in zip(found, written, strict=True):
        if isinstance(content, int):
            assert (one.wire_type, one.value) == (0, content)
        else:
            assert one.wire_type == 2
            assert (b"\xff" * before + message)[one.span.start : one.span.stop] == content


def output_of(dims, size, address=7):
    packed = b"".join(varint(length) for length in dims)
    return field(1, 1) + field(2, 2) + field(3, field(1, packed)) + field(6, size) + field(9, address)


def ascend(*outputs):
    message = b"".join(field(3, one) for one in outputs)
    return len(message).to_bytes(8, "little") + message + bytes(24 * len(outputs))


def test_headers_that_are_alike_but_for_one_number_are_not_taken_for_each_other():
    one, same, other, moved = (
        parse_header(Memory(ascend(output_of(dims, 24, address)))).tensors[0]
        for dims, address in (((2, 3), 7), ((2, 3), 7), ((3, 2), 7), ((2, 3), 8))
    )
    assert one == same
    assert (one.shape, other.shape) == ((2, 3), (3, 2))
    assert (one.address, moved.address) == (7, 8)


def test_a_kept_tensor_gets_the_place_of_its_own_file():
    alone = parse_header(Memory(ascend(output_of((2, 3), 24)))).tensors
    both = parse_header(Memory(ascend(output_of((6,), 24), output_of((2, 3), 24)))).tensors
    assert [tensor.slot for tensor in both] == [0, 1]
    assert both[1].start == both[0].start + 24
    assert alone[0].slot == 0
    assert alone[0].shape == both[1].shape == (2, 3)


def test_a_kept_tensor_with_its_data_inside_points_into_its_own_file():
    inside = field(1, 1) + field(3, field(1, varint(2))) + field(5, b"ABCDEFGH")
    for op_name in (b"a", b"a_longer_name"):
        content = field(6, op_name) + field(3, inside)
        tensor = parse_header(Memory(content)).tensors[0]
        assert content[tensor.start : tensor.start + tensor.size] == b"ABCDEFGH"


def test_a_damaged_header_names_its_own_file_each_time():
    broken = ascend(
        output_of((2, 3), 24).replace(field(3, field(1, varint(2) + varint(3))), b"\x1a\x04\x0a\x09\x02\x03")
    )
    texts = []
    for name in ("a", "b"):
        with pytest.raises(TensorFileError) as caught:
            parse_header(Memory(broken, name))
        texts.append(str(caught.value))
    assert [text.partition(":")[0] for text in texts] == ["a", "b"]


def test_npy_headers_that_are_alike_and_errors_name_their_own_file(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 1237), np.float32))
    content = (tmp_path / "a.npy").read_bytes()[:128]
    assert [parse_npy(content, where=name).shape for name in "abc"] == [(3, 1237)] * 3
    for name in ("one", "two"):
        with pytest.raises(TensorFileError, match=f"^{name}: its npy header"):
            parse_npy(content.replace(b"descr", b"dexcr"), where=name)


def test_every_directory_is_listed_once_while_a_dump_is_indexed(tmp_path, monkeypatch):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    for number in range(3):
        np.save(
            folder / f"ReLU.Default_ReLU-op{number}.0.0.{1600000000000000 + number}.output.0.DefaultFormat.npy",
            np.ones(2),
        )
    listed = []
    original = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(os.fspath(path)) or original(path))
    assert len(index(tmp_path).refs) == 3
    assert listed.count(str(folder)) == 1
    # Whoever asks later sees what is there then.
    (folder.parent / "1").mkdir()
    assert any(found.parts[-1:] == ("1",) for found in walk(tmp_path))
    assert listed.count(str(folder)) == 2


def test_what_was_listed_is_forgotten_also_after_an_error(tmp_path):
    def names():
        return [found.files for found in walk(tmp_path)]

    def fails():
        with names_kept():
            assert names() == [()]
            (tmp_path / "new").touch()
            assert names() == [()]
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert names() == [("new",)]
