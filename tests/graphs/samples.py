"""Graphs that MindSpore 2.10 wrote on CPU, with the execution orders and file names of the same runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capabilities.graphs.ir import parse_ir
from pytest_msdump.core.model.dump import Operator, OperatorGraph

ROOT = Path(__file__).parents[1] / "data" / "ir"
IRS = sorted(ROOT.glob("*/*.ir"))
IDS = [f"{path.parent.name}-{path.stem[-1]}" for path in IRS]
_NAME = re.compile(
    r"(?P<type>[^.]+)\.(?P<op>.+)\.\d+\.\d+\.\d{16}\.(?P<io>input|output)\.(?P<slot>\d+)\.(?P<format>\w+)\.(?P<dtype>\w+)\.npy"
)


class Dumped(NamedTuple):
    """One file of a run, by its name."""

    op_type: str
    op: str
    io: str
    slot: int
    dtype: str


def read(path: Path) -> OperatorGraph:
    return parse_ir(path.read_bytes(), source=path.name)


def order(path: Path) -> tuple[str, ...]:
    """The execution order of the same graph, as the run wrote it."""
    number = path.stem.rpartition("_")[2]
    lines = (path.parent / f"ms_execution_order_graph_{number}.csv").read_text().splitlines()
    return tuple(line for line in lines[1:] if line)


def dumped(path: Path) -> Iterator[Dumped]:
    """The tensor files of the same graph."""
    listing = path.parent / "npy_listing.txt"
    graph = path.stem.rpartition("_")[2]
    for line in listing.read_text().splitlines() if listing.is_file() else ():
        *_, of_graph, _, name = line.split("/")
        match = _NAME.fullmatch(name)
        if match and of_graph == graph:
            yield Dumped(match["type"], match["op"], match["io"], int(match["slot"]), match["dtype"].lower())


def by_name(graph: OperatorGraph) -> dict[str, Operator]:
    return {operator.name: operator for operator in graph.operators}
