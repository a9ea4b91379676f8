"""Graph files: those that a run left beside its dump, and those that a user kept elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.storage.files import read_user_file
from pytest_msdump.core.text import Message, say
from pytest_msdump.dumps.graphs.execution_order import GRAPH_NAME
from pytest_msdump.dumps.graphs.ge_model import parse_model
from pytest_msdump.dumps.graphs.ge_text import parse_ge_onnx, parse_ge_proto
from pytest_msdump.dumps.graphs.ir import parse_ir
from pytest_msdump.dumps.graphs.ms_pb import parse_pb

# The rank, net and number of a graph, and the graph; a coordinate that is not set stands for every value.
PlacedGraph = tuple[Coordinates, OperatorGraph]

_MAX_BYTES = 2**30
_NUMBERED = re.compile(r"graph_?(?P<graph>[0-9]{1,9})(?=[._]|$)")
# GE writes a graph once more when it is built; what it wrote before is not what ran.
_BUILT = re.compile(r"ge_(?:proto|onnx)_.*_Build\.\w+")

_BARE = re.compile(r"trace_code_graph_[0-9]{1,9}")
_SUFFIXES = (".ir", ".dat", ".pb", ".pbtxt", ".txt")
_MAGIC_ONNX = re.compile(r"\s*(?:ir_version:|producer_name:|model_version:|graph \{\s+node \{)")
_MAGIC_GE = re.compile(r"\s*(?:(?:name|version|custom_version):[^\n]*\s+)*graph \{")


def is_graph_file(path: Path) -> bool:
    """Whether a file may, by its name, be a graph that `read_graph` reads."""
    return path.suffix.lower() in _SUFFIXES or _BARE.fullmatch(path.name) is not None


def read_graph(path: Path) -> OperatorGraph:
    """Read an IR of MindSpore, its Protobuf form, a graph that GE wrote as text, or the JSON of a compiled model."""
    data = read_user_file(path, _MAX_BYTES, want="give a graph that MindSpore or GE wrote")
    name = path.name
    graph = _parsed(data, name)
    return replace(graph, is_final=GRAPH_NAME.fullmatch(name) is not None or _BUILT.fullmatch(name) is not None)


def _parsed(data: bytes, name: str) -> OperatorGraph:
    if name.lower().endswith(".pb"):
        return parse_pb(data, source=name)
    start = data[:4096].decode("utf-8-sig", errors="replace")
    if start.lstrip().startswith("{"):
        return parse_model(data, source=name)
    if _MAGIC_ONNX.match(start):
        return parse_ge_onnx(data.decode("utf-8-sig", errors="replace"), source=name)
    if _MAGIC_GE.match(start):
        return parse_ge_proto(data.decode("utf-8-sig", errors="replace"), source=name)
    return parse_ir(data, source=name)


def read_graphs(files: Mapping[Coordinates, Path]) -> tuple[tuple[PlacedGraph, ...], tuple[str, ...]]:
    """Read the graphs that a run left, as far as they can be read, and a sentence about each of the others."""
    graphs: list[PlacedGraph] = []
    notes: list[str] = []
    for at, path in files.items():
        graph, failure = _attempt(path)
        other = path.with_suffix(".pb")
        if graph is None and other != path and other.is_file():
            graph, _ = _attempt(other)
        if graph is None:
            notes.append(say(Message("note_graph_unread", {"why": str(failure), "graph": str(at.graph)})))
        else:
            graphs.append((at, graph))
    return tuple(graphs), tuple(notes)


def _attempt(path: Path) -> tuple[OperatorGraph | None, ConfigError | None]:
    try:
        return read_graph(path), None
    except ConfigError as error:
        return None, error


def read_named_graphs(files: Iterable[Path]) -> tuple[PlacedGraph, ...]:
    """Read graphs that a user named, in that order; a number in a file's name is the graph's."""
    graphs: list[PlacedGraph] = []
    for path in files:
        numbers = _NUMBERED.findall(path.name)
        graphs.append((Coordinates(graph=int(numbers[-1]) if numbers else None), read_graph(path)))
    return tuple(graphs)
