"""True names, places, lines of the program and shapes of a dump's operators, as the graphs of the run tell them.

References
----------
MindSpore 2.10: numbers at the end of names (``-op1``) may differ between a graph and the files of its tensors, those of
convolution gradients for one; names and shapes on the host are the graph's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_msdump.dumps.graphs.execution_order import GraphId, has_times, order_of
from pytest_msdump.dumps.graphs.graph_files import PlacedGraph
from pytest_msdump.dumps.graphs.source_lines import user_frames
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.facts.operators import VIEW_TYPES
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import Operator, OperatorGraph
from pytest_msdump.model.ordering import PARAMETER, in_order
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorRef, TensorSpec, mangle

__all__ = ["in_execution_order", "with_ir"]

_COUNTED = re.compile(r"(?P<family>.*)-op(?P<count>[0-9]{1,18})")


class Known(NamedTuple):
    """An operator and its place in its graph."""

    operator: Operator
    place: int


def exact(keys: Iterable[OpKey], graphs: Sequence[OperatorGraph]) -> dict[tuple[str, str | None], Known]:
    """Find operators by their names, or by what follows the scope where that tells one; keys are names and types."""
    full: defaultdict[str, list[Known]] = defaultdict(list)
    short: defaultdict[str, list[Known]] = defaultdict(list)
    for graph in graphs:
        for place, operator in enumerate(graph.operators):
            full[mangle(operator.name)].append(Known(operator, place))
            # Releases before 2.1 write a file's operator without its scope.
            short[mangle(operator.name.rpartition("/")[2])].append(Known(operator, place))
    found: dict[tuple[str, str | None], Known] = {}
    for key in keys:
        candidates = full.get(key.name) or short.get(key.name, [])
        known = _chosen(key, candidates)
        if known is not None:
            found[key.name, key.op_type] = known
    return found


def _chosen(key: OpKey, candidates: Sequence[Known]) -> Known | None:
    """Return the one that is meant; the first of several that are one operator in several graphs."""
    for meant in (
        candidates,
        [known for known in candidates if known.operator.name == key.true_name],
        [known for known in candidates if known.operator.op_type == key.op_type],
    ):
        if len({known.operator.name for known in meant}) == 1:
            return meant[0]
    return None


def by_family(
    keys: Iterable[OpKey], found: Mapping[tuple[str, str | None], Known], graphs: Sequence[OperatorGraph]
) -> Iterator[tuple[tuple[str, str | None], Known]]:
    """Match what is left over by scope and type, in the order of their numbers."""
    taken = {known.operator.name for known in found.values()}
    free: defaultdict[str, dict[int, Known]] = defaultdict(dict)
    for graph in graphs:
        for place, operator in enumerate(graph.operators):
            match = _COUNTED.fullmatch(mangle(operator.name))
            if match and operator.name not in taken:
                free[match["family"]].setdefault(int(match["count"]), Known(operator, place))
    left: defaultdict[str, dict[int, tuple[str, str | None]]] = defaultdict(dict)
    for key in keys:
        match = _COUNTED.fullmatch(key.name)
        if match and (key.name, key.op_type) not in found:
            left[match["family"]][int(match["count"])] = (key.name, key.op_type)
    for family, of_dump in left.items():
        if len(of_dump) == len(free[family]):
            yield from zip(
                (of_dump[count] for count in sorted(of_dump)),
                (free[family][count] for count in sorted(free[family])),
                strict=True,
            )


def by_text(keys: Iterable[OpKey], graphs: Sequence[OperatorGraph]) -> Iterator[tuple[tuple[str, str | None], Known]]:
    """Match operators of one scope and type by their place in the graph's text, whatever the graph numbers them.

    MindSpore 2.10 numbers the files so, from 0. A family whose numbers are other ones is matched in their order where
    it is complete, and left out where it is not.
    """
    told: defaultdict[str, list[Known]] = defaultdict(list)
    for graph in graphs:
        for place, operator in enumerate(graph.operators):
            match = _COUNTED.fullmatch(mangle(operator.name))
            if match:
                told[match["family"]].append(Known(operator, place))
    files: defaultdict[str, dict[int, tuple[str, str | None]]] = defaultdict(dict)
    for key in keys:
        match = _COUNTED.fullmatch(key.name)
        if match:
            files[match["family"]][int(match["count"])] = (key.name, key.op_type)
    for family, of_dump in files.items():
        if max(of_dump) < len(told[family]):
            yield from ((file, told[family][count]) for count, file in of_dump.items())
        elif len(of_dump) == len(told[family]):
            yield from zip((of_dump[count] for count in sorted(of_dump)), told[family], strict=True)


# -- True names, places, lines of the program and shapes of a dump's operators, as the graphs o ----------------------


_MOST_LISTED = 3

_Group = tuple[int | None, str | None, int | None]


def in_execution_order(graph: OperatorGraph, order: Sequence[str]) -> OperatorGraph:
    """Sort the operators as they ran.

    Parameters
    ----------
    graph : OperatorGraph
        As its file has it: in an order in which operators can run, which need not be the one in which they did.
    order : sequence of str
        True names, as an execution order tells them.

    Returns
    -------
    OperatorGraph
        The same operators; those that the order does not name stay behind the one they followed.
    """
    places = {name: place for place, name in enumerate(order)}
    last = -1
    keys = {}
    for number, operator in enumerate(graph.operators):
        last = places.get(operator.name, last)
        keys[operator.name] = (last, number)
    return replace(graph, operators=tuple(sorted(graph.operators, key=lambda operator: keys[operator.name])))


def with_ir(
    dump: Dump,
    graphs: Sequence[PlacedGraph],
    *,
    orders: Mapping[GraphId, Sequence[str]] | None = None,
    notes: Iterable[str] = (),
) -> Dump:
    """Tell the operators of a dump by the graphs of the run.

    Parameters
    ----------
    dump : Dump
        As its reader indexed it, and its execution orders named it.
    graphs : sequence of (Coordinates, OperatorGraph)
        Graphs of the run before those that a user named; a coordinate that is not set stands for every value.
    orders : mapping of Coordinates to sequence of str, optional
        Execution orders by rank, net and graph, as `with_order` takes them.
    notes : iterable of str
        Sentences to add to the dump's.

    Returns
    -------
    Dump
        The same tensors, sorted again. An operator that a graph knows gets its true name and the line of the program
        that made it; its tensors get their dtype where nobody told it, and those in a device's memory format and the
        outputs of view operators the shape that they have in the network. Parameters get their true names.
        Operators that an execution order left without a place get that of their true name. Where there is no order,
        places by time stay, since a graph's own order is only one in which the operators can run; they are taken from
        the graph where files have no time.
        `notes` tell graphs that are not the final ones, and operators that a graph does not know.

    Notes
    -----
    A number at the end of a name may differ between the final graph and the files. Such operators meet when the graph
    and the dump have equally many of that scope and type left over.
    """
    books = _Books(graphs, orders or {}, is_by_text=_numbers_by_text(dump))
    refs = books.applied(dump.refs)
    sentences = (*dump.notes, *notes, *(note for _, graph in graphs for note in graph.notes), *books.sentences())
    return replace(
        dump, refs=in_order(refs), older=tuple(books.applied(dump.older)), notes=tuple(dict.fromkeys(sentences))
    )


class _Told(NamedTuple):
    """What is known of the operators of one graph of a dump: by name and type, and parameters by name."""

    operators: Mapping[tuple[str, str | None], Known]
    parameters: Mapping[str, str]
    order: Mapping[str, int] | None
    is_timed: bool

    def applied(self, ref: TensorRef) -> TensorRef:
        op = ref.key.op
        if op.op_type == PARAMETER:
            name = op.true_name or self.parameters.get(op.name)
            return replace(ref, key=replace(ref.key, op=replace(op, true_name=name))) if name else ref
        known = self.operators.get((op.name, op.op_type))
        if known is None:
            return ref
        # An execution order found its name by the file's number, which the graph may give to another.
        name = known.operator.name if _is_renumbered(op.name, known.operator) else op.true_name
        key = replace(ref.key, op=replace(op, true_name=name or known.operator.name))
        line = next(iter(user_frames(known.operator)), None)
        place = self._place(ref, known)
        return replace(ref, key=key, spec=_spec(ref, known.operator), place=place, line=ref.line or line)

    def _place(self, ref: TensorRef, known: Known) -> int | None:
        if self.order is not None:
            return self.order.get(known.operator.name, ref.place)
        return ref.place if self.is_timed else known.place


class _Books:
    """All graphs, by the names that files have; and what was looked for in vain."""

    def __init__(
        self, graphs: Sequence[PlacedGraph], orders: Mapping[GraphId, Sequence[str]], *, is_by_text: bool
    ) -> None:
        self._is_by_text = is_by_text
        self._graphs = graphs
        self._orders = orders
        self._missed: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._found: defaultdict[int, int] = defaultdict(int)
        self._renumbered: dict[str, tuple[str, str]] = {}

    def applied(self, refs: Iterable[TensorRef]) -> list[TensorRef]:
        """Tell the tensors what is known of them."""
        members: defaultdict[_Group, list[TensorRef]] = defaultdict(list)
        kept = list(refs)
        for ref in kept:
            members[_group(ref)].append(ref)
        told = {group: self._told(group, of_group) for group, of_group in members.items()}
        return [told[_group(ref)].applied(ref) for ref in kept]

    def _told(self, group: _Group, refs: Sequence[TensorRef]) -> _Told:
        numbers = [number for number, (at, _) in enumerate(self._graphs) if _meets(at, group)]
        graphs = [self._graphs[number][1] for number in numbers]
        keys = dict.fromkeys(ref.key.op for ref in refs if ref.key.op.op_type != PARAMETER)
        found = exact(keys, graphs)
        final = [graph for graph in graphs if graph.is_final]
        for key, known in by_text(keys, final) if self._is_by_text and len(final) == 1 else ():
            found[key] = known
        found |= dict(by_family(keys, found, final))
        renumbered = {key: known for key, known in found.items() if _is_renumbered(key[0], known.operator)}
        for key, known in renumbered.items():
            self._renumbered.setdefault(known.operator.name, (known.operator.name, key[0]))
        for number, graph in zip(numbers, graphs, strict=True):
            self._note(number, graph, keys, found)
        rank, net, graph_number = group
        is_timed = has_times(refs)
        order = order_of(self._orders, Coordinates(rank=rank, net=net, graph=graph_number), is_timed=is_timed)
        return _Told(
            found,
            _unique(name for graph in graphs for name in graph.parameters),
            {name: place for place, name in reversed(list(enumerate(order)))} if order else None,
            is_timed,
        )

    def _note(
        self,
        number: int,
        graph: OperatorGraph,
        keys: Iterable[OpKey],
        found: Mapping[tuple[str, str | None], Known],
    ) -> None:
        own = {operator.name for operator in graph.operators}
        for key in keys:
            known = found.get((key.name, key.op_type))
            if known is None or known.operator.name not in own:
                self._missed[number][key.label] = None
            else:
                self._found[number] += 1

    def sentences(self) -> Iterator[str]:
        """Tell what the graphs do not know, and which of them are not the final ones."""
        for number, (_, graph) in enumerate(self._graphs):
            missed = tuple(self._missed[number])
            if not graph.is_final:
                yield (
                    f"{graph.source} is not the graph that ran: operators may have been renamed, fused or removed since"
                )
            if missed and not self._found[number]:
                yield f"{graph.source}: no operator of the dump is in it"
            elif missed:
                yield f"{graph.source} does not have {_listed(missed)}: {_NOT_TOLD}"
        if self._renumbered:
            name, file = next(iter(self._renumbered.values()))
            more = len(self._renumbered) - 1
            others = f", and {more} more are numbered differently" if more else ""
            yield f"{name} of the graph is written as {file} in file names{others}"


_NOT_TOLD = "their lines and shapes are not known"


def _numbers_by_text(dump: Dump) -> bool:
    """Tell whether the run is one whose files are known to be numbered by the order of the graph's text."""
    run = dict(dump.labels)
    return run.get("device_target") == "CPU" and run.get("ms_version", "").startswith("2.10.")


