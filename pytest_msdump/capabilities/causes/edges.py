"""Which operator feeds which, by the graphs saved with a dump or the compiled model's JSON."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from pytest_msdump.core.facts.operators import WRITTEN_INPUTS
from pytest_msdump.core.matching.coordinates import compatible, place_of
from pytest_msdump.core.model.dump import PARAMETER, Dump, Edge, Operator, OperatorGraph, file_spelling
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pair, SourceFrame, TensorKey, TensorRef, mangle

# By name: the calls of a module, by occurrence.
Calls = Mapping[str, Mapping[int, Operator]]

# What is behind such an edge is not known.
_UNKNOWN = Edge("", 0)


def after_step(ops: Collection[OpKey]) -> dict[str, OpKey]:
    """Return what the next iteration starts from, by mangled names of weights and of the optimizer's state."""
    named = {op.label: op for op in ops if op.op_type != PARAMETER}
    found = {mangle(op.label): op for op in ops if op.op_type == PARAMETER}
    for weight, states in _states(named).items():
        found |= {mangle(label): named[label] for label in states}
        found[mangle(weight)] = named[f"{weight}/updated"]
    return found


class _Training:
    """The calls of a recorded model with the weights that they read, and what was recorded of its training."""

    def __init__(self, calls: Calls, tensors: Mapping[OpKey, Sequence[TensorRef]], *, is_first: bool) -> None:
        self._calls = calls
        self._is_first = is_first
        self._weights: defaultdict[str, list[Edge]] = defaultdict(list)
        self._outputs: defaultdict[str, list[Edge]] = defaultdict(list)
        self._readers: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._inside: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for op, refs in tensors.items():
            if op.op_type != PARAMETER:
                at = op.at.occurrence or 0
                found = [Edge(op.label, ref.key.slot, occurrence=at) for ref in refs if ref.key.io == "output"]
                self._outputs[op.label] += found
        self._states = _states(self._outputs)
        dumped = (op.label for op in tensors if op.op_type == PARAMETER)
        for weight in dict.fromkeys([*dumped, *self._states]):
            self._weights[_owner(weight)].append(Edge(weight, 0, is_parameter=True))
        for name, known in calls.items():
            for call in known.values():
                self._inside[call.inside][name] = None
                for edge in call.inputs:
                    if edge is not None:
                        self._readers[edge.producer][name] = None

    def calls(self) -> Iterator[tuple[str, Mapping[int, Operator]]]:
        """Yield modules with the weights that they read, and gradients, states and updated weights."""
        for name, read in self._weights.items():
            if name in self._calls:
                known = self._calls[name].items()
                yield name, {at: replace(call, inputs=(*call.inputs, *read)) for at, call in known}
        for label, outputs in self._outputs.items():
            feeds = () if label in self._calls else dict.fromkeys(self._feeds(label))
            if feeds:
                yield label, {edge.occurrence or 0: Operator(label, "", inputs=tuple(feeds)) for edge in outputs}

    def _feeds(self, label: str) -> Iterator[Edge | None]:
        """Yield what feeds ``NAME/KIND``; nothing if that is nothing of a training, or not known."""
        name, _, kind = label.rpartition("/")
        is_called_once = len(self._calls.get(name, ())) == 1
        owner = _owner(name)
        if kind == "grad_output" and is_called_once:
            yield from self._of_output(name)
        elif kind == "grad_input" and is_called_once:
            yield from self._of_input(name)
        elif kind == "grad" and owner in self._calls:
            yield from self._known(f"{owner}/grad_output")
            yield from self._given(owner)
        elif label in self._states.get(name, ()) or (kind == "updated" and name in self._states):
            yield from self._known(f"{name}/grad")
            yield Edge(name, 0, is_parameter=True)
            for state in self._states[name] if kind == "updated" else ():
                yield from self._outputs[state]
            if kind != "updated" and not self._is_first:
                yield Edge(label, 0, is_parameter=True)

    def _of_output(self, name: str) -> Iterator[Edge]:
        readers = self._readers_of(name)
        for reader in readers:
            kind = "grad_output" if self._is_inside(name, reader) else "grad_input"
            yield from self._known(f"{reader}/{kind}") if len(self._calls[reader]) == 1 else [_UNKNOWN]
        if not readers:
            yield from self._known(name)
        if "" in self._readers:
            # What reads something unknown may read this.
            yield _UNKNOWN

    def _readers_of(self, name: str) -> dict[str, None]:
        """Return what reads a module's output, by that name or by that of the call inside which made the tensor."""
        found = dict(self._readers.get(name, {}))
        for call in self._calls.get(name, {}).values():
            for edge in call.inputs if call.returns_inner else ():
                if edge is not None and self._is_inside(edge.producer, name):
                    readers = self._readers_of(edge.producer)
                    found |= {one: None for one in readers if one != name and not self._is_inside(one, name)}
        return found

    def _of_input(self, name: str) -> Iterator[Edge | None]:
        yield from self._known(f"{name}/grad_output")
        yield from self._given(name)
        yield from self._weights.get(name, ())
        for inner in self._inside.get(name, ()):
            yield from self._outputs.get(f"{inner}/grad_input", ())
        # Some recorders write the gradient of the whole tensor, in which others that read it have a part.
        for producer in dict.fromkeys(edge.producer for edge in self._given(name) if edge is not None):
            for reader in self._readers[producer] if producer else ():
                if not (self._is_inside(name, reader) or self._is_inside(producer, reader)):
                    yield from self._outputs.get(f"{reader}/grad_output", ())

    def _given(self, name: str) -> list[Edge | None]:
        return [edge for call in self._calls[name].values() for edge in call.inputs]

    def _known(self, label: str) -> Sequence[Edge]:
        return self._outputs.get(label) or [_UNKNOWN]

    def _is_inside(self, name: str, outer: str) -> bool:
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            name = next((call.inside for call in self._calls.get(name, {}).values()), "")
            if name == outer:
                return True
        return False


