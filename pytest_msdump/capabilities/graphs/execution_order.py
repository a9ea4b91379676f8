"""The order in which a graph's operators ran, and their true names, from ``ms_execution_order_graph_<N>.csv``.

References: MindSpore "Dump" documentation, releases 1.5 to 2.10: a header line, then one full name with scope a line,
unquoted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.model.dump import (
    PARAMETER,
    Dump,
    Operator,
    OperatorGraph,
    file_spelling,
    in_order,
    joined_spelling,
    placed_at,
)
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, mangle
from pytest_msdump.core.storage.files import folders_in, names_in, read_user_file
from pytest_msdump.core.storage.locations import absolute_path
from pytest_msdump.core.text import Message, say

_RANK = re.compile(r"rank_(?P<rank>[0-9]{1,9})")
_DEVICE = re.compile(r"(?:device_)?(?P<rank>[0-9]{1,9})")
# An iteration's directory is three levels below its rank's.
_LEVELS_BELOW_RANK = 3


def side_folders(root: Path, name: str) -> Iterator[tuple[Coordinates, Path]]:
    """Yield where a folder of side files called `name` may be, with its rank and perhaps net; those above first."""
    absolute = absolute_path(root)
    for folder in (absolute, *absolute.parents)[: _LEVELS_BELOW_RANK + 1]:
        own = _RANK.fullmatch(folder.name) or _DEVICE.fullmatch(folder.name)
        if own:
            yield Coordinates(rank=int(own["rank"])), folder / name
    for entry in folders_in(root):
        rank, device = _RANK.fullmatch(entry), _DEVICE.fullmatch(entry)
        of_rank = rank or device
        if of_rank:
            yield Coordinates(rank=int(of_rank["rank"])), root / entry / name
        if not rank:
            for inner in folders_in(root / entry):
                if device := _DEVICE.fullmatch(inner):
                    yield Coordinates(rank=int(device["rank"]), net=entry), root / entry / inner / name


# -- Execution orders of MindSpore -----------------------------------------------------------------------------------

# The rank, net and graph of an execution order; one that is not set stands for every value.
GraphId = Coordinates

_HEADER = "NodeExecutionOrder-FullNameWithScope"
_MAX_BYTES = 2**26
_FILE = re.compile(r"ms_execution_order_graph_([0-9]{1,18})\.csv")
_FOLDER = "execution_order"


def find_orders(root: Path) -> Mapping[GraphId, Path]:
    """List the execution orders below a dump's root, by rank and graph (and net, releases 1.2 and 1.3)."""
    found: dict[GraphId, Path] = {}
    for at, folder in side_folders(root, _FOLDER):
        for name in names_in(folder):
            match = _FILE.fullmatch(name)
            if match and (folder / name).exists():
                found.setdefault(at._replace(graph=int(match[1])), folder / name)
    return found


def order_files(files: Iterable[Path]) -> tuple[Mapping[GraphId, Path], tuple[Path, ...]]:
    """Divide files that a user named into execution orders, by graph, and others; each must exist."""
    orders: dict[GraphId, Path] = {}
    others: list[Path] = []
    for path in files:
        if not path.exists():
            raise ConfigError(f"{path}: no such file; graph_files and --graph name execution orders and graphs")
        match = _FILE.fullmatch(path.name)
        if match:
            orders[Coordinates(graph=int(match[1]))] = path
        else:
            others.append(path)
    return orders, tuple(others)


def read_order(path: Path) -> tuple[str, ...]:
    """Read one execution order: full names with scope; none for a graph without kernels."""
    data = read_user_file(path, _MAX_BYTES, want="give an execution order that MindSpore wrote")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise MsdumpError(f"{path}: not an execution order, byte {error.start} is not text") from error
    if not lines or lines[0].strip() != _HEADER:
        raise MsdumpError(f"{path}: not an execution order, its first line is not {_HEADER}")
    return tuple(name for line in lines[1:] if (name := line.strip()))


def read_orders(files: Mapping[GraphId, Path]) -> tuple[Mapping[GraphId, Sequence[str]], tuple[str, ...]]:
    """Read several execution orders, as far as they can be read, and a sentence about each of the others."""
    orders: dict[GraphId, Sequence[str]] = {}
    notes: list[str] = []
    for graph, path in files.items():
        order, failure = _attempt(path)
        if failure is None:
            orders[graph] = order
        else:
            notes.append(say(Message("note_order_unread", {"why": str(failure), "graph": str(graph.graph)})))
    return orders, tuple(notes)


