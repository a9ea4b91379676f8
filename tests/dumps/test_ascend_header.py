import struct

import pytest
from dumps.dumpmade import (
    FLOAT,
    FLOAT16,
    INT32,
    NC1HWC0,
    chunk,
    dump2,
    message,
    nano,
    nano_tensor,
    number,
    op_input,
    op_output,
)

from pytest_msdump.capabilities.ascend.dump_proto import DATA_TYPES, GE_DATA_TYPES, MEMORY_FORMATS
from pytest_msdump.capabilities.ascend.header import parse_header
from pytest_msdump.capabilities.protobuf.wire import Memory
from pytest_msdump.core.errors import TensorFileError

# Written by hand from the message's definition: version "2.0"; output 0: FLOAT16 in NC1HWC0, shape (1, 2, 3), size 12,
# original shape (1, 19), two groups; input 0: INT32 in ND, shape (2), size 8; name "a/b". Then 8 and 12 bytes.
BY_HAND = bytes.fromhex(
    "3000000000000000"
    "0a 03 322e30"
    "1a 15 0802 1003 1a05 0a03010203 300c 3a04 0a020113 4002"
    "22 0b 0807 1002 1a03 0a0102 2808"
    "32 03 612f62"
    "7a 00"
    "0100000002000000"
    "0000003c0040004200440045"
)


def header_of(data):
    return parse_header(Memory(data, "x"))


def test_a_header_written_by_hand_is_read_field_by_field():
    header = header_of(BY_HAND)
    first, second = header.tensors
    assert (header.container, header.op_name, header.end) == ("2.0", "a/b", len(BY_HAND))
    assert (first.io, first.slot, first.data_type.dtype, first.memory_format) == ("input", 0, "int32", "ND")
    assert (first.shape, first.original_shape, first.groups, first.size) == ((2,), None, 1, 8)
    assert (second.io, second.slot, second.data_type.dtype, second.memory_format) == ("output", 0, "float16", "NC1HWC0")
    assert (second.shape, second.original_shape, second.groups, second.size) == ((1, 2, 3), (1, 19), 2, 12)
    assert BY_HAND[first.start :][:8] == bytes.fromhex("0100000002000000")
    assert BY_HAND[second.start :][:12] == bytes.fromhex("0000003c0040004200440045")


def test_all_in_protobuf_data_is_found_where_it_is():
    data = message(outputs=[op_output(FLOAT16, (2,), 0, data=b"abcd")], op_name="n", version="1.0")
    header = header_of(data)
    (tensor,) = header.tensors
    assert (header.container, header.op_name) == ("protobuf", "n")
    assert (data[tensor.start :][: tensor.size], tensor.size) == (b"abcd", 4)


def test_data_inside_a_header_of_version_2_takes_no_place_behind_it():
    outputs = [op_output(FLOAT16, (2,), 0, data=b"abcd"), op_output(FLOAT16, (2,), 4)]
    data = dump2(message(outputs=outputs), b"efgh")
    assert [data[one.start :][:4] for one in header_of(data).tensors] == [b"abcd", b"efgh"]


def test_a_nano_header_is_read():
    data = nano(
        [nano_tensor("input", 3, (2, 3), 24)],
        [nano_tensor("output", 1, (5,), 10)],
        b"i" * 24,
        b"o" * 10,
        extra=struct.pack("<II", 77, 3) + b"new",
    )
    header = header_of(data)
    assert (header.container, header.end) == ("nano", len(data))
    assert [(one.io, one.data_type.dtype, one.shape, one.original_shape) for one in header.tensors] == [
        ("input", "int32", (2, 3), (2, 3)),
        ("output", "float16", (5,), (5,)),
    ]
    assert [data[one.start :][: one.size] for one in header.tensors] == [b"i" * 24, b"o" * 10]


def test_where_a_tensor_was_on_the_device_is_told():
    high = 2**64 - 1
    outputs = [op_output(FLOAT, (1,), 4, address=0x12C0_4120_0000), op_output(FLOAT, (1,), 4)]
    tensors = header_of(dump2(message(outputs=outputs, inputs=[op_input(FLOAT, (1,), 4, address=high)]))).tensors
    assert [one.address for one in tensors] == [high, 0x12C0_4120_0000, 0]
    # A nano header of one tensor, whose address is written as 4096 there.
    assert [one.address for one in header_of(nano([], [nano_tensor("output", 1, (5,), 10)])).tensors] == [4096]


