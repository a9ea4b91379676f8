"""Roles by the graphs that recorders write: calls of one module, modules inside of others, the other side's graph."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_calls import GOOD, Call, call, record, roles
from two_dumps import planned, reported

from pytest_msdump.capabilities.causes.roles import reason_of
from pytest_msdump.capabilities.causes.summarised import role_lines
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.text import ENGLISH
from pytest_msdump.record import DumpWriter


def compared(folder: Path, calls: list[Call], *, inputs: Mapping[str, str] | None = None, **options: Any) -> Report:
    record(folder / "left", calls, inputs=inputs)
    record(folder / "right", calls, is_good=True, with_graph=False, inputs=inputs)
    return reported(folder, io="all" if inputs else "output", **options)


def test_of_a_module_that_is_called_twice_an_edge_names_the_call(tmp_path: Path) -> None:
    report = compared(
        tmp_path,
        [
            call("relu", None),
            call("conv", "relu@0", bad=True),
            call("relu", "conv", bad=True),
            call("a", "relu@0", bad=True),
            call("b", "relu@1", bad=True),
        ],
    )
    # `a` reads the first call, which passes; `b` the second, which inherits.
    assert roles(report) == {
        "relu@1": ("inherited", ("conv:output:0",)),
        "conv": ("cause", ()),
        "a": ("cause", ()),
        "b": ("inherited", ("conv:output:0",)),
    }
    assert report.localised_by == "graph"


def test_what_is_not_known_counts_only_after_a_failure(tmp_path: Path) -> None:
    # Whatever `b` reads comes from `a`, which passes; what `c` reads may come from `b`.
    report = compared(tmp_path, [call("a", None), call("b", "?", bad=True), call("c", "?", bad=True)])
    assert roles(report) == {"b": ("cause", ()), "c": ("unknown", ())}


def test_what_is_not_known_of_an_input_makes_no_cause(tmp_path: Path) -> None:
    report = compared(tmp_path, [call("a", None, bad=True), call("b", "?", bad=True)])
    assert roles(report) == {"a": ("cause", ()), "b": ("unknown", ())}
    assert reason_of(report.records[1], ENGLISH) == (
        "not all of its inputs were compared: operations before b (not dumped)"
    )


# -- Modules with others inside --------------------------------------------------------------------------------------

# A block that gives back the tensor of its last layer.
BLOCK = [
    call("stem", None),
    call("conv", "stem", bad=True, inside="block"),
    call("norm", "conv", bad=True, inside="block"),
    call("block", "stem", "norm", bad=True),
    call("head", "norm", bad=True),
]


@pytest.mark.parametrize("inputs", [None, {"conv": "g", "norm": "b", "block": "g", "head": "b"}])
def test_a_module_is_no_cause_where_one_inside_of_it_fails(tmp_path: Path, inputs: Mapping[str, str] | None) -> None:
    found = roles(compared(tmp_path, BLOCK, inputs=inputs))
    assert found.pop("conv") == ("cause", ())
    assert set(found) >= {"norm", "block", "head"}
    assert set(found.values()) == {("inherited", ("conv:output:0",))}


def test_a_module_that_adds_far_more_than_fails_inside_of_it_is_a_second_cause(tmp_path: Path) -> None:
    calls = [
        call("stem", None),
        call("conv", "stem", bad=0.005, inside="block"),
        call("block", "stem", "conv", bad=0.5),
        call("next", "block", bad=0.015, inside="outer"),
        # Three times what is inside of it.
        call("outer", "block", "next", bad=0.5),
    ]
    assert roles(compared(tmp_path, calls)) == {
        "conv": ("cause", ()),
        "block": ("cause", ()),
        "next": ("inherited", ("block:output:0",)),
        "outer": ("inherited", ("block:output:0",)),
    }


def test_a_module_whose_inside_was_not_compared_is_the_place_to_look(tmp_path: Path) -> None:
    report = compared(tmp_path, BLOCK, select=["stem", "block", "head"])
    # What reads the last layer inside reads what the block gives back.
    assert roles(report) == {"block": ("cause", ()), "head": ("inherited", ("block:output:0",))}


def test_a_network_of_which_nothing_else_was_compared_is_no_cause(tmp_path: Path) -> None:
    calls = [call("conv", None, inside="Net"), call("head", "conv", inside="Net"), call("Net", None, "head", bad=True)]
    report = compared(tmp_path, calls, select=["Net"])
    assert roles(report) == {"Net": ("unknown", ())}
    assert reason_of(report.records[-1], ENGLISH) == (
        "not all of its inputs were compared: conv (not selected), head (not selected)"
    )
    # What was compared inside of it, or before it, is evidence.
    assert roles(compared(tmp_path / "head", calls, select=["Net", "head"])) == {"Net": ("cause", ())}


@pytest.mark.parametrize(
    ("far", "stem", "layer"),
    [(1e-2, ("cause", ()), ("inherited", ("n0:output:0",))), (1e-4, (None, ()), (None, ()))],
)
def test_a_tensor_that_meets_two_is_a_cause_only_beside_the_one_from_which_it_jumps(
    tmp_path: Path, far: float, stem: tuple[str | None, Any], layer: tuple[str | None, Any]
) -> None:
    # The port has no addition, so that its layer is beside the reference's layer, and beside its block.
    with DumpWriter(tmp_path / "left") as writer:
        for name, scope, times, feed in (("n0", "stem", 1, None), ("n1", "block.layer", 2, Edge("n0", 0))):
            writer.write(name, GOOD * np.float32(1 + far * times), op_type="Conv")
            writer.add_call(Operator(name, "Conv", inputs=(feed,), scope=scope))
    right = [call("stem", None), call("block.layer", "stem", inside="block"), call("block", "stem", "block.layer")]
    record(tmp_path / "right", right, is_good=True)
    file = next((tmp_path / "right").glob("block.0*.npy"))
    np.save(file, GOOD * 2)
    found = {one.right.address.split(":")[0]: (one.role, one.causes) for one in reported(tmp_path).records}
    assert found == {"stem": stem, "block.layer": layer, "block": ("cause", ())}


def test_a_module_is_the_place_to_look_where_what_was_compared_inside_of_it_passes(tmp_path: Path) -> None:
    calls = [call("conv", None, inside="net"), call("norm", "conv", inside="net"), call("net", None, "norm", bad=True)]
    assert roles(compared(tmp_path, calls, select=["conv", "net"])) == {"net": ("cause", ())}


def test_an_input_that_passes_clears_what_was_joined_into_it(tmp_path: Path) -> None:
    calls = [call("a", None), call("b", None, bad=True), call("c", "a", "b", bad=True)]
    assert roles(compared(tmp_path / "without", calls)) == {"b": ("cause", ()), "c": ("inherited", ("b:output:0",))}
    good = compared(tmp_path / "good", calls, inputs={"c": "g"})
    assert roles(good) == {"b": ("cause", ()), "c": ("cause", ())}
    bad = compared(tmp_path / "bad", calls, inputs={"c": "b"})
    inherited = ("inherited", ("b:output:0",))
    assert roles(bad) == {"b": ("cause", ()), "c:input": inherited, "c": inherited}


# -- The graph of the other side -------------------------------------------------------------------------------------


def led_over(folder: Path, left: list[Call], right: list[Call], **options: Any) -> Report:
    record(folder / "left", left, with_graph=False)
    record(folder / "right", right, is_good=True)
    return reported(folder, **options)


def test_the_graph_of_the_right_side_serves_where_the_left_has_none(tmp_path: Path) -> None:
    left = [call("a", bad=True), call("b"), call("c", bad=True), call("extra"), call("d", bad=True)]
    # `between` has no partner: it is walked through. Names differ, and pairs lead over.
    right = [
        call("A", None),
        call("B", None),
        call("C", "B"),
        call("between", "A"),
        call("D", "B", "between"),
    ]
    entries = [{"left": name, "right": name.upper()} for name in "abcd"]
    report = led_over(tmp_path, left, right, map=entries)
    assert roles(report) == {"a": ("cause", ()), "c": ("cause", ()), "d": ("inherited", ("a:output:0",))}
    assert report.localised_by == "graph of the right side"


@pytest.mark.parametrize("op_type", ["Dropout", "Conv2d"])
def test_what_has_no_partner_between_what_passes_and_what_fails_makes_nothing_unknown(
    op_type: str, tmp_path: Path
) -> None:
    calls = [call("a", None), call("b", "a"), call("between", "b"), call("c", "between", bad=True)]
    record(tmp_path / "left", calls, types={"between": op_type})
    record(tmp_path / "right", [*calls[:2], call("c", "b")], is_good=True)
    report = reported(tmp_path)
    assert roles(report) == {"c": ("cause", ())}
    # It is named: in training a Dropout does more than hand on, and a Conv2d may be what is wrong.
    assert "not compared in between: between" in role_lines(report, width=200)[1]


# -- A part of the records -------------------------------------------------------------------------------------------

# Behind `fc1`, which passes, `gelu` has no partner: nothing says that it belongs to the block, whose output `add` is.
EXPORTED = [
    call("stem", None),
    call("fc1", "stem"),
    call("gelu", "fc1"),
    call("fc2", "gelu", bad=0.5),
    call("add", "fc2", "fc1", bad=0.25),
    call("head", "add", bad=0.25),
]
MODULES = [
    call("stem", None),
    call("fc1", "stem", inside="block"),
    call("act", "fc1", inside="block"),
    call("fc2", "act", inside="block"),
    call("block", "fc2", "fc1"),
    call("head", "block"),
]
PAIRED = ("stem", "fc1", "fc2", "add", "head")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, dict[int, Record]]:
    folder = tmp_path_factory.mktemp("exported")
    record(folder / "left", EXPORTED)
    record(folder / "right", MODULES, is_good=True)
    # Of what no name pairs the other side needs none: it is part of what follows.
    entries = [{"left": name, "right": "block" if name == "add" else name} for name in PAIRED]
    part = planned(folder, pair_by=["map"], map=entries)
    return part, compare_plan(part)


@pytest.mark.parametrize("chosen", [one for n in range(1, 6) for one in combinations(PAIRED, n)], ids="+".join)
def test_with_a_part_of_the_records_nothing_is_said_that_the_graph_does_not_show(
    exported: tuple[Plan, dict[int, Record]], chosen: tuple[str, ...]
) -> None:
    whole, records = exported
    part = {number: one for number, one in records.items() if one.left.key.op.label in chosen}
    report = build_report(whole, part)
    found = {one.left.key.op.label: one for one in report.records if one.fails}
    assert found.keys() == {"fc2", "add", "head"}.intersection(chosen)
    for name, one in found.items():
        reason = reason_of(one, ENGLISH)
        assert "loop" not in reason
        if name == "fc2":
            # What it reads is what `fc1` made.
            assert one.role == ("cause" if "fc1" in chosen else "unknown")
        above = [other for other in ("fc2", "add") if other in chosen and PAIRED.index(other) < PAIRED.index(name)]
        if above:
            assert (one.role, one.causes) == ("inherited", (f"{above[0]}:output:0",))
        elif name != "fc2" or one.role == "unknown":
            assert one.role == "unknown"
            assert "not all of its inputs were compared" in reason
            assert "(not run)" in reason


@pytest.mark.parametrize(("fed", "role"), [(0.05, "cause"), (0.5, "inherited")])
def test_of_an_input_that_is_mostly_wrong_an_operator_may_make_anything(fed: float, role: str, tmp_path: Path) -> None:
    calls = [call("a", None, bad=fed), call("b", "a", bad=fed * 8), call("c", "b", bad=fed * 8)]
    assert roles(compared(tmp_path, calls))["b"][0] == role