def _attempt(path: Path) -> tuple[tuple[str, ...], MsdumpError | None]:
    try:
        return read_order(path), None
    except MsdumpError as error:
        return (), error


class _Order(NamedTuple):
    """One execution order by names as files have them: `places`, and the `true_names` each may stand for."""

    places: Mapping[str, int]
    true_names: Mapping[str, frozenset[str]]


_NO_ORDER = _Order({}, {})


def with_order(dump: Dump, orders: Mapping[GraphId, Sequence[str]], *, notes: Iterable[str] = ()) -> Dump:
    """Give the operators of a dump their place in the execution order and their true names, and sort them again."""
    sentences = [*dump.notes, *notes]
    if not any(orders.values()):
        return replace(dump, notes=tuple(sentences))
    groups: defaultdict[Coordinates, list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        groups[graph_of(ref)].append(ref)
    made = {at: _order(order_of(orders, at, is_timed=has_times(members))) for at, members in groups.items()}
    refs: list[TensorRef] = []
    for at, members in groups.items():
        order = made[at]
        if not any(_is_named(ref, order) for ref in members):
            refs += members
            continue
        refs += [_placed(ref, order) for ref in members]
        sentences += [sentence for sentence in _collisions(members, order) if sentence not in sentences]
    older = tuple(_named(ref, made.get(graph_of(ref), _NO_ORDER)) for ref in dump.older)
    return replace(dump, refs=in_order(refs), older=older, notes=tuple(sentences))


def order_of(orders: Mapping[GraphId, Sequence[str]], at: Coordinates, *, is_timed: bool) -> Sequence[str]:
    """Choose the execution order for a rank, net and graph; files without times or graph have those of all graphs."""
    ranks, nets = dict.fromkeys((at.rank, None)), dict.fromkeys((at.net, None))
    if at.graph is not None:
        keys = [Coordinates(rank=rank, net=net, graph=at.graph) for rank in ranks for net in nets]
        return next((orders[key] for key in keys if orders.get(key)), ())
    if is_timed:
        return ()
    meant = [key for key in orders if key.rank in ranks and key.net in nets]
    return [name for key in sorted(meant, key=lambda key: key.graph or 0) for name in orders[key]]


def has_times(refs: Iterable[TensorRef]) -> bool:
    """Whether any of the files has a time in its name."""
    return any(ref.source.timestamp is not None for ref in refs)


def graph_of(ref: TensorRef) -> GraphId:
    """Return the rank, net and graph of a tensor."""
    at = ref.key.op.at
    return Coordinates(rank=at.rank, net=at.net, graph=at.graph)


def _order(names: Sequence[str]) -> _Order:
    places: dict[str, int] = {}
    true_names: defaultdict[str, set[str]] = defaultdict(set)
    for place, name in enumerate(names):
        places.setdefault(mangle(name), place)
        true_names[mangle(name)].add(name)
    # Releases before 2.1 write a file's operator without its scope, which may be that of several.
    last: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        last[mangle(name.rpartition("/")[2])].add(name)
    for short, candidates in last.items():
        if short not in places and len(candidates) == 1:
            places[short] = places[mangle(next(iter(candidates)))]
            true_names[short] = candidates
    return _Order(places, {name: frozenset(candidates) for name, candidates in true_names.items()})


def _is_named(ref: TensorRef, order: _Order) -> bool:
    return ref.key.op.op_type != PARAMETER and ref.key.op.name in order.places


def _placed(ref: TensorRef, order: _Order) -> TensorRef:
    named = _is_named(ref, order)
    return replace(_named(ref, order), place=order.places[ref.key.op.name] if named else None)


def _named(ref: TensorRef, order: _Order) -> TensorRef:
    """Set the true name, where there is exactly one."""
    true_names = order.true_names.get(ref.key.op.name, frozenset())
    if not _is_named(ref, order) or len(true_names) != 1:
        return ref
    op = ref.key.op._replace(true_name=next(iter(true_names)))
    return replace(ref, key=ref.key._replace(op=op))


def _collisions(members: Iterable[TensorRef], order: _Order) -> Iterator[str]:
    """Yield a sentence on each name in the dump that several true names are written as."""
    for name in sorted({ref.key.op.name for ref in members if _is_named(ref, order)}):
        true_names = sorted(order.true_names[name])
        if len(true_names) > 1:
            yield say(Message("note_two_names", {"names": " and ".join(true_names), "name": name}))


def with_order_of(dump: Dump, graph: OperatorGraph) -> Dump:
    """Return a dump in the order of a model, but for one that has an order of its own."""
    return dump if find_orders(dump.root) else with_model_order(dump, graph)


def with_model_order(dump: Dump, graph: OperatorGraph) -> Dump:
    """Give the operators of a dump their place in the compiled model that was run and their true names, and sort them.

    An operator that the model does not name has no place; when it names none at all, the dump stays as it was. A true
    name from a file of the dump stays; a name in the dump that several of the model's are written as gets none, and a
    place only if its type decides which is meant.
    """
    operators, meant = graph.operators, _by_name_in_dump(graph)
    found = _found(dump.refs, meant)
    if not any(found):
        return dump
    refs = in_order([_placed_ref(ref, operators, places) for ref, places in zip(dump.refs, found, strict=True)])
    older = zip(dump.older, _found(dump.older, meant), strict=True)
    return replace(dump, refs=refs, older=tuple([_placed_ref(ref, operators, places) for ref, places in older]))


def _found(refs: Sequence[TensorRef], meant: Mapping[str, Sequence[int]]) -> list[Sequence[int]]:
    """Return for each tensor the operators of the model that it may belong to."""
    return [meant.get(spelled, ()) for spelled in [file_spelling(ref.key.op.name) for ref in refs]]


def _by_name_in_dump(graph: OperatorGraph) -> Mapping[str, Sequence[int]]:
    """Return the operators of a model, by each name that a dump may have for them."""
    names = graph.names
    spelled = list(map(file_spelling, names))
    meant: defaultdict[str, list[int]] = defaultdict(list)
    for place, spelling in enumerate(spelled):
        meant[spelling].append(place)
    for place, spelling in enumerate(spelled):
        joined = joined_spelling(names[place]) if "__" in spelling else None
        if joined and joined not in meant:
            meant[joined].append(place)
    return meant


def _placed_ref(ref: TensorRef, operators: Sequence[Operator], places: Sequence[int]) -> TensorRef:
    key, op = ref.key, ref.key.op
    if op.op_type == PARAMETER:
        return placed_at(ref, None)
    if len(places) > 1:
        exact = [place for place in places if operators[place].name == op.true_name]
        places = exact or [place for place in places if operators[place].op_type == op.op_type]
    if len(places) != 1:
        return placed_at(ref, None)
    if op.true_name:
        return placed_at(ref, places[0])
    true_name = operators[places[0]].name
    return placed_at(ref, places[0], key=TensorKey(OpKey(op.name, op.at, op.op_type, true_name), key.io, key.slot))


# -- Graphs ------------------------------------------------------------------------------------------------------------

GRAPH_NAME = re.compile(r"ms_output_trace_code_graph_(?P<graph>[0-9]{1,9})\.(?P<suffix>ir|pb)")
_GRAPHS = "graphs"


def find_irs(root: Path) -> Mapping[Coordinates, Path]:
    """List the graphs that belong to a dump, by rank and graph (releases 1.2, 1.3: and net); reads names only."""
    found: dict[Coordinates, Path] = {}
    for at, folder in side_folders(root, _GRAPHS):
        for name in names_in(folder):
            match = GRAPH_NAME.fullmatch(name)
            if match:
                # `.ir` comes before `.pb`.
                found.setdefault(at._replace(graph=int(match["graph"])), folder / name)
    return found


def with_graphs(dump: Dump, request: ports.IndexRequest) -> Dump:
    """Add places and names of operators from execution orders, then lines and shapes from graphs."""
    kept_orders, kept_graphs = order_files(request.graph_files)
    kept_numbers = {at.graph for at in kept_orders}
    own = {at: path for at, path in find_orders(dump.root).items() if at.graph not in kept_numbers}
    orders, notes = read_orders({**own, **kept_orders})
    dump = with_order(dump, orders, notes=notes)
    if not kept_graphs and not find_irs(dump.root):
        return dump
    # Most dumps have none, and what reads them is large.
    with_lines: Callable[..., Dump] = ports.load("pytest_msdump.capabilities.graphs.ir_names:with_lines")
    return with_lines(dump, orders, kept_graphs)