def test_every_data_type_and_format_has_a_name_of_its_own():
    assert sorted(DATA_TYPES) == list(range(41))
    assert sorted(GE_DATA_TYPES) == [number for number in range(33) if number != 5]
    assert len(set(MEMORY_FORMATS.values())) == len(MEMORY_FORMATS) == 51
    assert {one.label for one in GE_DATA_TYPES.values()} <= {one.label for one in DATA_TYPES.values()}
    labels = {one.label: one.dtype for one in DATA_TYPES.values()}
    assert all(labels[one.label] == one.dtype for one in GE_DATA_TYPES.values())


def test_what_no_table_knows_is_named_by_its_number():
    data = dump2(message(outputs=[op_output(99, (1,), 8, memory_format=123)]), bytes(8))
    (tensor,) = header_of(data).tensors
    assert (tensor.data_type.label, tensor.data_type.dtype, tensor.memory_format) == (
        "number 99",
        "unknown",
        "FORMAT_123",
    )


def test_a_field_that_is_there_twice_counts_by_its_last():
    output = number(1, FLOAT) + number(1, INT32) + chunk(3, chunk(1, b"\x02")) + number(6, 8) + number(2, NC1HWC0)
    (tensor,) = header_of(dump2(message(outputs=[output]), bytes(8))).tensors
    assert (tensor.data_type.dtype, tensor.memory_format) == ("int32", "NC1HWC0")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "x: is empty"),
        (b"\x00" * 8, "is not an Ascend dump"),
        (b"\x00" * 100, "is not an Ascend dump"),
        (b"some text that is no dump at all", "is not an Ascend dump"),
        (struct.pack("<Q", 50) + b"\x0a\x03", "cut off inside its header, 2 of 50 bytes"),
        (struct.pack("<Q", 2**40) + bytes(50), "is not an Ascend dump"),
        (dump2(b"\x0a\x50"), "a field of 80 bytes where 0 are left at byte 8"),
        (dump2(message(outputs=[number(3, 5)])), "field 3 is a number, not bytes"),
        (dump2(chunk(3, op_output(FLOAT, [1] * 33, 4))), "more than 32 numbers"),
        (dump2(chunk(3, chunk(3, b"\x08\x01" * 33))), "more than 32 axes"),
        (dump2(chunk(3, b"") * 8193), "more than 8192 tensors"),
        (dump2(chunk(6, b"n" * 5000)), "a name of 5000 bytes"),
        (nano([], [nano_tensor("output", 1, (1,), 2)] * 8193), "more than 8192 tensors"),
        (dump2(struct.pack("<II", 0x5A5A5A5A, 1) + struct.pack("<II", 4, 9)), "a block of 9 bytes where 0 are left"),
        (dump2(struct.pack("<IIIII", 0x5A5A5A5A, 1, 4, 4, 2**31)), "0 bytes where 40 are needed"),
        (
            nano([], [nano_tensor("output", 1, (5,), 10)[:48] + struct.pack("<I", 500) + bytes(32)]),
            "500 bytes of output 0 where 32 are left",
        ),
        (struct.pack("<QI", 0, 0x5A5A5A5A), "begins like a nano dump without a header"),
    ],
)
def test_what_is_no_dump_is_refused_with_a_reason(data, text):
    with pytest.raises(TensorFileError, match=text):
        header_of(data)


def test_buffers_then_spaces_follow_the_tensors():
    header = message(outputs=[op_output(FLOAT, (6,), 24)], buffers=[3, 2])
    # A workspace is field 8, its size field 3; it stands before the buffers on purpose.
    header = chunk(8, number(3, 5)) + header
    data = dump2(header, bytes(24), b"abc", b"de", b"space")
    found = header_of(data)
    told = [(part.kind, part.slot, data[part.start : part.start + part.size]) for part in found.raw]
    assert told == [("buffer", 0, b"abc"), ("buffer", 1, b"de"), ("space", 0, b"space")]
    assert (len(found.raw), found.end) == (3, len(data))


def test_bytes_inside_the_message_are_found_there_and_a_size_alone_is_nothing():
    output = op_output(FLOAT, (1,), 0, data=b"\0\0\0\0")
    header = message(outputs=[output], version="1.0")
    header += chunk(5, chunk(2, b"inside")) + chunk(8, number(3, 9))
    first, second = header_of(header).raw
    assert header[first.start : first.start + first.size] == b"inside"
    assert (second.kind, second.size) == ("space", 0)
