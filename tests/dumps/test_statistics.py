import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from dump_builder import START, write_mindspore
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.statistics.reader import parse_table, read_statistics
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.errors import DumpNotFoundError
from pytest_msdump.core.facts.metrics import LABEL_COLUMNS, STATISTICS
from pytest_msdump.core.model.comparison import is_printed_as
from pytest_msdump.core.model.tensor import TensorSpec

PREFIX = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
COUNTS = "Count,Negative Zero Count,Positive Zero Count,NaN Count,Negative Inf Count,Positive Inf Count,Zero Count"
MD5, SHA1 = "fa85978152c7dfb5f1322082915cb050", "5baa3a1be4e6d56160aa961c0da63c0de7ede5d7"
ADD = "Add,Default_Add-op0,1,2,1700000000000000"
# The columns behind the common ones, a row's cells there, and what they mean, by release.
RELEASES = {
    "1.6": (
        f"Max Value,Min Value,Avg Value,{COUNTS}",
        "6,-1.5,2.33333,8,1,4,1,0,1,1",
        {
            "maximum": 6,
            "minimum": -1.5,
            "mean": 2.33333,
            "count": 8,
            "negative_count": 1,
            "positive_count": 4,
            "nan_count": 1,
            "negative_inf_count": 0,
            "positive_inf_count": 1,
            "zero_count": 1,
        },
    ),
    "2.3-dev": ("L2 Value,MD5", f"9.53939,{MD5}", {"l2_norm": 9.53939, "md5": MD5}),
    "2.3 on the device": (
        "Max Value,Min Value,Avg Value,L2Norm Value,Count",
        "6,1,null,9.53939,6",
        {"maximum": 6, "minimum": 1, "mean": None, "l2_norm": 9.53939, "count": 6},
    ),
    "the user's choice": (
        "L2Norm Value,Nan Count,SHA1,Min Value",
        f"-nan,0,{SHA1.upper()},1e-05,",
        {"l2_norm": math.nan, "nan_count": 0, "sha1": SHA1, "minimum": 1e-05},
    ),
    "the default": ("Max Value,Min Value,L2Norm Value", "3,3,3,", {"maximum": 3, "minimum": 3, "l2_norm": 3}),
    "none": ("", "", {}),
}
CANN = "Input/Output,Index,Data Size,Data Type,Format,Shape"
CANN_COUNTS = "Max Value,Min Value,Avg Value,Count,Nan Count,Negative Inf Count,Positive Inf Count"
CANN_ROW = "Output,0,640000,DT_FLOAT,NHWC,4x50x50x16,1.99999,1,1.50004,160000,0,0,0"
CANN_VALUES = {
    "maximum": 1.99999,
    "minimum": 1,
    "mean": 1.50004,
    "count": 160000,
    "nan_count": 0,
    "negative_inf_count": 0,
    "positive_inf_count": 0,
}


def same(left, right):
    """Equal, NaN included, and of the same types: an exact integer is no float."""
    return {name: repr(value) for name, value in left.items()} == {name: repr(value) for name, value in right.items()}


def row(cells, columns="Max Value", prefix=f'{ADD},output,0,24,float32,"(2,3)"'):
    return parse_table([f"{PREFIX},{columns}".rstrip(","), f"{prefix},{cells}".rstrip(",") + "," * cells.endswith(",")])


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize("release", RELEASES)
def test_the_columns_of_every_release_are_read(release):
    columns, cells, values = RELEASES[release]
    table = row(cells, columns)
    assert table.problems == ()
    (only,) = table.rows
    assert same(only.values, values)
    assert only[:6] == (2, "output", 0, "Add", "Default_Add-op0", 1700000000000000)
    assert (only.spec, only.data_bytes) == (TensorSpec("float32", (2, 3)), 24)


