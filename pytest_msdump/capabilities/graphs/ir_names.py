"""True names, places, lines of the program and shapes of a dump's operators, from the graphs of the run.

References: MindSpore 2.10: numbers at the end of names (``-op1``) may differ between a graph and the files of its
tensors, those of convolution gradients for one; names and shapes on the host are the graph's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capabilities.graphs.execution_order import GraphId, find_irs, graph_of, has_times, order_of
from pytest_msdump.capabilities.graphs.graph_files import PlacedGraph, read_graphs, read_named_graphs
from pytest_msdump.capabilities.graphs.source_lines import user_frames
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.facts.operators import VIEW_TYPES
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import PARAMETER, Dump, Operator, OperatorGraph, in_order
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorRef, TensorSpec, mangle
from pytest_msdump.core.text import Message, say

_COUNTED = re.compile(r"(?P<family>.*)-op(?P<count>[0-9]{1,18})")
_MOST_LISTED = 3

# Name and type of an operator in a dump.
_FileOp = tuple[str, str | None]


class _Known(NamedTuple):
    """An operator, its place in its graph, and the graph's file."""

    operator: Operator
    place: int
    source: str


def with_ir(
    dump: Dump,
    graphs: Sequence[PlacedGraph],
    *,
    orders: Mapping[GraphId, Sequence[str]] | None = None,
    notes: Iterable[str] = (),
) -> Dump:
    """Complete the tensors of a dump by the graphs of the run, and sort them again."""
    run = dict(dump.labels)
    # The files of such a run are known to be numbered by the order of the graph's text.
    is_by_text = run.get("device_target") == "CPU" and run.get("ms_version", "").startswith("2.10.")
    matcher = _GraphMatcher(graphs, orders or {}, is_by_text=is_by_text)
    refs = matcher.completed(dump.refs)
    sentences = (*dump.notes, *notes, *(note for _, graph in graphs for note in graph.notes), *matcher.sentences())
    # After the sentences, which are about the compared tensors only.
    older = tuple(matcher.completed(dump.older))
    return replace(dump, refs=in_order(refs), older=older, notes=tuple(dict.fromkeys(sentences)))


def _by_name(keys: Iterable[OpKey], graphs: Sequence[OperatorGraph]) -> dict[_FileOp, _Known]:
    """Find operators by their names, or by what follows the scope where only one operator ends so."""
    full: defaultdict[str, list[_Known]] = defaultdict(list)
    short: defaultdict[str, list[_Known]] = defaultdict(list)
    for known in _operators(graphs):
        full[mangle(known.operator.name)].append(known)
        # Releases before 2.1 write a file's operator without its scope.
        short[mangle(known.operator.name.rpartition("/")[2])].append(known)
    found: dict[_FileOp, _Known] = {}
    for key in keys:
        candidates = full.get(key.name) or short.get(key.name, [])
        for meant in (
            candidates,
            [known for known in candidates if known.operator.name == key.true_name],
            [known for known in candidates if known.operator.op_type == key.op_type],
        ):
            # One operator may be in several graphs.
            if len({known.operator.name for known in meant}) == 1:
                found[key.name, key.op_type] = meant[0]
                break
    return found


def _by_number(
    keys: Iterable[OpKey], found: Mapping[_FileOp, _Known], graphs: Sequence[OperatorGraph]
) -> Iterator[tuple[_FileOp, _Known]]:
    """Match what is left over by scope and type, in the order of their numbers, where both have equally many."""
    taken = {known.operator.name for known in found.values()}
    free: defaultdict[str, dict[int, _Known]] = defaultdict(dict)
    for known in _operators(graphs):
        match = _COUNTED.fullmatch(mangle(known.operator.name))
        if match and known.operator.name not in taken:
            free[match["family"]].setdefault(int(match["count"]), known)
    for family, files in _families(key for key in keys if (key.name, key.op_type) not in found).items():
        if len(files) == len(free[family]):
            yield from ((files[a], free[family][b]) for a, b in zip(sorted(files), sorted(free[family]), strict=True))