def _states(labels: Collection[str]) -> dict[str, list[str]]:
    """Return by weight that was recorded after the step what was recorded of the optimizer's state of it."""
    found: dict[str, list[str]] = {one.removesuffix("/updated"): [] for one in labels if one.endswith("/updated")}
    for label in labels:
        name, _, kind = label.rpartition("/")
        if name in found and kind not in ("grad", "updated"):
            found[name].append(label)
    return found


def _owner(weight: str) -> str:
    return weight[: max(weight.rfind("."), weight.rfind("/"), 0)]


# Types that write to parameters without being in the table of written inputs; any of their inputs may be written to.
_WRITES = re.compile("Apply|Assign|Adam|Momentum|Optim|Scatter")
_EVERY = range(1_000_000)
# BatchNorm takes x, scale, bias, and the moving mean and variance, which it writes to while training.
_MOVING = frozenset({3, 4})
_PARAMETERS = ("parameter", "given")
_OPERATORS = ("op", "rest", "update")

# Where edges come from, as results.json names it.
BY_MODEL, BY_GRAPH, BY_RIGHT, BY_ORDER = "fusion", "graph", "graph of the right side", "execution order"


class OperatorRun(NamedTuple):
    """One run of an operator, or a parameter; of kind ``"input"`` what made the tensor of its input `slot`."""

    kind: str
    name: str
    occurrence: int = 0
    slot: int = 0


class Input(NamedTuple):
    """Input `slot` takes output `output` of `producer`."""

    slot: int
    producer: OperatorRun
    output: int


