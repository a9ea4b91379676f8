"""Computes every operator of one dump again, from its own inputs, and judges what its kernel made of them.

What an operator was given is in its dumped inputs, or else in the outputs and weights that the graph links to it. So
a mistake of the port, which hands wrong values on, is never seen here; a kernel, device or release that computes
wrongly is, at its operator alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from pytest_msdump.capabilities.graphs.ir import parse_attributes
from pytest_msdump.capabilities.kernels.fused import composed
from pytest_msdump.capabilities.kernels.operators import definitions
from pytest_msdump.capabilities.kernels.operators.definition import Array, Call, Definition, Result, computed
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.dtypes import canonical, rounding_unit
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.errors import MsdumpError, NotReplayableError
from pytest_msdump.core.facts.dtypes import DTYPES, EPSILON
from pytest_msdump.core.facts.operators import RANDOM_TYPES, WRITTEN_INPUTS
from pytest_msdump.core.facts.profiles import FLIPS_SHARE_LIMIT
from pytest_msdump.core.matching.coordinates import compatible, place_of
from pytest_msdump.core.model.dump import PARAMETER, Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorRef, TensorSpec, mangle
from pytest_msdump.core.text import Message, plain_text

# Below the smallest normal number a kernel may write 0.
_SMALLEST: Mapping[str, float] = {"float64": 2.0**-1022, "float16": 2.0**-24}
_SMALLEST_OF_OTHERS = 2.0**-126
_NEARLY = 0.99
# As many originals make a fused operator.
_FUSED = 2
_LEAST_OF_APPROXIMATIONS = 64
# Why a call is refused: a file that is not what its operator wrote, and operators that are never computed again.
_DAMAGED = frozenset({"replay_unreadable", "replay_other_shape", "replay_other_type"})
_BY_NATURE = frozenset({"replay_no_definition", "replay_random", "replay_variant", "replay_no_output"})


@dataclass(frozen=True, slots=True)
class Score:
    """How an output stands: `value` is at most `limit` where its kernel is sound."""

    rule: str
    value: float
    limit: float
    index: tuple[int, ...] = ()
    stored: float = 0.0
    expected: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether the limit is kept."""
        return self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Replayed:
    """One output of the operator `op` that was computed again; `ref` is where it is, or the weight that it wrote."""

    op: OpKey
    slot: int
    ref: TensorRef
    elements: int
    score: Score