def _by_text(keys: Iterable[OpKey], graphs: Sequence[OperatorGraph]) -> Iterator[tuple[_FileOp, _Known]]:
    """Match operators of one scope and type by their place in the graph's text, whatever the graph numbers them."""
    in_text: defaultdict[str, list[_Known]] = defaultdict(list)
    for known in _operators(graphs):
        match = _COUNTED.fullmatch(mangle(known.operator.name))
        if match:
            in_text[match["family"]].append(known)
    for family, files in _families(keys).items():
        if max(files) < len(in_text[family]):
            yield from ((file, in_text[family][count]) for count, file in files.items())
        elif len(files) == len(in_text[family]):
            yield from zip((files[count] for count in sorted(files)), in_text[family], strict=True)


def _operators(graphs: Iterable[OperatorGraph]) -> Iterator[_Known]:
    return (_Known(operator, place, graph.source) for graph in graphs for place, operator in enumerate(graph.operators))


def _families(keys: Iterable[OpKey]) -> Mapping[str, dict[int, _FileOp]]:
    found: defaultdict[str, dict[int, _FileOp]] = defaultdict(dict)
    for key in keys:
        match = _COUNTED.fullmatch(key.name)
        if match:
            found[match["family"]][int(match["count"])] = (key.name, key.op_type)
    return found


class _GraphFacts(NamedTuple):
    """What is known of one graph of a dump: operators, true names of parameters, execution order if there is one."""

    operators: Mapping[_FileOp, _Known]
    parameters: Mapping[str, str]
    order: Mapping[str, int] | None
    is_timed: bool

    def completed(self, ref: TensorRef) -> TensorRef:
        """Return the tensor with what is known of it."""
        op = ref.key.op
        if op.op_type == PARAMETER:
            name = op.true_name or self.parameters.get(op.name)
            return replace(ref, key=ref.key._replace(op=op._replace(true_name=name))) if name else ref
        known = self.operators.get((op.name, op.op_type))
        if known is None:
            return ref
        operator = known.operator
        # An execution order found its name by the file's number, which the graph may give to another.
        name = operator.name if _is_renumbered(op.name, operator) else op.true_name
        key = ref.key._replace(op=op._replace(true_name=name or operator.name))
        line = next(iter(user_frames(operator)), None)
        if self.order is not None:
            place = self.order.get(operator.name, ref.place)
        else:
            place = ref.place if self.is_timed else known.place
        return replace(ref, key=key, spec=_spec(ref, known), place=place, line=ref.line or line)


class _GraphMatcher:
    """Matches a dump's operators with all graphs of its run; remembers which it did not find."""

    def __init__(
        self, graphs: Sequence[PlacedGraph], orders: Mapping[GraphId, Sequence[str]], *, is_by_text: bool
    ) -> None:
        self._is_by_text = is_by_text
        self._graphs = graphs
        self._orders = orders
        # By the graph's number.
        self._missed: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._has_found: set[int] = set()
        # By true name, the file's.
        self._renumbered: dict[str, str] = {}

    def completed(self, refs: Iterable[TensorRef]) -> list[TensorRef]:
        """Return the tensors with what is known of them."""
        kept = list(refs)
        members: defaultdict[Coordinates, list[TensorRef]] = defaultdict(list)
        for ref in kept:
            members[graph_of(ref)].append(ref)
        facts = {at: self._facts(at, of_graph) for at, of_graph in members.items()}
        return [facts[graph_of(ref)].completed(ref) for ref in kept]

    def _facts(self, at: Coordinates, refs: Sequence[TensorRef]) -> _GraphFacts:
        graphs = {number: graph for number, (place, graph) in enumerate(self._graphs) if _is_of(place, at)}
        keys = dict.fromkeys(ref.key.op for ref in refs if ref.key.op.op_type != PARAMETER)
        found = _by_name(keys, list(graphs.values()))
        final = [graph for graph in graphs.values() if graph.is_final]
        if self._is_by_text and len(final) == 1:
            found |= dict(_by_text(keys, final))
        found |= dict(_by_number(keys, found, final))
        for (file, _), known in found.items():
            if _is_renumbered(file, known.operator):
                self._renumbered.setdefault(known.operator.name, file)
        for number, graph in graphs.items():
            own = {operator.name for operator in graph.operators}
            for key in keys:
                match = found.get((key.name, key.op_type))
                if match is not None and match.operator.name in own:
                    self._has_found.add(number)
                else:
                    self._missed[number][key.label] = None
        is_timed = has_times(refs)
        order = order_of(self._orders, at, is_timed=is_timed)
        return _GraphFacts(
            found,
            _unique(name for graph in graphs.values() for name in graph.parameters),
            {name: place for place, name in reversed(list(enumerate(order)))} if order else None,
            is_timed,
        )

    def sentences(self) -> Iterator[str]:
        """Yield sentences about operators that no graph has, and about graphs that are not the final ones."""
        for number, (_, graph) in enumerate(self._graphs):
            missed = tuple(self._missed[number])
            if not graph.is_final:
                yield say(Message("note_earlier_graph", {"file": graph.source}))
            if missed and number not in self._has_found:
                yield say(Message("note_graph_of_none", {"file": graph.source}))
            elif missed:
                names = listed(missed, _MOST_LISTED)
                yield say(Message("note_graph_lacks", {"file": graph.source, "names": names}))
        if self._renumbered:
            name, file = next(iter(self._renumbered.items()))
            more = len(self._renumbered) - 1
            code = "note_renumbered_more" if more else "note_renumbered"
            yield say(Message(code, {"name": name, "file": file, "more": more}))