@dataclass(frozen=True)
class _Graph:
    by: str
    # Calls of each operator by occurrence; a compiled model has one, for every pass of a loop.
    operators: Mapping[str, Mapping[int, Operator]]
    # Of a recorded model: the call of a module that a call ran inside of.
    around: Mapping[OperatorRun, OperatorRun]
    is_recorded: bool = False
    # Of the other side's graph: operators that are no gradients and no part of an optimizer.
    called: Collection[str] = ()
    # Of a recording, as they ended.
    in_order: Sequence[OperatorRun] = ()

    @cached_property
    def _by_file_name(self) -> Mapping[str, str]:
        """Names by the spelling of dump files, where only one operator has that spelling."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for name in self.operators:
            names[file_spelling(name)].append(name)
        return {spelling: known[0] for spelling, known in names.items() if len(known) == 1}

    def name_of(self, op: OpKey) -> str | None:
        return op.label if op.label in self.operators else self._by_file_name.get(file_spelling(op.name))


_NO_GRAPH = _Graph("", {}, {})


class PairGroup:
    """The operators of one rank, net, graph and iteration, and their edges."""

    def __init__(
        self,
        at: Coordinates,
        tensors: Mapping[OpKey, Sequence[TensorRef]],
        numbers: Mapping[OpKey, int],
        graphs: Iterable[_Graph],
        other: _Graph | None = None,
        *,
        around: Mapping[OperatorRun, OperatorRun],
    ) -> None:
        named = [(graph, [graph.name_of(op) for op in tensors]) for graph in graphs]
        # Of several that name as many operators, the first.
        graph, names = max(named, key=lambda one: len(tensors) - one[1].count(None), default=(_NO_GRAPH, []))
        if names.count(None) == len(names):
            graph, names = replace(_NO_GRAPH, around=around), [None] * len(tensors)
        self.at = at
        self._called = {*graph.operators, *(other.called if other else ())}
        if graph.is_recorded:
            training = _Training(graph.operators, tensors, is_first=not at.iteration)
            graph = replace(graph, operators={**graph.operators, **dict(training.calls())})
        self._graph = graph if other is None else _completed(graph, other)
        self.by = self._graph.by or BY_ORDER
        self.tensors = tensors
        self.namesakes: set[OpKey] = set()
        self.before: dict[str, tuple[PairGroup, OpKey]] = {}
        self._numbers = numbers
        self._runs: dict[OpKey, OperatorRun] = {}
        self._by_run: dict[OperatorRun, tuple[OpKey, Sequence[TensorRef]]] = {}
        self._dumped: dict[str, dict[int, OpKey]] = {}
        self._inputs: dict[OperatorRun, list[Input] | None] = {}
        self._made_of: dict[OperatorRun, set[OperatorRun]] = {}
        for (op, refs), name in zip(tensors.items(), names, strict=True):
            run = (
                OperatorRun("parameter", mangle(op.label))
                if op.op_type == PARAMETER
                else OperatorRun("op", name or op.label, op.at.occurrence or 0)
            )
            self._runs[op] = run
            self._by_run.setdefault(run, (op, refs))
            if self._dumped.setdefault(_dump_name(run), {}).setdefault(run.occurrence, op) is not op:
                self.namesakes.add(op)

    @property
    def knows_calls(self) -> bool:
        """Whether edges say which call of an operator they mean, as those of a recording do."""
        return self._graph.is_recorded

    def is_trained(self, run: OperatorRun) -> bool:
        """Whether it is a gradient, or of an optimizer: what feeds it is known by its name, and not recorded."""
        return self.knows_calls and run.name not in self._called

    @cached_property
    def has_place_per_call(self) -> bool:
        """Whether each call has a place of its own in the order: calls of one operator are no passes of a loop."""
        places = [
            refs[0].place
            for op, refs in self.tensors.items()
            if refs[0].place is not None and op.op_type != PARAMETER and op not in self.namesakes
        ]
        return len(set(places)) == len(places)

    @property
    def runs(self) -> Sequence[OperatorRun]:
        """The dumped operators as the graph names them, in the order of `tensors`."""
        return tuple(self._runs.values())

    def run_of(self, op: OpKey) -> OperatorRun:
        """Return the operator as the graph names it, or under its own name."""
        return self._runs[op]

    def op_of(self, run: OperatorRun) -> OpKey | None:
        """Return the operator in the dump; ``None`` if it was not dumped."""
        known = self._by_run.get(run)
        return known[0] if known else self._dumped.get(_dump_name(run), {}).get(run.occurrence)

    def refs_of(self, run: OperatorRun) -> Sequence[TensorRef]:
        """Return the dumped tensors of an operator, or the one that it was given at an input."""
        if run.kind == "input":
            own = self.refs_of(run._replace(kind="op", slot=0))
            return [ref for ref in own if ref.key.io == "input" and ref.key.slot == run.slot]
        if known := self._by_run.get(run):
            return known[1]
        op = self.op_of(run)
        return () if op is None else self.tensors[op]

    def type_of(self, run: OperatorRun) -> str:
        """Return the operator's type by the graph, empty if unknown."""
        operator = self._operator(run)
        return operator.op_type if operator else ""

    def _operator(self, run: OperatorRun) -> Operator | None:
        calls = self._graph.operators.get(run.name, {}) if run.kind in _OPERATORS else {}
        return next(iter(calls.values())) if len(calls) == 1 else calls.get(run.occurrence)

    def inputs(self, run: OperatorRun) -> list[Input] | None:
        """Return what feeds an operator; ``None`` if the graph does not have it."""
        if run not in self._inputs:
            self._inputs[run] = self._find_inputs(run)
        return self._inputs[run]

    def sources(self, run: OperatorRun, slot: int) -> list[OperatorRun]:
        """Return what an input came from; all that may be part of it where several operators were joined."""
        direct = [entry.producer for entry in self.inputs(run) or () if entry.slot == slot]
        return direct + [entry.producer for entry in self.joined(run)] if direct else []

    def joined(self, run: OperatorRun) -> list[Input]:
        """Return what a recorded graph names behind an operator's inputs: parts of these, by operations between."""
        slots = [ref.key.slot for ref in self.refs_of(run) if ref.key.io == "input"]
        if not self.knows_calls or not slots:
            return []
        further = (entry for entry in self.inputs(run) or () if entry.slot > max(slots))
        return [entry for entry in further if entry.producer.kind != "parameter"]

    def around(self, run: OperatorRun) -> OperatorRun | None:
        """Return the call of a recorded module that an operator ran inside of."""
        return self._graph.around.get(run._replace(kind="op", slot=0) if run.kind == "input" else run)

    def lines(self, start: Iterable[OperatorRun], end: OperatorRun) -> str:
        """Return ``NAME:FIRST-LAST`` of the program between what passes and what fails; empty for one line."""
        last = self._line(end)
        if last is None:
            return ""
        before = [line for one in start if (line := self._line(one)) is not None and line.file == last.file]
        first = max((line.line for line in before if line.line <= last.line), default=last.line)
        name = PurePath(last.file).name
        return "" if first == last.line else f"{name}:{first}-{last.line}"

    def _line(self, run: OperatorRun) -> SourceFrame | None:
        return next((ref.line for ref in self.refs_of(run) or self.refs_of(run._replace(kind="op", slot=0))), None)

    def begins(self, run: OperatorRun) -> bool:
        """Whether an operator takes nothing but what the network was given, or a constant."""
        operator = self._operator(run)
        is_fed = any(entry.producer.kind != "parameter" for entry in self.inputs(run) or ())
        return operator is not None and bool(operator.inputs) and not is_fed

    def between(self, one: OperatorRun, other: OperatorRun) -> Sequence[OperatorRun]:
        """Return the recorded calls that ended after one and before another; none if their order is not known."""
        places = self._places
        return self._graph.in_order[places[one] + 1 : places[other]] if one in places and other in places else ()

    @cached_property
    def _places(self) -> Mapping[OperatorRun, int]:
        return {run: place for place, run in enumerate(self._graph.in_order)}

    def is_inside(self, run: OperatorRun, outer: OperatorRun) -> bool:
        """Whether an operator ran inside of a call of a module."""
        around = self.around(run)
        # A call ends after all that run inside of it, so that no way outwards is a circle.
        while around is not None and around != outer:
            around = self.around(around)
        return around is not None

    def is_made_of(self, outer: OperatorRun, run: OperatorRun) -> bool:
        """Whether a module gives back what an operator had a part in: that ran inside, though it may not be known to.

        Of an operator without a partner the other side's graph does not say which module it belongs to.
        """
        if outer not in self._made_of:
            found, waiting = set[OperatorRun](), [outer]
            while waiting:
                for producer in {entry.producer for entry in self.inputs(waiting.pop()) or ()} - found:
                    around = self.around(producer)
                    if self.is_inside(producer, outer) or (around is None and producer not in self.calls_inside):
                        found.add(producer)
                        waiting.append(producer)
            self._made_of[outer] = found
        return run in self._made_of[outer]

    @cached_property
    def calls_inside(self) -> Mapping[OperatorRun, Sequence[OperatorRun]]:
        """By call of a module, the calls that it made itself."""
        found: defaultdict[OperatorRun, list[OperatorRun]] = defaultdict(list)
        for run, around in self._graph.around.items():
            found[around].append(run)
        return found

    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of each producer and consumer that were dumped."""
        for op, run in self._runs.items():
            for producer in sorted({entry.producer for entry in self.inputs(run) or ()}):
                dumped = self.op_of(producer)
                if dumped is not None:
                    yield self._numbers[dumped], self._numbers[op]

    @cached_property
    def writers(self) -> Mapping[str, Sequence[OperatorRun]]:
        """By parameter: the operators that write to it, as optimizers do."""
        found: defaultdict[str, list[OperatorRun]] = defaultdict(list)
        for run in () if self.knows_calls else self._runs.values():
            slots = _written_slots(self.type_of(run))
            for entry in self.inputs(run) or () if slots else ():
                if entry.producer.kind == "parameter" and entry.slot in slots:
                    found[entry.producer.name].append(run)
        return found

    def reads_after_step(self, run: OperatorRun, parameter: str) -> bool:
        """Whether an operator reads a parameter as it was dumped: after all that write to it; recorders do so first."""
        if self.knows_calls:
            return self.op_of(OperatorRun("parameter", parameter)) is not None
        writers = self.writers.get(parameter, ())
        if run._replace(kind="op") in writers:
            return False
        place, *written = (refs[0].place if (refs := self.refs_of(one)) else None for one in (run, *writers))
        return all(place is not None and one is not None and one < place for one in written)

    def _find_inputs(self, run: OperatorRun) -> list[Input] | None:
        if run.kind in _PARAMETERS:
            return []
        operator = self._operator(run)
        if operator is None:
            return None
        edges = enumerate(operator.inputs)
        return [Input(slot, self._producer(edge, run), edge.slot) for slot, edge in edges if edge is not None]

    def _producer(self, edge: Edge, consumer: OperatorRun) -> OperatorRun:
        if edge.is_parameter:
            return OperatorRun("parameter", mangle(edge.producer))
        if not edge.producer:
            return OperatorRun("gap", consumer.name, slot=consumer.occurrence)
        if edge.occurrence is not None:
            return OperatorRun("op", edge.producer, edge.occurrence)
        dumped = self._dumped.get(edge.producer, {})
        # An operator that runs once feeds every pass of a loop.
        return OperatorRun("op", edge.producer, next(iter(dumped)) if len(dumped) == 1 else consumer.occurrence)


def groups(
    left: Dump, model: OperatorGraph | None = None, *, right: Dump | None = None, pairs: Sequence[Pair] = ()
) -> list[PairGroup]:
    """Divide a dump by rank, net, graph and iteration, in its order; `model` is the compiled model, by its JSON."""
    parts: dict[Coordinates, dict[OpKey, list[TensorRef]]] = {}
    numbers: dict[OpKey, int] = {}
    for ref in left.refs:
        op = ref.key.op
        numbers.setdefault(op, len(numbers))
        parts.setdefault(op.at.part, {}).setdefault(op, []).append(ref)
    compiled = [_graph(BY_MODEL, [model])] if model else []
    known: dict[tuple[int, ...], _Graph] = {}
    around: defaultdict[Coordinates, dict[OperatorRun, OperatorRun]] = defaultdict(dict)
    for op, outer_op in left.around.items():
        around[op.at.part][_run_of(op)] = _run_of(outer_op)
    found = []
    other: _OtherSide | None = None
    for at, tensors in parts.items():
        own = [graph for where, graph in left.graphs if compatible(place_of(where), place_of(at))]
        # A graph of an earlier stage has operators that never ran under that name.
        own = [graph for graph in own if graph.is_final] or own
        identity = tuple(map(id, own))
        if own and identity not in known:
            known[identity] = _graph(BY_GRAPH, own)
        group = PairGroup(at, tensors, numbers, [*compiled, *([known[identity]] if own else [])], around=around[at])
        if right is not None and right.graphs and (group.by == BY_ORDER or group.knows_calls):
            other = other or _OtherSide(groups(right), pairs)
            graphs = [known[identity]] if group.knows_calls else []
            group = PairGroup(at, tensors, numbers, graphs, other.graph(tensors), around=around[at])
        found.append(group)
    return found


def _completed(own: _Graph, other: _Graph) -> _Graph:
    """Return a graph with the inputs that only the other one knows, and none of a compiled model."""
    operators = {name: dict(calls) for name, calls in own.operators.items()}
    added = False
    for name, calls in other.operators.items():
        for occurrence, call in calls.items():
            known = operators.setdefault(name, {}).get(occurrence)
            if known is None or (not all(map(_is_known, known.inputs)) and all(map(_is_known, call.inputs))):
                operators[name][occurrence] = call
                added = True
    by = " and ".join(filter(None, (own.by, other.by if added else "")))
    return replace(own, by=by, operators=operators, around={**other.around, **own.around}, is_recorded=bool(by))


def _is_known(edge: Edge | None) -> bool:
    return edge is None or bool(edge.producer)


class _OtherSide:
    """The graph of the right side, led over to the left by pairs."""

    def __init__(self, found: Iterable[PairGroup], pairs: Iterable[Pair]) -> None:
        self._groups = {group.at: group for group in found}
        self._rights: defaultdict[OpKey, dict[OpKey, None]] = defaultdict(dict)
        self._lefts: defaultdict[OpKey, dict[int, list[TensorKey]]] = defaultdict(dict)
        for left, right in ((pair.left.key, pair.right.key) for pair in pairs):
            self._rights[left.op][right.op] = None
            if right.io == left.io == "output":
                self._lefts[right.op].setdefault(right.slot, []).append(left)

    def graph(self, tensors: Iterable[OpKey]) -> _Graph:
        """Return the graph of these left operators; right ones without a partner are walked through."""
        operators: defaultdict[str, dict[int, Operator]] = defaultdict(dict)
        around: dict[OperatorRun, OperatorRun] = {}
        called: set[str] = set()
        for op in tensors:
            own = _run_of(op)
            for right in self._rights.get(op, ()) if op.op_type != PARAMETER else ():
                group = self._groups[right.at.part]
                feeds = group.inputs(group.run_of(right))
                if feeds is None or own.occurrence in operators[own.name]:
                    continue
                edges = [edge for entry in feeds for edge in self._edges(group, entry, op)]
                # By slot, then all that more than one operator without a partner between leads to.
                first = dict(reversed(edges))
                slots = [first.get(slot) for slot in range(max(first, default=-1) + 1)]
                rest = dict.fromkeys(edge for _, edge in edges if edge not in slots)
                operators[own.name][own.occurrence] = Operator(
                    op.label, op.op_type or right.op_type or "", inputs=(*slots, *rest), occurrence=own.occurrence
                )
                if not group.is_trained(group.run_of(right)):
                    called.add(own.name)
                outer = self._outer(group, group.run_of(right), op)
                if outer is not None:
                    around[own] = outer
        return _Graph(BY_RIGHT, operators, around, is_recorded=True, called=called)

    def _edges(self, group: PairGroup, entry: Input, consumer: OpKey) -> Iterator[tuple[int, Edge]]:
        waiting, seen = [(entry.producer, entry.output)], {entry.producer}
        while waiting:
            run, output = waiting.pop()
            op = group.op_of(run)
            lefts = self._partners(op, output, consumer)
            for left in lefts:
                is_parameter, at = left.op.op_type == PARAMETER, left.op.at.occurrence or 0
                yield entry.slot, Edge(left.op.label, left.slot, is_parameter=is_parameter, occurrence=at)
            feeds = () if lefts or run.kind == "parameter" else group.inputs(run)
            if feeds is None:
                yield entry.slot, Edge("", 0)
            for feed in feeds or ():
                if feed.producer not in seen:
                    seen.add(feed.producer)
                    waiting.append((feed.producer, feed.output))

    def _partners(self, right: OpKey | None, slot: int, consumer: OpKey) -> list[TensorKey]:
        """Return the left tensors of a right output, in the consumer's part of the run; without any, of all outputs."""
        found = self._lefts.get(right, {}) if right is not None else {}
        keys = found.get(slot) or [key for of_slot in found.values() for key in of_slot]
        return [key for key in keys if key.op.at.part == consumer.at.part]

    def _outer(self, group: PairGroup, run: OperatorRun, op: OpKey) -> OperatorRun | None:
        """Return the left partner of the nearest module around a right operator that has one."""
        around = group.around(run)
        while around is not None:
            right = group.op_of(around)
            for key in self._partners(right, 0, op):
                if key.op != op:
                    return _run_of(key.op)
            around = group.around(around)
        return None


