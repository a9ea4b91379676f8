"""Operators of a dump in the graphs of its run: by name, or by the line of the program that made them."""

from __future__ import annotations

import glob
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pytest_msdump.dumps.graphs.flow import consumers
from pytest_msdump.dumps.graphs.ir import parse_attributes
from pytest_msdump.dumps.graphs.source_lines import operators_at, user_frames
from pytest_msdump.errors import ConfigError
from pytest_msdump.matching.selection import Selection
from pytest_msdump.model.describe import listed
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import Operator, OperatorGraph
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import COORDINATES, Coordinates, OpKey, TensorRef

__all__ = ["PlacedOperator", "operator_of", "operators_of_line", "with_line_names"]

# Before a line of the program, where globs are typed.
_LINE = "line:"

_MOST_LISTED = 8


@dataclass(frozen=True)
class PlacedOperator:
    """One operator of one graph.

    Parameters
    ----------
    operator : Operator
        As the graph has it.
    graph : OperatorGraph
        Its graph.
    at : Coordinates
        Coordinates of the graph; one that is not set stands for every value.
    place : int
        0-based, among the graph's operators.
    takers : mapping of int to tuple of (str, int)
        By output slot: operators that take it, with their input slot.
    refs : tuple of TensorRef
        Its tensors in the dump, in the dump's order.
    attributes : mapping of str to str
        From the graph's file.
    """

    operator: Operator
    graph: OperatorGraph
    at: Coordinates
    place: int
    takers: Mapping[int, tuple[tuple[str, int], ...]]
    refs: tuple[TensorRef, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def operators_of_line(dump: Dump, where: str) -> tuple[PlacedOperator, ...]:
    """Find the operators that a line of the program made.

    Parameters
    ----------
    dump : Dump
        With graphs.
    where : str
        ``FILE:LINE`` or code, as `dumps.graphs.source_lines.operators_at` takes it.

    Returns
    -------
    tuple of PlacedOperator
        By graph, then in execution order.

    Raises
    ------
    ConfigError
        No graph of the run tells lines of the program, or no operator is of this one; the text names some that are.
    """
    found = [
        placed
        for at, graph in dump.graphs
        for placed in _placed(dump, at, graph, {operator.name for operator in operators_at(graph, where)})
    ]
    if not found:
        raise ConfigError(f"{where}: {_why_none(dump)}")
    return tuple(found)


def operator_of(dump: Dump, op: OpKey) -> PlacedOperator | None:
    """Find an operator of a dump in the graphs of its run; ``None`` when no graph has it."""
    for at, graph in dump.graphs if op.op_type != PARAMETER else ():
        if _agree(at, op.at):
            for placed in _placed(dump, at, graph, {op.label}):
                return placed
    return None


def _placed(dump: Dump, at: Coordinates, graph: OperatorGraph, names: set[str]) -> Iterator[PlacedOperator]:
    if not names:
        return
    takers: defaultdict[str, dict[int, tuple[tuple[str, int], ...]]] = defaultdict(dict)
    for edge, inputs in consumers(graph).items():
        if not edge.is_parameter:
            takers[edge.producer][edge.slot] = inputs
    refs: defaultdict[str, list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        op = ref.key.op
        if op.label in names and op.op_type != PARAMETER and _agree(at, op.at):
            refs[op.label].append(ref)
    for place, operator in enumerate(graph.operators):
        if operator.name in names:
            own, attributes = tuple(refs.get(operator.name, ())), parse_attributes(operator.attributes)
            yield PlacedOperator(operator, graph, at, place, takers.get(operator.name, {}), own, attributes)


def _agree(graph: Coordinates, tensor: Coordinates) -> bool:
    pairs = ((getattr(graph, name), getattr(tensor, name)) for name in COORDINATES)
    return all(of_graph is None or of_tensor is None or of_graph == of_tensor for of_graph, of_tensor in pairs)


def _why_none(dump: Dump) -> str:
    lines = {
        (frame.file, frame.line): frame.place
        for _, graph in dump.graphs
        for operator in graph.operators
        for frame in user_frames(operator)
    }
    if not lines:
        why = "the graphs of this run tell no lines" if dump.graphs else "no graph is beside it that tells lines"
        return f"{dump.root}: {why} of the program; name a saved .ir with --graph FILE"
    known = [lines[key] for key in sorted(lines)]
    return f"no operator of {dump.root} was made by it; the lines that are known: {listed(known, _MOST_LISTED)}"


# -- ``line:net.py:58`` in a selection -------------------------------------------------------------------------------


def with_line_names(selection: Selection, left: Dump, right: Dump) -> Selection:
    """Return the selection with every line of the program replaced by the names of the operators that it made.

    Parameters
    ----------
    selection : Selection
        As it was typed: ``line:FILE:LINE``, or ``line:`` and code as it stands in the program, among globs.
    left, right : Dump
        With graphs.

    Raises
    ------
    ConfigError
        No graph tells lines, or none of them has that one.
    """
    graphs = [graph for dump in (left, right) for _, graph in dump.graphs]

    def names(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for text in texts for name in _globs(text, graphs)))

    return replace(selection, select=names(selection.select), deselect=names(selection.deselect))


def _globs(text: str, graphs: list[OperatorGraph]) -> Iterator[str]:
    if not text.startswith(_LINE):
        yield text
        return
    where = text.removeprefix(_LINE)
    found = [operator for graph in graphs for operator in operators_at(graph, where)]
    if not found:
        raise ConfigError(f"{text}: {_why_no_line(graphs)}")
    # A name may hold brackets; it means itself.
    yield from (glob.escape(operator.name) for operator in found)


def _why_no_line(graphs: list[OperatorGraph]) -> str:
    lines = sorted({frame.place for graph in graphs for one in graph.operators for frame in user_frames(one)})
    if lines:
        return f"no operator of either side was made by it; there are {listed(lines)}"
    return (
        'neither side has a graph that tells lines of the program; name one with graph_files = ["….ir"] in the '
        "suite file"
    )
