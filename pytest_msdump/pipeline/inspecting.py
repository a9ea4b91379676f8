"""What is in one file: its tensors with their numbers, or its graph, table or overflow records; and whose they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pytest_msdump.checking.histogram import Histogram, histogram
from pytest_msdump.errors import DumpNotFoundError, MsdumpError, UnknownDumpFormatError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.graphs.graph_files import is_graph_file, read_graph
from pytest_msdump.metrics.overflow import OneSide, scan
from pytest_msdump.metrics.statistics import statistics_of
from pytest_msdump.model.arguments import KernelArguments
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import OperatorGraph
from pytest_msdump.model.statistics import Statistic, StatisticTables
from pytest_msdump.model.tensor import TensorRef, TensorSpec, TensorView
from pytest_msdump.pipeline.arguments import kernel_args_of
from pytest_msdump.pipeline.file_headers import FileHeader, file_header
from pytest_msdump.pipeline.indexing import index
from pytest_msdump.pipeline.opening import open_logical
from pytest_msdump.pipeline.placing import PlacedOperator, operator_of
from pytest_msdump.readers.opdebug import parse_opdebug
from pytest_msdump.readers.opdebug_files import OverflowFile, read_overflow_file
from pytest_msdump.readers.statistics import read_statistics

__all__ = ["InspectedFile", "InspectedTensor", "inspect_file", "inspect_tensor", "tensors_of"]

_TABLE = ".csv"


@dataclass(frozen=True)
class InspectedTensor:
    """One tensor and its numbers.

    Parameters
    ----------
    ref : TensorRef
        Which one.
    spec : TensorSpec, optional
        What the file really holds.
    shape : tuple of int, optional
        Logical shape.
    dtype : str, optional
        Logical type.
    side : OneSide, optional
        NaN, Inf and saturated elements, and the first of them.
    statistics : mapping of str to number
        As `metrics.statistics.statistics_of` gives them.
    histogram : Histogram, optional
        Of real tensors with finite elements.
    problem : str
        Why it cannot be read; empty when it can.
    """

    ref: TensorRef
    spec: TensorSpec | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    side: OneSide | None = None
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    histogram: Histogram | None = None
    problem: str = ""


@dataclass(frozen=True)
class InspectedFile:
    """One file: `tensors`, or one of `graph`, `table` and `overflow`.

    Parameters
    ----------
    path : Path
        Which file.
    size : int
        In bytes.
    dump : Dump, optional
        The index of its directory, which knows its operator.
    operator : PlacedOperator, optional
        Who made it, when a graph of the run tells.
    arguments : KernelArguments, optional
        What the operator's kernel was initialised with, where the run saved that.
    header : FileHeader, optional
        What kind of tensor file it is, and what it says of itself.
    """

    path: Path
    size: int
    tensors: tuple[InspectedTensor, ...] = ()
    graph: OperatorGraph | None = None
    table: StatisticTables | None = None
    overflow: OverflowFile | None = None
    dump: Dump | None = None
    operator: PlacedOperator | None = None
    arguments: KernelArguments | None = None
    header: FileHeader | None = None

    @property
    def is_older(self) -> bool:
        """Whether it is of an earlier run into the same directory."""
        return self.dump is not None and any(tensor.ref in self.dump.older for tensor in self.tensors)

    @property
    def is_readable(self) -> bool:
        """Whether all of it could be read."""
        return not any(tensor.problem for tensor in self.tensors) and not (self.overflow and self.overflow.problem)


def inspect_file(
    path: Path, *, bins: int = 10, graph_files: Sequence[Path] = (), root: Path | None = None
) -> InspectedFile:
    """Look at one file of a dump.

    Parameters
    ----------
    path : Path
        A tensor file, a graph, a table of statistics or an overflow file.
    bins : int
        Bars of each histogram.
    graph_files : sequence of Path
        Graphs that a user keeps outside of the dump.
    root : Path, optional
        The dump that the file is in, where its own directory does not tell its coordinates.

    Raises
    ------
    DumpNotFoundError
        There is no such file.
    ConfigError
        It is none of these.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DumpNotFoundError(f"{path}: {error.strerror or error}; give a file of a dump") from error
    report = parse_opdebug(path.name)
    if report is not None:
        return InspectedFile(path, size, overflow=read_overflow_file(path, report))
    if path.suffix == _TABLE:
        table = read_statistics(path)
        if table.rows:
            return InspectedFile(path, size, table=table)
    dump, refs = tensors_of(path, graph_files=graph_files, root=root)
    if not refs:
        return InspectedFile(path, size, graph=read_graph(path))
    tensors = tuple(inspect_tensor(ref, bins=bins) for ref in refs)
    return InspectedFile(
        path,
        size,
        tensors,
        dump=dump,
        operator=operator_of(dump, refs[0].key.op),
        arguments=kernel_args_of(dump, refs[0]),
        header=file_header(path),
    )


def tensors_of(
    path: Path, *, graph_files: Sequence[Path] = (), root: Path | None = None
) -> tuple[Dump, tuple[TensorRef, ...]]:
    """Index a file's dump, and return the tensors of the file, those of an earlier run, too.

    Parameters
    ----------
    path : Path
        The file.
    graph_files : sequence of Path
        Graphs that a user keeps outside of the dump.
    root : Path, optional
        The dump that the file is in; its own directory is enough for most.

    Raises
    ------
    ConfigError
        No reader knows the file, by itself either, and its name is not a graph's; or a graph cannot be read.
    """
    try:
        # A file of a recording that was broken off is whole itself.
        dump = index(root or path.parent, graph_files=graph_files, allow_incomplete=True)
    except UnknownDumpFormatError:
        dump = Dump(path.parent, "")
    wanted = _absolute(path)
    refs = (*dump.refs, *dump.older)
    found = tuple(ref for ref in refs if wanted in map(_absolute, (ref.source.path, *ref.source.pieces)))
    if found or is_graph_file(path):
        return dump, found
    # Says what each reader looks for.
    dump = index(path, graph_files=graph_files)
    return dump, dump.refs


def _absolute(path: Path) -> str:
    # Not `resolve`, which asks the disk for every directory above.
    return os.path.abspath(path)  # noqa: PTH100


def inspect_tensor(ref: TensorRef, *, bins: int = 10) -> InspectedTensor:
    """Read one tensor through. What is wrong with its file is in `problem`."""
    try:
        with closing(open_logical(ref)) as view:
            statistics = statistics_of(view)
            side = scan(view)
            return InspectedTensor(
                ref, view.spec, view.shape, view.dtype, side, statistics, _bars(view, side.minimum, side.maximum, bins)
            )
    except (MsdumpError, OSError) as error:
        return InspectedTensor(ref, problem=str(error))


def _bars(view: TensorView, low: float | None, high: float | None, bins: int) -> Histogram | None:
    kind = DTYPES[view.dtype].kind
    if kind == "complex" or low is None or high is None:
        return None
    return histogram(view, low, high, bins=bins, whole=kind in ("integer", "bool"))
