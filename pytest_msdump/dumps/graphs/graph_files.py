"""Graph files: those that a run left beside its dump, and those that a user kept elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_msdump.dumps.graphs.execution_order import side_folders
from pytest_msdump.errors import ConfigError
from pytest_msdump.model.graph import OperatorGraph
from pytest_msdump.model.tensor import Coordinates
from pytest_msdump.storage.files import read_user_file
from pytest_msdump.storage.listings import names_in

__all__ = ["PlacedGraph", "find_irs", "is_graph_file", "placed", "read_graph", "read_graphs"]

# A graph, and whose it is; a coordinate that is not set stands for every value.
PlacedGraph = tuple[Coordinates, OperatorGraph]

_MAX_BYTES = 2**30
_FINAL = re.compile(r"ms_output_trace_code_graph_(?P<graph>[0-9]{1,9})\.(?P<suffix>ir|pb)")
_NUMBERED = re.compile(r"graph_?(?P<graph>[0-9]{1,9})(?=[._]|$)")
_FOLDER = "graphs"
# GE writes a graph once more when it is built; what it wrote before is not what ran.
_BUILT = re.compile(r"ge_(?:proto|onnx)_.*_Build\.\w+")

_BARE = re.compile(r"trace_code_graph_[0-9]{1,9}")
_SUFFIXES = (".ir", ".dat", ".pb", ".pbtxt", ".txt")
_MAGIC_ONNX = re.compile(r"\s*(?:ir_version:|producer_name:|model_version:|graph \{\s+node \{)")
_MAGIC_GE = re.compile(r"\s*(?:(?:name|version|custom_version):[^\n]*\s+)*graph \{")


def find_irs(root: Path) -> Mapping[Coordinates, Path]:
    """List the graphs that belong to a dump; reads names only.

    Parameters
    ----------
    root : Path
        The dump's root: the tree, one rank of it, or a directory further down.

    Returns
    -------
    mapping of Coordinates to Path
        By rank and graph, and by net where graphs are kept by net, as releases 1.2 and 1.3 do. Of an ``.ir`` and a
        ``.pb`` of one graph the ``.ir``, which says more. Empty when there are none.
    """
    found: dict[Coordinates, Path] = {}
    for at, folder in side_folders(root, _FOLDER):
        for name in names_in(folder):
            match = _FINAL.fullmatch(name)
            if match:
                # `.ir` comes before `.pb`.
                found.setdefault(replace(at, graph=int(match["graph"])), folder / name)
    return found


def is_graph_file(path: Path) -> bool:
    """Tell by its name whether a file may be a graph that `read_graph` reads."""
    return path.suffix.lower() in _SUFFIXES or _BARE.fullmatch(path.name) is not None


def read_graph(path: Path) -> OperatorGraph:
    """Read a graph of any kind: an IR of MindSpore, its Protobuf form, or a graph that GE wrote as text.

    Parameters
    ----------
    path : Path
        The file; what it is, is told by what is in it.

    Returns
    -------
    OperatorGraph
        `source` is the file's name; `is_final` is false for a graph that the compiler went on from.

    Raises
    ------
    ConfigError
        There is no such file, it is larger than 1 GiB, or it is no such graph.
    """
    data = read_user_file(path, _MAX_BYTES, want="give a graph that MindSpore or GE wrote")
    name = path.name
    graph = _parsed(data, name)
    return replace(graph, is_final=_FINAL.fullmatch(name) is not None or _BUILT.fullmatch(name) is not None)


def _parsed(data: bytes, name: str) -> OperatorGraph:
    # Most dumps have no graph beside them, and none has all kinds: a parser is loaded with the first file for it.
    if name.lower().endswith(".pb"):
        from pytest_msdump.dumps.graphs.ms_pb import parse_pb

        return parse_pb(data, source=name)
    start = data[:4096].decode("utf-8-sig", errors="replace")
    if _MAGIC_ONNX.match(start) or _MAGIC_GE.match(start):
        from pytest_msdump.dumps.graphs.ge_text import parse_ge_onnx, parse_ge_proto

        parse = parse_ge_onnx if _MAGIC_ONNX.match(start) else parse_ge_proto
        return parse(data.decode("utf-8-sig", errors="replace"), source=name)
    from pytest_msdump.dumps.graphs.ir import parse_ir

    return parse_ir(data, source=name)


def read_graphs(files: Mapping[Coordinates, Path]) -> tuple[tuple[PlacedGraph, ...], tuple[str, ...]]:
    """Read the graphs that a run left, as far as they can be read.

    Parameters
    ----------
    files : mapping of Coordinates to Path
        As `find_irs` gives them.

    Returns
    -------
    tuple of (Coordinates, OperatorGraph)
        Those that could be read. For an ``.ir`` that cannot be read its ``.pb`` is taken, where there is one.
    tuple of str
        A sentence about each of the others.
    """
    graphs: list[PlacedGraph] = []
    notes: list[str] = []
    for at, path in files.items():
        graph, failure = _attempt(path)
        other = path.with_suffix(".pb")
        if graph is None and other != path and other.is_file():
            graph, _ = _attempt(other)
        if graph is None:
            notes.append(f"{failure}; source lines and shapes of graph {at.graph} are not known")
        else:
            graphs.append((at, graph))
    return tuple(graphs), tuple(notes)


def _attempt(path: Path) -> tuple[OperatorGraph | None, ConfigError | None]:
    try:
        return read_graph(path), None
    except ConfigError as error:
        return None, error


def placed(files: Iterable[Path]) -> tuple[PlacedGraph, ...]:
    """Read graphs that a user kept outside of the dump; a number in a file's name says which graph it is.

    Parameters
    ----------
    files : iterable of Path
        Of any kind that `read_graph` reads.

    Returns
    -------
    tuple of (Coordinates, OperatorGraph)
        In that order.

    Raises
    ------
    ConfigError
        As `read_graph` says.
    """
    graphs: list[PlacedGraph] = []
    for path in files:
        numbers = _NUMBERED.findall(path.name)
        graphs.append((Coordinates(graph=int(numbers[-1]) if numbers else None), read_graph(path)))
    return tuple(graphs)