@dataclass(frozen=True, slots=True)
class Refused:
    """One call of an operator that was not computed again, and why."""

    op: OpKey
    why: Message


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a dump: its outputs that were judged, and its calls that were not."""

    dump: Dump
    calls: int
    replayed: tuple[Replayed, ...]
    refused: tuple[Refused, ...]
    undumped: int

    @property
    def accused(self) -> tuple[Replayed, ...]:
        """Outputs that their kernels computed wrongly, in execution order."""
        return tuple(one for one in self.replayed if not one.score.is_sound)

    @property
    def damaged(self) -> tuple[Refused, ...]:
        """The first call that each damaged file stopped."""
        found: dict[object, Refused] = {}
        for one in self.refused:
            if one.why.code in _DAMAGED:
                found.setdefault(one.why.parameters["name"], one)
        return tuple(found.values())

    @property
    def replayable(self) -> int:
        """How many calls are of operators that can be computed again."""
        return self.calls + sum(one.why.code not in _BY_NATURE for one in self.refused)


def replay(dump: Dump, *, watch: Callable[[Iterable[Any], str], Iterable[Any]] = lambda items, _: items) -> Replay:
    """Compute the operators of a dump again, one at a time; `watch` gets the calls and what they are."""
    known, runs = definitions(), _runs(dump)
    # A graph that a user saved may have any name; one that is known to have run comes first.
    compiled = sorted((one for one in dump.graphs if not one[1].is_recorded), key=lambda one: not one[1].is_final)
    plain: dict[str, Operator] = {}
    for _, graph in reversed(compiled):
        plain |= {one.name: one for one in graph.operators if len(one.originals) < _FUSED}
    graphs = [(at, _Links.of(graph, plain)) for at, graph in compiled]
    linked = [
        (run, links)
        for run in runs.values()
        for links in [one for at, one in graphs if compatible(place_of(at), place_of(run.at))][:1]
    ]
    writing: defaultdict[tuple[Coordinates, str], set[Coordinates]] = defaultdict(set)
    for run, links in linked:
        for name in links.writers:
            writing[run.step, name].add(run.at)
    calls = [
        _OperatorCall(run, links, place, operator, occurrence, runs, writing)
        for run, links in linked
        for place, operator in enumerate(links.graph.operators)
        for occurrence in sorted(run.tensors.get(mangle(operator.name), ()))
    ]
    replayed: list[Replayed] = []
    refused: list[Refused] = []
    done = 0
    for call in watch([call for call in calls if call.outputs], "operators"):
        found = call.attempted(known)
        if isinstance(found, Refused):
            refused.append(found)
        else:
            done += 1
            replayed += found
    seen = {id(call.operator) for call in calls if call.outputs}
    ran = {id(call.links): call.links for call in calls}
    undumped = sum(id(one) not in seen for links in ran.values() for one in links.graph.operators)
    unknown = _without_operator(runs, {(call.run.at, mangle(call.operator.name)) for call in calls})
    return Replay(dump, done, tuple(replayed), (*refused, *unknown), undumped)


def _without_operator(runs: Mapping[Coordinates, _KernelRun], known: set[tuple[Coordinates, str]]) -> Iterator[Refused]:
    """Yield the dumped operators that no graph has."""
    for run in runs.values():
        for name, occurrences in run.tensors.items():
            if (run.at, name) not in known:
                for tensors in occurrences.values():
                    ref = next((ref for (io, _), ref in tensors.items() if io == "output"), None)
                    if ref is not None:
                        yield Refused(ref.key.op, Message("replay_no_graph"))


# -- the tensors of a run ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _KernelRun:
    """One run of one graph: its tensors by operator, occurrence, and input or output, and its weights."""

    at: Coordinates
    tensors: dict[str, dict[int, dict[tuple[str, int], TensorRef]]] = field(default_factory=dict)
    weights: dict[str, TensorRef] = field(default_factory=dict)

    @property
    def step(self) -> Coordinates:
        """The step that it belongs to, of whichever graph: loops and branches have graphs of their own."""
        return self.at._replace(graph=None)


def _runs(dump: Dump) -> dict[Coordinates, _KernelRun]:
    runs: dict[Coordinates, _KernelRun] = {}
    for ref in dump.refs:
        op = ref.key.op
        run = runs.setdefault(op.at.part, _KernelRun(op.at.part))
        if op.op_type == PARAMETER:
            run.weights.setdefault(mangle(op.label), ref)
        else:
            occurrences = run.tensors.setdefault(mangle(op.label), {})
            occurrences.setdefault(op.at.occurrence or 0, {})[ref.key.io, ref.key.slot] = ref
    return runs


@dataclass(frozen=True)
class _Links:
    """A graph, the places of the operators that write each weight, and the inputs that take it before them."""

    graph: OperatorGraph
    plain: Mapping[str, Operator]
    writers: Mapping[str, list[int]]
    takers: Mapping[str, list[tuple[str, int]]]

    @classmethod
    def of(cls, graph: OperatorGraph, plain: Mapping[str, Operator]) -> _Links:
        writers: defaultdict[str, list[int]] = defaultdict(list)
        takers: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for place, operator in enumerate(graph.operators):
            writes = WRITTEN_INPUTS.get(operator.op_type, frozenset())
            for slot, edge in enumerate(operator.inputs):
                if edge is None or not edge.is_parameter:
                    continue
                if slot in writes:
                    writers[edge.producer].append(place)
                elif edge.producer not in writers:
                    takers[edge.producer].append((mangle(operator.name), slot))
        return cls(graph, plain, dict(writers), dict(takers))

    @cached_property
    def by_name(self) -> Mapping[str, Operator]:
        return {one.name: one for one in self.graph.operators}


@dataclass(frozen=True)
class _OperatorCall:
    """One call of an operator in one run of its graph; `writing` are the runs that write a weight, by step."""

    run: _KernelRun
    links: _Links
    place: int
    operator: Operator
    occurrence: int
    runs: Mapping[Coordinates, _KernelRun]
    writing: Mapping[tuple[Coordinates, str], Set[Coordinates]]

    @property
    def op(self) -> OpKey:
        return next(iter(self.own.values())).key.op

    @property
    def own(self) -> Mapping[tuple[str, int], TensorRef]:
        return self.run.tensors[mangle(self.operator.name)][self.occurrence]

    @property
    def outputs(self) -> dict[int, TensorRef]:
        """What the call made, by slot; the weights that it wrote, where it writes any."""
        found = {slot: ref for (io, slot), ref in sorted(self.own.items()) if io == "output"}
        for slot, written in enumerate(sorted(WRITTEN_INPUTS.get(self.operator.op_type, ()))):
            edge = self.operator.inputs[written] if written < len(self.operator.inputs) else None
            ref = self.own.get(("input", written))
            # Files of weights are written at the end of a step.
            if edge is not None and edge.is_parameter and self._writes_last(edge.producer):
                ref = self.run.weights.get(mangle(edge.producer), ref)
            if ref is not None:
                found[slot] = ref
        return found

    def attempted(self, known: Mapping[str, Definition]) -> list[Replayed] | Refused:
        try:
            return self.judged(known)
        except NotReplayableError as error:
            return Refused(self.op, error.message)

    def judged(self, known: Mapping[str, Definition]) -> list[Replayed]:
        operator, outputs = self.operator, self.outputs
        definition = known.get(operator.op_type)
        is_fused = len(operator.originals) >= _FUSED
        if operator.l1_group or operator.is_multiop:
            raise NotReplayableError("replay_variant", name="L1 fusion, operators that share originals")
        if definition is None and not is_fused:
            if re.fullmatch(RANDOM_TYPES, operator.op_type, re.IGNORECASE):
                raise NotReplayableError("replay_random")
            raise NotReplayableError("replay_no_definition", name=operator.op_type)
        stored = {slot: _read(ref, self._shape(slot, ref)) for slot, ref in outputs.items()}
        for slot, (_, dtype) in stored.items():
            self._check_type(slot, outputs[slot], dtype)
        call, ways = self._call(stored), []
        if is_fused:
            links = self.links
            ways = [
                composed(operator, call, links.by_name, links.plain, known, is_rounded=way) for way in (False, True)
            ]
        elif definition is not None:
            ways = [computed(definition, call)]
        judged = [self._judged(results, stored, outputs) for results in ways]
        if not judged[0]:
            raise NotReplayableError("replay_no_output")
        return next((found for found in judged if all(one.score.is_sound for one in found)), judged[0])

    def _judged(
        self,
        results: Sequence[Result | None],
        stored: Mapping[int, tuple[Array, str]],
        outputs: Mapping[int, TensorRef],
    ) -> list[Replayed]:
        found = []
        for slot, (values, dtype) in stored.items():
            result = results[slot] if slot < len(results) else None
            if result is not None:
                spec = self._shape(slot, outputs[slot])
                if (spec is None or spec.shape is None) and np.size(result.value) != values.size:
                    # No graph says that the file has the right one.
                    raise _other_shape(outputs[slot], np.shape(result.value), values.size)
                found.append(Replayed(self.op, slot, outputs[slot], values.size, judge(result, values, dtype)))
        return found

    def _check_type(self, slot: int, ref: TensorRef, dtype: str) -> None:
        """Refuse an output that is stored in another floating-point type than the graph has."""
        if ref is not self.own.get(("output", slot)):
            return
        known = [_spec(specs, slot) for specs in (self.operator.host_outputs, self.operator.device_outputs)]
        names = [name for spec in known if spec is not None and (name := canonical(spec.dtype or "")) is not None]
        # numpy has no bfloat16: its values are stored in float32.
        allowed = {*names, *("float32" for name in names if name == "bfloat16")}
        if names and DTYPES[names[0]].kind == "float" and dtype not in allowed:
            raise NotReplayableError("replay_other_type", name=ref.key.address, dtype=dtype, other=names[0])

    def _call(self, stored: Mapping[int, tuple[Array, str]]) -> Call:
        operator = self.operator
        found = [self._input(slot) for slot in range(max(len(operator.inputs), *(slot + 1 for _, slot in self.own)))]
        inputs = [None if isinstance(one, NotReplayableError) else one for one in found]
        missing = {slot: one for slot, one in enumerate(found) if isinstance(one, NotReplayableError)}
        count = max(len(operator.host_outputs), max(stored) + 1)
        specs = [
            TensorSpec(stored[slot][1], stored[slot][0].shape) if slot in stored else _spec(operator.host_outputs, slot)
            for slot in range(count)
        ]
        return Call(operator.op_type, inputs, parse_attributes(operator.attributes), specs, missing)

    def _shape(self, slot: int, ref: TensorRef) -> TensorSpec | None:
        return _spec(self.operator.host_outputs, slot) if ref is self.own.get(("output", slot)) else None

    def _input(self, slot: int) -> Array | NotReplayableError | None:
        try:
            return self._given(slot)
        except NotReplayableError as error:
            return error

    def _given(self, slot: int) -> Array | None:
        operator = self.operator
        edge = operator.inputs[slot] if slot < len(operator.inputs) else None
        written = slot in WRITTEN_INPUTS.get(operator.op_type, ())
        ref = None if written else self.own.get(("input", slot))
        if ref is None and edge is not None:
            ref = self._weight(edge.producer) if edge.is_parameter else self._made(edge)
        return None if ref is None else _read(ref, _spec(operator.host_inputs, slot))[0]

    def _made(self, edge: Edge) -> TensorRef:
        calls = self.run.tensors.get(mangle(edge.producer), {})
        one = calls.get(self.occurrence if len(calls) > 1 else next(iter(calls), 0), {})
        if ("output", edge.slot) not in one:
            raise NotReplayableError("replay_not_dumped", name=edge.producer)
        return one["output", edge.slot]

    @property
    def _is_last(self) -> bool:
        """Whether it is the last of the turns of a loop."""
        return self.occurrence == max(self.run.tensors[mangle(self.operator.name)])

    def _is_written_elsewhere(self, name: str) -> bool:
        return bool(self.writing.get((self.run.step, name), set()) - {self.run.at})

    def _writes_last(self, name: str) -> bool:
        return self.links.writers[name][-1] == self.place and self._is_last and not self._is_written_elsewhere(name)

    def _weight(self, name: str) -> TensorRef:
        """Find a weight as it was when this operator ran: files of weights are written at the end of a step."""
        writers = self.links.writers.get(name, ())
        after = [place for place in writers if place >= self.place]
        if self._is_written_elsewhere(name) or (
            writers and (len(after) < len(writers) if after else not self._is_last)
        ):
            raise NotReplayableError("replay_before", name=name)
        found = self.run
        if after:
            for taker, slot in self.links.takers.get(name, ()):
                ref = self.run.tensors.get(taker, {}).get(self.occurrence, {}).get(("input", slot))
                if ref is not None:
                    return ref
            iteration = self.run.at.iteration
            before = None if iteration is None else self.runs.get(self.run.at._replace(iteration=iteration - 1))
            if before is None or self.occurrence or mangle(name) not in before.weights:
                raise NotReplayableError("replay_before", name=name)
            found = before
        if mangle(name) not in found.weights:
            raise NotReplayableError("replay_not_dumped", name=name)
        return found.weights[mangle(name)]


def _spec(specs: tuple[TensorSpec | None, ...], slot: int) -> TensorSpec | None:
    return specs[slot] if slot < len(specs) else None


def _read(ref: TensorRef, spec: TensorSpec | None) -> tuple[Array, str]:
    """Read a tensor in the shape that the graph has it in, floats as float64; return it and its type."""
    if ref.is_unseen or ref.sample is not None:
        raise NotReplayableError("replay_not_whole", name=ref.key.address)
    try:
        with closing(open_logical(ref)) as view:
            values, dtype, shape = view.read(0, view.size), view.dtype, view.shape
    except (MsdumpError, OSError) as error:
        raise NotReplayableError("replay_unreadable", name=ref.key.address, why=plain_text(str(error))) from error
    if spec is not None and spec.shape is not None and min(spec.shape, default=0) >= 0:
        if prod(spec.shape) != values.size:
            raise _other_shape(ref, spec.shape, values.size)
        shape = spec.shape
    if DTYPES[canonical(dtype) or dtype].kind not in ("float", "integer", "bool"):
        raise NotReplayableError("replay_variant", name=dtype)
    return (values.astype(np.float64) if values.dtype.kind == "f" else values.copy()).reshape(shape), dtype


def _other_shape(ref: TensorRef, shape: tuple[int, ...], size: int) -> NotReplayableError:
    return NotReplayableError("replay_other_shape", name=ref.key.address, n=size, shape=str(shape))


# -- judging -----------------------------------------------------------------------------------------------------------


def judge(result: Result, stored: Array, dtype: str) -> Score:
    """Judge the values of an output, held as `dtype`; `NotReplayableError` for a result of another shape."""
    if np.shape(result.value) != stored.shape:
        raise NotReplayableError("replay_shapes", name="output")
    if not stored.size:
        return Score("exact", 0, 0)
    with np.errstate(all="ignore"):
        judging = _Judging(result, np.asarray(result.value).reshape(-1), stored.reshape(-1), stored.shape, dtype)
        if result.scale is None or dtype not in EPSILON:
            return judging.exact()
        outer = rounding_unit(dtype)
        # Kernels of 16 bits add up in float32.
        inner = min(outer, rounding_unit("float32"))
        units = judging.units(outer)
        return judging.flips(inner) if units.is_sound and inner != outer and result.is_sum else units


@dataclass(frozen=True)
class _Judging:
    """One output, as rows of elements: what they should be, and what they are."""

    result: Result
    expected: Array
    stored: Array
    shape: tuple[int, ...]
    dtype: str

    def exact(self) -> Score:
        wrong = ~self._same()
        return self._worst("exact", wrong, int(np.count_nonzero(wrong)), 0)

    def units(self, unit: float) -> Score:
        """Count rounding units; the larger scale counts where the first is exceeded."""
        result, distance = self.result, np.maximum(self._distance() - self._row(self.result.absolute), 0)
        rule = "sum" if result.limit < _LEAST_OF_APPROXIMATIONS else "approximation"
        scores = np.where(distance > 0, distance / (unit * self._row(result.scale)), 0)
        if result.widened is not None and scores.max() > result.limit:
            scores = np.where(distance > 0, distance / (unit * self._row(result.widened())), 0)
        return self._worst(rule, scores, float(scores.max()), result.limit)

    def flips(self, unit: float) -> Score:
        """Count the elements that nothing computed with this unit rounds to."""
        wrong = self._flipped(unit, self.result.scale)
        if self.result.widened is not None and np.count_nonzero(wrong) > FLIPS_SHARE_LIMIT * wrong.size:
            wrong = self._flipped(unit, self.result.widened())
        return self._worst("flips", wrong, float(np.count_nonzero(wrong)) / wrong.size, FLIPS_SHARE_LIMIT)

    def _flipped(self, unit: float, scale: Array | None) -> Array:
        allowed = self.result.limit * unit * self._row(scale) + self._row(self.result.absolute)
        low, high = (rounded_to(self.expected + sign * allowed, self.dtype) for sign in (-1, 1))
        return np.asarray(~(((self.stored >= low) & (self.stored <= high)) | (self._distance() == 0)))

    def _row(self, scale: Array | float | None) -> Array:
        return np.broadcast_to(np.asarray(scale, np.float64), self.shape).reshape(-1)

    def _same(self) -> Array:
        rounded = rounded_to(self.expected, self.dtype)
        if rounded.dtype.kind != "f":
            return np.asarray(rounded == self.stored)
        return np.asarray((rounded == self.stored) | (np.isnan(rounded) & np.isnan(self.stored)))

    def _distance(self) -> Array:
        """Return how far apart elements are; Inf where kinds differ, 0 for what is too small to matter."""
        distance: Array = np.abs(self.expected - self.stored)
        distance[(distance <= _SMALLEST.get(self.dtype, _SMALLEST_OF_OTHERS)) | self._same()] = 0
        # At the largest number of a type, either may have become infinite.
        at_end = np.abs(self.expected) > _NEARLY * (DTYPES[self.dtype].maximum or inf)
        distance[np.isinf(self.stored) & at_end & (self.stored * self.expected > 0)] = 0
        distance[np.isnan(distance)] = inf
        return distance

    def _worst(self, rule: str, scores: Array, value: float, limit: float) -> Score:
        place = int(scores.argmax())
        index = tuple(int(one) for one in np.unravel_index(place, self.shape))
        return Score(rule, value, limit, index, float(self.stored[place]), float(self.expected[place]))