def _is_renumbered(file: str, operator: Operator) -> bool:
    """Whether a file's operator differs from the graph's in its number; files of old releases have no scope."""
    name = mangle(operator.name)
    return name != file and mangle(operator.name.rpartition("/")[2]) != file


def _is_of(graph: Coordinates, at: Coordinates) -> bool:
    """Whether a graph is one of these coordinates: one that either lacks agrees with any."""
    pairs = ((graph.rank, at.rank), (graph.net, at.net), (graph.graph, at.graph))
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _unique(names: Iterable[str]) -> Mapping[str, str]:
    """Return true names by the name in files, where only one is written so."""
    meant: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        meant[mangle(name)].add(name)
    return {written: next(iter(true)) for written, true in meant.items() if len(true) == 1}


def _spec(ref: TensorRef, known: _Known) -> TensorSpec:
    operator = known.operator
    is_output = ref.key.io == "output"
    host = _at(operator.host_outputs if is_output else operator.host_inputs, ref.key.slot)
    device = _at(operator.device_outputs if is_output else operator.device_inputs, ref.key.slot)
    shape = None if host is None or host.shape is None or min(host.shape, default=0) < 0 else host.shape
    spec = ref.spec
    # Any other file has its own shape.
    is_of_graph = may_be_padded(spec.memory_format) or (is_output and operator.op_type in VIEW_TYPES)
    if spec.dtype is None and (dtype := _dtype(host, device, spec.memory_format)):
        spec = replace(spec, dtype=dtype, dtype_from=known.source)
    if spec.logical_shape is None and is_of_graph and shape is not None:
        spec = replace(spec, logical_shape=shape, shape_from=known.source)
    return spec


def _dtype(host: TensorSpec | None, device: TensorSpec | None, memory_format: str | None) -> str | None:
    """Return a tensor's type by the graph; ``None`` where device and network differ: either may have been saved."""
    if device is not None and device.dtype is not None and may_be_padded(memory_format):
        return device.dtype
    dtypes = {spec.dtype for spec in (host, device) if spec is not None and spec.dtype is not None}
    return dtypes.pop() if len(dtypes) == 1 else None


def _at(specs: Sequence[TensorSpec | None], slot: int) -> TensorSpec | None:
    return specs[slot] if slot < len(specs) else None


def with_lines(dump: Dump, orders: Mapping[GraphId, Sequence[str]], named: Iterable[Path]) -> Dump:
    """Add lines of the program, names and shapes from the graphs of a run, and from those that a user named."""
    graphs, notes = read_graphs(find_irs(dump.root))
    graphs = (*graphs, *read_named_graphs(named))
    if not graphs:
        return replace(dump, notes=(*dump.notes, *notes))
    return replace(with_ir(dump, graphs, orders=orders, notes=notes), graphs=(*dump.graphs, *graphs))
