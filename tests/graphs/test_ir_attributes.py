"""Attributes and literal operands of operators, as lines of an IR have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_msdump.capabilities.graphs.ir import attributes_text, parse_attributes, parse_ir
from pytest_msdump.core.model.dump import differences

REAL = Path(__file__).parents[1] / "data" / "run_facts" / "whole" / "rank_0" / "graphs"
NAME = "ms_output_trace_code_graph_0.ir"


def of(call: str) -> dict[str, str]:
    return dict(parse_attributes(attributes_text(call)))


def test_operators_of_a_real_graph_tell_their_attributes() -> None:
    graph = parse_ir((REAL / NAME).read_bytes(), source=NAME)
    told = {operator.op_type: dict(parse_attributes(operator.attributes)) for operator in graph.operators}
    # As the file has them: `PrimFunc_MatMul(%para3_x, %0, Bool(0), Bool(1)) … primitive_attrs: {…}`.
    assert told == {
        "MatMul": {
            "operand 2": "Bool(0)",
            "operand 3": "Bool(1)",
            "right_format": '"DefaultFormat"',
            "dst_type": "F32",
            "left_format": '"DefaultFormat"',
        },
        "BiasAdd": {"operand 2": "I64(0)"},
        "ReLU": {},
    }


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("%1, %2)", {}),
        ("%1) primitive_attrs: {}", {}),
        ('%1) primitive_attrs: {a: "x, y: {z", b: 2} cnode_attrs: {c: 3}', {"a": '"x, y: {z"', "b": "2"}),
        ("%1) cnode_attrs: {c: 3}", {}),
        (
            '(I64(1), I64(2)), %1, "same", (), F32(-0.5), (%1, I64(1)))',
            {"operand 0": "(I64(1), I64(2))", "operand 2": '"same"', "operand 3": "()", "operand 4": "F32(-0.5)"},
        ),
        # Cut off: the last one may be half a value.
        ("%1) primitive_attrs: {a: 1, b", {"a": "1"}),
    ],
)
def test_lines(call: str, told: dict[str, str]) -> None:
    assert of(call) == told


def test_what_is_longer_than_any_is_cut_at_an_attribute() -> None:
    many = ", ".join(f"name{number}: {number}" for number in range(2000))
    told = of(f"%1) primitive_attrs: {{{many}}}")
    assert 100 < len(told) < 2000
    assert all(value == name.removeprefix("name") for name, value in told.items())


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("I64(1)", "1", True),
        ("(I64(1), I64(2))", "(1,2)", True),
        ('"same"', "same", True),
        ("Bool(1)", "True", True),
        ("Bool(1)", "true", True),
        ("Bool(0)", "False", True),
        ("F32(0.5)", "0.5", True),
        ("I64(1)", "I64(2)", False),
        ("Bool(0)", "Bool(1)", False),
        ('"same"', '"pad"', False),
        ("F32(-0.5)", "0.5", False),
    ],
)
def test_how_releases_write_a_value_makes_no_difference(left: str, right: str, is_same: bool) -> None:
    assert (list(differences("attribute", {"a": left}, {"a": right})) == []) is is_same


def test_what_one_side_alone_has_is_a_difference() -> None:
    (one,) = differences("argument", {"a": "1"}, {})
    assert (one.kind, one.name, one.left, one.right) == ("argument", "a", "1", None)
