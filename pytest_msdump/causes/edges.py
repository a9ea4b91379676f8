"""Who feeds whom among the operators of a dump, as the graphs of its run or the compiled model's JSON tell it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from pytest_msdump.facts.operators import WRITTEN_INPUTS
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import Edge, Operator, OperatorGraph, file_spelling
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import COORDINATES, Coordinates, OpKey, TensorRef, mangle

__all__ = ["BY_GRAPH", "BY_MODEL", "BY_ORDER", "Group", "Input", "Run", "groups", "link_iterations"]

# Types that write to parameters, where no table says to which: then to any that they take.
_WRITES = re.compile("Apply|Assign|Adam|Momentum|Optim|Scatter")
_EVERY = range(1_000_000)
# BatchNorm takes x, scale, bias, and the moving mean and variance, which it writes to while training.
_MOVING = frozenset({3, 4})
_PARAMETERS = ("parameter", "given")

# How results.json says where edges come from.
BY_MODEL, BY_GRAPH, BY_ORDER = "fusion", "graph", "execution order"


class Run(NamedTuple):
    """One run of an operator, or a parameter: `kind` is one of six words.

    ``"op"`` is an operator; ``"rest"`` its outputs that were not compared, where others were; ``"update"`` what it
    wrote to a parameter that was compared, where nothing else of it was. ``"parameter"`` is a parameter as it was
    dumped, after the step; ``"given"`` the same before the step. ``"gap"`` are operators that ran
    before the operator `name` and left nothing, `occurrence` of them.
    """

    kind: str
    name: str
    occurrence: int = 0


class Input(NamedTuple):
    """Input `slot` takes output `output` of `producer`."""

    slot: int
    producer: Run
    output: int


@dataclass(frozen=True)
class _Graph:
    """Operators by name; and by the spelling of files where that is only one's."""

    by: str
    operators: Mapping[str, Operator]

    def names_of(self, ops: Iterable[OpKey]) -> list[str | None]:
        """What the graph calls operators of a dump; ``None`` of those that it does not know."""
        known = self.operators
        return [
            label if (label := op.true_name or op.name) in known else self.spelled.get(file_spelling(op.name))
            for op in ops
        ]

    @cached_property
    def spelled(self) -> Mapping[str, str]:
        spelled: defaultdict[str, list[str]] = defaultdict(list)
        for name in self.operators:
            spelled[file_spelling(name)].append(name)
        return {spelling: names[0] for spelling, names in spelled.items() if len(names) == 1}