@pytest.mark.parametrize(
    "header", [f"{CANN},{CANN_COUNTS}", f"{CANN},{CANN_COUNTS}".upper(), f" {CANN} ,{CANN_COUNTS},"]
)
def test_tables_of_cann_are_read(header):
    table = parse_table([header, CANN_ROW])
    (only,) = table.rows
    assert table.problems == ()
    assert same(only.values, CANN_VALUES)
    assert only.spec == TensorSpec("float32", (4, 50, 50, 16), "NHWC")
    assert (only.io, only.slot, only.op, only.timestamp, only.data_bytes) == ("output", 0, None, None, 640000)


def test_tables_are_read_by_title_and_not_by_place():
    header = "Shape,Count,Data Type,Index,Input/Output,l2norm"
    (only,) = parse_table([header, "4x3,,DT_BF16,2,Input,0.5"]).rows
    assert (only.io, only.slot, only.spec.dtype, only.spec.shape) == ("input", 2, "bfloat16", (4, 3))
    assert same(only.values, {"count": None, "l2_norm": 0.5})


@pytest.mark.parametrize(
    ("text", "shape"), [('"()"', ()), ('"(3)"', (3,)), ('"(3,)"', (3,)), ('"(2, 0)"', (2, 0)), ("7", (7,)), ("", None)]
)
def test_shapes(text, shape):
    (only,) = row("1", prefix=f"{ADD},output,0,24,float32,{text}").rows
    assert only.spec.shape == shape


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 9223372036854775807),
        ("-1", -1),
        ("1.5", 1.5),
        ("-1.5e-05", -1.5e-05),
        ("1e+06", 1e6),
        (".5", 0.5),
        ("nan", math.nan),
        ("-nan", math.nan),
        ("-inf", -math.inf),
        ("null", None),
        ("", None),
    ],
)
def test_numbers_as_streams_of_c_print_them(text, value):
    (only,) = row(f"{text},0", "Max Value,Count").rows
    assert repr(only.values["maximum"]) == repr(value)


@pytest.mark.parametrize(
    ("columns", "cell", "sentence"),
    [
        ("Max Value", "1_000", "maximum '1_000' is not a number"),
        ("Max Value", "1.2.3", "maximum '1.2.3' is not a number"),
        ("Max Value", "0x10", "maximum '0x10' is not a number"),
        ("Max Value", "١", "maximum '١' is not a number"),
        ("Max Value", "infinite", "maximum 'infinite' is not a number"),
        ("Max Value", '"1"2', "the run was probably killed while writing"),
        ("Max Value", "1e999", "maximum '1e999' is larger than any float64"),
        ("Count", "-1", "count '-1' is not a number"),
        ("Count", "1.0", "count '1.0' is not a number"),
        ("MD5", MD5[:-1], "has not 32 hexadecimal digits"),
        ("SHA1", MD5, "has not 40 hexadecimal digits"),
        ("MD5", "z" * 32, "has not 32 hexadecimal digits"),
    ],
)
def test_what_is_no_value_spoils_its_row_and_no_other(columns, cell, sentence):
    good = f'{ADD},output,0,24,float32,"(2,3)",'
    table = parse_table([f"{PREFIX},{columns}", good, f'{ADD},output,1,24,float32,"(2,3)",{cell}', good])
    assert [only.line for only in table.rows] == [2, 4]
    (problem,) = table.problems
    assert problem.startswith("has 1 row that cannot be read, e.g. line 3: ")
    assert sentence in problem


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (f'{ADD},output,x,24,float32,"(2,3)",1', "slot 'x' is not a number"),
        (f'{ADD},neither,0,24,float32,"(2,3)",1', "'neither' is neither input nor output"),
        (f'{ADD},output,0,24,float32,"(2,-3)",1', "shape '(2,-3)' is none"),
        (f'{ADD},output,0,many,float32,"(2,3)",1', "data size 'many' is not a number"),
        ('Add,a,1,2,soon,output,0,24,float32,"(2,3)",1', "timestamp 'soon' is not a number"),
        (f'{ADD},output,0,24,float32,"(2', "the run was probably killed while writing"),
        (f"{ADD},output", "6 fields under a header of 11; the run was probably killed while writing"),
        (f'{ADD},output,0,24,float32,"(2,3)",1,2', "12 fields under a header of 11"),
        (f'{ADD},output,0,24,float32,"(2,3)",1,,', "13 fields under a header of 11"),
    ],
)
def test_a_row_that_cannot_be_read_is_told_with_its_line(bad, sentence):
    good = f'{ADD},output,0,24,float32,"(2,3)",1'
    table = parse_table([f"{PREFIX},Max Value", bad, good, bad])
    assert [only.line for only in table.rows] == [3]
    assert table.problems[0].startswith("has 2 rows that cannot be read, e.g. line 2: ")
    assert sentence in table.problems[0]


