from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.dump_tree import place_of
from pytest_msdump.core.dumps.file_names import (
    SliceName,
    parse_ascend,
    parse_protobuf,
    slice_name,
    slice_numbers,
)
from pytest_msdump.core.model.tensor import Coordinates

TIME = 1600000000000003


@pytest.mark.parametrize(
    "name",
    [
        "nodots",
        "12345678901234567890",
        f"Add.op.{TIME}",
        f"op.0.{TIME}.npy",
        f"op.0.{TIME}.pb",
        f"Add.op.5.3.{TIME}.output.0.npy",
        f"Add.op.5.3.{TIME}.bak",
        # One, two or five numbers behind the time are no form that is written.
        f"Add.op.5.3.{TIME}.1",
        f"Add.op.5.3.{TIME}.1.2",
        f"Add.op.5.3.{TIME}.4.1.2.3.4",
        f".op.5.3.{TIME}",
        f"Add..5.3.{TIME}",
        f"Add.a/b.5.3.{TIME}",
        f"Add.op.-5.3x.{TIME}",
        "",
        ".",
    ],
)
def test_other_names_are_no_dumps(name):
    assert parse_ascend(name) is None


@pytest.mark.parametrize(
    ("task_type", "known", "ffts"), [(0, True, False), (3, True, False), (4, True, True), (5, False, False)]
)
def test_a_task_type_is_one_of_five(task_type, known, ffts):
    parsed = parse_ascend(f"Add.op.5.3.{TIME}.{task_type}.11.0.0")
    assert (parsed.is_known, parsed.is_ffts) == (known, ffts)
    assert parse_ascend(f"Add.op.5.3.{TIME}").is_known


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_no_name_is_too_odd(name):
    parse_ascend(name)
    parse_protobuf(name)
    slice_name(name)


@pytest.mark.parametrize(
    ("op", "parts"),
    [
        ("auto_op", ("auto_op", "auto_op", None)),
        ("man_op_lxslice10", ("man_op", "man_op", 10)),
        (
            "partition0_rank1_new_sub_graph1_sgt_graph_0_man_op_lxslice1",
            ("partition0_rank1_new_sub_graph1_sgt_graph_0_man_op", "man_op", 1),
        ),
        ("a_sgt_graph_0_b_sgt_graph_12_c", ("a_sgt_graph_0_b_sgt_graph_12_c", "c", None)),
        ("b_lxslice12_c", ("b_c", "b_c", 12)),
        ("x_sgt_graph_0_", ("x_sgt_graph_0_", "x_sgt_graph_0_", None)),
        ("_lxslice3", ("_lxslice3", "_lxslice3", 3)),
    ],
)
def test_what_slicing_put_into_a_name_is_taken_out(op, parts):
    assert slice_name(op) == SliceName(*parts)


def test_numbers_of_slices_are_those_of_names_or_else_of_threads():
    threads = [Path(f"d/Add.op.5.3.{TIME}.4.1.{thread}.0") for thread in (0, 12)]
    slices = [Path(f"d/Add.op_lxslice{number}.5.3.{TIME}.4.1.0.0") for number in (9, 10)]
    assert slice_numbers(threads) == (0, 12)
    assert slice_numbers(slices) == (9, 10)
    assert slice_numbers([*slices, Path("123")]) is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"conv1.0.{TIME}.pb", ("conv1", 0, TIME)),
        (f"conv1.2.{TIME}.quant", ("conv1", 2, TIME)),
        (f"a.b/c.0.{TIME}.pb", ("a.b/c", 0, TIME)),
        (f"conv1.0.{TIME}.npy", None),
        (f"conv1.0.{TIME}", None),
        (f"conv1.{TIME}.pb", None),
        ("frozen_graph.pb", None),
    ],
)
def test_names_of_protobuf_files(name, parts):
    parsed = parse_protobuf(name)
    assert (None if parsed is None else tuple(parsed)) == parts


@pytest.mark.parametrize(
    ("below", "at"),
    [
        ("", (None, None, None, 0)),
        ("3", (None, None, None, 3)),
        ("7/3", (None, None, 7, 3)),
        ("resnet/7/3", (None, "resnet", 7, 3)),
        ("2/resnet/7/3", (2, "resnet", 7, 3)),
        ("20260131235959/2/resnet/7/3", (2, "resnet", 7, 3)),
        # A step of the user is above the time; the device's own count does not name the iteration then.
        ("5/20260131235959/2/resnet/7/3", (2, "resnet", 7, 5)),
        ("rank_4/Net/0/9", (4, "Net", 0, 9)),
        ("1/Net_graph_2/2/9", (1, "Net", 2, 9)),
        ("20260131235959/2", (2, None, None, 0)),
        ("20260131235959/2/Add_op", (2, None, None, 0)),
        ("20260131235959", (None, None, None, 0)),
        ("2/Add_op", (2, None, None, 0)),
    ],
)
def test_coordinates_come_from_the_directories(tmp_path, below, at):
    parts = tuple(Path(below).parts)
    assert place_of(tmp_path, parts).at == Coordinates(*at, occurrence=0)


@pytest.mark.parametrize("below", ["a", "a/b", "rank_0/Net/0/x", "1/2/3/4/5/6/7", "x/20260131235959/0/m/1/0"])
def test_other_directories_are_no_place_of_a_dump(tmp_path, below):
    assert place_of(tmp_path, tuple(Path(below).parts)) is None


def test_a_directory_within_a_tree_is_read_as_part_of_it(tmp_path):
    root = tmp_path / "20260131235959" / "2" / "resnet"
    assert place_of(root, ("7", "3")).at == Coordinates(2, "resnet", 7, 3, 0)
    assert place_of(root / "7" / "3", ()).labels == (
        ("time", "20260131235959"),
        ("device", "2"),
        ("model", "resnet"),
        ("model id", "7"),
    )


def test_a_number_above_the_dump_is_no_step_of_it(tmp_path):
    root = tmp_path / "8" / "20260131235959"
    assert place_of(root, ("0", "resnet", "7", "3")).at.iteration == 3


def by_fields(name):
    """The grammar as it is told: numbers from the right, among them the last that can be a time since 1970."""
    fields = name.split(".")
    numbers = list(takewhile(lambda text: text.isascii() and text.isdigit(), reversed(fields[2:])))
    long = [place for place, text in enumerate(numbers) if len(text) >= 10]
    extras = long[0] if long else 4 * (len(numbers) >= 6)
    before = len(numbers) - extras
    ids = min(before - 1, 2)
    op = ".".join(fields[1 : len(fields) - extras - 1 - ids])
    if extras not in (0, 3, 4) or before < 2 or "/" in name or not fields[0] or not op:
        return None
    values = [int(text) for text in fields[len(fields) - extras - 1 - ids :]]
    stream = [None] * (ids == 1)
    task_type = [None] * (extras == 3)
    return (fields[0], op, values[0], *stream, *values[1 : ids + 1], *task_type, *values[ids + 1 :])


@settings(deadline=None, max_examples=400)
@example(["T", "op", *"123456"])
@example(["T", "op", *"12345"])
@given(
    st.lists(
        st.sampled_from(["T", "op", "a/b", "", "1", "007", "123456789", "1234567890", "1600000000000001", "²", "a\n"]),
        max_size=12,
    )
)
def test_any_name_is_read_by_its_numbers_from_the_right(fields):
    name = ".".join(fields)
    expected = by_fields(name)
    found = parse_ascend(name)
    assert (found and tuple(found)) == (expected and (*expected, *[None] * (9 - len(expected))))
