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
from pytest_msdump.core.model.tensor import TensorSpec

TS = 1795222398434088
FIELDS = st.text(st.characters(exclude_characters="./\0", exclude_categories=("Cs",)), min_size=1, max_size=12)
NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=24)
NUMBERS = st.integers(0, 10**17)


def test_ten_fields_are_read():
    name = f"BiasAdd.Default_fc1-Dense_BiasAdd-op0.3.7.{TS}.input.1.DefaultFormat.Float32.npy"
    assert parse_mindspore(name) == MindSporeName(
        "BiasAdd", "Default_fc1-Dense_BiasAdd-op0", 3, 7, TS, "input", 1, "DefaultFormat", "Float32"
    )


def test_nine_fields_are_read_and_claim_no_dtype():
    parsed = parse_mindspore(f"Conv2D.Conv2D-op12.0.0.{TS}.output.0.NC1HWC0.npy")
    assert parsed == MindSporeName("Conv2D", "Conv2D-op12", 0, 0, TS, "output", 0, "NC1HWC0", None)
    assert parsed.spec == TensorSpec(dtype=None, memory_format="NC1HWC0")


@pytest.mark.parametrize(
    ("word", "dtype"), [("Float32", "float32"), ("float16", "float16"), ("bf16", "bfloat16"), ("Float7", None)]
)
def test_dtype_field_is_known_in_any_case_and_left_to_the_header_when_unknown(word, dtype):
    parsed = parse_mindspore(f"A.a.0.0.{TS}.output.0.DefaultFormat.{word}.npy")
    assert parsed is not None
    assert parsed.dtype == word
    assert parsed.spec.dtype == dtype


@pytest.mark.parametrize(
    "op",
    ["fc1_weight", "my_param_x_y_z:0", "a.b.c", "weight.0.0.1.output.0.DefaultFormat", "фи[0]", "a,b", "data-12", "."],
)
def test_parameter_names_may_hold_anything_but_are_read_from_the_right(op):
    parsed = parse_mindspore(f"Parameter.{op}.0.0.{TS}.output.0.DefaultFormat.Int64.npy")
    assert parsed is not None
    assert (parsed.op_type, parsed.op, parsed.dtype) == ("Parameter", op, "Int64")


def test_the_last_group_of_fields_wins_over_one_inside_the_operator_name():
    inner = "X.op.1.2.3.output.4.ND.Float16"
    parsed = parse_mindspore(f"{inner}.5.6.{TS}.input.7.NCHW.npy")
    assert parsed == MindSporeName("X", "op.1.2.3.output.4.ND.Float16", 5, 6, TS, "input", 7, "NCHW", None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".npy",
        "409642837.npy",
        f"conv1.0.{TS}.npy",
        f"Add.op.0.0.{TS}",
        f"Add.op.0.0.{TS}.output.0.DefaultFormat.Float32.bin",
        f"Add.op.0.0.{TS}.output.0.npy",
        f"Add.0.0.{TS}.output.0.DefaultFormat.Float32.npy",
        f".op.0.0.{TS}.output.0.DefaultFormat.Float32.npy",
        f"Add.op.0.0.{TS}.Output.0.DefaultFormat.Float32.npy",
        f"Add.op.0.0.{TS}.output.x.DefaultFormat.Float32.npy",
        f"Add.op.0.0.{TS}.output.0..npy",
        f"Add.op.0.0.{TS}.output.0.DefaultFormat..npy",
        f"Add.op.0.-1.{TS}.output.0.DefaultFormat.Float32.npy",
        f"Add.op.0.0.{TS}.output.².DefaultFormat.Float32.npy",
        "Add.op.0.0.٣.output.0.DefaultFormat.Float32.npy",
        f"a/Add.op.0.0.{TS}.output.0.DefaultFormat.Float32.npy",
        f"Add.op.0.0.{'9' * 5000}.output.0.DefaultFormat.Float32.npy",
    ],
)
def test_other_names_are_no_mindspore_names(name):
    assert parse_mindspore(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"conv1.0.{TS}.npy", ("conv1", 0, TS)),
        (f"layer1.0.conv.12.{TS}.npy", ("layer1.0.conv", 12, TS)),
        ("a.input.0.1234567890123456.npy", ("a.input", 0, 1234567890123456)),
        (f"op.0.{10**14}.npy", ("op", 0, 10**14)),
        (f"op.0.{10**16 - 1}.npy", ("op", 0, 10**16 - 1)),
        (f"..0.{TS}.npy", (".", 0, TS)),
        ("Größe 1/2".replace("/", "⁄") + f".3.{TS}.npy", ("Größe 1⁄2", 3, TS)),
    ],
)
def test_reference_names_are_read_from_the_right(name, expected):
    assert parse_reference(name) == expected


@pytest.mark.parametrize("last", [0, 1, 77, 1_700_000_000, 20260131235959, 10**14 - 1, 10**16, 10**18])
def test_a_last_number_that_is_no_time_belongs_to_the_operators_name(last):
    name = f"features.0.{last}.npy"
    assert parse_reference(name) == (f"features.0.{last}", 0, None)
    assert parse_reference(name).filename == name


@pytest.mark.parametrize(
    "name", ["conv1.npy", "0.1.npy", ".0.1.npy", "a.0.1.bin", "a.x.1.npy", "a.0.1e3.npy", "a.0.¹.npy"]
)
def test_other_names_are_no_reference_names(name):
    assert parse_reference(name) is None


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