def test_every_cut_of_a_table_keeps_the_rows_before_it():
    lines = [f"{PREFIX},Max Value\n", *(f'{ADD},output,{slot},24,float32,"(2,3)",{slot}.5\n' for slot in range(3))]
    text = "".join(lines)
    for end in range(len(text)):
        table = parse_table(text[:end].splitlines(keepends=True))
        whole = text[: end + 1].count("\n") - 1 if text[end] == "\n" else text[:end].count("\n") - 1
        assert [only.slot for only in table.rows][: max(whole, 0)] == list(range(max(whole, 0)))
        assert len(table.rows) <= max(whole, 0) + 1


def test_each_statistic_and_label_has_one_column_title():
    columns = [column for fact in STATISTICS.values() for column in fact.columns]
    assert len(set(columns)) == len(columns)
    assert not set(columns) & set(LABEL_COLUMNS)


RUN = f"{PREFIX},Max Value"


def line(op, time, slot=0, value="1.5", io="output"):
    return f'Add,{op},1,2,{START + time},{io},{slot},24,float32,"(2,3)",{value}'


def test_rows_have_the_keys_of_the_tensors_they_are_about(tmp_path):
    tensors = [
        ("Add", "Default/net-Net/Add-op0", "input", 1, np.zeros((2, 3), "f4")),
        ("Add", "Default/net-Net/Add-op0", "output", 0, np.zeros((2, 3), "f4")),
        ("Parameter", "fc.weight", "output", 0, np.zeros((2, 3), "f4")),
    ]
    write_mindspore(tmp_path, tensors, rank=3, net="A", graph=2, iteration=5, execution_order=False)
    expected = [ref.key for ref in index(tmp_path).refs]
    write(
        tmp_path / "rank_3/A/2/5/statistic.csv",
        RUN,
        line("Default_net-Net_Add-op0", 1, io="input", slot=1),
        line("Default_net-Net_Add-op0", 2),
        line("fc_weight", 3).replace("Add,", "Parameter,", 1),
    )
    tables = read_statistics(tmp_path)
    assert [row.key for row in tables.rows] == expected
    assert tables.notes == tables.older == ()
    assert {row.reader for row in tables.rows} == {"statistics"}
    assert [row.source.part for row in tables.rows] == [2, 3, 4]
    assert pickle.loads(pickle.dumps(tables)) == tables


def test_names_with_slashes_are_true_names(tmp_path):
    write(tmp_path / "rank_0/A/0/0/statistic.csv", RUN, line("Default/Add-op0", 1))
    (only,) = read_statistics(tmp_path).rows
    assert (only.key.op.name, only.key.op.true_name) == ("Default_Add-op0", "Default/Add-op0")


def test_tables_of_single_operators_are_named_as_their_dumps(tmp_path):
    folder = tmp_path / "20260131235959/1/Model/8/2"
    write(folder / "Conv2D.a_conv.3.4.1700000000000000.csv", f"{CANN},{CANN_COUNTS}", CANN_ROW)
    write(folder / "77.csv", f"{CANN},{CANN_COUNTS}", CANN_ROW)
    write(folder / "mapping.csv", "77.csv,Add.long_name.3.4.1700000000000001.csv")
    conv, add = read_statistics(tmp_path).rows
    assert (conv.key.op.name, conv.key.op.op_type, conv.source.timestamp) == (
        "a_conv",
        "Conv2D",
        1700000000000000,
    )
    assert same(conv.statistics.values, CANN_VALUES)
    assert (add.key.op.name, add.place) == ("long_name", 1)


