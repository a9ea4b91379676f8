"""Recordings with a graph of calls, written call by call, and the roles that a comparison of two gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.core.model.report import Report
from pytest_msdump.record import DumpWriter

GOOD, BAD = np.ones((2, 3), "f4"), np.full((2, 3), 2, "f4")

# Name, how far it is apart, what feeds it, and the module around it.
Call = tuple[str, float, list[Edge | None], str]


def call(name: str, *feeds: str | None, bad: float = False, inside: str = "") -> Call:
    """A call; ``"relu@1"`` names a second one, ``"?"`` what is not known, ``None`` the network's input."""
    edges: list[Edge | None] = []
    for feed in feeds:
        producer, _, occurrence = (feed or "").partition("@")
        known = Edge("" if producer == "?" else producer, 0, occurrence=int(occurrence) if occurrence else None)
        edges.append(None if feed is None else known)
    return name, bad, edges, inside


def record(
    folder: Path,
    calls: list[Call],
    *,
    is_good: bool = False,
    with_graph: bool = True,
    inputs: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
) -> None:
    """Write a recording; the reference has good tensors only. `inputs` have a letter for each: ``g`` or ``b``."""
    times: dict[str, int] = {}
    with DumpWriter(folder) as writer:
        for name, bad, edges, inside in calls:
            occurrence = times[name] = times.get(name, -1) + 1
            for slot, letter in enumerate((inputs or {}).get(name, "")):
                writer.write(
                    name, BAD if letter == "b" and not is_good else GOOD, io="input", slot=slot, op_type="Conv2d"
                )
            op_type = (types or {}).get(name, "Conv2d")
            writer.write(name, GOOD if is_good else GOOD * np.float32(1 + bad), op_type=op_type)
            if with_graph:
                writer.add_call(Operator(name, op_type, inputs=tuple(edges), occurrence=occurrence, inside=inside))


def roles(report: Report) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Role and causes of what fails; the second call of a module is ``NAME@1``."""
    found = {}
    for one in report.records:
        if one.fails:
            again = f"@{one.left.at.occurrence}" if one.left.at.occurrence else ""
            name, io, _ = one.left.address.split(":")
            found[name + again + (":input" if io == "input" else "")] = (str(one.role), one.causes)
    return found
