"""What ``msdump inspect`` says of one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from pytest_msdump.cli.inspect_text import arguments_lines, operator_lines
from pytest_msdump.comparison.opening import open_logical
from pytest_msdump.dumps.array_writer import text_bytes, whole_file
from pytest_msdump.dumps.graphs.source_lines import frames_of
from pytest_msdump.dumps.opdebug import OverflowFile
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.inspect.file import InspectedFile, InspectedTensor, TensorHeader, tensors_of
from pytest_msdump.inspect.measure import Histogram
from pytest_msdump.model.describe import bytes_text, counted, frame_lines, shape_text, spec_text, where_text, wrapped
from pytest_msdump.model.graph import OperatorGraph
from pytest_msdump.model.numbers import index_text, number
from pytest_msdump.model.statistics import Statistic, StatisticTables
from pytest_msdump.model.tensor import TensorRef, TensorView

__all__ = ["file_lines", "save_text"]

_MOST_ROWS = 40
_SHORTEST_BAR, _LONGEST_BAR = 10, 60
_STATISTICS = (
    ("range", "minimum", "maximum"),
    ("mean", "mean"),
    ("L2 norm", "l2_norm"),
)
_COUNTS = (
    ("zero", "zero_count"),
    ("below 0", "negative_count"),
    ("above 0", "positive_count"),
    ("NaN", "nan_count"),
    ("-Inf", "negative_inf_count"),
    ("+Inf", "positive_inf_count"),
)


def file_lines(found: InspectedFile, *, width: int, everything: bool = False) -> Iterator[str]:
    """Yield all lines about a file."""
    yield f"msdump inspect: {terminal_text(str(found.path))}"
    yield from wrapped(f"{bytes_text(found.size)}; {_kind(found)}", width, indent=2)
    most = None if everything else _MOST_ROWS
    if found.graph is not None:
        yield from _graph(found.graph, width, most)
    elif found.table is not None:
        yield from _table(found.table, width, most)
    elif found.overflow is not None:
        yield from _overflow(found.overflow, width)
    else:
        yield from _tensors(found, width)


def _kind(found: InspectedFile) -> str:
    if found.graph is not None:
        return "a graph"
    if found.table is not None:
        return "a table of statistics"
    if found.overflow is not None:
        return "an overflow file of the device"
    readers = ", ".join(dict.fromkeys(tensor.ref.reader for tensor in found.tensors))
    kind = f"{found.header.kind}; " if found.header else ""
    return f"{kind}{counted(len(found.tensors), 'tensor')} (reader {readers})"


def _graph(graph: OperatorGraph, width: int, most: int | None) -> Iterator[str]:
    final = "the graph that ran" if graph.is_final else "an earlier graph, not the one that ran"
    yield f"  {final}: {counted(len(graph.operators), 'operator')}, {counted(len(graph.parameters), 'parameter')}"
    for note in graph.notes:
        yield from wrapped(note, width, indent=2)
    for place, operator in list(enumerate(graph.operators, 1))[:most]:
        yield f"  {place:>4}  {terminal_text(operator.name)}  ({operator.op_type})"
    yield from _more(len(graph.operators), most, "operator")


def _table(table: StatisticTables, width: int, most: int | None) -> Iterator[str]:
    yield f"  {counted(len(table.rows), 'row')}"
    for note in table.notes:
        yield from wrapped(note, width, indent=2)
    for row in table.rows[:most]:
        yield f"  {terminal_text(row.key.address)}  {spec_text(row.spec)}"
        values = row.statistics.values if row.statistics else {}
        told = ", ".join(f"{name} {_number(value)}" for name, value in values.items())
        yield from wrapped(told, width, indent=4)
    yield from _more(len(table.rows), most, "row")


def _more(count: int, most: int | None, what: str) -> Iterator[str]:
    if most is not None and count > most:
        yield f"  and {counted(count - most, f'more {what}')}; --all lists them all"


def _overflow(file: OverflowFile, width: int) -> Iterator[str]:
    if file.problem:
        yield from wrapped(f"cannot be read: {file.problem}", width, indent=2)
    for entry in file.entries:
        ids = f"task {entry.task_id}, stream {entry.stream_id}"
        yield from wrapped(f"{entry.unit}: {ids}: {entry.words}", width, indent=2)
    if not file.entries and not file.problem:
        yield "  no unit is in it"


def _tensors(found: InspectedFile, width: int) -> Iterator[str]:
    if found.header is not None and found.header.fields:
        told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.header.fields)
        yield from wrapped(f"header: {told}", width, indent=2)
    op = found.tensors[0].ref.key.op
    yield f"  {terminal_text(op.label)}" + (f"  ({op.op_type})" if op.op_type else "")
    where = where_text(op.at)
    if where:
        yield f"  {where}"
    if found.is_older:
        yield "  of an earlier run into the same directory"
    if op.true_name and op.true_name != op.name:
        yield f"  in file names: {terminal_text(op.name)}"
    for entry in found.tensors[0].ref.overflows:
        ids = f"task {entry.task_id}, stream {entry.stream_id}"
        yield from wrapped(f"{entry.unit} reports an overflow of {ids}: {entry.words}", width, indent=2)
    for tensor in found.tensors:
        yield ""
        key = tensor.ref.key
        yield from _tensor(tensor, found.header.of(key.io, key.slot) if found.header else None, width)
    if found.arguments is not None:
        yield ""
        yield from arguments_lines(found.arguments, width=width)
    if found.operator is None:
        return
    yield ""
    yield "operator"
    yield from operator_lines(found.operator, width=width)
    frames = frames_of(found.operator.operator)
    if frames:
        yield ""
        yield "calls, outermost first"
        for frame in frames:
            yield from frame_lines(frame, width, indent=2)


def _tensor(tensor: InspectedTensor, header: TensorHeader | None, width: int) -> Iterator[str]:
    key = tensor.ref.key
    if tensor.problem:
        yield f"{key.io}:{key.slot}  cannot be read"
        yield from wrapped(tensor.problem, width, indent=2)
        yield from _header(header, width)
        return
    spec = tensor.spec
    memory_format = (spec.memory_format if spec else None) or tensor.ref.spec.memory_format
    told = f"{tensor.dtype} {shape_text(tensor.shape)}" + (f", {memory_format}" if memory_format else "")
    yield f"{key.io}:{key.slot}  {told}"
    if spec is not None and (spec.shape, spec.dtype) != (tensor.shape, tensor.dtype):
        yield f"  stored as {spec_text(spec)}"
    yield from _header(header, width)
    # Inputs of threads are in the first thread's file, whole.
    if len(tensor.ref.source.pieces) > 1 and header is not None and header.shape != tensor.shape:
        yield f"  joined from {counted(len(tensor.ref.source.pieces), 'slice')}, each in a file of its own"
    yield from wrapped(_elements(tensor), width, indent=2)
    yield from wrapped(_numbers(tensor), width, indent=2)
    side = tensor.side
    if side is not None and side.first is not None:
        yield f"  first NaN, Inf or saturated element at {index_text(side.first)}"
    if tensor.histogram is not None:
        yield from _bars(tensor.histogram, width)


def _header(header: TensorHeader | None, width: int) -> Iterator[str]:
    """What the file itself says, in its own words."""
    if header is None:
        return
    parts = [f"{header.data_type} {shape_text(header.shape)} {header.memory_format}"]
    if header.original_shape is not None:
        parts.append(f"original shape {shape_text(header.original_shape)}")
    if header.groups > 1:
        parts.append(f"{header.groups} groups")
    parts.append(f"{counted(header.bytes, 'byte')} from byte {header.first_byte}")
    if header.address:
        parts.append(f"address {header.address:#x}")
    yield from wrapped(f"header: {', '.join(parts)}", width, indent=2)


def _elements(tensor: InspectedTensor) -> str:
    side, values = tensor.side, tensor.statistics
    count = counted(side.elements if side else 0, "element")
    parts = [f"{values[name]} {word}" for word, name in _COUNTS if values.get(name)]
    if side is not None and side.saturated:
        parts.append(f"{side.saturated} at the type's maximum")
    if side is not None and "nan_count" not in values:
        # Of complex numbers nothing is saved but their count.
        parts += [f"{count} {word}" for word, count in (("NaN", side.nan), ("Inf", side.inf)) if count]
    return f"{count}: {', '.join(parts)}" if parts else count


def _numbers(tensor: InspectedTensor) -> str:
    side, values = tensor.side, tensor.statistics
    if "maximum" not in values and side is not None and side.minimum is not None and side.maximum is not None:
        return f"modulus {number(side.minimum)} to {number(side.maximum)}, its mean {number(side.mean or 0.0)}"
    told = []
    for title, *names in _STATISTICS:
        known = [_number(value) for name in names if (value := values.get(name)) is not None]
        if len(known) == len(names):
            told.append(f"{title} {' to '.join(known)}")
    return ", ".join(told)


def _number(value: Statistic) -> str:
    return str(value) if value is None or isinstance(value, str) else number(value)


def _bars(found: Histogram, width: int) -> Iterator[str]:
    """One line a bin: its range, a bar, its count. A bin that is not empty shows at least a dot."""
    largest = max(found.counts)
    if len(found.counts) < 2 or not largest:
        return
    ranges = _ranges(found)
    taken = max(map(len, ranges)) + len(str(largest)) + len("  " + " |" + "| ")
    most = max(_SHORTEST_BAR, min(_LONGEST_BAR, width - taken))
    for told, count in zip(ranges, found.counts, strict=True):
        length = round(most * count / largest)
        bar = "#" * length if length else "." * bool(count)
        yield f"  {told} |{bar:<{most}}| {count}"


def _ranges(found: Histogram) -> list[str]:
    """The range of each bin, all of one width."""
    edges = [number(edge, 4) for edge in found.edges]
    if found.is_each:
        # The last edge is that of no value.
        width = max(map(len, edges[:-1]))
        return [f"{edge:>{width}}" for edge in edges[:-1]]
    width = max(map(len, edges))
    return [f"{low:>{width}} to {high:>{width}}" for low, high in pairwise(edges)]


# -- Tensors as text files, byte by byte as `numpy.savetxt` writes them ----------------------------------------------


_ARRAY, _TEXT = ".npy", ".txt"


def save_text(path: Path, out: Path, *, with_header: bool = False) -> Iterator[Path]:
    """Write every tensor of a file as text.

    Parameters
    ----------
    path : Path
        A file of a dump.
    out : Path
        A file, when it ends in ``.txt`` and is no folder; else a folder, which is made when it is not there.
    with_header : bool
        Whether to write shape and type into a first line that begins with ``#``, which `numpy.loadtxt` passes over.

    Yields
    ------
    Path
        In a folder ``NAME.txt`` for the array in ``NAME.npy``, ``NAME.IO.SLOT.txt`` for each tensor of another file.

    Raises
    ------
    ConfigError
        The file holds no tensor, or several for one text file.
    MsdumpError
        A tensor cannot be read, or a file not be written.

    Notes
    -----
    Values are in C order of the logical shape, each as ``%.18e``, which brings every float back as it was. Integers are
    written so as well, hence as the float64 nearest to them: exact up to 2**53. A complex number is ``(re+imj)``.
    """
    _, refs = tensors_of(path)
    if not refs:
        raise ConfigError(f"{path}: holds no tensor that could be written as text")
    is_file = out.suffix.lower() == _TEXT and not out.is_dir()
    if is_file and len(refs) > 1:
        raise ConfigError(f"{out}: is one file, and {path.name} holds {len(refs)} tensors; name a folder")
    folder = out.parent if is_file else out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{folder}: cannot be made: {error.strerror or error}; name another folder") from error
    for ref in refs:
        with closing(open_logical(ref)) as view:
            yield _write(view, out if is_file else out / _name(ref, path), with_header=with_header)


def _name(ref: TensorRef, path: Path) -> str:
    if path.suffix == _ARRAY:
        return f"{path.stem}.txt"
    return f"{path.name}.{ref.key.io}.{ref.key.slot}.txt"


def _write(view: TensorView, path: Path, *, with_header: bool) -> Path:
    with whole_file(path) as stream:
        for piece in text_bytes(view, with_header=with_header):
            stream.write(piece)
    return path