def test_what_cannot_be_read_is_told_with_its_file(tmp_path):
    good = write(tmp_path / "rank_0/A/0/0/statistic.csv", RUN, line("a", 1))
    write(tmp_path / "rank_0/A/0/1/statistic.csv", RUN, line("a", 1), line("b", 2, value="x"))
    (tmp_path / "rank_0/A/0/2").mkdir()
    (tmp_path / "rank_0/A/0/2/statistic.csv").write_bytes(b"")
    write(tmp_path / "rank_0/A/0/3/statistic.csv", "IO,Slot,Count", "output,0,3")
    write(tmp_path / "notes/old/statistic.csv", RUN, line("a", 1))
    tables = read_statistics(tmp_path)
    assert [row.key.op.at.iteration for row in tables.rows] == [0, 1]
    assert set(tables.notes) == {
        "notes/old/statistic.csv is left out: no run saves statistics at such a place",
        "rank_0/A/0/1/statistic.csv has 1 row that cannot be read, e.g. line 3: maximum 'x' is not a number",
        "rank_0/A/0/2/statistic.csv holds no statistics",
        "rank_0/A/0/3/statistic.csv has rows without the name of an operator, which are left out",
    }
    one = read_statistics(good)
    assert [(row.key.address, row.key.op.at.iteration) for row in one.rows] == [("a:output:0", None)]


def test_very_long_lines_and_files_are_not_held(tmp_path, monkeypatch):
    path = write(tmp_path / "statistic.csv", RUN, "x" * 200_000, line("a", 1))
    assert len(read_statistics(tmp_path).rows) == 1
    monkeypatch.setattr("pytest_msdump.capabilities.statistics.reader._MAX_BYTES", 1000)
    assert path.stat().st_size > 1000
    tables = read_statistics(tmp_path)
    assert tables.rows == ()
    assert tables.notes[0].startswith("statistic.csv is left out: it is larger than")


def test_a_directory_without_tables_has_no_statistics_and_one_that_is_not_there_is_an_error(tmp_path):
    assert read_statistics(tmp_path) == read_statistics(Path(__file__).parent)
    assert read_statistics(tmp_path).rows == ()
    with pytest.raises(DumpNotFoundError, match="no such directory or file"):
        read_statistics(tmp_path / "absent")


@pytest.mark.parametrize(
    ("printed", "exact", "equal"),
    [
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1e308, False),
        (None, None, True),
        (None, 0.0, False),
        (0, None, False),
        ("ab", "ab", True),
        ("ab", "cd", False),
        ("1", 1, False),
        (2**63 - 1, 2**63 - 1, True),
        (0.0, 1e-30, False),
    ],
)
def test_what_is_no_finite_number_is_equal_or_not(printed, exact, equal):
    assert is_printed_as(printed, exact) is equal


CELLS = st.sampled_from([*RUN.split(","), "output", "0", "1.5", "nan", '"(2,3)"', '"', "", "float32", "MD5", "x"])


@given(st.lists(st.one_of(st.lists(CELLS, max_size=14).map(",".join), st.text(max_size=40)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_no_table_is_an_error_and_each_row_is_read_or_counted(lines):
    table = parse_table(lines)
    assert len(table.rows) <= len(lines)
    assert all(only.io in ("input", "output") and 1 <= only.line <= len(lines) for only in table.rows)
    assert parse_table(f"{each}\n" for each in lines) == table or any("\n" in each or "\r" in each for each in lines)


def test_a_row_whose_operator_has_a_name_without_end_is_not_read():
    header = "Op Type,Op Name,IO,Slot,Data Type,Shape,Max Value"
    table = parse_table([header, f'Add,{"a" * 5000},output,0,float32,"(2,3)",1', 'Add,a,output,0,float32,"(2,3)",1'])
    assert [one.op for one in table.rows] == ["a"]
    assert table.problems[0].endswith("line 2: op 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…' has 5000 letters")
