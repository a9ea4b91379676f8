"""The contents of one dump: operators, coordinates, sizes, and what is odd about it. Reads headers, no data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.dtypes.decode import bytes_needed, can_decode
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.matching import explain
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, OpKey, SourceFrame, TensorRef
from pytest_msdump.core.text import Message, Parameter, message_of_note

# Stands among the memory formats for tensors of which only statistics were saved.
_STATISTICS_ONLY = "statistics only"


@dataclass(frozen=True)
class SurveyedOperator:
    """One operator over all of its coordinates."""

    label: str
    op_type: str | None
    inputs: int
    outputs: int
    tensors: int
    size: int
    dtype: str | None
    shape: tuple[int, ...] | None
    line: SourceFrame | None


@dataclass(frozen=True)
class Survey:
    """The contents of one dump: `operators` in execution order, the values of each of its `coordinates`."""

    dump: Dump
    operators: tuple[SurveyedOperator, ...]
    coordinates: Mapping[str, tuple[int | str, ...]]
    files: int
    size: int
    dtypes: Mapping[str, int]
    memory_formats: Mapping[str, int]
    unreadable: tuple[tuple[TensorRef, str], ...]
    odd: tuple[Message, ...]


class _Header(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    memory_format: str


def survey(dump: Dump, *, watch: Watch = unwatched) -> Survey:
    """Look through a dump, whose index is in execution order, without reading its data."""
    headers: dict[TensorRef, _Header] = {}
    unreadable: list[tuple[TensorRef, str]] = []
    for ref in watch(dump.refs, "headers"):
        header = _header(ref)
        if isinstance(header, str):
            unreadable.append((ref, header))
        else:
            headers[ref] = header
    sizes = {path: _size(path) for ref in dump.refs for path in _files(ref)}
    found: dict[str, tuple[int | str, ...]] = {}
    for name in COORDINATES:
        values = {getattr(ref.key.op.at, name) for ref in dump.refs} - {None}
        # Every dump has occurrence 0, so that alone is not worth a line.
        if values and (name, values) != ("occurrence", {0}):
            found[name] = tuple(sorted(values))
    return Survey(
        dump=dump,
        operators=tuple(_operators(dump.refs, headers, sizes)),
        coordinates=found,
        files=len(sizes),
        size=sum(sizes.values()),
        dtypes=dict(Counter(header.dtype for header in headers.values()).most_common()),
        memory_formats=dict(Counter(header.memory_format for header in headers.values()).most_common()),
        unreadable=tuple(unreadable),
        odd=tuple(_odd(dump, headers)),
    )


def _header(ref: TensorRef) -> _Header | str:
    if ref.is_unseen:
        return _Header(
            ref.spec.dtype or "unknown", ref.spec.shape or (), _STATISTICS_ONLY if ref.sketch is None else "sketch only"
        )
    try:
        with closing(open_logical(ref)) as view:
            return _Header(view.dtype, view.shape, ref.spec.memory_format or view.spec.memory_format or "none known")
    except (MsdumpError, OSError) as error:
        return str(error)


def _files(ref: TensorRef) -> Sequence[Path]:
    return ref.source.pieces or (ref.source.path,)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _operators(
    refs: Iterable[TensorRef], headers: Mapping[TensorRef, _Header], sizes: Mapping[Path, int]
) -> Iterator[SurveyedOperator]:
    groups: dict[tuple[str, str | None], list[TensorRef]] = {}
    for ref in refs:
        groups.setdefault((ref.key.op.label, ref.key.op.op_type), []).append(ref)
    owners = Counter(path for members in groups.values() for path in {path for ref in members for path in _files(ref)})
    for (label, op_type), members in groups.items():
        # Outputs before inputs, then by slot.
        shown = max((ref.key.io, -ref.key.slot) for ref in members)
        looks = {headers.get(ref) for ref in members if (ref.key.io, -ref.key.slot) == shown}
        header = looks.pop() if len(looks) == 1 else None
        yield SurveyedOperator(
            label=label,
            op_type=op_type,
            inputs=len({ref.key.slot for ref in members if ref.key.io == "input"}),
            outputs=len({ref.key.slot for ref in members if ref.key.io == "output"}),
            tensors=len(members),
            size=sum(sizes[path] for path in {path for ref in members for path in _files(ref)} if owners[path] == 1)
            + sum(_bytes(headers.get(ref)) for ref in members if owners[ref.source.path] > 1),
            dtype=header.dtype if header else None,
            shape=header.shape if header else None,
            line=members[0].line,
        )


def _bytes(header: _Header | None) -> int:
    """Return the size of a tensor whose file is also that of other operators."""
    return bytes_needed(header.dtype, prod(header.shape)) if header and can_decode(header.dtype) else 0


def _odd(dump: Dump, headers: Mapping[TensorRef, _Header]) -> Iterator[Message]:
    """Yield what a whole dump of one run does not have."""
    yield from map(message_of_note, dump.notes)
    if dump.unexplained:
        names = [path.as_posix() for path in dump.unexplained]
        yield Message("odd_unexplained", {"n": len(names), "names": listed(names)})
    empty = [ref.key.address for ref, header in headers.items() if 0 in header.shape]
    if empty:
        yield Message("odd_empty", {"n": len(empty), "names": listed(empty)})
    differing: list[Parameter] = [
        Message("odd_type", {"name": ref.key.address, "left": header.dtype, "right": ref.spec.dtype, "file": source})
        for ref, header in headers.items()
        for source in [ref.spec.dtype_from]
        if source and ref.spec.dtype != header.dtype
    ]
    if differing:
        yield Message("odd_types", {"n": len(differing), "names": explain.listed(differing)})
    partly = list(_in_some_iterations(dump.refs))
    if partly:
        yield Message("odd_iterations", {"n": len(partly), "names": listed(partly)})


def _in_some_iterations(refs: Iterable[TensorRef]) -> Iterator[str]:
    """Name operators that lack an iteration which others of their graph have."""
    found: defaultdict[OpKey, set[int]] = defaultdict(set)
    of_graph: defaultdict[Coordinates, set[int]] = defaultdict(set)
    for ref in refs:
        op, at = ref.key.op, ref.key.op.at
        graph = Coordinates(at.rank, at.net, at.graph)
        # Constants of a graph, which are dumped once, belong to no iteration.
        if at.iteration is not None:
            found[OpKey(op.name, graph, op.op_type, op.true_name)].add(at.iteration)
            of_graph[graph].add(at.iteration)
    for op, iterations in found.items():
        lacking = [str(number) for number in sorted(of_graph[op.at] - iterations)]
        if lacking:
            yield f"{op.label} (not in {listed(lacking)})"
