"""The vendor's tables from reports made by hand: what has a row, in which order, and what its cells say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report import samples

from pytest_msdump.capabilities.vendor_tables.lines import overflow_cell
from pytest_msdump.capabilities.vendor_tables.table import (
    Columns,
    vendor_table,
)
from pytest_msdump.core.model.record import ReportedTensor
from pytest_msdump.core.model.report import NetworkOperator, Report, SideInfo, UnmatchedTensor
from pytest_msdump.core.model.tensor import Coordinates, Missing
from pytest_msdump.core.report.record_json import from_json
from pytest_msdump.core.text import Message, plain_text, say

ALL = Columns(sequence=True, overflow=True, left_address=True, right_address=True)
AT = {"rank": None, "net": None, "graph": None, "iteration": 0, "occurrence": 0}


def record(left, right="r:output:0", order=0, elements=6, **changes):
    """A record from its entry of `tensors`; one that could not be measured has no elements."""
    usual = samples.entry(samples.drifted())
    broken = {**usual["findings"][0], "outcome": "error", "sentence": f"{left} is broken", "code": "?"}
    plain = {
        **usual,
        "order": order,
        "left": {
            **usual["left"],
            "address": left,
            "op_type": "Add",
            "file": "Add.a.1.1.1600000000000000",
            "dtype": "float16",
            "shape": [2, 1, 16],
            "logical_shape": [2, 3],
            "memory_format": "NC1HWC0",
            "device_address": 4096,
        },
        "right": {**usual["right"], "address": right, "dtype": "float32", "device_address": 0},
        **AT,
        "transform": {},
        "verdict": "error" if elements is None else "pass",
        "elements": elements,
        "metrics": {} if elements is None else {"cosine_similarity": 0.5, "max_absolute_error": 2},
        "where": {},
        "vendor": {},
        "undefined": {},
        "not_applicable": {},
        "findings": [broken] if elements is None else [],
    }
    return from_json({**plain, **changes})


def alone(address, reason="nobody", side="left", order=0, **changes):
    """A tensor without a partner."""
    at = Coordinates(iteration=0, occurrence=0)
    named = {"op_type": "Add", "dtype": "float16", "shape": (2, 1, 16), "device_address": 8192, "at": at}
    tensor = ReportedTensor(address, "f", **{**named, **changes})
    return UnmatchedTensor(
        side,
        tensor,
        reason if isinstance(reason, Message) else plain_text(reason),
        order=order if side == "left" else None,
    )


def operator(index, name, group=None, originals=("o",), op_type="Add", sequence=None):
    """An operator of the model."""
    number = index if sequence is None else sequence
    return NetworkOperator(index, number, name, op_type, tuple(group or [name]), tuple(originals) or ("*",), "?")


def report(records=(), unmatched=(), network=(), missing=(), readers=("ascend", "npy-folder"), operators=9):
    return Report(
        left=SideInfo("l", readers[0], operators=operators),
        right=SideInfo("r", readers[1]),
        profile="default",
        limits={},
        records=tuple(records),
        unmatched=tuple(unmatched),
        network=tuple(network),
        missing=tuple(Missing(left, right, plain_text("")) for left, right in missing),
    )


def table(a_report, *titles, columns=ALL, **options):
    """The wanted columns of each row; a title that is there twice names the first."""
    found, rows = vendor_table(a_report, columns, **options)
    assert all(len(row) == len(found) for row in rows)
    return [tuple(row[found.index(title)] for title in titles) for row in rows]


NAMES = ("Index", "NPUDump", "GroundTruth", "TensorIndex", "Verdict")


class TestCells:
    def test_a_tensor_whose_partner_ought_to_be_there_is_missing(self):
        rows = report(unmatched=[alone("a:output:0"), alone("a:output:1")], missing=[("a:output:1", "o:output:1")])
        assert [verdict for (verdict,) in table(rows, "Verdict")] == ["unmatched", "missing"]

    @pytest.mark.parametrize(
        ("dtype", "overflow", "cell"),
        [
            ("float16", True, "YES"),
            ("float16", False, "NO"),
            ("float16", None, "NaN"),
            ("float32", True, "NaN"),
            (None, None, "NaN"),
        ],
    )
    def test_overflow_is_told_of_float16_alone(self, dtype, overflow, cell):
        assert overflow_cell(dtype, overflow) == cell


class TestNetwork:
    """Rows by group of operators, as a rule file has them."""

    def test_an_operator_without_a_dump_has_a_row_with_a_reason(self):
        network = [operator(0, "d", op_type="Data"), operator(1, "gone"), operator(2, "lost")]
        rows = report(network=network, missing=[("lost:output:0", "o:output:0")])
        assert table(rows, *NAMES, "OpType", "OpSequence", "CompareFailReason") == [
            ("0", "d", "o", "NaN", "unmatched", "Data", "0", say(Message("data"))),
            ("1", "gone", "o", "NaN", "unmatched", "Add", "1", "the left side did not dump gone"),
            ("2", "lost", "o", "NaN", "missing", "Add", "2", "the left side did not dump lost"),
        ]

    @pytest.mark.parametrize(
        ("reason", "op_type", "listed"),
        [
            (Message("inner"), "Add", False),
            (Message("l1_fusion", {"group": "7"}), "Add", False),
            (Message("dequant_input"), "AscendDequant", False),
            (Message("quantised_input"), "Conv2D", True),
            (Message("quant_output"), "AscendQuant", False),
            (Message("quant_output"), "Quant", True),
            (Message("inserted"), "Add", True),
            (Message("fed_by", {"op": "x", "why": Message("inner")}), "Add", True),
        ],
    )
    def test_what_only_passes_values_on_inside_a_group_has_no_row_of_its_own(self, reason, op_type, listed):
        entries = [alone("a:output:0", reason, op_type=op_type)]
        rows = report([record("a:output:1")], entries, [operator(0, "a", op_type=op_type)])
        tensors = [("a:output:0",), ("a:output:1",)] if listed else [("a:output:1",)]
        assert table(rows, "TensorIndex", right_alone=False) == tensors
        assert sorted(table(rows, "TensorIndex")) == [("a:output:0",), ("a:output:1",)]

    def test_what_the_rule_file_does_not_know_follows_if_it_was_compared(self):
        entries = [alone("alone:output:0", order=2), alone("r:output:0", side="right")]
        rows = report([record("new:output:0", "n:output:0", order=1)], entries, [operator(0, "a"), operator(1, "b")])
        assert [row[:4] for row in table(rows, *NAMES)][2:] == [
            ("2", "new", "n", "new:output:0"),
            ("3", "alone", "*", "alone:output:0"),
            ("4", "*", "r", "r:output:0"),
        ]
        assert [row[1] for row in table(rows, *NAMES, right_alone=False)] == ["a", "b", "new"]

    @pytest.mark.parametrize(
        ("memory_format", "wanted", "shape"),
        [
            ("NC1HWC0", "NCHW", "[2,3]"),
            ("ND", None, "[6]"),
            ("ND", "NCHW", "[2,3]"),
            ("NCHW", "ND", "[6]"),
            ("FRACTAL_NZ", "ND", "[2,3]"),
        ],
    )
    def test_shapes_are_those_that_the_vendor_compares(self, memory_format, wanted, shape):
        one = record("a:output:0", transform={"left_logical_format": wanted} if wanted else {})
        one = replace(one, left=one.left._replace(memory_format=memory_format))
        assert table(report([one], network=[operator(0, "a")]), "Shape") == [(shape,)]


class TestDevices:
    """Two dumps of devices and no rule file."""

    def devices(self, records=(), unmatched=()):
        return report(records, unmatched, readers=("ascend", "ascend"))

    def test_an_operator_of_which_nothing_could_be_compared_has_one_row_with_every_reason(self):
        broken = record("a:input:0", "a:input:0", elements=None)
        rows = self.devices([broken], [alone("a:output:0"), alone("a:output:1", "too many", side="right")])
        assert table(rows, *NAMES, "OpType", "Shape", "DataType", "Address", "CompareFailReason") == [
            ("0", "a", "a", "NaN", "error", "NaN", "NaN", "NaN", "NaN",
             "input:0: a:input:0 is broken, output:0: nobody, output:1: too many"),
        ]  # fmt: skip

    def test_where_something_could_be_compared_every_tensor_has_its_row(self):
        records = [record("a:input:0", "a:input:0", elements=None), record("a:output:0", "a:output:0")]
        entries = [alone("a:output:1"), alone("a:output:2", side="right")]
        assert table(self.devices(records, entries), *NAMES, "DataType") == [
            ("0", "a", "a", "a:input:0", "error", "NaN"),
            ("0", "a", "a", "a:output:0", "pass", "float16"),
            ("0", "a", "a", "a:output:1", "unmatched", "NaN"),
            ("0", "a", "a", "a:output:2", "unmatched", "NaN"),
        ]

    def test_a_tensor_that_was_not_run_keeps_its_row(self):
        broken, waiting = (
            record("a:output:0", elements=None),
            record("b:output:0", elements=None, verdict="not_run", order=1),
        )
        assert table(self.devices([broken, waiting]), "TensorIndex", "Verdict") == [
            ("NaN", "error"),
            ("b:output:0", "not_run"),
        ]
