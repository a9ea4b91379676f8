import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.file_names import (
    MindSporeName,
    ReferenceName,
    parse_mindspore,
    parse_reference,
)

TS = 1795222398434088
FIELDS = st.text(st.characters(exclude_characters="./\0", exclude_categories=("Cs",)), min_size=1, max_size=12)
NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=24)
NUMBERS = st.integers(0, 10**17)


@settings(deadline=None, max_examples=150)
@given(
    FIELDS, NAMES, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["input", "output"]), NUMBERS, FIELDS, FIELDS | st.none()
)
def test_what_is_written_is_read_again(op_type, op, task, stream, timestamp, io, slot, memory_format, dtype):
    name = MindSporeName(op_type, op, task, stream, timestamp, io, slot, memory_format, dtype)
    assert parse_mindspore(name.filename) == name


@settings(deadline=None, max_examples=100)
@given(NAMES, NUMBERS, st.integers(10**14, 10**16 - 1))
def test_what_is_written_of_a_reference_is_read_again(op, slot, timestamp):
    name = ReferenceName(op, slot, timestamp)
    assert parse_reference(name.filename) == name


PIECES = ["", "Add", "op", "input", "output", "0", str(TS), "npy", "ND", "Float32", "²", "-1", "\udcff", "a/b", "\0"]


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_no_name_makes_a_parser_fail_or_fits_both_grammars(pieces):
    name = ".".join([*pieces, "npy"])
    dumped, reference = parse_mindspore(name), parse_reference(name)
    assert not (dumped and reference)
    assert dumped is None or dumped.filename == name
    assert reference is None or len(pieces) >= 3


# The grammar as one expression, which takes longer.
NUMBER = "([0-9]{1,255})"
GRAMMAR = re.compile(
    rf"([^./]+)\.([^/]+)\.{NUMBER}\.{NUMBER}\.{NUMBER}\.(input|output)\.{NUMBER}\.([^./]+)(?:\.([^./]+))?\.npy"
)
PIECES = st.sampled_from(
    [
        "A",
        "input",
        "output",
        "0",
        "17",
        "٣",
        "²",
        "1_0",
        "-1",
        " 1",
        "7" * 255,
        "7" * 256,
        "",
        "/",
        "\n",
        "npy",
        "é",
        "Float32",
    ]
)


@settings(max_examples=1500)
@given(
    st.lists(PIECES, max_size=4),
    st.lists(PIECES, min_size=3, max_size=3) | st.just(["1", "2", "3"]),
    st.sampled_from(["input", "output", "0"]),
    st.lists(PIECES, max_size=4) | st.sampled_from([["0", "ND"], ["0", "ND", "Float32"], ["0", "input", "0"]]),
    st.sampled_from([".npy", ".npy", ".npy", ".bin", "npy", ".npy\n"]),
)
@pytest.mark.full
def test_a_name_is_read_as_the_grammar_reads_it(scope, numbers, io, behind, suffix):
    name = ".".join([*scope, *numbers, io, *behind]) + suffix
    match = GRAMMAR.fullmatch(name)
    read = None
    if match:
        op_type, op, task, stream, time, io, slot, memory_format, dtype = match.groups()
        read = MindSporeName(op_type, op, int(task), int(stream), int(time), io, int(slot), memory_format, dtype)
    assert parse_mindspore(name) == read
