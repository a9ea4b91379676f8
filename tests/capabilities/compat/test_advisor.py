"""The advice: where to begin, found by verdicts and not by cosines alone."""

from __future__ import annotations

import pytest

from pytest_msdump.capabilities.compat.mscmp_advisor import advice

TITLES = ("Index", "OpType", "OverFlow", "CosineSimilarity", "Verdict")


def row(index, op_type="Conv2D", overflow="NO", cosine="1.000000", verdict="pass"):
    return (str(index), op_type, overflow, cosine, verdict)


GOOD = row(0)
BAD = row(4, cosine="0.5", verdict="fail")


@pytest.mark.parametrize(
    ("rows", "kind", "operator"),
    [
        ([GOOD, row(1, verdict="warn")], "Global Consistency", "NA"),
        ([GOOD, BAD, GOOD], "Global Consistency", "4"),
        ([GOOD, row(3, cosine="0.9"), BAD], "Global Consistency", "3"),
        ([row(0, "Data", cosine="0.98"), BAD], "Input Inconsistent", "0"),
        ([BAD, row(2, overflow="YES"), row(5, "Data", cosine="0.1")], "FP16 Overflow", "2"),
        ([GOOD, row(7, cosine="NaN", verdict="error")], "Global Consistency", "7"),
        ([GOOD, row(7, cosine="NaN", verdict="unmatched")], "Global Consistency", "NA"),
    ],
)
def test_the_worst_kind_is_told_and_its_first_operator(rows, kind, operator):
    found = advice(TITLES, rows)
    assert (found.kind, found.operator) == (kind, operator)


@pytest.mark.parametrize("rows", [[], [row(0, verdict="unmatched")], [row(0, verdict="not_run", cosine="NaN")]])
def test_where_nothing_was_compared_nothing_is_fine(rows):
    found = advice(TITLES, rows)
    assert found.operator == "NA"
    assert "nothing was compared" in found.text


def test_the_file_has_the_vendors_three_lines():
    lines = advice(TITLES, [GOOD]).lines.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["Detection Type", "Operator Index", "Expert Advice"]
