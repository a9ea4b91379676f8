from itertools import takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.file_names import (
    SliceName,
    parse_ascend,
    slice_name,
)

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
