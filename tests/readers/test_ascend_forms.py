"""A header that is another one but for its time and its name is read as if it were the first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers.dumpmade import FLOAT, FLOAT16, INT32, chunk, dump2, number, op_input, op_output

from pytest_msdump.errors import TensorFileError
from pytest_msdump.readers.ascend_forms import HeaderForms
from pytest_msdump.readers.ascend_header import parse_header
from pytest_msdump.readers.wire import Memory

names = st.text(alphabet="ab/_é.", max_size=4)
times = st.sampled_from([0, 5, 127, 128, 300, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
tensors = st.tuples(
    st.sampled_from([3, 4]), st.sampled_from([FLOAT, FLOAT16, INT32]), st.lists(st.integers(0, 3), max_size=2)
)


def tensor(field, data_type, shape):
    made = op_output if field == 3 else op_input
    return chunk(field, made(data_type, shape, 8))


@st.composite
def headers(draw):
    """Fields of a header, most of them in the order in which devices write them."""
    parts = [
        chunk(1, b"2.0"),
        number(2, draw(times)),
        *[tensor(*one) for one in draw(st.lists(tensors, max_size=2))],
        *draw(
            st.lists(st.sampled_from([number(2, 7), chunk(6, b"twice"), chunk(5, number(3, 4)), b"\x38"]), max_size=1)
        ),
        chunk(6, draw(names).encode()),
        *draw(st.lists(st.just(chunk(7, chunk(2, b"value"))), max_size=1)),
    ]
    return b"".join(draw(st.permutations(parts)) if draw(st.integers(0, 4)) == 0 else parts)


def told(read):
    try:
        return read()
    except TensorFileError as error:
        return str(error)


def read(forms, content, first):
    known = forms.find(first)
    if known is not None:
        return known
    header = parse_header(Memory(content))
    forms.note(first, header)
    return header, header.op_name


def with_forms(forms, content, window):
    header, name = read(forms, content, content[:window])
    return header._replace(op_name=name, varying=None)


@settings(deadline=None, max_examples=100)
@given(st.lists(headers(), min_size=2, max_size=12), st.sampled_from([0, 8, 30, 4096]), st.data())
def test_every_header_is_read_as_by_itself(written, window, data):
    forms = HeaderForms()
    for message in written:
        damaged = bytearray(message)
        if message and data.draw(st.integers(0, 3)) == 0:
            damaged[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
        content = dump2(bytes(damaged), bytes(16))
        alone = told(lambda content=content: parse_header(Memory(content))._replace(varying=None))
        assert told(lambda content=content: with_forms(forms, content, window)) == alone


def sample(time, name, *, size=8):
    output = chunk(3, op_output(FLOAT, (2,), size))
    return dump2(chunk(1, b"2.0") + number(2, time) + output + chunk(6, name), bytes(8))


def test_of_many_files_the_first_alone_is_walked():
    forms = HeaderForms()
    content = sample(300, b"conv1")
    first, _ = read(forms, content, content)
    assert forms.find(sample(301, b"conv2")) == (first, "conv2")
    # Another size, a name of another length, and digits that are none are other headers.
    others = (sample(300, b"conv1", size=9), sample(300, b"conv12"), content.replace(b"\xac\x02", b"\xac\x82"))
    assert [forms.find(other) for other in others] == [None] * 3


def test_digits_of_too_large_a_number_are_none_of_a_known_header():
    forms = HeaderForms()
    largest = sample(2**64 - 1, b"conv1")
    read(forms, largest, largest)
    too_large = largest.replace(b"\xff\x01", b"\xff\x02")
    with pytest.raises(TensorFileError, match="no number of at most 64 bits"):
        read(forms, too_large, too_large)
