"""Tables, numbers and names in plain text: they fit, and nothing is lost."""

from __future__ import annotations

import math
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.describe import distinct_texts, number
from pytest_msdump.core.report.tables import columns, command, filled, labelled, pieces, table

names = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S")), max_size=300)


@settings(deadline=None)
@given(name=names, width=st.integers(16, 200))
def test_a_broken_name_is_whole_and_fits(name, width):
    parts = pieces(name, width)
    assert "".join(parts) == name
    assert all(len(part) <= width for part in parts)
    assert parts


@settings(deadline=None)
@given(words=st.lists(names.filter(bool), min_size=1), width=st.integers(20, 120))
def test_filled_text_fits_and_keeps_every_character(words, width):
    lines = filled(" ".join(words), width)
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(words)


def test_a_wrapped_rule_is_told_once():
    rows = [("a", "a rule that is long"), ("b", "a rule that is long"), ("c", "another")]
    lines = table(("m", "rule"), rows, width=22, flexible=1)
    assert [line.split() for line in lines[3:5]] == [["b", "(same)"], ["c", "another"]]


@pytest.mark.parametrize(
    "word", ["a\nb", "it's\x1b[31m\\", "::error file=a::b", "caf\udce9", "名\u202e前", "$(x) `y` $z", "", "\t!"]
)
@pytest.mark.e2e
def test_a_word_of_a_command_reaches_the_program_as_it_is(word):
    (line,) = command(["printf", "%s", word], width=80, label="type:")
    assert line.isprintable()
    line = line.removeprefix("type: ")
    printed = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert printed == word.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (2**63, "9223372036854775808"), (10**400, "1.00000e+400"), (True, "True"), (0.0, "0"),
        (1e-3, "0.001"), (2.3e-4, "2.3e-04"), (1.5e300, "1.5e+300"), (0.98761234, "0.987612"), (-1.25, "-1.25"),
        (math.nan, "NaN"), (math.inf, "Inf"), (-math.inf, "-Inf"), (complex(1, -2.5), "1-2.5j"),
        (complex(0, math.inf), "0+Infj"),
    ],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert number(value) == text


@settings(deadline=None)
@given(left=st.floats(allow_nan=False), right=st.floats(allow_nan=False))
def test_two_elements_that_differ_read_differently(left, right):
    texts = distinct_texts(left, right)
    assert (texts[0] != texts[1]) or left == right


def test_no_more_digits_are_written_than_tell_them_apart():
    assert distinct_texts(1.00000012, 1.0) == ("1.0000001", "1")
    assert distinct_texts(0.1234567, 0.7) == ("0.123457", "0.7")


def test_no_name_can_break_a_line_or_colour_the_terminal():
    assert terminal_text("a\nb\x1b[31mc\udce9") == "a\\nb\\x1b[31mc\\udce9"
    assert terminal_text("名前 é") == "名前 é"


def test_chinese_is_broken_between_characters_and_no_line_begins_with_a_comma():
    text = "右侧张量，已配对；其余（未配对）见下表。"
    for width in range(16, 42):
        lines = filled(text, width)
        assert "".join(lines) == text
        assert all(columns(line) <= width for line in lines)
        assert not any(line[0] in "，；）。" for line in lines)
        assert not any(line[-1] == "（" for line in lines)


def test_cells_are_filled_up_by_columns():
    lines = table(("指标", "value"), [("cosine", "0.5"), ("最大", "数值")], width=40, right=(1,))
    assert lines == ["  指标    value", "  cosine    0.5", "  最大     数值"]
    assert labelled("疑似", "x", width=40) == ["  疑似        x"]


def test_a_long_name_in_chinese_is_cut_by_columns():
    name = "算子" * 20 + "_卷积.npy"
    parts = pieces(name, 24)
    assert "".join(parts) == name
    assert max(map(columns, parts)) <= 24


@settings(deadline=None, max_examples=400)
@given(st.text("ab (\t", max_size=8), st.integers(2, 9))
def test_a_text_that_fits_is_one_line_with_its_spaces_single(text, width):
    words = text.split()
    if len(" ".join(words)) <= width:
        assert filled(text, width) == [" ".join(words)]