def _graph(by: str, graphs: Sequence[OperatorGraph]) -> _Graph:
    operators: defaultdict[str, dict[int, Operator]] = defaultdict(dict)
    around: dict[OperatorRun, OperatorRun] = {}
    for graph in graphs:
        # Calls inside of a module end before its own.
        ended: defaultdict[str, list[OperatorRun]] = defaultdict(list)
        for operator in graph.operators:
            operators[operator.name].setdefault(operator.occurrence, operator)
            run = OperatorRun("op", operator.name, operator.occurrence)
            around |= dict.fromkeys(ended.pop(operator.name, ()), run)
            if operator.inside and operator.inside != operator.name:
                ended[operator.inside].append(run)
    is_recorded = any(graph.is_recorded for graph in graphs)
    in_order = [OperatorRun("op", one.name, one.occurrence) for graph in graphs for one in graph.operators]
    return _Graph(by, operators, around, is_recorded=is_recorded, in_order=in_order if is_recorded else ())


def _run_of(op: OpKey) -> OperatorRun:
    return OperatorRun("op", op.label, op.at.occurrence or 0)


def _dump_name(run: OperatorRun) -> str:
    if run.kind == "gap":
        return ""
    return f"{PARAMETER} {run.name}" if run.kind in _PARAMETERS else run.name


def _written_slots(op_type: str) -> Container[int]:
    """Return the inputs that an operator of this type may write to."""
    if op_type in WRITTEN_INPUTS:
        return WRITTEN_INPUTS[op_type]
    if "BatchNorm" in op_type:
        return () if "Grad" in op_type else _MOVING
    return _EVERY if _WRITES.search(op_type) else ()
