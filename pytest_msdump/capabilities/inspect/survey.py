"""The contents of one dump: operators, coordinates, sizes, and what is odd about it. Reads headers, no data."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capabilities.statistics.distance import distance
from pytest_msdump.capabilities.statistics.tensor_statistics import statistics_of
from pytest_msdump.core.compare.opening import open_logical, open_view
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.dtypes.decode import bytes_needed, can_decode
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.matching import explain
from pytest_msdump.core.model.comparison import StatisticDifference
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import (
    COORDINATES,
    Coordinates,
    OpKey,
    SourceFrame,
    Statistic,
    Statistics,
    TensorRef,
    TensorView,
)
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


_DIGESTS = tuple(name for name, fact in STATISTICS.items() if fact.kind == "digest")


@dataclass(frozen=True)
class Verified:
    """The tensors of a dump that have both values and saved statistics, and where these differ."""

    dump: Dump
    refs: tuple[TensorRef, ...]
    differences: tuple[StatisticDifference, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there was a tensor to verify, and all of them agree."""
        return bool(self.refs) and not self.differences


def verify(dump: Dump, *, watch: Watch = unwatched) -> Verified:
    """Compute the statistics of every tensor that has saved ones, and compare them."""
    # Means and norms agree to a millionth: a device adds up in float32.
    refs = tuple(ref for ref in dump.refs if ref.statistics is not None and not ref.is_unseen)
    return Verified(dump, refs, tuple(difference for ref in watch(refs, "tensors") for difference in _differences(ref)))


def _differences(ref: TensorRef) -> Iterator[StatisticDifference]:
    saved = ref.statistics or Statistics()
    try:
        with closing(_open(ref, saved)) as view:
            yield from _compare_view(ref, saved, view)
    except MsdumpError as error:
        yield StatisticDifference(ref, "tensor", None, None, str(error))
    except OSError as error:
        where = error.filename or ref.source.path
        yield StatisticDifference(ref, "tensor", None, None, f"{where}: cannot be read ({error.strerror or error})")


def _open(ref: TensorRef, saved: Statistics) -> TensorView:
    """Open the tensor in its stored axes if these have the row's shape, else in its logical ones."""
    view = open_view(ref)
    if saved.spec is None or saved.spec.shape in (None, view.shape):
        return view
    view.close()
    return open_logical(ref)


def _compare_view(ref: TensorRef, saved: Statistics, view: TensorView) -> Iterator[StatisticDifference]:
    claimed = saved.spec
    if claimed is not None and claimed.shape not in (None, view.shape):
        yield StatisticDifference(ref, "shape", str(claimed.shape), str(view.shape))
        return
    if claimed is not None and claimed.dtype not in (None, view.dtype):
        yield StatisticDifference(ref, "data type", claimed.dtype, view.dtype)
        return
    data_bytes = math.ceil(view.size * DTYPES[view.dtype].bits / 8)
    if saved.data_bytes not in (None, data_bytes):
        yield StatisticDifference(ref, "data size", saved.data_bytes, data_bytes)
    wanted = [name for name in _DIGESTS if saved.values.get(name) is not None]
    computed = Statistics(statistics_of(view, digests=wanted), digits=None)
    found = distance(
        saved, computed, left_dtype=view.dtype, right_dtype=view.dtype, elements=view.size, limited=frozenset()
    )
    finite_alone = not any(found.nan[1:] + found.inf[1:])
    for name in STATISTICS:
        one, other = saved.values.get(name), computed.values.get(name)
        if one is None or name not in computed.values:
            continue
        gap = found.gaps.get(name)
        differs = gap.beyond > 0 if gap is not None else not _same(one, other, finite_alone=finite_alone)
        if differs:
            yield StatisticDifference(ref, name, one, other)


def _same(saved: Statistic, computed: Statistic, *, finite_alone: bool) -> bool:
    """Whether two values that cannot be subtracted agree; extremes of a device may be those of its NaN and Inf."""
    if isinstance(saved, float) and not math.isfinite(saved):
        is_class = isinstance(computed, float) and not math.isfinite(computed)
        return str(saved) == str(computed) if is_class else not finite_alone
    return saved == computed
