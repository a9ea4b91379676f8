"""The order in which a graph's operators ran, and their true names, as ``ms_execution_order_graph_<N>.csv`` tells them.

References
----------
MindSpore "Dump" documentation, releases 1.5 to 2.10: a header line, then one full name with scope a line, unquoted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.graphs.side_folders import side_folders
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import PARAMETER, in_order
from pytest_msdump.model.tensor import Coordinates, TensorRef, mangle
from pytest_msdump.storage.listings import names_in
from pytest_msdump.storage.regular import read_given

__all__ = [
    "GraphId",
    "find_orders",
    "has_times",
    "order_files",
    "order_of",
    "read_order",
    "read_orders",
    "with_order",
]

# Whose an order is: rank, net and graph; one that is not set stands for every value.
GraphId = Coordinates

_HEADER = "NodeExecutionOrder-FullNameWithScope"
_MAX_BYTES = 2**26
_FILE = re.compile(r"ms_execution_order_graph_([0-9]{1,18})\.csv")
_FOLDER = "execution_order"


def find_orders(root: Path) -> Mapping[GraphId, Path]:
    """List the execution orders that belong to a dump; reads names only.

    Parameters
    ----------
    root : Path
        The dump's root: the tree, one rank of it, or a directory further down.

    Returns
    -------
    mapping of Coordinates to Path
        By rank and graph, and by net where they are kept by net, as releases 1.2 and 1.3 do. Empty when there are none.
    """
    found: dict[GraphId, Path] = {}
    for at, folder in side_folders(root, _FOLDER):
        for name in names_in(folder):
            match = _FILE.fullmatch(name)
            if match and (folder / name).exists():
                found.setdefault(replace(at, graph=int(match[1])), folder / name)
    return found


def order_files(files: Iterable[Path]) -> tuple[Mapping[GraphId, Path], tuple[Path, ...]]:
    """Pick execution orders out of files that a user keeps outside of a dump, by their names.

    Parameters
    ----------
    files : iterable of Path
        Graph files of any kind.

    Returns
    -------
    mapping of Coordinates to Path
        The orders, by graph, of whichever rank and net.
    tuple of Path
        The other files.

    Raises
    ------
    ConfigError
        There is no such file.
    """
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
    """Read one execution order.

    Parameters
    ----------
    path : Path
        The CSV file.

    Returns
    -------
    tuple of str
        Full names with scope, in execution order; empty for a graph without kernels.

    Raises
    ------
    MsdumpError
        The file cannot be read, is larger than 64 MiB, is not text, or lacks its header.
    """
    data = read_given(path, _MAX_BYTES, want="give an execution order that MindSpore wrote")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise MsdumpError(f"{path}: not an execution order, byte {error.start} is not text") from error
    if not lines or lines[0].strip() != _HEADER:
        raise MsdumpError(f"{path}: not an execution order, its first line is not {_HEADER}")
    return tuple(name for line in lines[1:] if (name := line.strip()))


def read_orders(files: Mapping[GraphId, Path]) -> tuple[Mapping[GraphId, Sequence[str]], tuple[str, ...]]:
    """Read several execution orders, as far as they can be read.

    Parameters
    ----------
    files : mapping of Coordinates to Path
        As `find_orders` gives them.

    Returns
    -------
    mapping of Coordinates to sequence of str
        The orders that could be read.
    tuple of str
        A sentence about each of the others.
    """
    orders: dict[GraphId, Sequence[str]] = {}
    notes: list[str] = []
    for graph, path in files.items():
        order, failure = _attempt(path)
        if failure is None:
            orders[graph] = order
        else:
            notes.append(f"{failure}; operators of graph {graph.graph} are ordered by time")
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
    """Give the operators of a dump their place in the execution order and their true names.

    Parameters
    ----------
    dump : Dump
        As its reader indexed it.
    orders : mapping of Coordinates to sequence of str
        Full names with scope by rank, net and graph; what is not set stands for every value that has no order of its
        own.
    notes : iterable of str
        Sentences to add to the dump's.

    Returns
    -------
    Dump
        The same tensors, sorted again. In a graph whose order names at least one of its operators, an operator that
        it does not name has no place; where it names none, or there is no order, places stay as they were. A name
        that two true names are written as keeps none, and a note says so.
    """
    sentences = [*dump.notes, *notes]
    if not any(orders.values()):
        return replace(dump, notes=tuple(sentences))
    groups: defaultdict[Coordinates, list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        groups[_graph_of(ref)].append(ref)
    made = {at: _order(order_of(orders, at, is_timed=has_times(members))) for at, members in groups.items()}
    refs: list[TensorRef] = []
    for at, members in groups.items():
        order = made[at]
        if not any(_is_named(ref, order) for ref in members):
            refs += members
            continue
        refs += [_placed(ref, order) for ref in members]
        sentences += [sentence for sentence in _collisions(members, order) if sentence not in sentences]
    older = tuple(_named(ref, made.get(_graph_of(ref), _NO_ORDER)) for ref in dump.older)
    return replace(dump, refs=in_order(refs), older=older, notes=tuple(sentences))


def order_of(orders: Mapping[GraphId, Sequence[str]], at: Coordinates, *, is_timed: bool) -> Sequence[str]:
    """Choose the execution order of some tensors.

    Parameters
    ----------
    orders : mapping of Coordinates to sequence of str
        As `with_order` takes them.
    at : Coordinates
        Rank, net and graph of the tensors.
    is_timed : bool
        Whether their files have times.

    Returns
    -------
    sequence of str
        Empty where there is none. Files without times of an unknown graph (releases 1.2 and 1.3) have the orders of
        all graphs, one after the other.
    """
    ranks, nets = dict.fromkeys((at.rank, None)), dict.fromkeys((at.net, None))
    if at.graph is not None:
        keys = [Coordinates(rank=rank, net=net, graph=at.graph) for rank in ranks for net in nets]
        return next((orders[key] for key in keys if orders.get(key)), ())
    if is_timed:
        return ()
    meant = [key for key in orders if key.rank in ranks and key.net in nets]
    return [name for key in sorted(meant, key=lambda key: key.graph or 0) for name in orders[key]]


def has_times(refs: Iterable[TensorRef]) -> bool:
    """Tell whether any of the files has a time in its name."""
    return any(ref.source.timestamp is not None for ref in refs)


def _graph_of(ref: TensorRef) -> Coordinates:
    at = ref.key.op.at
    return Coordinates(rank=at.rank, net=at.net, graph=at.graph)


def _order(names: Sequence[str]) -> _Order:
    places: dict[str, int] = {}
    true_names: defaultdict[str, set[str]] = defaultdict(set)
    for place, name in enumerate(names):
        places.setdefault(mangle(name), place)
        true_names[mangle(name)].add(name)
    # Releases before 2.1 write a file's operator without its scope. That tells who it is only if it tells one.
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
    op = replace(ref.key.op, true_name=next(iter(true_names)))
    return replace(ref, key=replace(ref.key, op=op))


def _collisions(members: Iterable[TensorRef], order: _Order) -> Iterator[str]:
    """Tell each name in the dump that several true names are written as."""
    for name in sorted({ref.key.op.name for ref in members if _is_named(ref, order)}):
        true_names = sorted(order.true_names[name])
        if len(true_names) > 1:
            yield f"{' and '.join(true_names)} are both written as {name}: its true name is unknown"
