"""Operators of a dump in the graphs of its run, by name or by line of the program, and their arguments."""

from __future__ import annotations

import glob
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pytest_msdump.capabilities.graphs.flow import consumers
from pytest_msdump.capabilities.graphs.ir import parse_attributes
from pytest_msdump.capabilities.graphs.source_lines import operators_at, user_frames
from pytest_msdump.core.dumps.sidefiles import read_kernel_args
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.coordinates import compatible, place_of
from pytest_msdump.core.matching.selection import Selection
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import (
    PARAMETER,
    ArgumentDifference,
    Dump,
    KernelArguments,
    Operator,
    OperatorGraph,
    differences,
)
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pair, TensorRef, mangle

# Before a line of the program, where globs are typed.
_LINE = "line:"

_MOST_LISTED = 8


@dataclass(frozen=True)
class PlacedOperator:
    """One operator of one graph."""

    operator: Operator
    graph: OperatorGraph
    at: Coordinates
    place: int
    takers: Mapping[int, tuple[tuple[str, int], ...]]
    refs: tuple[TensorRef, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def operators_of_line(dump: Dump, where: str) -> tuple[PlacedOperator, ...]:
    """Return the operators that a line of the program made, by graph and in execution order."""
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
        if compatible(place_of(at), place_of(op.at)):
            for placed in _placed(dump, at, graph, {op.label}):
                return placed
    return None


def _placed(dump: Dump, at: Coordinates, graph: OperatorGraph, names: set[str]) -> Iterator[PlacedOperator]:
    if not names:
        return
    takers: defaultdict[str, dict[int, tuple[tuple[str, int], ...]]] = defaultdict(dict)
    for edge, inputs in consumers(graph).items():
        if not edge.is_parameter:
            takers[edge.producer][edge.slot] = (*takers[edge.producer].get(edge.slot, ()), *inputs)
    refs: defaultdict[str, list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        op = ref.key.op
        if op.label in names and op.op_type != PARAMETER and compatible(place_of(at), place_of(op.at)):
            refs[op.label].append(ref)
    for place, operator in enumerate(graph.operators):
        if operator.name in names:
            own, attributes = tuple(refs.get(operator.name, ())), parse_attributes(operator.attributes)
            yield PlacedOperator(operator, graph, at, place, takers.get(operator.name, {}), own, attributes)


def _why_none(dump: Dump) -> str:
    lines = {
        (frame.file, frame.line): frame.place
        for _, graph in dump.graphs
        for operator in graph.operators
        for frame in user_frames(operator)
    }
    if not lines:
        why = "its graphs have no lines" if dump.graphs else "it has no graph with lines"
        return f"{dump.root}: {why} of the program; name a saved .ir with --graph FILE"
    known = [lines[key] for key in sorted(lines)]
    return f"no operator of {dump.root} was made by it; the lines that are known: {listed(known, _MOST_LISTED)}"


def with_line_names(selection: Selection, left: Dump, right: Dump) -> Selection:
    """Replace every ``line:FILE:LINE``, or ``line:CODE``, of a selection by the names of the operators that it made."""
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
    return 'neither side has a graph with lines of the program; name one with graph_files = ["….ir"] in the suite file'


def kernel_args_of(dump: Dump, ref: TensorRef) -> KernelArguments | None:
    """Read the arguments that the operator of a tensor was initialised with; ``None`` if none were saved."""
    return read_kernel_args(ref) if dump.root.is_dir() else None


class ArgumentBook:
    """Attributes of a dump's operators, from the graphs that ran."""

    def __init__(self, dump: Dump) -> None:
        self._operators: dict[str, list[tuple[Coordinates, Operator]]] = {}
        for at, graph in dump.graphs:
            for operator in graph.operators if graph.is_final else ():
                if operator.attributes:
                    of_graph = Coordinates(rank=at.rank, graph=at.graph)
                    self._operators.setdefault(mangle(operator.name), []).append((of_graph, operator))

    def attributes(self, ref: TensorRef) -> Mapping[str, str] | None:
        """Return the attributes of the operator of a tensor; ``None`` if no graph has them."""
        op = ref.key.op
        for at, operator in self._operators.get(mangle(op.label), ()):
            if compatible(place_of(at), place_of(op.at)) and op.op_type in (None, operator.op_type):
                return parse_attributes(operator.attributes)
        return None


def arguments_of_pair(
    pair: Pair, left: Dump, right: Dump, books: tuple[ArgumentBook, ArgumentBook]
) -> tuple[dict[str, KernelArguments], tuple[ArgumentDifference, ...]]:
    """Return the arguments of the kernels by side, and what differs, for the record of a failing pair."""
    sides = {"left": kernel_args_of(left, pair.left), "right": kernel_args_of(right, pair.right)}
    saved = {side: one for side, one in sides.items() if one is not None}
    return saved, tuple(_differing(pair, sides, books))


def _differing(
    pair: Pair, saved: Mapping[str, KernelArguments | None], books: tuple[ArgumentBook, ArgumentBook]
) -> Iterator[ArgumentDifference]:
    """Yield the arguments and attributes that differ. Operators of different types share none."""
    if pair.left.key.op.op_type != pair.right.key.op.op_type:
        return
    left, right = saved["left"], saved["right"]
    if left and right and not left.note and not right.note:
        yield from differences("argument", left.values, right.values)
    ours, theirs = books[0].attributes(pair.left), books[1].attributes(pair.right)
    if ours is not None and theirs is not None:
        yield from differences("attribute", ours, theirs)
