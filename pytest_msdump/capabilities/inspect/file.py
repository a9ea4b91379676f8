"""The contents of one file of a dump: its tensors with their numbers, or its graph, table or overflow records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.capabilities.ascend.dump_file import DumpFile, open_dump_file
from pytest_msdump.capabilities.ascend.header import StoredTensor
from pytest_msdump.capabilities.graphs.graph_files import is_graph_file, read_graph
from pytest_msdump.capabilities.graphs.operators import PlacedOperator, kernel_args_of, operator_of
from pytest_msdump.capabilities.overflow.contents import Contents, Histogram, contents, histogram
from pytest_msdump.capabilities.overflow.opdebug import OverflowFile, read_overflow_file
from pytest_msdump.capabilities.statistics.reader import StatisticTables, read_statistics
from pytest_msdump.capabilities.statistics.tensor_statistics import statistics_of
from pytest_msdump.core.compare.opening import index, open_logical
from pytest_msdump.core.dumps.file_names import parse_opdebug
from pytest_msdump.core.dumps.npy import parse_header
from pytest_msdump.core.errors import DumpNotFoundError, MsdumpError, TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.dump import Dump, KernelArguments, OperatorGraph
from pytest_msdump.core.storage.files import open_regular

if TYPE_CHECKING:
    from pytest_msdump.core.model.tensor import Statistic, TensorRef, TensorSpec

# More than any npy header may have.
_NPY_HEAD_BYTES = 2**17
_KINDS = {
    "2.0": "a dump file in the format of Ascend",
    "protobuf": "a dump file in one protobuf message",
    "nano": "a nano dump file of Ascend",
}


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The header of a tensor file: its `kind` in words, names and values of its `fields`, and tensors but for npy."""

    kind: str
    fields: tuple[tuple[str, str | int], ...] = ()
    tensors: tuple[StoredTensor, ...] = ()

    def of(self, io: str, slot: int) -> StoredTensor | None:
        """Return the header of one tensor."""
        return next((one for one in self.tensors if (one.io, one.slot) == (io, slot)), None)


@dataclass(frozen=True)
class InspectedTensor:
    """One tensor and its numbers."""

    ref: TensorRef
    spec: TensorSpec | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    side: Contents | None = None
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    histogram: Histogram | None = None
    problem: str = ""


@dataclass(frozen=True)
class InspectedFile:
    """One file: `tensors`, or one of `graph`, `table` and `overflow`."""

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
    """Read one file of a dump: a tensor file, a graph, a table of statistics or an overflow file."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DumpNotFoundError(f"{path}: {error.strerror or error}; give a file of a dump") from error
    report = parse_opdebug(path.name)
    if report is not None:
        return InspectedFile(path, size, overflow=read_overflow_file(path, report))
    if path.suffix == ".csv":
        table = read_statistics(path)
        if table.rows:
            return InspectedFile(path, size, table=table)
    dump, refs = tensors_of(path, graph_files=graph_files, root=root)
    if not refs:
        return InspectedFile(path, size, graph=read_graph(path))
    return InspectedFile(
        path,
        size,
        tuple(_inspect_tensor(ref, bins=bins) for ref in refs),
        dump=dump,
        operator=operator_of(dump, refs[0].key.op),
        arguments=kernel_args_of(dump, refs[0]),
        header=file_header(path),
    )


def tensors_of(
    path: Path, *, graph_files: Sequence[Path] = (), root: Path | None = None
) -> tuple[Dump, tuple[TensorRef, ...]]:
    """Index the dump of a file, and return it with the tensors of the file, those of an earlier run included."""
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
    # Indexing the file alone gives the error that lists what each reader looks for.
    dump = index(path, graph_files=graph_files)
    return dump, dump.refs


def _absolute(path: Path) -> str:
    # Not `resolve`, which asks the disk for every directory above.
    return os.path.abspath(path)  # noqa: PTH100


def _inspect_tensor(ref: TensorRef, *, bins: int) -> InspectedTensor:
    try:
        with closing(open_logical(ref)) as view:
            statistics, side, bars = statistics_of(view), contents(view, ranges=None), None
            kind = DTYPES[view.dtype].kind
            if kind != "complex" and side.minimum is not None and side.maximum is not None:
                whole = kind in ("integer", "bool")
                bars = histogram(view, side.minimum, side.maximum, bins=bins, whole=whole)
            return InspectedTensor(ref, view.spec, view.shape, view.dtype, side, statistics, bars)
    except (MsdumpError, OSError) as error:
        return InspectedTensor(ref, problem=str(error))


def file_header(path: Path) -> FileHeader | None:
    """Read the header of a tensor file; ``None`` if it cannot be read, and opening its tensors says why."""
    if path.suffix == ".bin":
        return FileHeader("raw bytes, described by its file name")
    try:
        if path.suffix == ".npy":
            return _npy_header(path)
        opened = open_dump_file(path)
        with closing(opened.file):
            return _dump_header(opened)
    except (TensorFileError, OSError):
        return None


def _npy_header(path: Path) -> FileHeader:
    with open_regular(path) as file:
        header = parse_header(file.read(_NPY_HEAD_BYTES), where=str(path))
    fields = (
        ("version", ".".join(map(str, header.version))),
        ("descr", str(header.descr)),
        ("order", "Fortran" if header.fortran_order else "C"),
        ("first_byte", header.data_offset),
    )
    return FileHeader("an npy file", fields)


def _dump_header(opened: DumpFile) -> FileHeader:
    header = opened.header
    fields: list[tuple[str, str | int]] = [("container", header.container)]
    if header.container != "nano":
        fields += opened.version_and_time()
    if header.op_name:
        fields.append(("op_name", header.op_name))
    if header.raw:
        fields.append(("buffers_and_spaces", len(header.raw)))
    return FileHeader(_KINDS[header.container], tuple(fields), header.tensors)