@dataclass(frozen=True)
class Group:
    """The operators of one rank, net, graph and iteration.

    Parameters
    ----------
    at : Coordinates
        Without an occurrence.
    by : str
        What tells who feeds whom: ``"graph"``, ``"fusion"``, or ``"execution order"`` where nothing does.
    tensors : mapping of OpKey to sequence of TensorRef
        In the dump's order.
    namesakes : set of OpKey
        Operators for which another one stands, that comes first and cannot be told from them.
    before : dict
        By parameter: the group of the iteration before, and the parameter there, which is what this one starts from.
        Filled by `link_iterations`.
    """

    at: Coordinates
    by: str
    tensors: Mapping[OpKey, Sequence[TensorRef]]
    namesakes: Set[OpKey] = frozenset()
    _graph: _Graph | None = None
    _runs: Mapping[OpKey, Run] = field(default_factory=dict)
    _dumped: Mapping[str, Mapping[int, tuple[OpKey, int]]] = field(default_factory=dict)
    _orders: Sequence[int] = ()
    _inputs: dict[Run, list[Input] | None] = field(default_factory=dict, repr=False, compare=False)
    before: dict[str, tuple[Group, OpKey]] = field(default_factory=dict, repr=False, compare=False)

    def run_of(self, op: OpKey) -> Run:
        """Who the operator is in the graph; under its own name where no graph knows it."""
        return self._runs[op]

    def op_of(self, run: Run) -> OpKey | None:
        """The operator in the dump; ``None`` of one that was not dumped."""
        passes = self._dumped.get(_dumped_as(run))
        found = None if passes is None else passes.get(run.occurrence)
        return None if found is None else found[0]

    def type_of(self, run: Run) -> str:
        """The operator's type, by the graph."""
        operator = self._graph.operators.get(run.name) if self._graph and run.kind not in _PARAMETERS else None
        return operator.op_type if operator else ""

    def inputs(self, run: Run) -> list[Input] | None:
        """What feeds an operator; ``None`` where nobody knows."""
        found = self._inputs.get(run)
        if found is None and run not in self._inputs:
            found = self._inputs[run] = self._found_inputs(run)
        return found

    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs of operators that were dumped, producer first, by their number in the dump; each once."""
        for run, order in zip(self._runs.values(), self._orders, strict=True):
            entries = self.inputs(run) or ()
            producers = [entry.producer for entry in entries]
            for producer in sorted(set(producers)) if len(producers) > 1 else producers:
                passes = self._dumped.get(_dumped_as(producer))
                found = None if passes is None else passes.get(producer.occurrence)
                if found is not None:
                    yield found[1], order

    @cached_property
    def writers(self) -> Mapping[str, Sequence[Run]]:
        """By parameter: the operators that write to it, as optimizers do."""
        found: defaultdict[str, list[Run]] = defaultdict(list)
        for run in self._runs.values():
            slots = _written_slots(self.type_of(run))
            for entry in self.inputs(run) or () if slots else ():
                if entry.producer.kind == "parameter" and entry.slot in slots:
                    found[entry.producer.name].append(run)
        return found

    def reads_after_step(self, run: Run, parameter: str) -> bool:
        """Whether an operator takes a parameter as it was dumped: nothing writes to it in this step, or ran before."""
        writers = self.writers.get(parameter, ())
        if run._replace(kind="op") in writers:
            return False
        place, *written = map(self._place_of, (run, *writers))
        return all(place is not None and one is not None and one < place for one in written)

    def _place_of(self, run: Run) -> int | None:
        """Place of an operator in the execution order; ``None`` of one that was not dumped or has none."""
        op = self.op_of(run)
        return None if op is None else self.tensors[op][0].place

    def _found_inputs(self, run: Run) -> list[Input] | None:
        if run.kind in _PARAMETERS:
            return []
        operator = self._graph.operators.get(run.name) if self._graph else None
        if operator is None:
            return None
        return [
            Input(slot, self._producer(edge, run.occurrence), edge.slot)
            for slot, edge in enumerate(operator.inputs)
            if edge is not None
        ]

    def _producer(self, edge: Edge, occurrence: int) -> Run:
        if edge.is_parameter:
            return Run("parameter", mangle(edge.producer))
        dumped = self._dumped.get(edge.producer)
        # What runs once feeds every pass of a loop.
        if dumped is not None and len(dumped) == 1:
            (occurrence,) = dumped
        return Run("op", edge.producer, occurrence)


def _written_slots(op_type: str) -> Container[int]:
    """Return the inputs that an operator of this type may write to; nothing that is true where there are none."""
    known = WRITTEN_INPUTS.get(op_type)
    if known is None and "BatchNorm" in op_type:
        return () if "Grad" in op_type else _MOVING
    if known is None:
        return _EVERY if _WRITES.search(op_type) else ()
    return known


def link_iterations(found: Iterable[Group]) -> None:
    """Fill `before` of each group with the parameters of the iteration before, of the same graph if it has them."""
    dumped: defaultdict[tuple[Any, ...], dict[str, dict[int | None, tuple[Group, OpKey]]]] = defaultdict(dict)
    linked = [group for group in found if group.at.iteration is not None]
    for group in linked:
        at = group.at
        for op in group.tensors:
            if op.op_type == PARAMETER:
                graphs = dumped[at.rank, at.net, at.iteration].setdefault(group.run_of(op).name, {})
                graphs[at.graph] = (group, op)
    for group in linked:
        at = group.at
        for name, graphs in dumped.get((at.rank, at.net, (at.iteration or 0) - 1), {}).items():
            group.before[name] = graphs.get(at.graph) or next(reversed(graphs.values()))


def groups(left: Dump, model: OperatorGraph | None) -> list[Group]:
    """Divide a dump by rank, net, graph and iteration, and find the graph of each.

    Parameters
    ----------
    left : Dump
        With its graphs.
    model : OperatorGraph, optional
        The compiled model that it ran, by the fusion JSON.

    Returns
    -------
    list of Group
        In the dump's order. Where several graphs tell of a group, the one that names most of its operators counts.
    """
    members: dict[tuple[Any, ...], dict[OpKey, list[TensorRef]]] = {}
    orders: dict[tuple[Any, ...], list[int]] = {}
    count = 0
    last: tuple[Any, ...] | None = None
    for ref in left.refs:
        op = ref.key.op
        at = op.at
        where = (at.rank, at.net, at.graph, at.iteration)
        # Neighbours mostly are of one group.
        if where != last:
            tensors, numbers, last = members.setdefault(where, {}), orders.setdefault(where, []), where
        refs = tensors.setdefault(op, [])
        if not refs:
            numbers.append(count)
            count += 1
        refs.append(ref)
    known: dict[tuple[int, ...], _Graph] = {}
    return [
        _group(Coordinates(*where), tensors, orders[where], left, model, known) for where, tensors in members.items()
    ]


def _group(
    at: Coordinates,
    tensors: Mapping[OpKey, Sequence[TensorRef]],
    orders: Sequence[int],
    left: Dump,
    model: OperatorGraph | None,
    known: dict[tuple[int, ...], _Graph],
) -> Group:
    own = [graph for where, graph in left.graphs if _agree(where, at)]
    # A graph of an earlier stage has operators that never ran under that name.
    own = [graph for graph in own if graph.is_final] or own
    candidates = []
    for by, graphs in ((BY_MODEL, [model] if model else []), (BY_GRAPH, own)):
        identity = tuple(map(id, graphs))
        if graphs and identity not in known:
            known[identity] = _indexed(by, graphs)
        candidates += [known[identity]] if graphs else []
    named = [(graph.names_of(tensors), graph) for graph in candidates]
    # Of several that name as many, the first.
    names, graph = max(named, key=lambda pair: len(tensors) - pair[0].count(None), default=([], None))
    if names.count(None) == len(names):
        names, graph = [None] * len(tensors), None
    runs: dict[OpKey, Run] = {}
    dumped: dict[str, dict[int, tuple[OpKey, int]]] = {}
    namesakes: set[OpKey] = set()
    for op, name, order in zip(tensors, names, orders, strict=True):
        run = runs[op] = _run_of(op, name)
        passes = dumped.setdefault(_dumped_as(run), {})
        if run.occurrence in passes:
            namesakes.add(op)
        else:
            passes[run.occurrence] = (op, order)
    return Group(at, graph.by if graph else BY_ORDER, tensors, namesakes, graph, runs, dumped, orders)


def _indexed(by: str, graphs: Sequence[OperatorGraph]) -> _Graph:
    operators: dict[str, Operator] = {}
    for graph in graphs:
        for operator in graph.operators:
            operators.setdefault(operator.name, operator)
    return _Graph(by, operators)


def _run_of(op: OpKey, name: str | None) -> Run:
    """Who the operator is; `name` is the graph's."""
    if op.op_type == PARAMETER:
        return Run("parameter", mangle(op.label))
    return Run("op", name or op.label, op.at.occurrence or 0)


def _dumped_as(run: Run) -> str:
    return f"{PARAMETER} {run.name}" if run.kind in _PARAMETERS else run.name


def _agree(graph: Coordinates, tensors: Coordinates) -> bool:
    pairs = ((getattr(graph, name), getattr(tensors, name)) for name in COORDINATES)
    return all(one is None or other is None or one == other for one, other in pairs)