def _is_renumbered(file: str, operator: Operator) -> bool:
    """Tell whether a file's operator differs from the graph's in its number; files of old releases have no scope."""
    name = mangle(operator.name)
    return name != file and mangle(operator.name.rpartition("/")[2]) != file


def _group(ref: TensorRef) -> _Group:
    at = ref.key.op.at
    return (at.rank, at.net, at.graph)


def _meets(at: Coordinates, group: _Group) -> bool:
    """Tell whether a graph is one of this group's: a coordinate that either lacks matches."""
    return all(
        None in (one, other) or one == other for one, other in zip((at.rank, at.net, at.graph), group, strict=True)
    )


def _unique(names: Iterable[str]) -> Mapping[str, str]:
    """List true names by names as files have them, where there is one."""
    meant: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        meant[mangle(name)].add(name)
    return {written: next(iter(true)) for written, true in meant.items() if len(true) == 1}


def _spec(ref: TensorRef, operator: Operator) -> TensorSpec:
    is_output = ref.key.io == "output"
    host = _at(operator.host_outputs if is_output else operator.host_inputs, ref.key.slot)
    device = _at(operator.device_outputs if is_output else operator.device_inputs, ref.key.slot)
    shape = None if host is None or host.shape is None or min(host.shape, default=0) < 0 else host.shape
    spec = ref.spec
    # Any other file says itself what shape it holds.
    is_told = may_be_padded(spec.memory_format) or (is_output and operator.op_type in VIEW_TYPES)
    return replace(
        spec,
        dtype=spec.dtype or _told_dtype(host, device, spec.memory_format),
        logical_shape=shape if spec.logical_shape is None and is_told else spec.logical_shape,
    )


def _told_dtype(host: TensorSpec | None, device: TensorSpec | None, memory_format: str | None) -> str | None:
    """Return the type that a graph tells: of a tensor in a device's memory format that of the device.

    Of another one it is ``None`` where device and network differ: either may have been saved, which the file tells.
    """
    if device is not None and device.dtype is not None and may_be_padded(memory_format):
        return device.dtype
    told = {spec.dtype for spec in (host, device) if spec is not None and spec.dtype is not None}
    return told.pop() if len(told) == 1 else None


def _at(specs: Sequence[TensorSpec | None], slot: int) -> TensorSpec | None:
    return specs[slot] if slot < len(specs) else None


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
