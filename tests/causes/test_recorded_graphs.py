"""Roles by the graphs that recorders write: calls of one module, modules inside of others, the other side's graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pytest_msdump.causes.reasons import reason_of
from pytest_msdump.comparison.planning import plan
from pytest_msdump.model.graph import Edge, Operator
from pytest_msdump.model.report import Report
from pytest_msdump.record import DumpWriter
from pytest_msdump.report.build import build_report, compare_plan
from pytest_msdump.suite import load_suite
from pytest_msdump.text import ENGLISH

GOOD, BAD = np.ones((2, 3), "f4"), np.full((2, 3), 2, "f4")

# Name, whether it is good, what feeds it, and the module around it.
Call = tuple[str, bool, list[Edge | None], str]


def call(name: str, *feeds: str | None, bad: bool = False, inside: str = "") -> Call:
    """A call; ``"relu@1"`` names a second one, ``"?"`` what is not known, ``None`` the network's input."""
    edges: list[Edge | None] = []
    for feed in feeds:
        producer, _, occurrence = (feed or "").partition("@")
        known = Edge("" if producer == "?" else producer, 0, occurrence=int(occurrence) if occurrence else None)
        edges.append(None if feed is None else known)
    return name, bad, edges, inside


def record(folder: Path, calls: list[Call], *, is_good: bool = False, with_graph: bool = True) -> None:
    """Write a recording; the reference has good tensors only."""
    times: dict[str, int] = {}
    with DumpWriter(folder) as writer:
        for name, bad, edges, inside in calls:
            occurrence = times[name] = times.get(name, -1) + 1
            writer.write(name, BAD if bad and not is_good else GOOD, op_type="Conv2d")
            if with_graph:
                writer.add_call(Operator(name, "Conv2d", inputs=tuple(edges), occurrence=occurrence, inside=inside))


def judged(folder: Path, **options: Any) -> Report:
    planned = plan(
        load_suite(file=None, table={"left": "left", "right": "right", **options}, options={}, directory=folder)
    )
    return build_report(planned, compare_plan(planned))


def roles(report: Report) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Role and causes of what fails; the second call of a module is ``NAME@1``."""
    found = {}
    for one in report.records:
        if one.fails:
            again = f"@{one.left.at.occurrence}" if one.left.at.occurrence else ""
            found[one.left.address.partition(":")[0] + again] = (str(one.role), one.causes)
    return found


def compared(folder: Path, calls: list[Call]) -> Report:
    record(folder / "left", calls)
    record(folder / "right", calls, is_good=True, with_graph=False)
    return judged(folder)


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


def test_what_is_not_known_of_an_input_makes_no_cause(tmp_path: Path) -> None:
    report = compared(tmp_path, [call("a", None, bad=True), call("b", "?", bad=True)])
    assert roles(report) == {"a": ("cause", ()), "b": ("unknown", ())}
    assert reason_of(report.records[1], ENGLISH) == (
        "what feeds it was not all compared: operations before b (not dumped)"
    )
