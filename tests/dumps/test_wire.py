import pytest
from dumps.dumpmade import chunk, number, varint
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.protobuf.wire import Memory, WireSpan, fields, named_fields, span_of, varint_of, varints
from pytest_msdump.core.errors import TensorFileError


def walk(data):
    return list(fields(Memory(data), WireSpan(0, len(data))))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        # The number 150 of the documentation's first example, and the ends of the range.
        ("08 96 01", 150),
        ("08 00", 0),
        ("08 7f", 127),
        ("08 80 01", 128),
        ("08 ff ff ff ff ff ff ff ff ff 01", 2**64 - 1),
        # Longer than needed, but a number.
        ("08 81 80 00", 1),
    ],
)
def test_numbers_are_read_as_documented(data, value):
    (field,) = walk(bytes.fromhex(data))
    assert (field.number, varint_of(Memory(b""), field)) == (1, value)


def test_text_is_told_by_where_it_is():
    data = bytes.fromhex("12 07 74 65 73 74 69 6e 67")
    (field,) = walk(data)
    assert (field.number, data[slice(*span_of(Memory(data), field))]) == (2, b"testing")


def test_fixed_fields_are_stepped_over():
    data = bytes.fromhex("09 0102030405060708 15 01020304 18 05")
    assert [(field.number, field.span.length) for field in walk(data)] == [(1, 8), (2, 4), (3, 1)]


def test_unknown_fields_are_skipped():
    data = number(1, 5) + chunk(99, b"whatever") + number(2**29 - 1, 4) + number(2, 6)
    found = named_fields(Memory(data), WireSpan(0, len(data)), {1: "a", 2: "b"})
    assert [(name, field.value) for name, field in found] == [("a", 5), ("b", 6)]


def test_lists_are_read_packed_or_not():
    packed, single = walk(bytes.fromhex("0a 04 03 8e 02 05"))[0], walk(bytes.fromhex("08 07"))[0]
    assert varints(Memory(bytes.fromhex("0a 04 03 8e 02 05")), packed, 3) == (3, 270, 5)
    assert varints(Memory(bytes.fromhex("08 07")), single, 3) == (7,)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("08", "no number of at most 64 bits at byte 1"),
        ("08 80", "no number of at most 64 bits at byte 1"),
        ("08 ff ff ff ff ff ff ff ff ff 02", "no number of at most 64 bits"),
        ("08 80 80 80 80 80 80 80 80 80 80 01", "no number of at most 64 bits"),
        ("00 01", "no field of a protobuf message at byte 0"),
        ("0b 0c", "no field of a protobuf message"),
        ("0e", "no field of a protobuf message"),
        ("12 03 01 02", "a field of 3 bytes where 2 are left at byte 0"),
        ("12 ff ff ff ff ff ff ff ff ff 01", "where 0 are left"),
        ("09 01 02", "a field of 8 bytes where 2 are left"),
        ("08 01 15 01", "a field of 4 bytes where 1 are left at byte 2"),
        ("80 80 80 80 80 01 01", "no field of a protobuf message"),
    ],
)
def test_what_is_not_in_bounds_is_refused(data, text):
    with pytest.raises(TensorFileError, match=text):
        walk(bytes.fromhex(data))


def test_a_message_reaches_no_further_than_its_end():
    data = bytes.fromhex("12 03 61 62 63")
    with pytest.raises(TensorFileError, match="3 bytes where 2 are left"):
        list(fields(Memory(data), WireSpan(0, 4)))
    with pytest.raises(TensorFileError, match="not all there"):
        list(fields(Memory(data), WireSpan(0, 6)))


def test_a_message_of_more_fields_than_are_believed_is_refused():
    assert len(walk(b"\x08\x01" * 2**16)) == 2**16
    with pytest.raises(TensorFileError, match="more than 65536 fields"):
        walk(b"\x08\x01" * (2**16 + 1))


def test_a_list_is_no_longer_than_is_believed():
    data = chunk(1, b"\x01" * 4)
    with pytest.raises(TensorFileError, match="more than 3 numbers"):
        varints(Memory(data), walk(data)[0], 3)


def test_a_list_that_ends_inside_a_number_is_refused():
    data = chunk(1, b"\x01\x80")
    with pytest.raises(TensorFileError, match="no number"):
        varints(Memory(data), walk(data)[0], 3)


def test_a_known_field_of_another_kind_is_refused():
    text, value = chunk(1, b"ab"), number(1, 3)
    with pytest.raises(TensorFileError, match="field 1 is bytes of a stated length, not a number"):
        varint_of(Memory(text), walk(text)[0])
    with pytest.raises(TensorFileError, match="field 1 is a number, not bytes"):
        span_of(Memory(value), walk(value)[0])


@given(st.binary(max_size=60))
@settings(max_examples=400, deadline=None)
def test_whatever_the_bytes_they_are_fields_in_order_or_refused(data):
    try:
        found = walk(data)
    except TensorFileError:
        return
    ends = [0, *(field.span.stop for field in found)]
    assert ends == sorted(ends)
    assert ends[-1] == len(data)


entries = st.tuples(st.integers(1, 2**29 - 1), st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=20)))


@given(st.lists(entries, max_size=8))
@settings(max_examples=200, deadline=None)
def test_what_was_written_is_read_back(values):
    data = b"".join(number(key, value) if isinstance(value, int) else chunk(key, value) for key, value in values)
    read = [(field.number, field.value if field.wire_type == 0 else data[slice(*field.span)]) for field in walk(data)]
    assert read == values


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_no_number_can_be_cut(value):
    data = b"\x08" + varint(value)
    for stop in range(1, len(data)):
        with pytest.raises(TensorFileError):
            walk(data[:stop])
